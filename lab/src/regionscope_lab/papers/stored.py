"""Networks and data of stored runs, for what is computed after training."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

from torch import Tensor, nn

from regionscope.monitor import parse_schedule
from regionscope_lab.data import DataSplit
from regionscope_lab.store import RunFolder


def stored_steps(run: RunFolder) -> tuple[int, ...]:
    """The steps with stored weights, at least one; of an ended run of an archive, which has none, those that had."""
    result = run.result()
    if not run.checkpoints() and result is not None and result["status"] == "finished":
        schedule = parse_schedule(run.experiment.training.checkpoints)
        return schedule.steps(result["steps"], per_epoch=result["steps"] // result["epochs"])
    run.checkpoint()  # raises where there is none
    return tuple(stored.step for stored in run.checkpoints())


def nearest(run: RunFolder, step: int) -> int:
    """The one of ``stored_steps`` that is nearest to ``step``."""
    return min(stored_steps(run), key=lambda other: abs(other - step))


def model_at(run: RunFolder, step: int) -> nn.Module:
    """The network at a stored step."""
    return run.model_at(run.checkpoint(step))


def last_model(run: RunFolder) -> nn.Module:
    """The network at the last stored step."""
    return run.model_at(run.checkpoint())


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
