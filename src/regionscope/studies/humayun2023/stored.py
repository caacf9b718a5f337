"""Networks and data of stored runs, for what is computed after training."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.lab.store import RunFolder, Stored
from regionscope.studies.workspace import Workspace

__all__ = ["last_model", "model_at", "nearest", "number", "place", "read_number", "training_points"]


def place(workspace: Workspace, run: RunFolder) -> dict[str, Any]:
    """The settings from which a computation finds a run and its data again."""
    return {"run": str(run.path), "data_root": None if workspace.data_root is None else str(workspace.data_root)}


def nearest(run: RunFolder, step: int) -> int:
    """The stored step that is nearest to ``step``."""
    steps = [stored.step for stored in run.checkpoints()]
    if not steps:
        raise InputError(f"The run {run.path} has no checkpoints; remove the folder and train it again.")
    return min(steps, key=lambda other: abs(other - step))


def model_at(run: RunFolder, step: int) -> nn.Module:
    """The network at a stored step."""
    for stored in run.checkpoints():
        if stored.step == step:
            return run.model_at(stored)
    raise InputError(f"The run {run.path} has no checkpoint of step {step}; remove the folder and train it again.")


def last_model(run: RunFolder) -> nn.Module:
    """The network at the last stored step."""
    stored: list[Stored] = run.checkpoints()
    if not stored:
        raise InputError(f"The run {run.path} has no checkpoints; remove the folder and train it again.")
    return run.model_at(stored[-1])


def training_points(run: RunFolder, data_root: str | None) -> tuple[Tensor, Tensor]:
    """Inputs and labels that the run was trained on."""
    data = run.split(None if data_root is None else Path(data_root)).train
    return data.inputs, data.labels


def number(value: float) -> float | None:
    """For JSON, which has no NaN."""
    return value if math.isfinite(value) else None


def read_number(value: float | None) -> float:
    """The other way."""
    return math.nan if value is None else value
