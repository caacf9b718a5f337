"""Local complexity against its floor: one forward pass of 2·P·b inputs, in the same number of threads.

python benchmarks/bench_complexity.py               # table on screen, JSON in benchmarks/results/
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import regionscope as rs

RESULTS = Path(__file__).parent / "results"
LIMIT_RATIO = 1.3
LIMIT_SECONDS = 0.19  # a third of 0.57 s: what the authors' code takes for "mlp" below on 2 cores


def mlp() -> tuple[nn.Module, Tensor]:
    sizes = [784, 200, 200, 200, 10]
    layers: list[nn.Module] = []
    for i in range(4):
        layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
    return nn.Sequential(*layers[:-1]), torch.rand(1000, 784)


def cnn() -> tuple[nn.Module, Tensor]:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 64, 10),
    )  # fmt: skip
    return model, torch.rand(60, 3, 32, 32)


def seconds(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """The median over ``repeats`` runs, after one to warm up."""
    taken = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


def floor(model: nn.Module, x: Tensor, vertices: int, rows: int) -> float:
    """One forward pass over so many inputs, ready made, in batches of ``rows``."""
    inputs = x.repeat_interleave(vertices, 0)
    with torch.no_grad():
        return seconds(lambda: [model(part) for part in inputs.split(rows)], x.device, repeats=7)


def main() -> None:
    parser = argparse.ArgumentParser(description="time local complexity against its floor")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dims", type=int, default=25)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    rows = []
    print(f"{'network':8} {'frames':10} {'points':>6} {'seconds':>9} {'floor':>9} {'ratio':>6}")
    for build in (mlp, cnn):
        torch.manual_seed(0)
        model, x = build()
        model, x = model.eval().to(device), x.to(device)
        if device.type == "cuda":
            x = x.repeat(20, *[1] * (x.ndim - 1))  # enough work that the start of a call, some 3 ms, does not count
        # The best batch size for a plain forward pass is the fair floor.
        bottom = min(floor(model, x, 2 * options.dims, size) for size in (1024, 4096, 16384, 10**9))
        kept = rs.orthonormal_frames(x.shape[1:], options.dims, points=len(x)).to(device)
        choices: list[tuple[str, object]] = [("shared", "shared"), ("kept", kept)]
        if device.type == "cpu":
            choices.append(("per-point", "per-point"))
        for name, frames in choices:
            taken = seconds(
                lambda model=model, x=x, frames=frames: rs.local_complexity(model, x, dims=options.dims, frames=frames),
                device,
                repeats=7,
            )
            row = {"network": build.__name__, "frames": name, "points": len(x), "seconds": taken, "floor": bottom}
            rows.append({**row, "ratio": taken / bottom})
            print(f"{build.__name__:8} {name:10} {len(x):6d} {taken:9.4f} {bottom:9.4f} {taken / bottom:6.2f}")
    print(
        f"aims: ratio <= {LIMIT_RATIO} (shared and kept frames); mlp with a shared frame < {LIMIT_SECONDS} s on 2 cores"
    )
    print("kept: one frame a point, drawn before; per-point: drawn in the call (Gaussians and QR are not in the floor)")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"complexity_{device.type}.json"
    path.write_text(json.dumps({"threads": options.threads, "torch": torch.__version__, "rows": rows}, indent=1) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
