"""Figure 1: the partition on a slice through three samples over training, and where the folds go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from regionscope.complexity import FoldProfile, fold_migration
from regionscope.geometry import Simplex
from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Size
from regionscope_lab.papers.workspace import Place, Workspace, model_at, stored_steps, training_points

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
    stored = workspace.runs(runs["depth 4"])
    asked = [{"run": run.path.name, "step": step, **_SIZES[size]} for run in stored for step in stored_steps(run)]
    workspace.compute_with_place(folds, asked)
