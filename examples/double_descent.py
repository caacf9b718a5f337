"""The double descent of local complexity, and where the regions go (Humayun et al. 2023, Figures 1 and 3).

A 4-layer ReLU network of width 200 learns 1,000 digits (MSE on one-hot labels, AdamW 1e-3, weight decay 0.01). Local
complexity at the training points falls, rises, and falls again; fold density on exact slices through training points
says whether the folds leave the data for the decision boundary.

    python examples/double_descent.py --data DIR        # DIR/MNIST/raw/...; without it scikit-learn's digits
"""

from __future__ import annotations

import time

import torch
from digits import accuracy, arguments, load_digits, log_spaced, network, train, write
from matplotlib.figure import Figure

import regionscope as rs
from regionscope import plot
from regionscope.complexity import ComplexityWatch, draw_points
from regionscope.plot import style
from regionscope_lab.migration import fold_migration


def main() -> None:
    options = arguments("double descent of local complexity", steps=20_000)
    start = time.perf_counter()
    data = load_digits(options.data, seed=options.seed)
    model = network(data.train.shape[1], seed=options.seed)
    points = draw_points(data.train, data.test, n=options.points, seed=options.seed)
    watch = ComplexityWatch(points, dims=25, radius=0.005)
    slices = [rs.Simplex(data.train[3 * i : 3 * i + 3]) for i in range(options.slices)]
    at = log_spaced(options.steps, options.looks)
    moved, migration = set(at[:: max(1, len(at) // 9)]) | {at[-1]}, {}

    def look(step: int) -> None:
        known = accuracy(model, data.train, data.train_labels)
        new = accuracy(model, data.test, data.test_labels)
        row = watch(step, model, train_accuracy=known, test_accuracy=new)
        text = ", ".join(f"{name} {level.mean:.3f}" for name, level in row.levels.items())
        if step in moved:
            migration[step] = now = fold_migration(model, slices, data.train, max_regions=200_000)
            text += f"; folds next to data {now.to_data.near:.2f} ± {now.to_data.near_stderr:.2f} of the mean density, "
            text += f"next to the boundary {now.to_boundary.near:.2f} ± {now.to_boundary.near_stderr:.2f}"
        print(f"step {step:6d}  accuracy {known:.3f} / {new:.3f}  LC {text}", flush=True)

    train(model, data, last=options.steps, at=at, look=look, seed=options.seed)
    figure = Figure(figsize=(15, 4), dpi=130, layout="constrained")
    left, middle, right = (figure.add_subplot(1, 3, i) for i in (1, 2, 3))
    plot.complexity_history(watch.history, ax=left)
    left.set_title(f"{data.name}, 4 layers of width 200")
    shown = list(migration.items())[1::2]
    for colour, (step, found) in zip(style.layer_colours(len(shown)), shown, strict=True):
        for ax, profile in ((middle, found.to_data), (right, found.to_boundary)):
            centres = (profile.edges[1:] + profile.edges[:-1]) / 2
            ax.plot(centres.numpy(), profile.density.numpy(), color=colour, label=f"step {step:,}")
    for ax, place in ((middle, "the nearest training point"), (right, "the decision boundary")):
        ax.set(xlabel=f"distance to {place}", ylabel="folds per area")
        ax.legend(fontsize="x-small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)
    figure.savefig(options.out / "double_descent.png")
    print(f"wrote {options.out / 'double_descent.png'}")
    profiles = {
        step: {
            name: {
                "ratio": each.ratio,
                "stderr": each.stderr,
                "near": each.near,
                "near_stderr": each.near_stderr,
                "edges": each.edges.tolist(),
                "density": each.density.tolist(),
            }
            for name, each in (("to_data", found.to_data), ("to_boundary", found.to_boundary))
        }
        for step, found in migration.items()
    }
    rows = [row.as_dict() for row in watch.history.rows]
    write(options.out / "double_descent.json", {"data": data.name, "rows": rows, "migration": profiles}, start)


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    main()
