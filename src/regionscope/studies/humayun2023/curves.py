"""Curves over training from the rows of runs that differ in their seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regionscope.errors import InputError
from regionscope.lab.store import RunFolder
from regionscope.studies.charts import Lines, Series
from regionscope.studies.humayun2023.shape import Shape, double_descent
from regionscope.studies.study import Table

__all__ = ["Curve", "accuracy", "accuracy_chart", "at_points", "chart", "charts", "curve", "layers_of", "phases_table"]

Runs = Mapping[str, Sequence[RunFolder]]


@dataclass(frozen=True, eq=False)
class Curve:
    """One number over training: ``values`` (seeds, steps), and ``spreads``, their standard errors over points."""

    steps: tuple[int, ...]
    values: NDArray[np.float64]
    spreads: NDArray[np.float64]

    @cached_property
    def means(self) -> tuple[float, ...]:
        return tuple(map(float, self.values.mean(0)))

    @cached_property
    def errors(self) -> tuple[float, ...]:
        """Standard error of the means: over the points or over the seeds, whichever is larger."""
        n = len(self.values)
        over_points = np.sqrt(np.square(self.spreads).sum(0)) / n
        over_seeds = self.values.std(0, ddof=1) / math.sqrt(n) if n > 1 else np.zeros_like(over_points)
        return tuple(map(float, np.maximum(over_points, over_seeds)))

    @cached_property
    def shape(self) -> Shape:
        """Descent, ascent and second descent of the mean."""
        return double_descent(self.steps, self.means, self.errors)

    @property
    def peak_step(self) -> int:
        return self.steps[self.shape.peak]

    def at(self, step: int) -> int:
        """The place of the measurement that is nearest to ``step``."""
        return min(range(len(self.steps)), key=lambda i: abs(self.steps[i] - step))

    def series(self, label: str, *, beside: str = "") -> Series:
        """Mean and standard error, as a curve."""
        x = tuple(map(float, self.steps))
        return Series(label=label, x=x, y=self.means, spread=self.errors, beside=beside)


def curve(runs: Sequence[RunFolder], name: str) -> Curve:
    """The rows ``name`` at the steps that all runs have."""
    found = [{row["step"]: row for row in run.rows() if row["name"] == name} for run in runs]
    steps = tuple(sorted(set.intersection(*map(set, found)))) if found else ()
    if len(steps) < 2:
        raise InputError(f"The runs have no curve {name!r}; remove them and train them again.")
    table = [[one[step] for step in steps] for one in found]
    values = np.array([[row["value"] for row in line] for line in table], dtype=np.float64)
    spreads = np.array([[row["spread"] or 0.0 for row in line] for line in table], dtype=np.float64)
    return Curve(steps, values, spreads)


def accuracy(runs: Sequence[RunFolder], part: str) -> Curve:
    """The share of right labels on the train or test part."""
    wrong = curve(runs, f"error.{part}")
    return Curve(wrong.steps, 1 - wrong.values, wrong.spreads)


def layers_of(run: RunFolder, name: str) -> tuple[str, ...]:
    """The layers that ``name`` was measured at, in the order of the forward pass."""
    start = f"{name}.layer."
    return tuple(dict.fromkeys(row["name"].removeprefix(start) for row in run.rows() if row["name"].startswith(start)))


def chart(title: str, curves: Mapping[str, Curve], beside: Mapping[str, Curve] | None = None, *, y: str = "") -> Lines:
    """Curves over the steps on a log scale; ``beside`` has dashed ones to compare, by the same labels."""
    main = tuple(one.series(label) for label, one in curves.items())
    dashed = tuple(one.series("", beside=label) for label, one in (beside or {}).items())
    return Lines(
        title=title, x_label="step", y_label=y or "local complexity", series=(*main, *dashed), x_scale="symlog"
    )


def at_points(runs: Runs, part: str) -> dict[str, Curve]:
    """LC at train, test or random points, by the label of the runs."""
    return {label: curve(mine, f"lc.{part}") for label, mine in runs.items()}


def accuracy_chart(runs: Runs) -> Lines:
    """Accuracy on train and test points."""
    train, test = ({label: accuracy(mine, part) for label, mine in runs.items()} for part in ("train", "test"))
    return chart("Accuracy", train, test, y="accuracy, train (solid) and test")


def charts(title: str, runs: Runs) -> tuple[Lines, Lines, Lines]:
    """What most figures of the paper show: LC at train and test points, LC at random points, accuracy."""
    return (
        chart(f"{title}, LC at train (solid) and test points", at_points(runs, "train"), at_points(runs, "test")),
        chart(f"{title}, LC at random points", at_points(runs, "random")),
        accuracy_chart(runs),
    )


def phases_table(title: str, curves: Mapping[str, Curve]) -> Table:
    """Where each curve starts, turns and ends: values with standard errors, and steps."""
    columns = ("", "start", "valley", "peak", "end of second descent", "last")
    return Table(title, columns, tuple((label, *_phases(one)) for label, one in curves.items()))


def _phases(one: Curve) -> tuple[str, ...]:
    shape = one.shape
    places = (shape.first_descent.first, shape.valley, shape.peak, shape.second_descent.last, len(one.steps) - 1)
    return tuple(f"{one.means[i]:.3g} ± {one.errors[i]:.1g} (step {one.steps[i]:,})" for i in places)
