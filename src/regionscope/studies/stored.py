"""Networks and data of stored runs, for what is computed after training."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.lab.data import DataSplit
from regionscope.lab.store import RunFolder, Stored


def nearest(run: RunFolder, step: int) -> int:
    """The stored step that is nearest to ``step``."""
    steps = [stored.step for stored in run.checkpoints()]
    if not steps:
        raise InputError(f"No checkpoints found in the run {run.path}. Remove the folder and train it again.")
    return min(steps, key=lambda other: abs(other - step))


def model_at(run: RunFolder, step: int) -> nn.Module:
    """The network at a stored step."""
    for stored in run.checkpoints():
        if stored.step == step:
            return run.model_at(stored)
    raise InputError(f"No checkpoint of step {step} found in the run {run.path}. Remove the folder and train it again.")


def last_model(run: RunFolder) -> nn.Module:
    """The network at the last stored step."""
    stored: list[Stored] = run.checkpoints()
    if not stored:
        raise InputError(f"No checkpoints found in the run {run.path}. Remove the folder and train it again.")
    return run.model_at(stored[-1])


def training_points(run: RunFolder, root: Path | None) -> tuple[Tensor, Tensor]:
    """Inputs and labels that the run was trained on; not to be written to, since the next call gives the same ones."""
    data = _split(run.path, root).train
    return data.inputs, data.labels


@lru_cache(maxsize=1)  # many computations in a row look at one run
def _split(run: Path, root: Path | None) -> DataSplit:
    return RunFolder.open(run).split(root)


def read_number(value: float | None) -> float:
    """A number of a stored answer; JSON has no NaN or infinity, which come back as nothing."""
    return math.nan if value is None else value
