"""The training loop beside a hand-written one.

python benchmarks/bench_lab.py                    # table on screen, JSON in benchmarks/results/
python benchmarks/bench_lab.py --device cuda      # also there; JSON under another name
Ratios come from one run of one process, with both sides in turn; on a CPU processor time is compared, on one thread.
Two ratios are shown: the median over all pairs, which carries the noise of a busy machine, and that of the fastest.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional

from regionscope_lab.config import Training
from regionscope_lab.data import Dataset, DataSplit, two_moons
from regionscope_lab.train import train
from regionscope_lab.zoo import mlp
from results import write
from timing import busy_seconds


@dataclass(frozen=True)
class Case:
    """limit: the largest allowed ours / theirs."""

    name: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    limit: float


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 64, 10),
    )  # fmt: skip


def moons() -> DataSplit:
    return DataSplit(two_moons(1000, seed=0), two_moons(500, seed=1))


def images(n: int) -> DataSplit:
    generator = torch.Generator().manual_seed(0)
    parts = [
        Dataset("noise", torch.randn(m, 3, 32, 32, generator=generator), torch.arange(m) % 10, 10) for m in (n, n // 5)
    ]
    return DataSplit(*parts)


def by_hand(model: nn.Module, split: DataSplit, training: Training, device: torch.device) -> None:
    """What one writes with torch alone: data on the device, one batch after another, errors after each epoch."""
    model.to(device).train()
    data = split.to(device)
    inputs, labels = data.train.inputs, data.train.labels
    kind = torch.optim.SGD if training.optimizer == "sgd" else torch.optim.Adam
    more = {"momentum": training.momentum} if training.optimizer == "sgd" else {}
    optimizer = kind(model.parameters(), lr=training.lr, weight_decay=training.weight_decay, **more)
    steps = training.epochs * math.ceil(len(inputs) / training.batch_size)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps) if training.schedule == "cosine" else None
    torch.manual_seed(0)
    for _ in range(training.epochs):
        total = torch.zeros((), device=device)
        for batch in torch.randperm(len(inputs), device=device).split(training.batch_size):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            if cosine is not None:
                cosine.step()
            total += loss.detach() * len(batch)
        model.eval()
        with torch.no_grad():
            for part in (data.train, data.test):
                wrong = sum(
                    (model(x).argmax(1) != y).sum()
                    for x, y in zip(part.inputs.split(1000), part.labels.split(1000), strict=True)
                )
                float(wrong) / len(part)
        model.train()
        float(total)


def cases(device: torch.device) -> list[Case]:
    small = Training(epochs=10, lr=0.05, batch_size=32, schedule="constant")
    large = Training(epochs=1, lr=0.05, batch_size=64)
    flat, square = moons(), images(5000 if device.type == "cuda" else 640)
    found = []
    for name, training, split, make in (
        ("MLP 2-32-32-32-2, batch 32, SGD", small, flat, lambda: mlp([2, 32, 32, 32, 2])),
        ("the same, Adam", replace(small, optimizer="adam", lr=1e-3), flat, lambda: mlp([2, 32, 32, 32, 2])),
        ("the same, SGD, cosine", replace(small, schedule="cosine"), flat, lambda: mlp([2, 32, 32, 32, 2])),
        ("CNN of two layers, batch 64, SGD, cosine", large, square, cnn),
    ):
        found.append(
            Case(
                f"{name}: ours / by hand",
                lambda t=training, s=split, m=make: train(m(), s, t, device=device),
                lambda t=training, s=split, m=make: by_hand(m(), s, t, device),
                1.05,
            )
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=15)
    chosen = parser.parse_args()
    device = torch.device(chosen.device)
    torch.set_num_threads(1)
    rows = []
    print(f"{'':58} {'ours (s)':>9} {'theirs':>9} {'median':>7} {'fastest':>7} {'limit':>7}")
    for case in cases(device):
        case.ours(), case.theirs()
        pairs = [(busy_seconds(case.ours, device), busy_seconds(case.theirs, device)) for _ in range(chosen.repeats)]
        ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        fastest = min(a for a, _ in pairs) / min(b for _, b in pairs)
        rows.append({
            "case": case.name, "ours_seconds": ours, "theirs_seconds": theirs, "median_ratio": ratio,
            "fastest_ratio": fastest, "limit": case.limit,
        })  # fmt: skip
        print(f"{case.name:58} {ours:9.4f} {theirs:9.4f} {ratio:7.3f} {fastest:7.3f} {case.limit:7.2f}", flush=True)
    write(f"lab_{device.type}", {"rows": rows, "repeats": chosen.repeats}, device)


if __name__ == "__main__":
    main()
