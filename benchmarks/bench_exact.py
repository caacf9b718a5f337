"""Exact regions against their floor: one forward pass over the final vertices, same dtype, same threads, inputs
embedded.

Every case runs in a process of its own, so that its peak memory is its own. Prints a table and writes
``benchmarks/results/exact.json``. ``python benchmarks/bench_exact.py [--quick] [--device cuda] [CASE ...]``
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn

import regionscope as rs

THREADS = 2
RESULTS = Path(__file__).parent / "results"


def mlp(*sizes: int, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn(seed: int = 0, *, max_pool: bool = False) -> nn.Sequential:
    torch.manual_seed(seed)
    pool: Callable[[int], nn.Module] = nn.MaxPool2d if max_pool else nn.AvgPool2d
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), pool(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), pool(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), pool(2),
        nn.Flatten(), nn.Linear(64 * 16, 10),
    )  # fmt: skip


def box(radius: float = 1.0) -> rs.Box:
    return rs.Box(torch.zeros(2), torch.eye(2), radius)


def images(n: int, *shape: int) -> torch.Tensor:
    return torch.rand((n, *shape), generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@dataclass(frozen=True)
class Case:
    """A network, a slice, and the promise: at most ``ratio`` times the floor, at most ``gib`` of memory."""

    name: str
    build: Callable[[], tuple[nn.Module, rs.Slice]]
    ratio: float | None = None
    gib: float | None = None


CASES = [
    Case("plane 2-[32]*3-2", lambda: (mlp(2, 32, 32, 32, 2), box())),
    Case("plane 2-[64]*3-2", lambda: (mlp(2, 64, 64, 64, 2), box())),
    Case("plane 2-[256]*4-2", lambda: (mlp(2, 256, 256, 256, 256, 2), box()), ratio=2, gib=1.5),
    Case("triangle 784-[200]*3-10", lambda: (mlp(784, 200, 200, 200, 10), rs.Simplex(images(3, 784))), ratio=3),
    Case("segment 784-[200]*3-10", lambda: (mlp(784, 200, 200, 200, 10), rs.Segment(*images(2, 784)))),
    Case("segment CNN, average pool", lambda: (cnn(), rs.Segment(*images(2, 3, 32, 32))), ratio=2, gib=1),
    Case("segment CNN, max pool", lambda: (cnn(max_pool=True), rs.Segment(*images(2, 3, 32, 32))), gib=1),
]
SCALING = [0.2, 0.4, 0.8, 1.5]  # radius of the box of a 2-[512]*4-2 network: 30,000 to 1,000,000 regions
CASES += [Case(f"scaling r={r}", lambda r=r: (mlp(2, 512, 512, 512, 512, 2), box(r))) for r in SCALING]


def best_time(run: Callable[[], object], device: str, least: int = 3, seconds: float = 6.0) -> float:
    """The fastest of at least ``least`` runs, repeated for about ``seconds``."""
    times: list[float] = []
    while len(times) < least or (sum(times) < seconds and len(times) < 50):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def floor_seconds(model: nn.Module, inputs: torch.Tensor, device: str) -> tuple[float, int]:
    """One forward pass over the inputs, in the batch size that suits the machine best (found on a sample)."""

    def forward(rows: torch.Tensor, batch: int) -> None:
        with torch.no_grad():
            for part in rows.split(batch):
                model(part)

    sample = inputs[:2048]
    batches = [batch for batch in (16, 64, 256, 1024, 2048) if batch == 16 or batch <= len(inputs)]
    batch = min(batches, key=lambda batch: best_time(lambda: forward(sample, batch), device, least=2, seconds=0.5))
    return best_time(lambda: forward(inputs, batch), device, least=1, seconds=2.0), batch


def measure(case: Case, device: str) -> dict[str, object]:
    """Run one case in this process."""
    torch.set_num_threads(THREADS)
    model, piece = case.build()
    model.to(device)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    part = rs.linear_regions(model, piece)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gpu_peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    long = case.name.startswith("scaling")
    seconds = best_time(
        lambda: rs.linear_regions(model, piece), device, least=1 if long else 3, seconds=0 if long else 6
    )
    start = time.perf_counter()
    n_linear = part.n_linear_regions
    merging = time.perf_counter() - start
    model.double().eval()
    inputs = piece.embed(part.vertices)
    floor, batch = floor_seconds(model, inputs, device)
    return {
        "case": case.name,
        "regions": part.n_activation_regions,
        "linear": n_linear,
        "vertices": len(part.vertices),
        "seconds": seconds,
        "merging": merging,
        "floor": floor,
        "floor_batch": batch,
        "ratio": seconds / floor,
        "peak_gib": peak / 2**20 if device == "cpu" else gpu_peak / 2**30,
        "import_gib": before / 2**20,
        "promised_ratio": case.ratio,
        "promised_gib": case.gib,
        "device": device,
        "torch": torch.__version__,
        "threads": THREADS,
    }


def print_row(row: dict[str, object]) -> None:
    promise = [f"<= {row['promised_ratio']}x" if row["promised_ratio"] else ""]
    promise += [f"<= {row['promised_gib']} GiB" if row["promised_gib"] else ""]
    print(
        f"{row['case']:28} {row['regions']:9,} {row['vertices']:9,} {row['seconds']:9.4f} {row['floor']:8.4f} "
        f"{row['ratio']:6.2f} {row['peak_gib']:6.2f}  {' '.join(promise)}",
        flush=True,
    )


def print_slope(rows: list[dict[str, object]]) -> None:
    scaling = [(float(r["regions"]), float(r["seconds"])) for r in rows if str(r["case"]).startswith("scaling")]  # type: ignore[arg-type]
    if len(scaling) > 1:
        x, y = ([math.log(pair[i]) for pair in scaling] for i in range(2))
        mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
        slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)
        print(f"time grows as regions ** {slope:.3f} (promise: at most 1.1)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--quick", action="store_true", help="leave out the scaling series")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one is not None:
        print(json.dumps(measure(next(case for case in CASES if case.name == args.one), args.device)))
        return
    wanted = [case for case in CASES if not args.cases or any(word in case.name for word in args.cases)]
    if args.quick:
        wanted = [case for case in wanted if not case.name.startswith("scaling")]
    rows = []
    print(f"{'case':28} {'regions':>9} {'vertices':>9} {'seconds':>9} {'floor':>8} {'ratio':>6} {'GiB':>6}  promise")
    for case in wanted:
        command = [sys.executable, __file__, "--one", case.name, "--device", args.device]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{case.name} failed:\n{done.stderr}")
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print_row(rows[-1])
    print_slope(rows)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"exact-{args.device}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
