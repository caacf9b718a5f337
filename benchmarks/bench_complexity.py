"""Local complexity against its floor: one forward pass of 2·P·b inputs, in the same number of threads.

python benchmarks/bench_complexity.py               # table on screen, JSON in docs/benchmarks/; see table.py
python benchmarks/bench_complexity.py mlp           # the networks whose name holds the word
python benchmarks/bench_complexity.py --device cuda
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import regionscope as rs
from bench_exact import peak_gib
from regionscope.network import full_precision
from regionscope_lab import zoo
from results import surroundings
from table import store
from timing import call_seconds

LIMIT_RATIO = 1.3
LIMIT_SECONDS = 0.19  # a third of 0.57 s: what the authors' code takes for "mlp" below on 2 cores
PATIENCE = 3.0  # seconds of runs of one kind after which two of them are enough
HELD = 1 << 30  # bytes of ready-made inputs of the floor; where there are more, these are gone through again


def mlp(device: torch.device) -> nn.Module:
    sizes = [784, 200, 200, 200, 10]
    layers: list[nn.Module] = []
    for i in range(4):
        layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn(device: torch.device) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 64, 10),
    )  # fmt: skip


def resnet18(device: torch.device) -> nn.Module:
    return zoo.build("resnet18", width=64 if device.type == "cuda" else 8)


def imagenet(device: torch.device) -> nn.Module:
    width = 64 if device.type == "cuda" else 8
    return zoo.build("resnet18", classes=1000, input_shape=(3, 224, 224), width=width, stem="imagenet")


@dataclass(frozen=True)
class Case:
    """A network and its points: fewer on a CPU, and on a GPU enough that the start of a call does not count.

    dims: P, where it is not the caller's. batches: tried for the floor; the fastest counts. kept: also with one frame a
    point that was drawn before; where images are large, all these frames are too much to hold.
    """

    name: str
    build: Callable[[torch.device], nn.Module]
    shape: tuple[int, ...]
    points: int
    points_on_gpu: int
    batches: tuple[int, ...]
    dims: int | None = None
    kept: bool = True


CASES = [
    Case("mlp", mlp, (784,), 1000, 20_000, (1024, 4096, 16384, 10**9)),
    Case("cnn", cnn, (3, 32, 32), 60, 1200, (1024, 4096, 16384, 10**9)),
    Case("resnet18, 32 x 32", resnet18, (3, 32, 32), 4, 1000, (16, 64, 256, 1024, 4096), dims=20),
    Case("resnet18, 224 x 224", imagenet, (3, 224, 224), 1, 1000, (8, 64, 256, 1024), dims=20, kept=False),
]


def median_seconds(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """The median over ``repeats`` runs, fewer where they are long, after one to warm up."""
    taken: list[float] = []
    while len(taken) <= repeats and not (len(taken) > 2 and sum(taken[1:]) > PATIENCE):
        taken.append(call_seconds(work, device).clock)
    return statistics.median(taken[1:])


def floor(model: nn.Module, x: Tensor, vertices: int, batches: tuple[int, ...]) -> tuple[float, int]:
    """One forward pass over so many inputs, ready made, in the best of these batches (found on a part), and that."""
    total, size = len(x) * vertices, x[0].numel() * x.element_size()
    held = min(total, HELD // size)
    inputs = x[: -(-held // vertices)].repeat_interleave(vertices, 0)[:held]

    def forward(n: int, batch: int) -> None:
        with torch.no_grad(), full_precision():
            while n > 0:
                for part in inputs[:n].split(batch):
                    model(part)
                n -= len(inputs)

    fitting = [batch for batch in batches if batch <= held or batch == batches[0]]
    if batches[-1] > held and held == total:
        fitting.append(total)  # all at once
    some = min(total, max(fitting))
    batch = min(fitting, key=lambda batch: median_seconds(lambda: forward(some, batch), x.device, 5))
    return median_seconds(lambda: forward(total, batch), x.device, 7), batch


def measure(case: Case, device: torch.device, dims: int) -> list[dict[str, object]]:
    """The floor, and local complexity with each kind of frames."""
    torch.manual_seed(0)
    model = case.build(device).eval().to(device)
    x = torch.rand(case.points_on_gpu if device.type == "cuda" else case.points, *case.shape).to(device)
    bottom, batch = floor(model, x, 2 * dims, case.batches)
    choices: list[tuple[str, object]] = [("shared", "shared")]
    if case.kept:
        choices.append(("kept", rs.complexity.orthonormal_frames(case.shape, dims=dims, points=len(x)).to(device)))
        if device.type == "cpu":
            choices.append(("per-point", "per-point"))
    rows: list[dict[str, object]] = []
    for name, frames in choices:
        taken = median_seconds(
            lambda frames=frames: rs.local_complexity(model, x, dims=dims, frames=frames),
            device,
            repeats=7,
        )
        rows.append({
            "case": f"local complexity, {case.name}, {name} frame", "network": case.name, "frames": name,
            "points": len(x), "dims": dims, "seconds": taken, "floor": bottom,
            "floor_batch": batch, "ratio": taken / bottom,
            "peak_gib": torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else peak_gib(),
        })  # fmt: skip
        print(f"{case.name:20} {name:10} {len(x):6d} {taken:9.4f} {bottom:9.4f} {taken / bottom:6.2f}", flush=True)
    if device.type == "cuda":
        print(f"{'':20} at most {torch.cuda.max_memory_allocated(device) / 2**30:.1f} GiB, batch of the floor {batch}")
        torch.cuda.reset_peak_memory_stats(device)
        torch.cuda.empty_cache()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="time local complexity against its floor")
    parser.add_argument("networks", nargs="*", help="words of the names of the wanted networks; all by default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dims", type=int, default=25, help="P of mlp and cnn")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    rows = []
    print(f"{'network':20} {'frames':10} {'points':>6} {'seconds':>9} {'floor':>9} {'ratio':>6}")
    for case in CASES:
        if not options.networks or any(word in case.name for word in options.networks):
            rows += measure(case, device, case.dims or options.dims)
    print(
        f"aims: ratio <= {LIMIT_RATIO} (shared and kept frames); mlp with a shared frame < {LIMIT_SECONDS} s on 2 cores"
    )
    print("kept: one frame a point, drawn before; per-point: drawn in the call (which is not in the floor)")
    store(f"complexity-{device.type}", [{**row, **surroundings(device)} for row in rows])


if __name__ == "__main__":
    main()
