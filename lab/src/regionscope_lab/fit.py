"""The least-squares line through pairs of numbers, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from regionscope.errors import InputError
from regionscope.inputs import read_numbers
from regionscope.types import Array, FloatArray, Reading

_LEAST = np.finfo(np.float64).tiny / np.finfo(np.float64).eps  # smaller sums of squares have lost digits


@dataclass(frozen=True)
class LinearFit:
    """y = intercept + slope * x by least squares over n pairs.

    residual: the standard deviation of the residuals, with n - 2 degrees of freedom. centre: the mean of x.
    spread: the sum of squares of x - centre (not a deviation), from which the width of the band follows.
    """

    slope: float
    intercept: float
    residual: float
    centre: float
    spread: float
    n: int

    def readings(self) -> tuple[Reading, ...]:
        """The slope and the intercept."""
        return ("slope", self.slope, None), ("intercept", self.intercept, None)

    @property
    def slope_stderr(self) -> float:
        """Standard error of the slope: residual / sqrt(spread)."""
        return self.residual / math.sqrt(self.spread)

    def at(self, x: Sequence[float] | Array) -> FloatArray:
        """The line at x (m,)."""
        return np.asarray(self.intercept + self.slope * np.asarray(x, dtype=np.float64))

    def band(self, x: Sequence[float] | Array, *, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of the confidence interval of the mean of y at x (m,), for normal residuals."""
        if not 0 < level < 1:
            raise InputError(f"Expected level between 0 and 1, got {level}. Write 0.95 for 95%.")
        away = np.asarray(x, dtype=np.float64) - self.centre
        half = stdtrit(self.n - 2, (1 + level) / 2) * self.residual * np.sqrt(1 / self.n + away**2 / self.spread)
        return self.at(x) - half, self.at(x) + half


def linear_fit(x: Sequence[float] | Array, y: Sequence[float] | Array) -> LinearFit:
    """The line that minimises the squared vertical distance to at least 3 pairs.

    >>> line = linear_fit([0, 1, 2, 3], [1, 3, 5, 7])
    >>> line.slope, line.intercept, line.residual
    (2.0, 1.0, 0.0)
    """
    a, b = read_numbers(x, "x"), read_numbers(y, "y")
    if a.shape != b.shape or len(a) < 3:
        raise InputError(
            f"Expected two lists of one length, at least 3, got {len(a)} and {len(b)} numbers. "
            "Pass one x and one y for each point."
        )
    if not bool(np.isfinite(a).all() and np.isfinite(b).all()):
        raise InputError("Expected finite x and y, got NaN or infinite values. Remove those pairs.")
    if a.max() == a.min():
        raise InputError(
            f"Expected x to have different numbers, got {len(a)} equal ones, for which no line is defined. "
            "Add points with another x."
        )
    centre, mean = _mean(a), _mean(b)
    with np.errstate(over="ignore"):
        across, up = a - centre, b - mean
        spread, squares = float((across**2).sum()), float((up**2).sum())
    for name, values, total, known in (("x", a, spread, spread >= _LEAST), ("y", b, squares, True)):
        if not (known and total < math.inf):
            raise InputError(
                f"Expected {name} whose differences can be squared in float64, got {values.min():g} to "
                f"{values.max():g}. Change the unit of {name}."
            )
    slope = float((across * up).sum() / spread)
    left = up - slope * across  # about the means: about 0, the rounding of a far x would swamp it
    return LinearFit(
        slope, mean - slope * centre, float(np.sqrt((left**2).sum() / (len(a) - 2))), centre, spread, len(a)
    )


def _mean(values: FloatArray) -> float:
    """The mean, from the distances to the middle of the range: their sum neither overflows nor rounds like the values.

    >>> _mean(np.array([1e12, 1e12 + 0.5, 1e12 + 1]))
    1000000000000.5
    """
    middle = values.max() / 2 + values.min() / 2
    return float(middle + ((values - middle) / len(values)).sum())
