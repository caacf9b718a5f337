"""Curves over training from the rows of runs that differ in their seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regionscope.errors import InputError
from regionscope.measures.statistics import error_of_mean, larger_error, standard_error
from regionscope_lab.papers.charts import Lines, Series
from regionscope_lab.papers.humayun2023.shape import DescentShape, double_descent
from regionscope_lab.papers.study import Table
from regionscope_lab.store import RunFolder

_SAME_LOOK = 0.01  # share of the steps within which the last two looks count as one
_FEWEST_LOOKS = 2  # looks that make a curve
_Runs = Mapping[str, Sequence[RunFolder]]


@dataclass(frozen=True, eq=False)
class Curve:
    """One number over training: ``values`` (seeds, steps), and ``stderrs``: standard errors over points or NaN."""

    steps: tuple[int, ...]
    values: NDArray[np.float64]
    stderrs: NDArray[np.float64]

    @cached_property
    def means(self) -> tuple[float, ...]:
        return tuple(map(float, self.values.mean(0)))

    @cached_property
    def errors(self) -> tuple[float, ...]:
        """Standard error of the means: over the points or over the seeds, whichever is larger; NaN without either."""
        return tuple(map(larger_error, self._over_points, self._over_seeds))

    @cached_property
    def pooled(self) -> tuple[float, ...]:
        """The same with one error over the seeds for all steps, since that of a few seeds at one step is a guess."""
        return self._at_least(math.sqrt(np.square(self._over_seeds).mean()))

    @cached_property
    def wobble(self) -> tuple[float, ...]:
        """The pooled errors of changes along the curve, to which a steady distance between the seeds adds nothing."""
        n, looks = self.values.shape
        if n == 1:
            return self.pooled
        steady = self.values.mean(1, keepdims=True) + self.values.mean(0) - self.values.mean()
        variance = np.square(self.values - steady).sum() / ((n - 1) * (looks - 1))
        return self._at_least(math.sqrt(variance / n))

    @cached_property
    def shape(self) -> DescentShape:
        """Descent, ascent and second descent of the mean."""
        return double_descent(self.steps, self.means, self.wobble)

    def _at_least(self, error: float) -> tuple[float, ...]:
        """The larger of ``error`` and the error over the points, at each step."""
        return tuple(larger_error(error, over_points) for over_points in self._over_points)

    @property
    def _over_points(self) -> list[float]:
        return [error_of_mean(stderrs) for stderrs in self.stderrs.T.tolist()]

    @property
    def _over_seeds(self) -> list[float]:
        return [standard_error(values) for values in self.values.T.tolist()]

    def at(self, step: int) -> int:
        """The place of the measurement that is nearest to ``step``."""
        return min(range(len(self.steps)), key=lambda i: abs(self.steps[i] - step))

    def series(self, label: str, *, beside: str = "") -> Series:
        """Mean and standard error, as a curve."""
        x = tuple(map(float, self.steps))
        return Series(label=label, x=x, y=self.means, stderr=self.errors, beside=beside)


def read_curve(runs: Sequence[RunFolder], name: str) -> Curve:
    """The rows ``name`` at the steps that all runs have.

    The end is always measured; a look at 1% of the steps before it or less says the same again and is left out.
    """
    found = [{row["step"]: row for row in run.rows() if row["name"] == name} for run in runs]
    steps = _apart(sorted(set.intersection(*map(set, found)))) if found else ()
    if len(steps) < _FEWEST_LOOKS:
        raise InputError(f"No curve {name!r} found in the runs. Remove them and train them again.")
    table = [[rows[step] for step in steps] for rows in found]
    values = np.array([[row["value"] for row in line] for line in table], dtype=np.float64)
    stderrs = np.array([[row["stderr"] for row in line] for line in table], dtype=np.float64)  # None becomes NaN
    return Curve(steps, values, stderrs)


def _apart(steps: Sequence[int]) -> tuple[int, ...]:
    twice = len(steps) > _FEWEST_LOOKS and steps[-1] - steps[-2] <= _SAME_LOOK * steps[-1]
    return (*steps[:-2], steps[-1]) if twice else tuple(steps)


def accuracy(runs: Sequence[RunFolder], part: str) -> Curve:
    """The share of right labels on the train or test part."""
    wrong = read_curve(runs, f"error.{part}")
    return Curve(wrong.steps, 1 - wrong.values, wrong.stderrs)


def layers_of(run: RunFolder, name: str) -> tuple[str, ...]:
    """The layers that ``name`` was measured at, in the order of the forward pass."""
    start = f"{name}.layer."
    return tuple(dict.fromkeys(row["name"].removeprefix(start) for row in run.rows() if row["name"].startswith(start)))


def chart(title: str, curves: Mapping[str, Curve], beside: Mapping[str, Curve] | None = None, *, y: str = "") -> Lines:
    """Curves over the steps on a log scale; ``beside`` has dashed ones to compare, by the same labels."""
    main = tuple(curve.series(label) for label, curve in curves.items())
    dashed = tuple(curve.series("", beside=label) for label, curve in (beside or {}).items())
    return Lines(
        title=title, x_label="step", y_label=y or "local complexity", series=(*main, *dashed), x_scale="symlog"
    )


def by_part(runs: Sequence[RunFolder]) -> dict[str, Curve]:
    """LC by where it is measured."""
    return {part: read_curve(runs, f"lc.{part}") for part in ("train", "test", "random")}


def at_points(runs: _Runs, part: str) -> dict[str, Curve]:
    """LC at train, test or random points, by the label of the runs."""
    return {label: read_curve(mine, f"lc.{part}") for label, mine in runs.items()}


def accuracy_chart(runs: _Runs) -> Lines:
    """Accuracy on train and test points."""
    train, test = ({label: accuracy(mine, part) for label, mine in runs.items()} for part in ("train", "test"))
    return chart("Accuracy", train, test, y="accuracy, train (solid) and test")


def charts(title: str, runs: _Runs) -> tuple[Lines, Lines, Lines]:
    """What most figures of the paper show: LC at train and test points, LC at random points, accuracy."""
    return (
        chart(f"{title}, LC at train (solid) and test points", at_points(runs, "train"), at_points(runs, "test")),
        chart(f"{title}, LC at random points", at_points(runs, "random")),
        accuracy_chart(runs),
    )


def plus_minus(error: float) -> str:
    """An error with one digit, such as ``± 0.02`` or ``± 10``."""
    return f"± {float(f'{error:.1g}'):g}"


def phases_table(title: str, curves: Mapping[str, Curve]) -> Table:
    """Where each curve starts, turns and ends: values with pooled standard errors, and steps."""
    columns = ("", "start", "valley", "peak", "mean of the last three", "last")
    return Table(title, columns, tuple((label, *_phases(curve)) for label, curve in curves.items()))


def _phases(curve: Curve) -> tuple[str, ...]:
    shape = curve.shape
    start, valley, peak, last = (
        "none" if i is None else f"{curve.means[i]:.3g} {plus_minus(curve.pooled[i])} (step {curve.steps[i]:,})"
        for i in (shape.first_descent.first, shape.valley, shape.peak, len(curve.steps) - 1)
    )
    return start, valley, peak, f"{float(np.mean(curve.means[-3:])):.3g}", last


def final_accuracy(runs: _Runs) -> str:
    """How far each network fits its data."""
    known = (f"{accuracy(mine, 'train').means[-1]:.2f} ({label})" for label, mine in runs.items())
    return f"Train accuracy at the end: {', '.join(known)}."


def fit_note(runs: _Runs) -> str:
    """The same, and that phases that belong to fitting cannot be expected without it."""
    return (
        f"{final_accuracy(runs)} A network far below 1 has not fitted its data, and the phases that "
        "belong to fitting, ascent and second descent, cannot be expected of it."
    )
