"""Counts at chosen epochs, from the rows of runs with several seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regionscope.errors import InputError
from regionscope.measures.statistics import deviation
from regionscope_lab.papers.charts import Series
from regionscope_lab.store import RunFolder

_BANDS = 3  # curves that can be drawn with their standard deviation


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
        """Standard deviation over seeds, at each epoch; NaN for a single seed."""
        return tuple(deviation(values) for values in self.values.T.tolist())

    @property
    def errors(self) -> tuple[float, ...]:
        """Standard error of the means."""
        return tuple(one / len(self.values) ** 0.5 for one in self.deviations)

    @property
    def paired_deviations(self) -> tuple[float, ...]:
        """How far one run strays from the mean course, seed by seed: what a seed adds at all epochs is taken out.

        Two of them together make the standard deviation of the change between two epochs (Morey 2008). NaN for a single
        seed or epoch.
        """
        seeds, places = self.values.shape
        if seeds < 2 or places < 2:
            return (math.nan,) * len(self.epochs)
        own = self.values - self.values.mean(1, keepdims=True)
        return tuple(map(float, own.std(0, ddof=1) * math.sqrt(places / (places - 1))))

    @property
    def paired_errors(self) -> tuple[float, ...]:
        """Standard errors of the means, for a comparison of epochs."""
        return tuple(one / len(self.values) ** 0.5 for one in self.paired_deviations)

    @property
    def noise(self) -> float:
        """Twice what one run strays, on average over the epochs: changes of one run up to this are no course."""
        return 2 * float(np.sqrt(np.mean(np.square(self.paired_deviations))))

    def at(self, epoch: int) -> NDArray[np.float64]:
        """The values at one epoch, by seed."""
        return self.values[:, self.epochs.index(epoch)]

    def range(self, i: int) -> tuple[float, float]:
        """Smallest and largest value over the seeds, at epoch number i."""
        return float(self.values[:, i].min()), float(self.values[:, i].max())

    def series(self, label: str) -> Series:
        """Mean and standard deviation, as a curve."""
        return Series(label=label, x=self.places, y=self.means, std=self.deviations)


def curves(courses: Mapping[str, Course]) -> tuple[Series, ...]:
    """The courses by label; more than three come without bands, which would hide each other."""
    drawn = [one.series(label) for label, one in courses.items()]
    return tuple(one if len(drawn) <= _BANDS else replace(one, std=()) for one in drawn)


def course(runs: Sequence[RunFolder], name: str, epochs: Sequence[int] | None = None) -> Course:
    """The rows ``name`` of runs that differ in their seed; at ``epochs``, or at all that they have."""
    return course_of([_by_epoch(run, name) for run in runs], name, epochs)


def course_of(by_seed: Sequence[dict[int, float]], name: str, epochs: Sequence[int] | None = None) -> Course:
    """Values by epoch, one mapping a seed, as one table."""
    wanted = tuple(sorted(set.intersection(*map(set, by_seed)))) if epochs is None else tuple(epochs)
    lacking = [epoch for epoch in wanted if any(epoch not in one for one in by_seed)]
    if lacking or not wanted:
        raise InputError(f"No row {name!r} at epoch {lacking[0] if lacking else 0} found in a run. Train it again.")
    return Course(wanted, np.array([[one[epoch] for epoch in wanted] for one in by_seed], dtype=np.float64))


def _by_epoch(run: RunFolder, name: str) -> dict[int, float]:
    experiment = run.experiment
    per_epoch = -(-int(experiment.data.n_train or 0) // experiment.training.batch_size)
    return {row["step"] // per_epoch: row["value"] for row in run.rows() if row["name"] == name}
