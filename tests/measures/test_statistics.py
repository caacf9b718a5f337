"""Means and their errors: closed forms, and NaN, never 0, where an error is not known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regionscope.errors import InputError
from regionscope.measures.statistics import (
    deviation,
    error_of_interval,
    error_of_mean,
    joined,
    larger_error,
    mean,
    standard_error,
    t_interval,
    wilson,
)

VALUES = [3.0, 1.0, 4.0, 1.5, 9.2]


def test_mean_deviation_and_standard_error_of_several_values() -> None:
    assert mean(VALUES) == pytest.approx(np.mean(VALUES))
    assert deviation(VALUES) == pytest.approx(np.std(VALUES, ddof=1))
    assert standard_error(VALUES) == pytest.approx(np.std(VALUES, ddof=1) / math.sqrt(len(VALUES)))
    assert standard_error([0.1] * 3) == 0.0, "equal values have no spread, not even that of rounding"


def test_a_single_value_has_no_error_that_is_known() -> None:
    assert mean([2.0]) == 2.0
    assert math.isnan(mean([]))
    for known in (deviation, standard_error):
        assert math.isnan(known([2.0]))
        assert math.isnan(known([]))
    centre, low, high = t_interval([2.0])
    assert centre == 2.0
    assert math.isnan(low)
    assert math.isnan(high)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_interval_is_that_of_student(level: float) -> None:
    from scipy import stats  # takes a second to import

    low, high = stats.t.interval(level, len(VALUES) - 1, loc=np.mean(VALUES), scale=stats.sem(VALUES))
    assert t_interval(VALUES, level=level) == pytest.approx((np.mean(VALUES), low, high))


def test_the_larger_error_is_among_those_that_are_known() -> None:
    assert larger_error(0.1, 0.3, 0.2) == 0.3
    assert larger_error(math.nan, 0.2) == larger_error(0.2, math.nan) == 0.2
    assert math.isnan(larger_error(math.nan, math.nan))


def test_a_mean_has_the_larger_of_the_errors_within_and_between() -> None:
    assert error_of_mean([3.0, 4.0]) == 2.5
    assert error_of_mean([3.0, math.nan]) == 1.5
    assert math.isnan(error_of_mean([math.nan]))
    assert joined([1.0, 2.0], [0.0, 0.0]) == (1.5, pytest.approx(0.5))
    assert joined([1.0, 2.0], [3.0, 4.0]) == (1.5, 2.5)
    assert joined([1.0], [0.25]) == (1.0, 0.25), "one network has the error over its points"
    assert math.isnan(joined([1.0], [math.nan])[1]), "one network without it has none"
    assert all(map(math.isnan, joined([], [])))
    with pytest.raises(InputError, match="as many errors as values, got 1 and 2"):
        joined([1.0, 2.0], [0.1])


def test_the_error_of_a_normal_interval() -> None:
    assert error_of_interval(0.02, 0.804) == pytest.approx(0.2)
    assert error_of_interval(3.0, 3.0) == 0.0
    assert math.isnan(error_of_interval(math.nan, math.nan))


def test_wilson_stays_between_0_and_1_and_holds_the_share() -> None:
    for successes in range(11):
        low, high = wilson(successes, 10)
        assert 0.0 <= low <= successes / 10 <= high <= 1.0
        assert high > low
