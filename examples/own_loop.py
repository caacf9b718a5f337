"""Local complexity in your own training loop: the three lines that end in "(1)", "(2)" and "(3)".

python examples/own_loop.py --out DIR
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

import regionscope as rs
from regionscope import plot


def main() -> None:
    parser = argparse.ArgumentParser(description="local complexity in a training loop of your own")
    parser.add_argument("--out", type=Path, default=Path("examples/output"))
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(0)
    digits = load_digits()
    x, y = torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target)
    train, test = (x[:1000], y[:1000]), (x[1000:], y[1000:])
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    watch = rs.ComplexityWatch(rs.complexity.draw_points(train[0], test[0], n=500), dims=25, radius=0.05)  # (1)
    for step in range(options.steps + 1):
        if step in (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000):
            right = [float((model(inputs).argmax(1) == labels).float().mean()) for inputs, labels in (train, test)]
            watch(step, model, train_accuracy=right[0], test_accuracy=right[1])  # (2)
        chosen = torch.randint(len(train[0]), (100,))
        loss = nn.functional.cross_entropy(model(train[0][chosen]), train[1][chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    plot.complexity_figure(watch.history).savefig(options.out / "own_loop.png")  # (3)

    for row in watch.history.rows:
        print(f"step {row.step:5d}  " + "  ".join(f"{name} {level.mean:.2f}" for name, level in row.levels.items()))
    print(f"wrote {options.out / 'own_loop.png'}")


if __name__ == "__main__":
    main()
