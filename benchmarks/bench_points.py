"""Distances of data points to their nearest folds, against the forward passes that they stand for.

python benchmarks/bench_points.py                # table on screen, JSON in docs/benchmarks/; see table.py
python benchmarks/bench_points.py mlp            # the networks whose name holds the word
python benchmarks/bench_points.py --device cuda

The floor is one forward pass in float64 for each entry of each input, in the best of several batches. All distances are
computed in float64. On a GPU, those of a small ResNet are first compared with the CPU's.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import regionscope as rs
from bench_exact import peak_gib
from regionscope_lab import zoo
from results import surroundings
from table import store
from timing import busy_seconds, timed

PASSES = 1 << 15  # of the floor that are timed; the others are taken to cost the same


@dataclass(frozen=True)
class Case:
    """A network and its points: fewer on a CPU."""

    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    points: int
    points_on_gpu: int
    batches: tuple[int, ...] = (64, 256, 1024, 4096)


CASES = [
    Case("mlp 64-[128]*3-10", lambda: zoo.mlp([64, 128, 128, 128, 10], seed=0), (64,), 1000, 100_000),
    Case("mlp 784-[200]*3-10", lambda: zoo.mlp([784, 200, 200, 200, 10], seed=0), (784,), 1000, 10_000),
    Case("cnn", lambda: zoo.build("cnn", input_shape=(3, 32, 32), width=8, seed=0), (3, 32, 32), 100, 1000),
    Case("resnet18", lambda: zoo.build("resnet18", width=64, seed=0), (3, 32, 32), 0, 1000),
]


def floor(model: nn.Module, x: Tensor, batches: tuple[int, ...]) -> float:
    """Seconds of one forward pass in float64 for each entry of each input; on a CPU those of the processor."""
    passes = len(x) * x[0].numel()
    model = model.double()

    def forward(batch: int, n: int) -> None:
        rows = x[:1].double().expand(batch, *x.shape[1:]).contiguous()
        with torch.no_grad():
            for _ in range(-(-n // batch)):
                model(rows)

    def seconds(batch: int) -> float:
        n = min(passes, PASSES)
        forward(batch, batch)
        return busy_seconds(lambda: forward(batch, n), x.device) * passes / n

    return min(map(seconds, batches))


def check(device: torch.device) -> None:
    """Raise AssertionError if a small ResNet has other distances on this device than on the CPU."""
    model = zoo.build("resnet18", input_shape=(3, 8, 8), width=32, seed=0).eval()
    x = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    on_cpu = rs.regions_at(model, x)
    on_device = rs.regions_at(model.to(device), x)
    torch.testing.assert_close(on_device.distance, on_cpu.distance, rtol=1e-9, atol=0)
    torch.testing.assert_close(on_device.label_distance, on_cpu.label_distance, rtol=1e-9, atol=0)
    assert torch.equal(on_device.ids, on_cpu.ids)
    assert torch.equal(on_device.nearest.unit, on_cpu.nearest.unit)


def measure(case: Case, device: torch.device) -> dict[str, object] | None:
    points = case.points_on_gpu if device.type == "cuda" else case.points
    if not points:
        return None
    model = case.build().eval().to(device)
    x = torch.rand(points, *case.shape, generator=torch.Generator().manual_seed(0)).to(device)
    rs.regions_at(model, x[:2])
    at, took = timed(lambda: rs.regions_at(model, x), device)
    bottom = floor(model, x, case.batches)
    seconds = took.clock if device.type == "cuda" else took.processor
    peak = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else peak_gib()
    assert len(at) == points
    return {
        "case": f"regions of points, {case.name}", "network": case.name, "points": points,
        "directions": math.prod(case.shape), "seconds": took.clock, "cpu": took.processor, "floor": bottom,
        "ratio": seconds / bottom, "peak_gib": peak,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="time regions_at against forward passes")
    parser.add_argument("networks", nargs="*", help="words of the names of the wanted networks; all by default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    check(device)
    for case in CASES:
        if not options.networks or any(word in case.name for word in options.networks):
            row = measure(case, device)
            if row is not None:
                print({key: value for key, value in row.items() if key != "network"}, flush=True)
                store(f"points-{device.type}", [{**row, **surroundings(device)}])


if __name__ == "__main__":
    main()
