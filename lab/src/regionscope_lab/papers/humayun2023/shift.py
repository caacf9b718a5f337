"""Figure 17 and the zero-bias check of appendix C: random networks, no training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import torch
from torch import nn

from regionscope.complexity import local_complexity
from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Finding, Size, Table
from regionscope_lab.papers.rules import by_seed, every_case, order_vote
from regionscope_lab.papers.seed_table import Runs, SeedTable
from regionscope_lab.papers.workspace import Workspace

_INPUTS = 784
DIMS = (2, 10, 25, 50, 100, 200)
RADII = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
SHIFTS = tuple(range(11))
_FIXED_RADIUS, _FIXED_DIMS = 5.0, 20  # left and right part of the figure
RIGHT_RADII = (0.5, 1.0, 2.0, 5.0, 10.0)

_DEPTH, _WIDTH = 18, 100


def zero_bias(depth: int, width: int, seed: int) -> dict[str, Any]:
    """Share of units that fold at the origin of a linear network without bias, by dimension and radius."""
    model = _stack(depth, width, bias=False, activation=None, seed=seed)
    origin = torch.zeros(1, _INPUTS)
    shares = [
        [
            int(local_complexity(model, origin, dims=dims, radius=radius, linear_outputs=True).total) / (depth * width)
            for radius in RADII
        ]
        for dims in DIMS
    ]
    return {"shares": shares}


def shifted(seed: int) -> dict[str, Any]:
    """LC at [s]^d for growing s, by the number of directions and by radius."""
    model = _stack(_DEPTH, _WIDTH, bias=True, activation=nn.LeakyReLU(0.01), seed=seed)
    centres = torch.tensor(SHIFTS, dtype=torch.float32)[:, None].expand(-1, _INPUTS)
    by_dims = [local_complexity(model, centres, dims=dims, radius=_FIXED_RADIUS).total.tolist() for dims in DIMS]
    by_radius = [
        local_complexity(model, centres, dims=_FIXED_DIMS, radius=radius).total.tolist() for radius in RIGHT_RADII
    ]
    return {"by_dims": by_dims, "by_radius": by_radius}


def _stack(depth: int, width: int, *, bias: bool, activation: nn.Module | None, seed: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for i in range(depth):
            layers.append(nn.Linear(_INPUTS if i == 0 else width, width, bias=bias))
            layers += [activation] if activation is not None else []
    return nn.Sequential(*layers)


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """One linear network, and random networks of several seeds."""
    depth, width, seeds = (5, 40, 2) if size == "smoke" else (50, 400, 5)
    workspace.compute(zero_bias, [{"depth": depth, "width": width, "seed": 0}])
    workspace.compute(shifted, [{"seed": seed} for seed in range(seeds)])


def figure17(table: SeedTable, runs: Runs) -> Finding:
    shares = table.answers("humayun2023.shift.zero_bias")[0]["shares"]
    networks = sorted(table.answers("humayun2023.shift.shifted"), key=lambda one: int(one["seed"]))
    curves = [[*one["by_dims"], *one["by_radius"]] for one in networks]
    gained = [
        [(fmean(b) - fmean(a)) / (q - p) for (p, a), (q, b) in pairwise(zip(DIMS, one["by_dims"], strict=True))]
        for one in networks
    ]
    lost = [[(course[0] - course[-1]) / course[0] for course in one["by_radius"]] for one in networks]
    missed = sum(share < 1 for row in shares for share in row)
    falls = [1 if all(course[-1] < course[0] for course in mine) else -1 for mine in curves]
    rows: tuple[tuple[str | float, ...], ...] = tuple(
        (name, *(fmean(values) for values in zip(*(one[part][i] for one in networks), strict=True)))
        for part, label, levels in (("by_dims", "P", DIMS), ("by_radius", "r", RIGHT_RADII))
        for i, name in enumerate(f"{label} = {level:g}" for level in levels)
    )
    return Finding(
        {
            "zero-bias": every_case(missed, len(DIMS) * len(RADII)),
            "falls": by_seed(falls),
            "saturates": by_seed([-order_vote(one) for one in gained]),
            "radius": by_seed([order_vote([fmean(course) for course in one["by_radius"]]) for one in networks]),
            "variation": by_seed([-order_vote(one) for one in lost]),
        },
        (
            Table(
                "Mean LC over seeds by the shift of the centre",
                ("", *(f"shift {s}" for s in SHIFTS)),
                rows,
                detail=True,
            ),
        ),
    )
