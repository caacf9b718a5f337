"""Figure 14: local complexity against exact counts of linear regions over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from regionscope.complexity import local_complexity, orthonormal_frames
from regionscope.exact import linear_regions
from regionscope.geometry import Box
from regionscope.types import Estimate
from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Size
from regionscope_lab.papers.workspace import Place, Workspace, model_at, stored_steps, training_points

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
    found = local_complexity(model, around, dims=min(_DIMS, around[0].numel()), radius=radius)
    return {"exact": exact.value, "exact_error": exact.stderr, "lc": found.mean, "lc_error": found.stderr}


_SIZES: dict[Size, dict[str, Any]] = {
    "smoke": {"points": 6, "radius": 0.5},
    "desk": {"points": 60, "radius": 0.05},
    "full": {"points": 500, "radius": 0.001},
}


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Both counts at every stored step."""
    stored = workspace.runs(runs["depth 3"])
    asked = [{"run": run.path.name, "step": step, **_SIZES[size]} for run in stored for step in stored_steps(run)]
    workspace.compute_with_place(counts_at, asked)
