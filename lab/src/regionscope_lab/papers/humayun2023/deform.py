"""Figures 18 and 19: how the layers of trained networks deform the neighbourhood of a point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regionscope.complexity import deformation
from regionscope.types import Estimate
from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Size
from regionscope_lab.papers.workspace import Place, Workspace, last_model, training_points

_RADII = (0.0014, 0.014, 0.14, 1.4)  # the paper calls those up to 0.014 reliable


_MEMORY = 1 << 30  # bytes; with less a GPU sees one point at a time
_HEAD = "head."  # the last linear layer; as for LC, only convolutions count


def sizes_at(place: Place, run: str, radius: float, points: int, dims: int) -> dict[str, Any]:
    """Mean eccentricity and diameter of the neighbourhood as each convolution receives it, with standard errors."""
    folder = place.run(run)
    inputs, _ = training_points(folder, place.data_root)
    model = last_model(folder).to(place.device)
    deformed = deformation(model, inputs[:points].to(place.device), dims=dims, radius=radius, memory=_MEMORY)
    return {
        name: [
            [one.value, one.stderr]
            for one in (Estimate.of(v) for layer, v in sizes.items() if not layer.startswith(_HEAD))
        ]
        for name, sizes in (("eccentricity", deformed.eccentricity), ("diameter", deformed.diameter))
    }


_SIZES: dict[Size, dict[str, int]] = {
    "smoke": {"points": 4, "dims": 5},
    "desk": {"points": 24, "dims": 20},
    "full": {"points": 1000, "dims": 25},
}


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """The deepest CNNs without batch normalisation, and the ResNets with it."""
    every = [one for mine in runs.values() for one in mine]
    deepest = max(one.network.options.get("depth", 0) for one in every)
    chosen = [
        one
        for one in every
        if one.network.options["bn"] == (one.network.name != "cnn") and one.network.options.get("depth", 0) == deepest
    ]
    asked = [{"run": run.path.name, "radius": r, **_SIZES[size]} for r in _RADII for run in workspace.runs(chosen)]
    workspace.compute_with_place(sizes_at, asked)
