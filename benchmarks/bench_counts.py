"""Region counts: what they cost beside the model's own forward pass, and what a grid of 200 points misses.

PYTHONPATH=tests python benchmarks/bench_counts.py    # tables on screen, JSON in benchmarks/results/
With resnet18, those whose title holds the word; with --device cuda, on the GPU.
Ratios come from one run of one process; seconds depend on the machine, ratios hardly do.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.measures.region_count import slice_sampler
from regionscope.network import full_precision
from regionscope.sampled.components import count_linked
from regionscope.sampled.lattice import corners_and_directions, make_lattice
from regionscope_lab import zoo
from regionscope_lab.data import Dataset
from regionscope_lab.train import Training, train
from results import write
from timing import call_seconds
from twins.components import count_components_bfs

LIMITS = {"speedup over breadth-first search": 10.0, "counting / forward": 0.02, "forward share": 0.95}
GRID = 200


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.SiLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 64, 10),
    ).eval()  # fmt: skip


def median_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The median over ``repeats`` runs, after one to warm up."""
    work()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return statistics.median(call_seconds(work, device).clock for _ in range(repeats))


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

    pairs = make_lattice("box", 2, maps.shape[1]).pairs
    flat, flat_noise = (torch.from_numpy(values).flatten(1) for values in (maps, noise))
    fast = median_seconds(lambda: count_linked(flat, pairs))
    hard = median_seconds(lambda: count_linked(flat_noise, pairs))
    slow = median_seconds(lambda: [count_components_bfs(one) for one in maps], 1)
    passes = median_seconds(forward, 1)
    return {
        "count_linked (s)": fast,
        "count_linked, pure noise (s)": hard,
        "breadth-first search (s)": slow,
        "forward pass (s)": passes,
        "speedup over breadth-first search": slow / fast,
        "counting / forward": fast / passes,
    }


def share(model: nn.Module, inputs: Tensor, dim: int) -> dict[str, float]:
    rs.region_count(model, inputs, dim=dim, slices=4)
    found = rs.region_count(model, inputs, dim=dim, slices=50)
    return {f"region_count, dim {dim} (s)": found.seconds, "forward share": found.model_seconds / found.seconds}


def grid_against_exact(slices: int) -> dict[str, float]:
    """Digits: the counts of grid 200 and of the exact engine on the same segments, and what each costs."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    inputs, labels = torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target).long()
    net = zoo.mlp([64, 128, 128, 10])
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


def lattice_points(inputs: Tensor, slices: int, device: torch.device) -> Tensor:
    """The inputs (slices * GRID, *shape) that ``region_count`` puts into the model, on the device."""
    sampler = slice_sampler(inputs, dim=1, slices=slices)
    ends = corners_and_directions([sampler.draw(i) for i in range(slices)]).to(device, torch.float32)
    along = torch.linspace(0, 1, GRID, device=device)[:, None]
    return torch.cat([corner + along * step for corner, step in ends]).reshape(-1, *inputs.shape[1:])


def floor(model: nn.Module, points: Tensor) -> tuple[float, int]:
    """Seconds of one plain forward pass over the points in the best batch size, which is found on some of them."""

    def forward(some: Tensor, batch: int) -> None:
        with torch.no_grad(), full_precision():
            for part in some.split(batch):
                model(part)

    sizes = (256, 1024, 4096) if points.is_cuda else (16, 64, 256)
    batch = min(sizes, key=lambda size: median_seconds(lambda: forward(points[: sizes[-1]], size), 3))
    return median_seconds(lambda: forward(points, batch), 3), batch


def against_floor(device: torch.device, slices: int) -> dict[str, float]:
    """ResNet18 on 3 x 32 x 32: the whole count against a forward pass over the very same points.

    "refined" chooses its points as it goes, so its floor is the speed of that pass for as many points as the model saw.
    """
    model = zoo.build("resnet18", width=64 if device.type == "cuda" else 8).eval().to(device)
    inputs = torch.rand(200, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    points = lattice_points(inputs, slices, device)
    bottom, batch = floor(model, points)
    row: dict[str, float] = {
        "segments": slices,
        "points": len(points),
        "floor (s)": bottom,
        "batch of the floor": batch,
    }
    for method in ("grid", "refined"):
        seen: list[int] = []
        hook = model.register_forward_pre_hook(lambda _, args, seen=seen: seen.append(len(args[0])))
        found = rs.region_count(model, inputs, slices=slices, grid=GRID, method=method)
        hook.remove()
        rows = len(points) if method == "grid" else sum(seen)
        taken = median_seconds(
            lambda method=method: rs.region_count(model, inputs, dim=1, slices=slices, grid=GRID, method=method), 3
        )
        row |= {
            f"{method} (s)": taken,
            f"{method}: points in the model": sum(seen),
            f"{method}: points a second": rows / taken,
            f"{method}: mean count": found.value,
            f"{method}: share of the model": found.model_seconds / found.seconds,
            f"{method} / floor": taken / (bottom * rows / len(points)),
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", help="words of the titles of the wanted tables; all by default")
    parser.add_argument("--segments", type=int, help="of the table of ResNet18: 300 on a GPU, else 4")
    parser.add_argument("--slices", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    device = torch.device(options.device)
    model, inputs = cnn().to(device), torch.rand(200, 3, 32, 32)
    segments = options.segments or (300 if device.type == "cuda" else 4)
    work: dict[str, Callable[[], dict[str, float]]] = {
        "a hundred 30 x 30 maps": lambda: components(model, device),
        "share of the model in 1-D": lambda: share(model, inputs, 1),
        "share of the model in 2-D": lambda: share(model, inputs, 2),
        "resnet18 against its floor": lambda: against_floor(device, segments),
    }
    if device.type == "cpu":  # of a network that no GPU would be faster for
        work["grid against exact"] = lambda: grid_against_exact(options.slices)
    tables: dict[str, dict[str, float]] = {}
    for title, measure in work.items():
        if options.tables and not any(word in title for word in options.tables):
            continue
        tables[title] = rows = measure()
        print(title)
        for name, value in rows.items():
            low = name in LIMITS and (value > LIMITS[name]) == (name == "counting / forward")
            print(f"  {name:36s} {value:10.4g}{'   MISSES ITS LIMIT' if low else ''}")
    print(f"wrote {write('counts' if device.type == 'cpu' else f'counts_{device.type}', tables, device)}")


if __name__ == "__main__":
    main()
