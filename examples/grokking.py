"""Grokking: generalisation long after memorisation, seen by local complexity (Humayun et al. 2023, Figure 8).

As ``double_descent.py``, with the initial weights times 8 (Liu et al. 2022).

    python examples/grokking.py --data DIR              # DIR/MNIST/raw/...; without it scikit-learn's digits
"""

from __future__ import annotations

import time

from digits import accuracy, arguments, load_digits, log_spaced, network, train, write

from regionscope import plot
from regionscope.complexity import ComplexityWatch, draw_points


def main() -> None:
    options = arguments("grokking and local complexity", steps=60_000)
    start = time.perf_counter()
    data = load_digits(options.data, seed=options.seed)
    model = network(data.train.shape[1], scale=8.0, seed=options.seed)
    points = draw_points(data.train, data.test, n=options.points, seed=options.seed)
    watch = ComplexityWatch(points, dims=25, radius=0.005)

    def look(step: int) -> None:
        known = accuracy(model, data.train, data.train_labels)
        new = accuracy(model, data.test, data.test_labels)
        row = watch(step, model, train_accuracy=known, test_accuracy=new)
        text = ", ".join(f"{name} {level.mean:.3f}" for name, level in row.levels.items())
        print(f"step {step:6d}  accuracy {known:.3f} / {new:.3f}  LC {text}", flush=True)

    at = sorted({*log_spaced(options.steps, options.looks), *range(0, options.steps + 1, max(1, options.steps // 30))})
    train(model, data, last=options.steps, at=at, look=look, seed=options.seed)
    figure = plot.complexity_figure(watch.history, title=f"{data.name}, initial weights × 8")
    figure.savefig(options.out / "grokking.png")
    print(f"wrote {options.out / 'grokking.png'}")
    rows = [row.as_dict() for row in watch.history.rows]
    write(options.out / "grokking.json", {"data": data.name, "rows": rows}, start)


if __name__ == "__main__":
    main()
