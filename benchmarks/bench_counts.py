"""Region counts: what they cost beside the model's own forward pass, and what a grid of 200 points misses.

python benchmarks/bench_counts.py               # table on screen, JSON in benchmarks/results/
Ratios come from one run of one process; seconds depend on the machine, ratios hardly do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.lab.data import Dataset
from regionscope.lab.train import Training, train
from regionscope.lab.zoo import mlp
from regionscope.regions.components import count_components
from regionscope.regions.reference_components import count_components_bfs

RESULTS = Path(__file__).parent / "results"
LIMITS = {"speedup over breadth-first search": 10.0, "counting / forward": 0.02, "forward share": 0.95}


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.SiLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 64, 10),
    ).eval()  # fmt: skip


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The median over ``repeats`` runs, after one to warm up."""
    work()
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def smooth_maps(n: int = 100, grid: int = 30) -> np.ndarray[Any, Any]:
    """Labels of random linear classifiers of five classes, as a trained network's slices look."""
    rng = np.random.default_rng(0)
    x = np.stack(np.meshgrid(*[np.linspace(-1, 1, grid)] * 2), -1)
    logits = np.einsum("ijd,scd->sijc", x, rng.normal(size=(n, 5, 2))) + 0.3 * rng.normal(size=(n, 1, 1, 5))
    return np.asarray(logits.argmax(-1))


def components(model: nn.Module, device: torch.device) -> dict[str, float]:
    """A hundred maps of 30 x 30: counting, breadth-first search, and the forward pass over the same points."""
    maps = smooth_maps()
    noise = np.random.default_rng(1).integers(0, 5, maps.shape)
    batch = torch.randn(250, 3, 32, 32, device=device)

    def forward() -> None:
        with torch.no_grad():
            for _ in range(maps.size // 250):
                model(batch)

    fast = seconds(lambda: count_components(maps, dim=2))
    hard = seconds(lambda: count_components(noise, dim=2))
    slow = seconds(lambda: [count_components_bfs(one) for one in maps], 1)
    passes = seconds(forward, 1)
    return {
        "count_components (s)": fast,
        "count_components, pure noise (s)": hard,
        "breadth-first search (s)": slow,
        "forward pass (s)": passes,
        "speedup over breadth-first search": slow / fast,
        "counting / forward": fast / passes,
    }


def share(model: nn.Module, inputs: Tensor, dim: int) -> dict[str, float]:
    rs.region_count(model, inputs, dim, slices=4)
    found = rs.region_count(model, inputs, dim, slices=50)
    return {f"region_count, dim {dim} (s)": found.seconds, "forward share": found.model_seconds / found.seconds}


def grid_against_exact(slices: int) -> dict[str, float]:
    """Digits: the counts of grid 200 and of the exact engine on the same segments, and what each costs."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    inputs, labels = torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target).long()
    net = mlp([64, 128, 128, 10])
    adam = Training(epochs=30, optimizer="adam", lr=1e-3, batch_size=32, schedule="constant")
    train(net, Dataset("digits", inputs, labels, 10), adam)
    exact = rs.region_count(net, inputs, slices=slices, method="exact")
    grid = rs.region_count(net, inputs, slices=slices)
    refined = rs.region_count(net, inputs, slices=slices, method="refined")
    missed = exact.counts - grid.counts
    return {
        "segments": slices,
        "exact mean": exact.value,
        "grid 200 mean": grid.value,
        "refined mean": refined.value,
        "regions": int(exact.counts.sum()),
        "regions grid 200 misses": int(missed.sum()),
        "segments where it misses some": int((missed > 0).sum()),
        "regions refined misses": int((exact.counts - refined.counts).sum()),
        "standard error of the mean": exact.stderr,
        "exact (s)": exact.seconds,
        "grid 200 (s)": grid.seconds,
        "refined (s)": refined.seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    device = torch.device(options.device)
    model, inputs = cnn().to(device), torch.rand(200, 3, 32, 32)
    tables = {
        "a hundred 30 x 30 maps": components(model, device),
        "share of the model in 1-D": share(model, inputs, 1),
        "share of the model in 2-D": share(model, inputs, 2),
        "grid against exact": grid_against_exact(options.slices),
    }
    for title, rows in tables.items():
        print(title)
        for name, value in rows.items():
            low = name in LIMITS and (value > LIMITS[name]) == (name == "counting / forward")
            print(f"  {name:36s} {value:10.4g}{'   MISSES ITS LIMIT' if low else ''}")
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / "counts.json"
    target.write_text(json.dumps({"threads": options.threads, "device": options.device, **tables}, indent=2) + "\n")
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
