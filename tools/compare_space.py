"""Random networks on cubes and tetrahedra: cells cut by all units of a layer at once against the slow ways.

A partition of at most ``--twin`` cells is compared with the slow reference, which cuts one cell at a time; a larger one
with the engine that cuts by one unit after another. Counts of every layer, volumes and ``Partition.check`` must agree.

PYTHONPATH=tests python tools/compare_space.py [--networks 500] [--maxima 150] [--twin 20]
It writes docs/benchmarks/space-random.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch import nn

import regionscope as rs
from regionscope.exact import linear, space
from regionscope.exact.polytopes import CellState, partition_cells
from regionscope.network import Program, trace
from twins.reference import reference_partition

REPORT = Path(__file__).parent.parent / "docs" / "benchmarks" / "space-random.json"
KINDS = ("plain", "no bias", "whole numbers", "halves", "ReLU6", "Hardtanh", "repeated", "no weight")
MAXIMA = ("maxima", "max-pool", "maxima of seven")
CUBE = rs.Box([0.0] * 3, torch.eye(3), 1.0)
TETRAHEDRON = rs.Simplex(torch.cat([torch.zeros(1, 3), torch.eye(3)]) * 3 - 1)


def network(kind: str, seed: int, *, depth: int = 2, width: int = 5) -> nn.Sequential:
    """A random network; most kinds have planes that meet in lines, points, faces or each other.

    "maxima" of three neighbours, or seven, are in place of ReLUs, those of "max-pool" behind them.
    """
    generator = torch.Generator().manual_seed(seed)
    parts: list[nn.Module] = []
    pool, wide = ([nn.Unflatten(1, (1, width)), nn.MaxPool1d(k, 1, k // 2), nn.Flatten()] for k in (3, 7))
    folds: dict[str, list[nn.Module]] = {
        "ReLU6": [nn.ReLU6()], "Hardtanh": [nn.Hardtanh()], "maxima": pool, "max-pool": [nn.ReLU(), *pool],
        "maxima of seven": wide,
    }  # fmt: skip
    for fan_in, fan_out in pairwise([3, *[width] * depth, 2]):
        weight = torch.randn(fan_out, fan_in, generator=generator, dtype=torch.float64)
        bias = torch.randn(fan_out, generator=generator, dtype=torch.float64) / 2
        if kind == "no bias":
            bias *= 0
        elif kind in ("whole numbers", "halves"):
            weight, bias = (2 * weight).round().clamp(-2, 2), bias.round() / (1 + (kind == "halves"))
        elif kind == "repeated":
            weight[1], bias[1], weight[-1], bias[-1] = weight[0], bias[0], -weight[0], -bias[0]
        elif kind == "no weight":
            weight[0], bias[1] = 0, 0
        layer = nn.Linear(fan_in, fan_out).double()
        layer.load_state_dict({"weight": weight, "bias": bias})
        parts += [*(folds.get(kind, [nn.ReLU()]) if parts else []), layer]
    return nn.Sequential(*parts)


def unit_by_unit(program: Program, slice: rs.Slice) -> rs.Partition:
    """The partition by the engine that cuts by one unit after another."""
    with mock.patch.object(linear, "partition_space", partition_cells):
        return rs.linear_regions(program, slice)


def compare(seed: int, twin: int, kinds: Sequence[str] = KINDS) -> dict[str, object]:
    """One network both ways."""
    kind, random = kinds[seed % len(kinds)], np.random.default_rng(seed)
    depth, width = int(random.integers(1, 4)), int(random.integers(3, 8))
    program = trace(network(kind, seed, depth=depth, width=width), (3,))
    slice: rs.Slice = CUBE if seed % 3 else TETRAHEDRON
    with mock.patch.object(space, "CellState", wraps=CellState) as given_up:
        part = rs.linear_regions(program, slice)
    part.check()
    if len(part) <= twin:
        slow = reference_partition(program, slice)
        layers, sizes = dict(slow.by_layer), np.asarray(slow.sizes)
    else:
        other = unit_by_unit(program, slice)
        layers, sizes = other.by_layer, other.sizes.numpy()
    same = part.by_layer == layers and np.allclose(np.sort(part.sizes), np.sort(sizes), rtol=1e-9, atol=1e-12)
    off = abs(float(part.sizes.sum()) / slice.size - 1)
    against = "reference" if len(part) <= twin else "unit by unit"
    return {
        "seed": seed, "kind": kind, "depth": depth, "width": width, "cells": len(part), "against": against,
        "same": bool(same) and off < 1e-9, "volume_off": off, "given_up": given_up.call_count,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=500, help="number of networks")
    parser.add_argument("--maxima", type=int, default=150, help="number of networks with maxima")
    parser.add_argument("--first", type=int, default=0, help="seed of the first network")
    parser.add_argument("--twin", type=int, default=20, help="largest partition that the slow reference repeats")
    args = parser.parse_args()
    start, rows = time.perf_counter(), []
    wanted = [(args.first + i, KINDS) for i in range(args.networks)]
    for seed, kinds in [*wanted, *((args.first + i, MAXIMA) for i in range(args.maxima))]:
        rows.append(compare(seed, args.twin, kinds))
        if len(rows) % 50 == 0:
            print(f"{len(rows)} networks, {time.perf_counter() - start:.0f} s", flush=True)
        if not rows[-1]["same"]:
            print("different:", rows[-1], flush=True)
    report = {
        "networks": len(rows),
        "different": [row for row in rows if not row["same"]],
        "kinds": dict(Counter(str(row["kind"]) for row in rows)),
        "against": dict(Counter(str(row["against"]) for row in rows)),
        "cells": sum(int(str(row["cells"])) for row in rows),
        "largest": max(int(str(row["cells"])) for row in rows),
        "largest_volume_off": max(float(str(row["volume_off"])) for row in rows),
        "layers_left_to_polytopes": sum(int(str(row["given_up"])) for row in rows),
        "seconds": round(time.perf_counter() - start),
    }
    print(json.dumps(report, indent=1))
    REPORT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
