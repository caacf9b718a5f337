"""Exact regions against their floor: one forward pass over the final vertices in float64, same threads, inputs
embedded.

On a CPU every case runs in a process of its own, so that its peak memory is its own. Prints a table and writes
``benchmarks/results/exact-DEVICE.json``.

python benchmarks/bench_exact.py [--quick] [--device cuda] [WORD ...]    # cases whose name holds it
python benchmarks/bench_exact.py --profile CASE [--device cuda]          # where its time goes
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

import regionscope as rs
from regionscope.exact import linear
from regionscope.network import full_precision

RESULTS = Path(__file__).parent / "results"
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx")
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


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


def triangles(n: int, side: float) -> list[rs.Simplex]:
    """Small triangles in all directions around n images, given together."""
    ends = torch.randn((n, 3, 784), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return [
        rs.Simplex(centre + side / math.sqrt(2 * 784) * each) for centre, each in zip(images(n, 784), ends, strict=True)
    ]


def segments(n: int) -> list[rs.Segment]:
    """Between pairs of images."""
    return [rs.Segment(a, b) for a, b in images(2 * n, 784).unflatten(0, (n, 2))]


@dataclass(frozen=True)
class Case:
    """A network, a slice (or a list of them), and the promise: at most ``ratio`` times the floor, ``gib`` of memory, or
    ``seconds``.

    long: one run is timed. read: the network is read by ``trace`` before the clock starts.
    """

    name: str
    build: Callable[[], tuple[nn.Module, rs.Slice | Sequence[rs.Slice]]]
    ratio: float | None = None
    gib: float | None = None
    long: bool = False
    read: bool = False
    seconds: float | None = None


CASES = [
    Case("plane 2-[32]*3-2", lambda: (mlp(2, 32, 32, 32, 2), box()), seconds=0.015),
    Case("plane 2-[64]*3-2", lambda: (mlp(2, 64, 64, 64, 2), box()), seconds=0.035),
    Case("plane 2-[256]*4-2", lambda: (mlp(2, 256, 256, 256, 256, 2), box()), ratio=2, gib=1.5),
    Case("triangle 784-[200]*3-10", lambda: (mlp(784, 200, 200, 200, 10), rs.Simplex(images(3, 784))), ratio=3),
    Case("100 triangles together", lambda: (mlp(784, 200, 200, 200, 10), triangles(100, 3.0))),
    Case("1,000 triangles together", lambda: (mlp(784, 200, 200, 200, 10), triangles(1000, 3.0)), ratio=1.5, long=True),
    Case("segment 784-[200]*3-10", lambda: (mlp(784, 200, 200, 200, 10), rs.Segment(*images(2, 784)))),
    Case(
        "segment, read before",
        lambda: (mlp(784, 200, 200, 200, 10), rs.Segment(*images(2, 784))),
        read=True,
        seconds=0.005,
    ),
    Case("1,000 segments together", lambda: (mlp(784, 200, 200, 200, 10), segments(1000)), ratio=1.2, long=True),
    Case("segment CNN, average pool", lambda: (cnn(), rs.Segment(*images(2, 3, 32, 32))), ratio=2, gib=1),
    Case("segment CNN, max pool", lambda: (cnn(max_pool=True), rs.Segment(*images(2, 3, 32, 32))), gib=1),
]
SCALING = {"scaling r=0.2": 0.2, "scaling r=0.4": 0.4, "scaling r=0.8": 0.8, "scaling r=1.5": 1.5}  # 880,000 regions
SCALING["plane of a million regions"] = 1.8  # radius of the box
CASES += [Case(k, lambda r=r: (mlp(2, 512, 512, 512, 512, 2), box(r)), long=True) for k, r in SCALING.items()]


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
        with torch.no_grad(), full_precision():
            for part in rows.split(batch):
                model(part)

    tried = (256, 2048, 16384, 131072) if device == "cuda" else (16, 64, 256, 1024, 2048)
    sample = inputs[: tried[-1]]
    batches = [batch for batch in tried if batch == tried[0] or batch <= len(inputs)]
    if device == "cuda" and len(inputs) < tried[-1]:
        batches.append(len(inputs))  # all at once
    batch = min(batches, key=lambda batch: best_time(lambda: forward(sample, batch), device, least=2, seconds=0.5))
    return best_time(lambda: forward(inputs, batch), device, least=1, seconds=2.0), batch


def check_seconds(model: nn.Module, piece: rs.Slice | Sequence[rs.Slice], device: str) -> float:
    """Time that a call spends on comparing a sample of its maps with the network; the least of three."""
    check, times = linear.check_sample, []

    def timed(*args: Any) -> None:
        times.append(best_time(lambda: check(*args), device, least=1, seconds=0))

    with mock.patch.object(linear, "check_sample", timed):
        for _ in range(3):
            rs.linear_regions(model, piece)
    return min(times)


def measure(case: Case, device: str) -> dict[str, object]:
    """Run one case in this process."""
    model, piece = case.build()
    model.to(device)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    reading = rs.trace(model, (piece[0] if isinstance(piece, Sequence) else piece).input_shape) if case.read else model
    found = rs.linear_regions(reading, piece)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gpu_peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    seconds = best_time(
        lambda: rs.linear_regions(reading, piece),
        device,
        least=1 if case.long else 3,
        seconds=0 if case.long else 6,
    )
    check = check_seconds(model, piece, device) / seconds
    parts = found if isinstance(found, list) else [found]
    start = time.perf_counter()
    n_linear = sum(part.n_linear_regions for part in parts)
    merging = time.perf_counter() - start
    model.double().eval()
    inputs = torch.cat([part.slice.embed(part.vertices) for part in parts]).to(device)
    floor, batch = floor_seconds(model, inputs, device)
    return {
        "case": case.name,
        "regions": sum(part.n_activation_regions for part in parts),
        "linear": n_linear,
        "vertices": len(inputs),
        "seconds": seconds,
        "merging": merging,
        "check": check,
        "floor": floor,
        "floor_batch": batch,
        "ratio": seconds / floor,
        "peak_gib": peak / 2**20 if device == "cpu" else gpu_peak / 2**30,
        "import_gib": before / 2**20,
        "promised_ratio": case.ratio,
        "promised_gib": case.gib,
        "promised_seconds": case.seconds,
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "dtype": "float64",
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def print_profile(case: Case, device: str) -> None:
    """Where the time of one run goes: kernels, how often they are launched and waited for, operations on the CPU."""
    model, piece = case.build()
    model.to(device)
    rs.linear_regions(model, piece)
    plain = best_time(lambda: rs.linear_regions(model, piece), device, least=2, seconds=0)
    kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
    with profile(activities=kinds) as seen:
        watched = best_time(lambda: rs.linear_regions(model, piece), device, least=1, seconds=0)
    found = seen.key_averages()
    print(f"{case.name}: {plain:.4f} s, {watched:.4f} s under the profiler")
    if device == "cuda":
        busy = sum(each.self_device_time_total for each in found if each.device_type == DeviceType.CUDA) / 1e6
        count = {name: sum(each.count for each in found if each.key == name) for name in LAUNCHES + WAITS}
        copies = sum(each.count for each in found if each.key.startswith("cudaMemcpy"))
        print(f"kernels run for {busy:.4f} s, which is {busy / plain:.0%} of the time without the profiler")
        print(
            f"{sum(count[name] for name in LAUNCHES):,} kernel launches, {copies:,} copies, "
            f"{sum(count[name] for name in WAITS):,} waits for the device"
        )
        print(found.table(sort_by="self_device_time_total", row_limit=25, max_name_column_width=60))
    print(found.table(sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=60))


def print_row(row: dict[str, object]) -> None:
    promise = [f"<= {row['promised_ratio']}x" if row["promised_ratio"] else ""]
    promise += [f"<= {row['promised_gib']} GiB" if row["promised_gib"] else ""]
    promise += [f"<= {row['promised_seconds']} s" if row["promised_seconds"] else ""]
    print(
        f"{row['case']:28} {row['regions']:9,} {row['vertices']:9,} {row['seconds']:9.4f} {row['floor']:8.4f} "
        f"{row['ratio']:6.2f} {row['check']:6.1%} {row['peak_gib']:6.2f}  {' '.join(promise)}",
        flush=True,
    )


def print_slope(rows: list[dict[str, object]]) -> None:
    scaling = [(float(r["regions"]), float(r["seconds"])) for r in rows if r["case"] in SCALING]  # type: ignore[arg-type]
    if len(scaling) > 1:
        x, y = ([math.log(pair[i]) for pair in scaling] for i in range(2))
        mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
        slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)
        print(f"time grows as regions ** {slope:.3f} (promise: at most 1.1)")


def run_case(case: Case, device: str) -> dict[str, object]:
    """The numbers of one case; on a CPU from a process of its own."""
    if device != "cpu":
        row = measure(case, device)
        gc.collect()
        torch.cuda.empty_cache()
        return row
    command = [sys.executable, __file__, "--one", case.name, "--device", device]
    command += ["--threads", str(torch.get_num_threads())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{case.name} failed:\n{done.stderr}")
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def case_of(name: str) -> Case:
    """The case of this name, or the first whose name holds it."""
    for case in sorted(CASES, key=lambda case: case.name != name):
        if name in case.name:
            return case
    raise SystemExit(f"There is no case {name!r}; the cases are {', '.join(case.name for case in CASES)}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="WORD")
    parser.add_argument("--quick", action="store_true", help="leave out the scaling series")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--profile", metavar="CASE", help="only profile one case")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.profile is not None:
        print_profile(case_of(args.profile), args.device)
        return
    if args.one is not None:
        print(json.dumps(measure(case_of(args.one), args.device)))
        return
    wanted = [case for case in CASES if not args.cases or any(word in case.name for word in args.cases)]
    if args.quick:
        wanted = [case for case in wanted if not case.long]
    rows: list[dict[str, object]] = []
    name = f"exact-{args.device}.json"
    RESULTS.mkdir(exist_ok=True)
    titles = ("regions", 9), ("vertices", 9), ("seconds", 9), ("floor", 8), ("ratio", 6), ("check", 6), ("GiB", 6)
    print(f"{'case':28} " + " ".join(f"{title:>{width}}" for title, width in titles) + "  promise")
    for case in wanted:
        rows.append(run_case(case, args.device))
        print_row(rows[-1])
        (RESULTS / name).write_text(json.dumps(rows, indent=1))
    print_slope(rows)


if __name__ == "__main__":
    main()
