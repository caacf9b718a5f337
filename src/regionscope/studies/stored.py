"""Networks and data of stored runs, for what is computed after training."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.lab.data import DataSplit
from regionscope.lab.store import RunFolder, Stored


def stored_steps(run: RunFolder) -> tuple[int, ...]:
    """The steps with stored weights, at least one."""
    return tuple(stored.step for stored in _checkpoints(run))


def nearest(run: RunFolder, step: int) -> int:
    """The stored step that is nearest to ``step``."""
    return min(stored_steps(run), key=lambda other: abs(other - step))


def model_at(run: RunFolder, step: int) -> nn.Module:
    """The network at a stored step."""
    for stored in run.checkpoints():
        if stored.step == step:
            return run.model_at(stored)
    raise InputError(f"No checkpoint of step {step} found in the run {run.path}. Remove the folder and train it again.")


def last_model(run: RunFolder) -> nn.Module:
    """The network at the last stored step."""
    return run.model_at(_checkpoints(run)[-1])


def _checkpoints(run: RunFolder) -> list[Stored]:
    stored = run.checkpoints()
    if not stored:
        raise InputError(
            f"Expected stored weights in the run {run.path}, got none (archives of runs leave them out). Remove the "
            "folder and train it again with `regionscope study run`."
        )
    return stored


def training_points(run: RunFolder, root: Path | None) -> tuple[Tensor, Tensor]:
    """Inputs and labels that the run was trained on; not to be written to, since the next call gives the same ones."""
    data = _split(run.path, root).train
    return data.inputs, data.labels


@lru_cache(maxsize=1)  # many computations in a row look at one run
def _split(run: Path, root: Path | None) -> DataSplit:
    return RunFolder.open(run).split(root)


def nan_if_missing(value: float | None) -> float:
    """A number of a stored answer; JSON has no NaN or infinity, which come back as nothing."""
    return math.nan if value is None else value
