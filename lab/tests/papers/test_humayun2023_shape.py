"""Descent, ascent and second descent of a curve, and what noise alone looks like."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from regionscope.errors import InputError
from regionscope_lab.papers.humayun2023.curves import Curve
from regionscope_lab.papers.humayun2023.shape import double_descent, turning_points

DOUBLE = (5.0, 1.0, 2.0, 4.0, 0.5)


def test_a_double_descent_has_its_three_phases_and_their_places() -> None:
    shape = double_descent([0, 1, 10, 100, 1000], DOUBLE, [0.1] * 5)
    assert shape.ascent is not None
    assert shape.second_descent is not None
    assert [change.amount for change in (shape.first_descent, shape.ascent, shape.second_descent)] == [4.0, 3.0, 3.5]
    assert shape.clear == (True, True, True)
    assert (shape.valley, shape.peak) == (1, 3)
    assert shape.turns == (1, 3)
    assert shape.peaks == 1
    assert shape.ascent.error == pytest.approx(0.1 * math.sqrt(2))


@pytest.mark.parametrize(
    ("values", "clear"),
    [
        ((5, 4, 3, 2, 1), (True, False, False)),
        ((1, 2, 3, 4, 5), (False, True, False)),
        ((1, 2, 5, 3, 1), (False, True, True)),
        ((5, 3, 1, 2, 4), (True, True, False)),
        ((5, 4, 4.1, 2, 1), (True, False, False)),
        ((3, 3, 3, 3, 3), (False, False, False)),
    ],
)
def test_phases_that_are_missing_are_not_clear(values: tuple[float, ...], clear: tuple[bool, ...]) -> None:
    shape = double_descent(range(5), values, [0.1] * 5)
    assert shape.clear == clear
    assert (shape.ascent is None) == (not clear[1])


def test_a_rise_within_the_noise_is_no_ascent_and_has_no_valley_or_peak() -> None:
    shape = double_descent(range(5), DOUBLE, [0.7] * 5)
    assert shape.clear == (True, False, False)
    assert (shape.valley, shape.peak, shape.second_descent) == (None, None, None)
    assert shape.first_descent.amount == 4.5
    assert shape.rise.amount == 3.0
    assert shape.turns == ()


def test_the_ascent_is_the_largest_rise_that_is_clear() -> None:
    """The very highest look is unsure; the one before it is not."""
    shape = double_descent(range(5), (5.0, 1.0, 3.0, 3.1, 0.5), (0.1, 0.1, 0.1, 2.0, 0.1))
    assert (shape.valley, shape.peak) == (1, 2)
    assert double_descent(range(5), (5.0, 1.0, 3.0, 3.1, 0.5), [0.1] * 5).peak == 3


def test_a_second_descent_ends_in_the_mean_of_the_last_three_looks() -> None:
    shape = double_descent(range(7), (5, 1, 4, 1, 3, 4, 2), [0.1] * 7)
    assert shape.second_descent is not None
    assert shape.second_descent.amount == pytest.approx(1.0)  # and not 3, to the lowest look
    assert double_descent(range(3), (5, 1, 4), [0.1] * 3).second_descent is None


def noisy(course: NDArray[np.float64], draws: np.random.Generator, *, seeds: int = 2, noise: float = 0.1) -> Curve:
    """Seeds with the independent noise of their points, whose mean has this standard error."""
    each = noise * math.sqrt(seeds)
    values = course + draws.normal(0, each, (seeds, len(course)))
    return Curve(tuple(range(len(course))), values, np.full_like(values, each))


def test_noise_after_a_descent_is_seldom_an_ascent_and_a_double_descent_is_found() -> None:
    draws, looks = np.random.default_rng(0), np.arange(40)
    fall = np.where(looks < 13, 5 - 4 * looks / 13, 1.0)
    double = fall + np.exp(-(((looks - 26) / 4) ** 2))
    called = sum(noisy(fall, draws).shape.ascent is not None for _ in range(200))
    found = sum(all(noisy(double, draws).shape.clear) for _ in range(200))
    assert called < 20
    assert found > 190


def test_two_peaks_are_counted_and_small_ones_are_not() -> None:
    shape = double_descent(range(7), [0, 4, 1, 1.1, 1, 3, 0], [0.1] * 7)
    assert shape.turns == (1, 2, 5)
    assert shape.peaks == 2
    assert turning_points([3, 3.05, 3], [0.1] * 3) == ()
    assert double_descent([0, 1, 2], [1, 0, 1], [0.1] * 3).peaks == 0
    assert double_descent([0, 1, 2], [0, 1, 0], [0.1] * 3).peaks == 1


def test_what_is_no_curve_is_refused() -> None:
    with pytest.raises(InputError, match="two or more steps, values and errors"):
        double_descent([0], [1], [0])
    with pytest.raises(InputError, match="NaN"):
        double_descent([0, 1], [1, math.nan], [0, 0])
