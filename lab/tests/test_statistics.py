"""Means and intervals against NumPy, SciPy and closed forms; NaN where an error is unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regionscope_lab.statistics import deviation, mean, standard_error, t_interval, wilson

VALUES = [3.0, 1.0, 4.0, 1.5, 9.2]


def test_mean_deviation_and_standard_error() -> None:
    assert mean(VALUES) == pytest.approx(np.mean(VALUES))
    assert deviation(VALUES) == pytest.approx(np.std(VALUES, ddof=1))
    assert standard_error(VALUES) == pytest.approx(np.std(VALUES, ddof=1) / math.sqrt(len(VALUES)))
    assert standard_error([0.1] * 3) == 0.0, "equal values have no spread, not even that of rounding"
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


def test_wilson_stays_between_0_and_1_and_holds_the_share() -> None:
    for successes in range(11):
        low, high = wilson(successes, 10)
        assert 0.0 <= low <= successes / 10 <= high <= 1.0
        assert high > low
