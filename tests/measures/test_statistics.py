"""Correlations against SciPy and closed forms; NaN where an error is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from regionscope import measures
from regionscope.errors import InputError

RNG = np.random.default_rng(0)
CASES = {
    "noise": (RNG.normal(size=30), RNG.normal(size=30)),
    "related": (x := RNG.normal(size=30), x + RNG.normal(size=30)),
    "ties": (RNG.integers(0, 4, 40), RNG.integers(0, 3, 40)),
    "three": (np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 2.0])),
    "large numbers": (1e9 + RNG.normal(size=20), 1e-9 * RNG.normal(size=20)),
}


@pytest.fixture(scope="module")
def stats() -> Any:
    """Imported by the first test, not while tests are collected: it takes a second."""
    from scipy import stats

    return stats


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_three_coefficients_are_those_of_scipy(name: str, stats: Any) -> None:
    x, y = CASES[name]
    found = measures.correlate(x, y)
    assert found.pearson.value == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-6)
    assert found.spearman.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.kendall.value == pytest.approx(stats.kendalltau(x, y).statistic)
    for one in (found.pearson, found.spearman, found.kendall):
        assert -1 <= one.interval[0] <= one.interval[1] <= 1
        assert one.n == len(x)


@pytest.mark.slow
def test_the_interval_is_that_of_a_plain_bootstrap(stats: Any) -> None:
    x, y = CASES["related"]
    low, high = measures.correlate(x, y).pearson.interval
    plain = stats.bootstrap(
        (x, y), lambda a, b: stats.pearsonr(a, b).statistic, paired=True, vectorized=False, n_resamples=2000,
        method="percentile", rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert (low, high) == pytest.approx((plain.low, plain.high), abs=0.05)
    narrow = measures.correlate(x, y, level=0.5).pearson.interval
    assert low < narrow[0] < narrow[1] < high
    assert measures.correlate(x, y, seed=1) == measures.correlate(x, y, seed=1)


def test_constant_resamples_are_left_out_whatever_the_numbers() -> None:
    """A third of the resamples miss the last pair; of 0.1 a mean is off by rounding, of 1 it is not."""
    y = [1.3, 1.1, 1.2, 1.15, 1.18, 7.2]
    rough, whole = (measures.correlate([low] * 5 + [9 * low], y).pearson for low in (0.1, 1.0))
    assert rough.interval == pytest.approx(whole.interval, abs=1e-9)
    assert rough.interval[0] > 0.99


@pytest.mark.parametrize("scale", [5e-324, 1e-155, 1e-77, 1e90, 1e300])
def test_the_scale_of_the_numbers_has_no_effect(scale: float) -> None:
    x, y = np.array([1.0, 2.0, 3.0, 4.0, 7.0, -8.0]), np.array([1.0, 4.0, 2.0, 5.0, 9.0, -7.0])
    wanted, apart = measures.correlate(x, y), measures.correlation_difference(x, y[::-1], y)
    for a, b in ((x * scale, y), (x, y * scale), (x * scale, y * scale)):
        found = measures.correlate(a, b)
        difference = measures.correlation_difference(a, y[::-1], b)
        pairs = [(getattr(found, name), getattr(wanted, name)) for name in ("pearson", "spearman", "kendall")]
        for scaled, plain in [*pairs, (difference, apart)]:
            assert scaled.value == pytest.approx(plain.value, abs=1e-14)
            assert scaled.interval == pytest.approx(plain.interval, abs=1e-14)


def test_the_difference_of_two_correlations_is_sharper_than_either() -> None:
    """Two measures that share most of their noise: their intervals overlap, that of the difference is far from 0."""
    rng = np.random.default_rng(0)
    gap, shared = rng.normal(size=40), rng.normal(size=40)
    good, worse = gap + shared, gap + shared + 0.3 * rng.normal(size=40)
    found = measures.correlation_difference(good, worse, gap, resamples=500)
    first, second = measures.correlate(good, gap).pearson, measures.correlate(worse, gap).pearson
    assert found.value == pytest.approx(first.value - second.value)
    assert found.interval[0] < found.value < found.interval[1]
    assert first.interval[0] < second.value < first.interval[1]
    assert found.interval[1] - found.interval[0] < 0.5 * (first.interval[1] - first.interval[0])
    assert measures.correlation_difference(good, good, gap).interval == (0.0, 0.0)
    swapped = measures.correlation_difference(worse, good, gap, resamples=500)
    assert swapped.value == pytest.approx(-found.value)


def test_a_correlation_is_printed_in_short() -> None:
    found = measures.correlate([1, 2, 3, 4], [2, 4, 6, 8])
    one = "+1.00 [+1.00, +1.00]"
    assert repr(found.pearson) == f"Coefficient({one}, n=4)"
    assert str(found) == f"Pearson {one}, Spearman {one}, Kendall {one} (n = 4)"
    assert repr(found) == f"Correlation(pearson={one}, spearman={one}, kendall={one}, n=4)"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: measures.correlate([1, 2], [1, 2]), "3 to 5,000 pairs, got 2"),
        (lambda: measures.correlate([1, 2, 3], [1, 2]), "3 of x, 2 of y"),
        (lambda: measures.correlate([1, 1, 1], [1, 2, 3]), "x to have different numbers, got 3 equal ones"),
        (lambda: measures.correlate([1, 2, 3], [1, np.nan, 3]), "y to be finite"),
        (lambda: measures.correlate([[1, 2, 3]], [1, 2, 3]), "flat list"),
        (lambda: measures.correlate(["a", "b", "c"], [1, 2, 3]), "list of numbers"),
        (lambda: measures.correlate([1, 2, 3], [1, 2, 4], level=1.5), "level"),
        (lambda: measures.correlation_difference([1, 2, 3], [1, 2], [1, 2, 3]), "2 of other"),
    ],
)
def test_bad_input_is_one_sentence(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()
