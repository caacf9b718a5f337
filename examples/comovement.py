"""Local complexity and the exact count of linear regions move together (Humayun et al. 2023, Figure 14).

A 3-layer ReLU network of width 200 learns 1,000 digits. At every step we look at, around the same training points: the
exact number of linear regions on a small square, 2 radius wide, in two random directions; and local complexity at
P = 25 (and at P = 2 in the very directions of the square). Their correlation over the training is printed.

    python examples/comovement.py --data DIR            # DIR/MNIST/raw/...; without it scikit-learn's digits
"""

from __future__ import annotations

import time

import numpy as np
from digits import arguments, load_digits, log_spaced, network, train, write
from matplotlib.figure import Figure
from scipy.stats import spearmanr

import regionscope as rs

RADIUS = 0.05


def main() -> None:
    options = arguments("local complexity against exact counts", steps=20_000, points=60)
    start = time.perf_counter()
    data = load_digits(options.data, seed=options.seed)
    model = network(data.train.shape[1], depth=3, seed=options.seed)
    points = data.train[: options.points]
    plane = rs.complexity.orthonormal_frames(points.shape[1:], dims=2, seed=options.seed)
    squares = [rs.Box(point, plane, RADIUS) for point in points]
    rows: list[dict[str, float]] = []

    def look(step: int) -> None:
        exact = np.mean([part.n_linear_regions for part in rs.linear_regions(model, squares)])
        wide = rs.local_complexity(model, points, dims=25, radius=RADIUS).mean
        flat = rs.local_complexity(model, points, frames=plane, radius=RADIUS).mean
        rows.append({"step": step, "exact_regions": float(exact), "lc_25": wide, "lc_2": flat})
        print(f"step {step:6d}  exact regions {exact:.3f}  LC (P = 25) {wide:.3f}  LC (P = 2) {flat:.3f}", flush=True)

    train(model, data, last=options.steps, at=log_spaced(options.steps, 20), look=look, seed=options.seed)
    exact = [row["exact_regions"] for row in rows]
    found = {
        name: {"pearson": float(np.corrcoef(exact, values)[0, 1]), "spearman": float(spearmanr(exact, values)[0])}
        for name in ("lc_25", "lc_2")
        for values in [[row[name] for row in rows]]
    }
    for name, each in found.items():
        print(f"{name}: Pearson {each['pearson']:.3f}, Spearman {each['spearman']:.3f} with the exact count")
    figure = Figure(figsize=(6.5, 4), dpi=130, layout="constrained")
    left = figure.add_subplot()
    right = left.twinx()
    steps = [row["step"] for row in rows]
    left.plot(steps, exact, color="black", marker="o", markersize=3, label="exact linear regions, 2-D square")
    right.plot(steps, [row["lc_25"] for row in rows], color="#7b3294", label="LC, P = 25")
    right.plot(steps, [row["lc_2"] for row in rows], color="#7b3294", linestyle="--", label="LC, P = 2")
    left.set_xscale("symlog", linthresh=1, linscale=0.3)
    left.set(xlabel="step", ylabel="exact linear regions", title=f"{data.name}, 3 layers of width 200, r = {RADIUS}")
    right.set_ylabel("local complexity")
    figure.legend(loc="outside lower center", ncols=3, fontsize="small")
    figure.savefig(options.out / "comovement.png")
    print(f"wrote {options.out / 'comovement.png'}")
    write(options.out / "comovement.json", {"data": data.name, "rows": rows, "correlation": found}, start)


if __name__ == "__main__":
    main()
