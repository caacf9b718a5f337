"""Exact regions against their floor: one forward pass over the final vertices in float64, same threads, inputs
embedded. On a GPU it is that of the traced program, whose float64 convolutions are faster than those of cuDNN.

On a CPU every case runs in a process of its own, so that its peak memory is its own. The rows are stored in
``docs/benchmarks/bench.json``; see ``table``.

*Streamed* cases count 0.17 to 10.8 million regions of a small network behind k folds of the square onto itself. Their
number is known: 4^k times that of the network alone. Their floor is estimated from a forward pass over some vertices.

The segment of ResNet18 (on a GPU only) is timed with each way to compute convolutions: cuDNN, products of patches, and
tiles (Winograd), which is the default and counts for the ratio.

python benchmarks/bench_exact.py [--quick] [--device cuda] [WORD ...]    # cases whose name holds it
python benchmarks/bench_exact.py --profile CASE [--device cuda]          # where its time goes
python benchmarks/bench_exact.py --profile CASE [--device cuda] --first  # that of the first call in a process
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile

import regionscope as rs
from exact_cases import CASES, SCALING, STREAMED, Case, folded
from regionscope.exact import linear
from regionscope.exact.check import check_sample
from regionscope.network import full_precision
from regionscope.network.rules import layers, winograd
from results import surroundings
from table import Row, print_table, store
from timing import call_seconds, timed

LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx")
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


def best_time(run: Callable[[], object], device: str, least: int = 3, seconds: float = 6.0) -> float:
    """The fastest of at least ``least`` runs, repeated for about ``seconds``."""
    times: list[float] = []
    while len(times) < least or (sum(times) < seconds and len(times) < 50):
        times.append(call_seconds(run, device).clock)
    return min(times)


def floor_seconds(model: nn.Module, inputs: torch.Tensor, device: str) -> tuple[float, int]:
    """One forward pass over the inputs, in the batch size that suits the machine best (found on a sample)."""
    program = rs.trace(model, tuple(inputs.shape[1:]))
    run = program if device == "cuda" else model

    def forward(rows: torch.Tensor, batch: int) -> None:
        with torch.no_grad(), full_precision():
            for part in rows.split(batch):
                run(part)

    tried = (256, 2048, 16384, 131072) if device == "cuda" else (16, 64, 256, 1024, 2048)
    sample = inputs[: tried[-1]]
    most = min(len(inputs), (16 << 30) // program.row_bytes)  # rows whose values fit into 16 GiB
    batches = [batch for batch in tried if batch == tried[0] or batch <= most]
    if device == "cuda" and most == len(inputs) < tried[-1]:
        batches.append(len(inputs))  # all at once
    batch = min(batches, key=lambda batch: best_time(lambda: forward(sample, batch), device, least=2, seconds=0.5))
    return best_time(lambda: forward(inputs, batch), device, least=1, seconds=2.0), batch


def check_seconds(model: nn.Module, piece: rs.Slice | Sequence[rs.Slice], device: str) -> float:
    """Time that a call spends on comparing a sample of its maps with the network; the least of three."""
    check, times = check_sample, []

    def watched(*args: Any) -> None:
        times.append(best_time(lambda: check(*args), device, least=1, seconds=0))

    with mock.patch.object(linear, "check_sample", watched):
        for _ in range(3):
            rs.linear_regions(model, piece)
    return min(times)


def measure_stream(case: Case, device: str) -> Row:
    """Run one streamed case in this process."""
    network, piece = case.build()
    assert isinstance(piece, rs.Slice)
    model, vertices, sample = folded(network, case.folds).to(device), 0, torch.empty(0)
    expected = 4**case.folds * rs.linear_regions(network, piece).n_activation_regions
    histogram = rs.exact.SizeHistogram([10.0**k for k in range(-16, 1)])

    def look(regions: rs.exact.FinishedRegions) -> None:
        nonlocal vertices, sample
        histogram(regions)
        vertices, sample = vertices + len(regions.vertices), regions.vertices

    reset_peak(device)
    found, took = timed(lambda: rs.exact.stream_regions(model, piece, consume=look))
    peak = peak_gib(device)
    if found.n_activation_regions != expected or int(histogram.counts.sum()) != expected:
        raise SystemExit(f"{case.name}: {found.n_activation_regions:,} regions, and {expected:,} are there")
    floor, batch = floor_seconds(model.double().eval(), piece.embed(sample), device)
    floor *= vertices / len(sample)
    return {
        "case": case.name, "regions": expected, "vertices": vertices, "seconds": found.stats.seconds,
        "cpu": took.processor, "floor": floor, "floor_batch": batch, "ratio": found.stats.seconds / floor,
        "peak_gib": peak,
        "parts": found.n_parts, "sizes": histogram.counts.tolist(), **about(device),
    }  # fmt: skip


def measure_compared(case: Case, device: str) -> Row:
    """Run one case in this process, with each way to compute convolutions."""
    model, piece = case.build()
    assert isinstance(piece, rs.Segment)
    model.to(device)
    no_tiles, no_patches = (winograd, "_FEW_CHANNELS", math.inf), (layers, "conv2d_by_product", F.conv2d)
    parts, seconds = list[rs.Partition](), dict[str, float]()
    for name, changes in {"cudnn": (no_tiles, no_patches), "patches": (no_tiles,), "winograd": ()}.items():
        with ExitStack() as stack:
            for change in changes:
                stack.enter_context(mock.patch.object(*change))
            rs.linear_regions(model, piece.extended(0.0, 0.1))  # loads and compiles kernels
            reset_peak(device)
            seconds[name] = best_time(lambda: parts.append(rs.linear_regions(model, piece)), device, 1, 0)
    if len({(part.n_activation_regions, part.n_snapped) for part in parts}) > 1:
        raise SystemExit(f"{case.name}: the counts depend on how convolutions are computed")
    print(f"{case.name}: " + ", ".join(f"{name} {time:.4g} s" for name, time in seconds.items()))
    peak = peak_gib(device)
    inputs = piece.embed(parts[-1].vertices).to(device)
    floor, batch = floor_seconds(model.double(), inputs, device)
    return {
        "case": case.name, "regions": len(parts[-1]), "vertices": len(inputs), **seconds,
        "seconds": seconds["winograd"], "floor": floor, "floor_batch": batch, "ratio": seconds["winograd"] / floor,
        "peak_gib": peak, "snapped": parts[-1].n_snapped, **about(device),
    }  # fmt: skip


def measure_trace(case: Case, device: str) -> Row:
    """Read the network of one case in this process. The floor is a forward pass of the ends of its segment."""
    model, piece = case.build()
    assert isinstance(piece, rs.Segment)
    model.to(device)
    reset_peak(device)
    seconds = best_time(lambda: rs.trace(model, piece.input_shape), device)
    peak = peak_gib(device)
    floor, batch = floor_seconds(model.double(), piece.embed(piece.corners).to(device), device)
    return {
        "case": case.name, "seconds": seconds, "floor": floor, "floor_batch": batch, "ratio": seconds / floor,
        "peak_gib": peak, "promised_ratio": case.ratio, **about(device),
    }  # fmt: skip


def peak_gib(device: str = "cpu") -> float:
    """The largest memory of this process so far; on a GPU, of its tensors since ``reset_peak``."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def reset_peak(device: str) -> None:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()


def about(device: str) -> Row:
    """What a row says about the machine."""
    return {**surroundings(device), "dtype": "float64"}


def measure(case: Case, device: str) -> Row:
    """Run one case in this process."""
    if case.folds or case.compared or case.trace:
        special = measure_trace if case.trace else measure_compared if case.compared else measure_stream
        return special(case, device)
    model, piece = case.build()
    model.to(device)
    before = peak_gib()
    reset_peak(device)
    reading = rs.trace(model, (piece[0] if isinstance(piece, Sequence) else piece).input_shape) if case.read else model
    found = rs.linear_regions(reading, piece)
    peak = peak_gib(device)
    seconds = best_time(
        lambda: rs.linear_regions(reading, piece),
        device,
        least=1 if case.long else 3,
        seconds=0 if case.long else 6,
    )
    check = check_seconds(model, piece, device) / seconds
    parts = found if isinstance(found, list) else [found]
    n_linear, merging = timed(lambda: sum(part.n_linear_regions for part in parts))
    model.double().eval()
    inputs = torch.cat([part.slice.embed(part.vertices) for part in parts]).to(device)
    floor, batch = floor_seconds(model, inputs, device)
    return {
        "case": case.name,
        "regions": sum(part.n_activation_regions for part in parts),
        "linear": n_linear,
        "vertices": len(inputs),
        "seconds": seconds,
        "merging": merging.clock,
        "check": check,
        "floor": floor,
        "floor_batch": batch,
        "ratio": seconds / floor,
        "peak_gib": peak,
        "import_gib": before,
        "promised_ratio": case.ratio,
        "promised_gib": case.gib,
        "promised_seconds": case.seconds,
        **about(device),
    }


def print_profile(case: Case, device: str, *, first: bool) -> None:
    """Where the time of one run goes: kernels, how often they are launched and waited for, operations on the CPU.

    first: of the first run of this process. The time without the profiler is that of later runs.
    """
    model, piece = case.build()
    model.to(device)

    def best_of(least: int) -> float:
        return best_time(lambda: rs.linear_regions(model, piece), device, least=least, seconds=0)

    if not first:
        rs.linear_regions(model, piece)
    kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
    with profile(activities=kinds) as seen:
        watched = best_of(1)
    plain = best_of(2)
    found = seen.key_averages()
    print(f"{case.name}: {plain:.4f} s, {watched:.4f} s under the profiler")
    if device == "cuda":
        busy = sum(each.self_device_time_total for each in found if each.device_type.name == "CUDA") / 1e6
        count = {name: sum(each.count for each in found if each.key == name) for name in LAUNCHES + WAITS}
        copies = sum(each.count for each in found if each.key.startswith("cudaMemcpy"))
        print(f"kernels run for {busy:.4f} s, which is {busy / plain:.0%} of the time without the profiler")
        print(
            f"{sum(count[name] for name in LAUNCHES):,} kernel launches, {copies:,} copies, "
            f"{sum(count[name] for name in WAITS):,} waits for the device"
        )
        print(found.table(sort_by="self_device_time_total", row_limit=25, max_name_column_width=60))
    print(found.table(sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=60))


def print_slope(rows: Sequence[Row]) -> None:
    for series, promise in ((SCALING, 1.1), (STREAMED, 1.05)):
        for key in ("seconds", "cpu"):
            chosen = [row for row in rows if row["case"] in series and key in row]
            if len(chosen) > 1:
                regions, times = (np.log([row[name] for row in chosen]) for name in ("regions", key))
                slope = np.polyfit(regions, times, 1)[0]
                print(f"{key} grow as regions ** {slope:.3f} (promise: at most {promise})")


def run_case(case: Case, device: str) -> Row:
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
    found: Row = json.loads(done.stdout.splitlines()[-1])
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
    parser.add_argument("--first", action="store_true", help="profile the first call of the process")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.profile is not None:
        print_profile(case_of(args.profile), args.device, first=args.first)
        return
    if args.one is not None:
        print(json.dumps(measure(case_of(args.one), args.device)))
        return
    wanted = [case for case in CASES if not args.cases or any(word in case.name for word in args.cases)]
    wanted = [case for case in wanted if not ((case.long and args.quick) or (case.compared and args.device == "cpu"))]
    if not wanted:
        parser.error(f"expected words of names of cases for {args.device}, got {args.cases}")
    rows: list[Row] = []
    for case in wanted:
        rows += store(f"exact-{args.device}", [run_case(case, args.device)])
        print_table(rows[-1:], head=len(rows) == 1)
    print_slope(rows)


if __name__ == "__main__":
    main()
