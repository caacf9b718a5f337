"""Mean, standard error and interval of repeated values: one convention for all that is reported.

A single value says nothing about its error: its standard error is NaN, never 0. Rules that compare with an error treat
NaN as unknown, so that a difference between single values is never beyond it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from scipy.special import stdtrit

from regionscope.errors import InputError

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


def larger_error(*errors: float) -> float:
    """The largest of the errors that are not NaN; NaN if all are.

    >>> larger_error(0.1, math.nan), larger_error(math.nan, math.nan)
    (0.1, nan)
    """
    return max((error for error in errors if not math.isnan(error)), default=math.nan)


def error_of_mean(errors: Sequence[float]) -> float:
    """The standard error of the mean of n values with these errors: their root sum of squares / n.

    Unknown errors (NaN) count as 0; the result is NaN if all are unknown.
    """
    known = [error for error in errors if not math.isnan(error)]
    return math.hypot(*known) / len(errors) if known else math.nan


def joined(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """The mean of values that each have a standard error, and the larger of two errors of it.

    Those are ``error_of_mean`` (such as over the points of each network) and the standard error between the values
    (such as over seeds, which share their points).

    >>> joined([1.0, 1.0], [3.0, 4.0])
    (1.0, 2.5)
    """
    if len(values) != len(errors):
        raise InputError(
            f"Expected as many errors as values, got {len(errors)} and {len(values)}. Pass one error for each value."
        )
    return mean(values), larger_error(error_of_mean(errors), standard_error(values))


def error_of_interval(low: float, high: float) -> float:
    """The standard error that a 95% interval stands for, as if it were normal: its length / (2 * 1.96).

    >>> round(error_of_interval(-1.96, 1.96), 12)
    1.0
    """
    return (high - low) / (2 * _NORMAL)


def wilson(successes: int, runs: int) -> tuple[float, float]:
    """The 95% interval of a probability from ``successes`` in ``runs`` (E. B. Wilson, JASA 22, 1927).

    >>> wilson(0, 24)[0], round(wilson(0, 24)[1], 3)
    (0.0, 0.138)
    """
    share, extra = successes / runs, _NORMAL * _NORMAL / runs
    middle = (share + extra / 2) / (1 + extra)
    half = _NORMAL * math.sqrt(share * (1 - share) / runs + extra / (4 * runs)) / (1 + extra)
    return max(0.0, middle - half), min(1.0, middle + half)
