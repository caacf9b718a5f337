"""Figure 14: local complexity against exact counts of linear regions over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from regionscope.complexity import local_complexity, orthonormal_frames
from regionscope.exact import linear_regions
from regionscope.geometry import Box
from regionscope.types import Estimate
from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Finding, Size, Table
from regionscope_lab.papers.humayun2023 import seeds
from regionscope_lab.papers.humayun2023.seeds import double_descent
from regionscope_lab.papers.rules import by_seed, in_range, over_seeds
from regionscope_lab.papers.seed_table import Curve, Runs, SeedTable
from regionscope_lab.papers.workspace import Place, Workspace, model_at, training_points

_DIMS = 25


def counts_at(place: Place, run: str, step: int, points: int, radius: float) -> dict[str, Any]:
    """Exact linear regions on a small square around training points, and LC around the same points."""
    folder = place.run(run)
    inputs, _ = training_points(folder, place.data_root)
    chosen = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))[:points]
    around = inputs[chosen]
    plane = orthonormal_frames(tuple(around.shape[1:]), dims=2, seed=0)
    model = model_at(folder, step)
    squares = linear_regions(model, [Box(point, plane, radius) for point in around])
    exact = Estimate.of(torch.tensor([part.n_linear_regions for part in squares]))
    complexity = local_complexity(model, around, dims=min(_DIMS, around[0].numel()), radius=radius)
    return {"exact": exact.value, "exact_error": exact.stderr, "lc": complexity.mean, "lc_error": complexity.stderr}


_SIZES: dict[Size, dict[str, Any]] = {
    "smoke": {"points": 6, "radius": 0.5},
    "desk": {"points": 60, "radius": 0.05},
    "full": {"points": 500, "radius": 0.001},
}


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Both counts at every stored step."""
    workspace.compute_at_steps(counts_at, runs["depth 3"], _SIZES[size])


def figure14(table: SeedTable, runs: Runs) -> Finding:
    answers = table.answers("humayun2023.exact.counts_at")
    curves = {
        run.seed: [seeds.along(run, answers, name, f"{name}_error") for name in ("lc", "exact")]
        for run in runs["depth 3"]
    }

    def phases(curve: Curve) -> int:
        return seeds.phases_vote(double_descent(curve.steps, curve.values.tolist(), curve.errors.tolist()))

    similar = [float(np.corrcoef(lc.values, exact.values)[0, 1]) for lc, exact in curves.values()]
    rows = tuple(
        (seed, one, float(lc.values.max()), float(exact.values.max()))
        for (seed, (lc, exact)), one in zip(curves.items(), similar, strict=True)
    )
    most = [row[-1] for row in rows]
    trend = in_range(over_seeds(similar), 0.5, 1.0, said="+.2f")
    few = f"exact counts reach {min(most):.3g} to {max(most):.3g} only"
    return Finding(
        {
            "lc": by_seed([phases(lc) for lc, _ in curves.values()]),
            "exact": by_seed([phases(exact) for _, exact in curves.values()]),
            "similar": replace(trend, ours=f"correlation {trend.ours}; {few}"),
        },
        (
            Table(
                "LC and exact linear regions at 500 points, r = 0.001",
                ("seed", "correlation", "largest LC", "most regions"),
                rows,
            ),
        ),
    )
