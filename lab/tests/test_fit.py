"""Lines through pairs of numbers against NumPy, and the scatter that shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import regionscope as rs
from regionscope.errors import InputError
from regionscope_lab.correlation_figure import correlation_scatter
from regionscope_lab.fit import linear_fit


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
    ("call", "words"),
    [
        (lambda: linear_fit([1, 2], [1, 2]), "at least 3"),
        (lambda: linear_fit([1, 2, 3], [1, 2]), "two lists of one length"),
        (lambda: linear_fit([0.1, 0.1, 0.1], [1, 2, 3]), "got 3 equal ones, for which no line is defined"),
        (lambda: linear_fit([0, 1e-161, 2e-161], [1, 2, 3]), "x whose differences can be squared in float64"),
        (lambda: linear_fit([1, 2, 3], [-1.7e308, 1.7e308, 0]), "y whose differences can be squared in float64"),
        (lambda: linear_fit([1, 2, float("nan")], [1, 2, 3]), "NaN"),
        (lambda: linear_fit([1, 2, 3], [1, 2, 4]).band([1.0], level=95), "between 0 and 1"),
    ],
)
def test_bad_input_is_one_sentence(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("given", [True, False])
def test_a_scatter_has_a_point_for_each_run_and_the_line_of_the_fit(given: bool) -> None:
    """Of a fit and a correlation that are given, or that it finds itself."""
    x, y = [1.0, 2.0, 3.0, 5.0], [1.1, 1.9, 3.2, 4.8]
    correlation = rs.measures.correlate(x, y)
    options: dict[str, Any] = {"fit": linear_fit(x, y), "found": correlation} if given else {"x_label": "regions"}
    ax = Figure().add_subplot()
    drawn = correlation_scatter(x, y, ax=ax, groups=["a", "b", "a", "b"], **options)
    assert np.asarray(drawn.points["b"].get_offsets()).tolist() == [[2.0, 1.9], [5.0, 4.8]]
    assert not np.array_equal(drawn.points["a"].get_facecolor(), drawn.points["b"].get_facecolor())
    assert drawn.line is not None
    assert drawn.band is not None
    positions, heights = drawn.line.get_data()
    assert np.allclose(heights, np.polyval(np.polyfit(x, y, 1), positions))
    assert drawn.band.get_paths()[0].vertices[:, 1].min() < heights.min()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert f"r = {correlation.pearson.value:.2f}" in ax.texts[0].get_text()
    assert "n = 4" in ax.texts[0].get_text()
    assert ax.get_xlabel() == ("" if given else "regions")


@pytest.mark.parametrize(
    ("x", "y", "options"),
    [
        ([1, 2], [3, 4], {}),  # too few pairs
        ([2, 2, 2], [3, 4, 5], {}),  # no line is defined
        ([1, 2, 3], [3, 4, 5], {"fit": None, "found": None}),
    ],
)
def test_a_scatter_without_fit_is_only_points(x: list[float], y: list[float], options: dict[str, Any]) -> None:
    ax = Figure().add_subplot()
    ax.set_xlabel("kept")
    drawn = correlation_scatter(x, y, ax=ax, **options)
    assert drawn.line is None
    assert drawn.band is None
    assert not ax.texts
    assert ax.get_legend() is None
    assert ax.get_xlabel() == "kept"
    with pytest.raises(InputError, match=r"as many x, y and groups, got shapes \(2,\) and \(1,\) and 2 names"):
        correlation_scatter([1, 2], [3], ax=ax)
