"""Exact regions in space: seconds per cell, beside one forward pass over the vertices and beside cutting unit by unit.

On a CPU every case runs in a process of its own, so that its peak memory is its own. ``cpu`` is processor time, which
other programs on the machine disturb less than ``seconds``. Prints a table and stores the rows in
``docs/benchmarks/bench.json``; see ``table``.

python benchmarks/bench_space.py [--quick] [--device cuda] [--threads 2] [WORD ...]    # cases whose name holds it
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

import torch
from torch import nn

import regionscope as rs
from bench_exact import floor_seconds
from exact_cases import mlp
from regionscope.exact import linear, polytopes
from results import surroundings
from table import store
from timing import call_seconds


def torus(seed: int = 0) -> nn.Sequential:
    """A 3-[16]*3-1 network trained for a few seconds on the signed distance to a torus."""
    model, generator = mlp(3, 16, 16, 16, 1, seed=seed), torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(1500):
        x = 2 * torch.rand(1024, 3, generator=generator) - 1
        distance = ((x[:, :2].norm(dim=1) - 0.6) ** 2 + x[:, 2] ** 2).sqrt() - 0.25
        optimiser.zero_grad()
        (model(x)[:, 0] - distance).abs().mean().backward()
        optimiser.step()
    return model


@dataclass(frozen=True)
class Case:
    """A network on the cube of this radius, and how often to run it. ``twin``: also cut by one unit after another."""

    name: str
    build: Callable[[], nn.Module]
    radius: float = 1.0
    runs: int = 3
    twin: bool = False
    promise: float | None = None  # microseconds a cell on two cores


def wide() -> nn.Module:
    return mlp(3, 128, 128, 128, 1)


CASES = [
    Case("3-[64]*3-1", lambda: mlp(3, 64, 64, 64, 1), twin=True, promise=10),
    Case("3-[32]*4-1", lambda: mlp(3, 32, 32, 32, 32, 1), runs=9, twin=True, promise=10),
    Case("torus 3-[16]*3-1", torus, runs=9, twin=True),
]
SCALING = {f"scaling 3-[128]*3-1 r={radius}": radius for radius in (0.15, 0.3, 0.5, 0.75)}
CASES += [Case(name, wide, radius=radius, runs=1) for name, radius in SCALING.items()]


def least(run: Callable[[], object], device: str, runs: int) -> tuple[float, float]:
    """The least time of several runs: on the clock, and of the processor."""
    found = []
    for _ in range(runs):
        gc.collect()
        found.append(call_seconds(run, device))
    return min((seconds for seconds, _ in found), default=torch.inf), min((cpu for _, cpu in found), default=torch.inf)


def measure(case: Case, device: str) -> dict[str, object]:
    """Run one case in this process."""
    model = case.build().to(device)
    box = rs.Box(torch.zeros(3), torch.eye(3), case.radius)
    if device == "cuda":
        rs.linear_regions(model, rs.Box(torch.zeros(3), torch.eye(3), case.radius / 8))
        torch.cuda.reset_peak_memory_stats()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: list[rs.Partition] = []
    first = least(lambda: found.append(rs.linear_regions(model, box)), device, 1)
    (part,) = found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if device == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**30
    cells, off = len(part), abs(float(part.sizes.sum()) / box.size - 1)
    inputs = box.embed(part.vertices).to(device)
    by_layer = list(part.by_layer.values())
    del part
    found.clear()
    times = zip(first, least(lambda: rs.linear_regions(model, box), device, case.runs - 1), strict=True)
    seconds, cpu = (min(pair) for pair in times)
    row: dict[str, object] = {
        "case": case.name, "radius": case.radius, "cells": cells, "by_layer": by_layer, "vertices": len(inputs),
        "seconds": seconds, "cpu": cpu, "us_per_cell": 1e6 * seconds / cells, "cpu_us_per_cell": 1e6 * cpu / cells,
        "volume_off": off, "peak_gib": peak, "import_gib": before / 2**20, "promised_us": case.promise,
        "dtype": "float64", **surroundings(device),
    }  # fmt: skip
    row["floor"], row["floor_batch"] = floor_seconds(model.double(), inputs, device)
    row["ratio"] = seconds / float(row["floor"])
    if case.twin:
        with mock.patch.object(linear, "partition_space", polytopes.partition_cells):
            row["twin_seconds"], row["twin_cpu"] = least(lambda: rs.linear_regions(model, box), device, 2)
    return row


def print_row(row: dict[str, object]) -> None:
    twin = f"{row['twin_seconds']:8.2f} {row['twin_cpu']:8.2f}" if "twin_cpu" in row else " " * 17
    print(
        f"{row['case']:28} {row['cells']:9,} {row['seconds']:8.3f} {row['cpu']:8.3f} {row['us_per_cell']:7.1f} "
        f"{row['cpu_us_per_cell']:7.1f} {row['floor']:7.4f} {row['ratio']:7.1f} {row['peak_gib']:6.2f} {twin}",
        flush=True,
    )


def print_slope(rows: list[dict[str, object]]) -> None:
    """How the time grows with the number of cells: the slope of a straight line through the logarithms."""
    for key in ("seconds", "cpu"):
        chosen = [row for row in rows if row["case"] in SCALING]
        if len(chosen) > 1:
            x, y = (torch.tensor([float(row[k]) for row in chosen]).log() for k in ("cells", key))
            slope = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
            print(f"{key} grow as cells ** {slope:.3f} (promise: at most 1.1)")
            for row in chosen:
                row[f"slope_{key}"] = slope


def run_case(case: Case, device: str, threads: int) -> dict[str, object]:
    """The numbers of one case; on a CPU from a process of its own."""
    if device == "cuda":
        row = measure(case, device)
        gc.collect()
        torch.cuda.empty_cache()
        return row
    command = [sys.executable, __file__, "--one", case.name, "--device", device, "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{case.name} failed:\n{done.stderr}")
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="WORD")
    parser.add_argument("--quick", action="store_true", help="leave out the scaling series")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.one is not None:
        print(json.dumps(measure(next(case for case in CASES if case.name == args.one), args.device)))
        return
    wanted = [case for case in CASES if not args.cases or any(word in case.name for word in args.cases)]
    wanted = [case for case in wanted if not (args.quick and case.name in SCALING)]
    titles = ("cells", 9), ("seconds", 8), ("cpu", 8), ("us/cell", 7), ("cpu us", 7), ("floor", 7), ("ratio", 7)
    titles += ("GiB", 6), ("unit by", 8), ("unit cpu", 8)
    print(f"{'case':28} " + " ".join(f"{title:>{width}}" for title, width in titles))
    rows: list[dict[str, object]] = []
    for case in wanted:
        rows.append(run_case(case, args.device, args.threads))
        print_row(rows[-1])
    print_slope(rows)
    store(f"space-{args.device}", rows)


if __name__ == "__main__":
    main()
