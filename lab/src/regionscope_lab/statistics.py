"""Mean, standard error and interval of repeated values: one convention for all that is reported.

A single value says nothing about its error: its standard error is NaN, never 0. Rules that compare with an error treat
NaN as unknown, so that a difference between single values is never beyond it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from scipy.special import stdtrit

_NORMAL = 1.96  # standard errors on either side of the mean: the 95% interval of a normal distribution


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; NaN of no values."""
    return statistics.fmean(values) if len(values) else math.nan


def deviation(values: Sequence[float]) -> float:
    """The sample standard deviation, with n - 1; NaN below two values."""
    return statistics.stdev(map(float, values)) if len(values) > 1 else math.nan


def standard_error(values: Sequence[float]) -> float:
    """The standard error of the mean of independent values: deviation / sqrt(n); NaN below two values.

    >>> round(standard_error([1, 2, 3]), 3), standard_error([1])
    (0.577, nan)
    """
    return deviation(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def t_interval(values: Sequence[float], *, level: float = 0.95) -> tuple[float, float, float]:
    """The mean and the ends of its confidence interval by Student's t; NaN ends below two values.

    >>> [round(end, 3) for end in t_interval([1, 2, 3])]
    [2.0, -0.484, 4.484]
    """
    centre = mean(values)
    if len(values) < 2:
        return centre, math.nan, math.nan
    half = float(stdtrit(len(values) - 1, (1 + level) / 2)) * standard_error(values)
    return centre, centre - half, centre + half


def wilson(successes: int, runs: int) -> tuple[float, float]:
    """The 95% interval of a probability from ``successes`` in ``runs`` (E. B. Wilson, JASA 22, 1927).

    >>> wilson(0, 24)[0], round(wilson(0, 24)[1], 3)
    (0.0, 0.138)
    """
    share, extra = successes / runs, _NORMAL * _NORMAL / runs
    middle = (share + extra / 2) / (1 + extra)
    half = _NORMAL * math.sqrt(share * (1 - share) / runs + extra / (4 * runs)) / (1 + extra)
    return max(0.0, middle - half), min(1.0, middle + half)
