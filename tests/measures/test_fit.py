"""The line of least squares against NumPy, and its band against many draws."""

from __future__ import annotations

import numpy as np
import pytest

from regionscope.errors import InputError
from regionscope.measures.fit import linear_fit


def test_the_line_is_that_of_numpy() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=20), random.normal(size=20)
    fit = linear_fit(x, y)
    slope, intercept = np.polyfit(x, y, 1)
    assert (fit.slope, fit.intercept) == pytest.approx((slope, intercept))
    assert fit.residual == pytest.approx(np.sqrt(((y - fit.at(x)) ** 2).sum() / 18))


@pytest.mark.parametrize("away", [1e9, 1e12])
def test_a_line_far_from_the_origin_has_the_residual_of_the_same_line_near_it(away: float) -> None:
    x = np.arange(0, 8) / 4  # exact also far away
    y = 3 * x + np.array([1, -1, 0, 0, 0, 0, 1, -1]) / 64
    near, far = linear_fit(x, y), linear_fit(x + away, y)
    assert (far.slope, far.residual, far.slope_stderr) == (near.slope, near.residual, near.slope_stderr)
    assert linear_fit(x + away, 3 * x).residual == 0


def test_the_band_holds_the_true_line_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    x = np.linspace(0, 1, 8)
    held = 0
    for _ in range(2000):
        low, high = linear_fit(x, 1 + 2 * x + random.normal(size=8)).band([0.3], level=0.9)
        held += int(low[0] <= 1.6 <= high[0])
    assert held / 2000 == pytest.approx(0.9, abs=0.025)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2], [1, 2], "at least 3"),
        ([1, 2, 3], [1, 2], "two lists of one length"),
        ([1, 1, 1], [1, 2, 3], "x to have different numbers, got 3 equal ones, for which no line is defined"),
        ([0.1, 0.1, 0.1], [1, 2, 3], "x to have different numbers, got 3 equal ones"),
        ([0, 1e-200, 2e-200], [1, 2, 3], "differences can be squared in float64, got 0 to 2e-200"),
        ([0, 1e200, 2e200], [1, 2, 3], "differences can be squared in float64, got 0 to 2e.200"),
        ([1, 2, 3], [1, 1e200, 2e200], "y whose differences can be squared in float64, got 1 to 2e.200"),
        ([1, 2, 3], [-1.7e308, 1.7e308, 0], "y whose differences can be squared in float64"),
        ([1, 2, float("nan")], [1, 2, 3], "NaN"),
    ],
)
def test_what_cannot_be_fitted_is_said(x: list[float], y: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        linear_fit(x, y)


def test_the_level_is_a_share() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        linear_fit([1, 2, 3], [1, 2, 4]).band([1.0], level=95)


def test_differences_whose_squares_lose_digits_are_refused() -> None:
    with pytest.raises(InputError, match="whose differences can be squared"):
        linear_fit([0.0, 1e-161, 2e-161], [0.0, 1.0, 2.0])
