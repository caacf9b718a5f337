"""Counts at chosen epochs, from the rows of runs with several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regionscope.errors import InputError
from regionscope.lab.store import RunFolder
from regionscope.studies.charts import Series

__all__ = ["Course", "course", "course_of"]


@dataclass(frozen=True, eq=False)
class Course:
    """One number over training: ``values`` (seeds, epochs); the first seed is the one that the paper's counts fit."""

    epochs: tuple[int, ...]
    values: NDArray[np.float64]

    @property
    def places(self) -> tuple[float, ...]:
        """The epochs, for an axis."""
        return tuple(map(float, self.epochs))

    @property
    def first_seed(self) -> tuple[float, ...]:
        return tuple(map(float, self.values[0]))

    @property
    def means(self) -> tuple[float, ...]:
        return tuple(map(float, self.values.mean(0)))

    @property
    def deviations(self) -> tuple[float, ...]:
        """Standard deviation over seeds, at each epoch."""
        n = len(self.values)
        return tuple(map(float, self.values.std(0, ddof=1))) if n > 1 else (0.0,) * len(self.epochs)

    @property
    def errors(self) -> tuple[float, ...]:
        """Standard error of the means."""
        return tuple(deviation / len(self.values) ** 0.5 for deviation in self.deviations)

    @property
    def growth_error(self) -> float:
        """Standard error of the mean change from the first epoch to the last, seed by seed."""
        change = self.values[:, -1] - self.values[:, 0]
        return float(change.std(ddof=1) / len(change) ** 0.5) if len(change) > 1 else 0.0

    def range(self, i: int) -> tuple[float, float]:
        """Smallest and largest value over the seeds, at epoch number i."""
        return float(self.values[:, i].min()), float(self.values[:, i].max())

    def series(self, label: str) -> Series:
        """Mean and standard deviation, as a curve."""
        return Series(label=label, x=self.places, y=self.means, spread=self.deviations)


def course(runs: Sequence[RunFolder], name: str, epochs: Sequence[int] | None = None) -> Course:
    """The rows ``name`` of runs that differ in their seed; at ``epochs``, or at all that they have."""
    return course_of([_by_epoch(run, name) for run in runs], name, epochs)


def course_of(found: Sequence[dict[int, float]], name: str, epochs: Sequence[int] | None = None) -> Course:
    """Values by epoch, one mapping a seed, as one table."""
    wanted = tuple(sorted(set.intersection(*map(set, found)))) if epochs is None else tuple(epochs)
    lacking = [epoch for epoch in wanted if any(epoch not in one for one in found)]
    if lacking or not wanted:
        raise InputError(f"A run has no row {name!r} at epoch {lacking[0] if lacking else 0}; train it again.")
    return Course(wanted, np.array([[one[epoch] for epoch in wanted] for one in found], dtype=np.float64))


def _by_epoch(run: RunFolder, name: str) -> dict[int, float]:
    experiment = run.experiment
    per_epoch = -(-int(experiment.data.n_train or 0) // experiment.training.batch_size)
    return {row["step"] // per_epoch: row["value"] for row in run.rows() if row["name"] == name}
