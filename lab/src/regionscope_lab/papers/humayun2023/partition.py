"""Figure 1: the partition on a slice through three samples over training, and where the folds go."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch

from regionscope.geometry import Simplex
from regionscope_lab.config import Experiment
from regionscope_lab.migration import FoldProfile, fold_migration
from regionscope_lab.papers.declaration import Finding, Size, Table
from regionscope_lab.papers.humayun2023 import seeds
from regionscope_lab.papers.humayun2023.seeds import sign
from regionscope_lab.papers.rules import by_seed, in_range, over_seeds
from regionscope_lab.papers.seed_table import Curve, Runs, SeedTable
from regionscope_lab.papers.workspace import Place, Workspace, model_at, training_points

_MOST_REGIONS = 500_000


def folds(place: Place, run: str, step: int, slices: int, resolution: int) -> dict[str, Any]:
    """Where the folds are at a stored step, on triangles between training points."""
    folder = place.run(run)
    inputs, _ = training_points(folder, place.data_root)
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    triangles = [Simplex(inputs[order[3 * i : 3 * i + 3]]) for i in range(slices)]
    found = fold_migration(model_at(folder, step), triangles, inputs, resolution=resolution, max_regions=_MOST_REGIONS)
    return {"to_data": _profile(found.to_data), "to_boundary": _profile(found.to_boundary)}


def _profile(profile: FoldProfile) -> dict[str, Any]:
    return {
        "near": profile.near,
        "near_error": profile.near_stderr,
        "ratio": profile.ratio,
        "ratio_error": profile.stderr,
        "edges": profile.edges.tolist(),
        "density": profile.density.tolist(),
    }


_SIZES: dict[Size, dict[str, int]] = {
    "smoke": {"slices": 2, "resolution": 24},
    "desk": {"slices": 4, "resolution": 64},
    "full": {"slices": 20, "resolution": 128},
}


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """The folds at every stored step."""
    workspace.compute_at_steps(folds, runs["depth 4"], _SIZES[size])


def figure1(table: SeedTable, runs: Runs) -> Finding:
    mine = runs["depth 4"]
    every = table.answers("humayun2023.partition.folds")
    flat = [
        {
            **one,
            "close": one["to_data"]["density"][0],
            "close_error": math.nan,
            **one["to_data"],
            "boundary": one["to_boundary"]["ratio"],
            "boundary_error": one["to_boundary"]["ratio_error"],
        }
        for one in every
    ]
    density, relative, border = (
        [seeds.along(run, flat, name, f"{name}_error") for run in mine] for name in ("close", "near", "boundary")
    )
    turns = [(course.steps[course.valley or 0], course.steps[course.peak or 0]) for course in map(seeds.shape, mine)]

    def change(curves: Sequence[Curve], *, late: bool) -> list[float]:
        """From valley to peak of the seed's own LC, or from the peak to the end."""
        pairs = [
            (top, curve.steps[-1]) if late else (valley, top)
            for curve, (valley, top) in zip(curves, turns, strict=True)
        ]
        return [
            float(one.values[one.place(b)] - one.values[one.place(a)])
            for one, (a, b) in zip(curves, pairs, strict=True)
        ]

    ends = [float(one.values[-1]) for one in border]
    rows = [
        (run.seed, step, *(float(curve.values[curve.place(step)]) for curve in (dense, rel, edge)))
        for run, dense, rel, edge, turn in zip(mine, density, relative, border, turns, strict=True)
        for step in (*turn, dense.steps[-1])
    ]
    columns = (
        "seed",
        "step",
        "folds next to data, length per area",
        "over the mean density",
        "distance to boundary / uniform",
    )
    return Finding(
        {
            "phases": by_seed(
                [seeds.three_phases(run) for run in mine], f"LC {fmean(map(seeds.peak, mine)):.3g} at the peak"
            ),
            "gather": by_seed(
                [sign(x) for x in change(density, late=False)],
                seeds.signed(
                    "change of the length of folds per area next to training points", change(density, late=False)
                ),
            ),
            "gather-relative": by_seed(
                [sign(x) for x in change(relative, late=False)],
                seeds.signed("change of their density over the mean", change(relative, late=False)),
            ),
            "leave": by_seed(
                [-sign(x) for x in change(density, late=True)],
                seeds.signed(
                    "change of the length of folds per area next to training points", change(density, late=True)
                ),
            ),
            "boundary": by_seed(
                [-sign(x) for x in change(border, late=True)],
                seeds.signed(
                    "change of the distance from folds to the boundary (uniform points: 1)", change(border, late=True)
                ),
            ),
            "at-boundary": in_range(over_seeds(ends), 0.0, 1.0),
        },
        *seeds.shown(
            ("LC at training points, depth 4", {"r = 0.005": mine}, "lc.train"),
            more=[
                Table("Where the folds are, on 20 triangles between training points", columns, tuple(rows), detail=True)
            ],
        ),
    )
