"""Correlations over runs, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from regionscope.checks import read_integer, read_number, read_seed
from regionscope.errors import InputError
from regionscope.inputs import read_numbers
from regionscope.types import Array, BoolArray, FloatArray, Reading

Numbers = Sequence[Any] | Array

_LARGEST = 5000  # Kendall and the ranks of a resample compare all pairs


@dataclass(frozen=True)
class Coefficient:
    """A correlation, its bootstrap interval, and the number of pairs."""

    value: float
    interval: tuple[float, float]
    n: int

    def readings(self) -> tuple[Reading, ...]:
        """The correlation; it has an interval instead of a standard error."""
        return (("", self.value, None),)

    def __str__(self) -> str:
        return f"{self.value:+.2f} [{self.interval[0]:+.2f}, {self.interval[1]:+.2f}]"

    def __repr__(self) -> str:
        return f"Coefficient({self}, n={self.n})"


@dataclass(frozen=True)
class Correlation:
    """Correlation of x and y: linear (Pearson), of ranks (Spearman), and of pairs (Kendall's tau-b)."""

    pearson: Coefficient
    spearman: Coefficient
    kendall: Coefficient

    def readings(self) -> tuple[Reading, ...]:
        """The three correlations."""
        coefficients = (("pearson", self.pearson), ("spearman", self.spearman), ("kendall", self.kendall))
        return tuple((name, coefficient.value, None) for name, coefficient in coefficients)

    def __str__(self) -> str:
        return f"Pearson {self.pearson}, Spearman {self.spearman}, Kendall {self.kendall} (n = {self.pearson.n})"

    def __repr__(self) -> str:
        coefficients = f"pearson={self.pearson}, spearman={self.spearman}, kendall={self.kendall}"
        return f"Correlation({coefficients}, n={self.pearson.n})"


def correlate(
    x: Numbers,
    y: Numbers,
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Correlation:
    """Pearson, Spearman and Kendall correlation of two lists of numbers, with percentile bootstrap intervals.

    x, y: numbers, or results that have a ``value`` (``RegionCount``, ``Gap``, ``Estimate``).

    A resample is a vector of multiplicities, from which all three follow by matrix products; resamples in which x or y
    is constant are left out. At least 3 pairs are required; with fewer than about 8, the interval is too short.
    Cost: resamples * n^2 operations.

    >>> print(correlate([1, 2, 3, 4], [1, 4, 9, 16]).spearman.value)
    1.0
    """
    a, b = _aligned(x=x, y=y)
    drawn = _drawn(len(a), resamples, level, seed)
    return Correlation(
        *(_coefficient(partial(measure, a, b), drawn, level) for measure in (_pearson, _spearman, _kendall))
    )


def correlation_difference(
    x: Numbers,
    other: Numbers,
    y: Numbers,
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Coefficient:
    """Difference of two correlations: Pearson's r of (x, y) minus that of (other, y).

    Both correlations use the same resamples, so the interval is that of the difference: two measures of the same runs
    may differ clearly even if their own intervals overlap. Everything else is as in ``correlate``.

    >>> round(correlation_difference([1, 2, 3, 4], [1, 3, 2, 4], [1, 2, 3, 4]).value, 3)
    0.2
    """
    a, c, b = _aligned(x=x, other=other, y=y)
    drawn = _drawn(len(a), resamples, level, seed)
    return _coefficient(lambda times: _pearson(a, b, times) - _pearson(c, b, times), drawn, level)


def _aligned(**lists: Numbers) -> list[FloatArray]:
    """Lists of one length in which a correlation is defined."""
    columns = {name: _finite(values, name) for name, values in lists.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{n} of {name}" for name, n in lengths.items())
        raise InputError(
            f"Expected lists of one length, with a number for every run, got {got}. "
            "Pass one number for each run in every list."
        )
    n = next(iter(lengths.values()))
    if not 3 <= n <= _LARGEST:
        raise InputError(f"Expected 3 to {_LARGEST:,} pairs, got {n}. Pass one pair for each run.")
    for name, values in columns.items():
        if values.max() == values.min():
            raise InputError(
                f"Expected {name} to have different numbers, got {n} equal ones, for which no correlation is defined. "
                "Leave this column out."
            )
    return list(columns.values())


def _drawn(n: int, resamples: int, level: float, seed: int) -> FloatArray:
    """How often each pair occurs in each resample (r, n)."""
    read_integer("resamples", resamples)
    if not 0 < read_number("level", level) < 1:
        raise InputError(f"Expected 0 < level < 1, got {level}. Write level=0.95 for an interval of 95%.")
    times = np.random.default_rng(read_seed(seed)).multinomial(n, np.full(n, 1 / n), size=resamples)
    return times.astype(np.float64)


def _coefficient(measure: Callable[[FloatArray], FloatArray], drawn: FloatArray, level: float) -> Coefficient:
    """``measure`` maps multiplicities (r, n) to values (r,)."""
    n = drawn.shape[1]
    return Coefficient(float(measure(np.ones((1, n)))[0]), _quantiles(measure(drawn), level), n)


def _pearson(a: FloatArray, b: FloatArray, times: FloatArray) -> FloatArray:
    """Pearson's r under multiplicities ``times`` (r, n)."""
    return _weighted_pearson(np.broadcast_to(a, times.shape), np.broadcast_to(b, times.shape), times)


def _spearman(a: FloatArray, b: FloatArray, times: FloatArray) -> FloatArray:
    """Pearson's r of the mid-ranks within each resample."""
    return _weighted_pearson(times @ _below(a), times @ _below(b), times)


def _kendall(a: FloatArray, b: FloatArray, times: FloatArray) -> FloatArray:
    """Kendall's tau-b: concordant minus discordant pairs, over the geometric mean of the untied ones."""
    first, second = _order(a), _order(b)
    both, untied_a, untied_b = (
        ((times @ pairs) * times).sum(1) for pairs in (first * second, np.abs(first), np.abs(second))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(both / np.sqrt(untied_a * untied_b))


def _order(values: FloatArray) -> FloatArray:
    """(n, n): 1 where the row's value is above the column's, -1 where it is below; no difference can overflow."""
    return np.asarray((values[:, None] > values).astype(np.float64) - (values[:, None] < values))


def _below(values: FloatArray) -> FloatArray:
    """(n, n): 1 where the row's value is below the column's, 1/2 where they are equal; column sums are mid-ranks."""
    return np.asarray((values[:, None] < values) + 0.5 * (values[:, None] == values))


def _weighted_pearson(a: FloatArray, b: FloatArray, times: FloatArray) -> FloatArray:
    """NaN where ``a`` or ``b`` is constant over what was drawn; rounding of the mean would hide that."""
    left, right = _deviations(a, times), _deviations(b, times)
    scale = np.sqrt((times * left**2).sum(1) * (times * right**2).sum(1))
    constant = _constant(a, times) | _constant(b, times) | (scale == 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.clip((times * left * right).sum(1) / np.where(constant, np.nan, scale), -1.0, 1.0))


def _deviations(a: FloatArray, times: FloatArray) -> FloatArray:
    """The drawn entries of ``a`` minus their mean, scaled by a power of two to size 1, so that no square overflows.

    A power of two rounds nothing, so that the scale of the numbers has no effect on a correlation.
    """
    drawn = np.where(times > 0, a, 0.0)
    scaled = np.ldexp(drawn, -np.frexp(np.abs(drawn).max(1, keepdims=True))[1])
    mean = (times * scaled).sum(1, keepdims=True) / times.sum(1, keepdims=True)
    return np.ascontiguousarray(scaled - mean)  # sums along rows that lie in memory are pairwise


def _constant(a: FloatArray, times: FloatArray) -> BoolArray:
    drawn = times > 0
    return np.asarray(np.where(drawn, a, -np.inf).max(1) == np.where(drawn, a, np.inf).min(1))


def _quantiles(values: FloatArray, level: float) -> tuple[float, float]:
    kept = values[~np.isnan(values)]
    if len(kept) == 0:
        return float("nan"), float("nan")
    low, high = np.quantile(kept, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _finite(values: Numbers, name: str) -> FloatArray:
    array = read_numbers(values, name)
    if not bool(np.isfinite(array).all()):
        raise InputError(
            f"Expected {name} to be finite, got None, NaN or infinite values. Remove those runs from all lists."
        )
    return array
