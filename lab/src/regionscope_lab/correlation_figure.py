"""Two measures over many runs: a point for each run, the least-squares line and its band."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from regionscope.errors import InputError
from regionscope.inputs import read_numbers
from regionscope.measures.correlate import Correlation, correlate
from regionscope.plot import style
from regionscope_lab.fit import LinearFit, linear_fit

Result = TypeVar("Result")


@dataclass(frozen=True)
class CorrelationArtists:
    """The artists of ``correlation_scatter``."""

    points: dict[str, PathCollection]
    line: Line2D | None
    band: PolyCollection | None


def correlation_scatter(
    x: Sequence[float] | NDArray[Any],
    y: Sequence[float] | NDArray[Any],
    *,
    ax: Axes | None = None,
    groups: Sequence[str] | None = None,
    fit: LinearFit | bool | None = True,
    found: Correlation | bool | None = True,
    level: float = 0.95,
    x_label: str = "",
    y_label: str = "",
) -> CorrelationArtists:
    """A point for each run, the fit with its confidence band, and the correlation with its interval as text.

    As Li et al. 2025, Figure 4. groups: a name for each run (its architecture, say), each with a colour and a marker.
    fit: from ``measures.fit.linear_fit``. found: from ``correlate``; Pearson's coefficient is written in the corner.
    True computes them from x and y, where they are defined; None or False leaves them out. x_label, y_label: names of
    the axes.
    """
    a, b = read_numbers(x, "x"), read_numbers(y, "y")
    names = [""] * len(a) if groups is None else list(groups)
    if a.shape != b.shape or len(names) != len(a):
        raise InputError(
            f"Expected as many x, y and groups, got shapes {a.shape} and {b.shape} and {len(names)} names. "
            "Pass one entry for each run."
        )
    ax = style.axes_or_current(ax)
    points = _draw_groups(a, b, names, ax)
    line = band = None
    if fit is True:
        fit = _if_defined(linear_fit, a, b)
    if found is True:
        found = _if_defined(partial(correlate, level=level), a, b)
    if isinstance(fit, LinearFit) and len(a):
        ends = np.linspace(a.min(), a.max(), 100)
        (line,) = ax.plot(ends, fit.at(ends), color=style.BLACK, linewidth=style.line(style.LINE_WIDTH), zorder=2)
        band = ax.fill_between(ends, *fit.band(ends, level=level), color=style.BLACK, alpha=0.12, linewidth=0, zorder=1)
    if isinstance(found, Correlation):
        _write(found, ax)
    if any(names):
        ax.legend(fontsize="small", frameon=False, loc="best")
    if x_label:
        ax.set_xlabel(x_label)
    if y_label:
        ax.set_ylabel(y_label)
    style.plain_axes([ax])
    return CorrelationArtists(points, line, band)


def _draw_groups(x: NDArray[Any], y: NDArray[Any], names: Sequence[str], ax: Axes) -> dict[str, PathCollection]:
    """The points of each group, in its colour and with its marker."""
    points = {}
    for i, name in enumerate(dict.fromkeys(names)):
        members = np.array([other == name for other in names])
        points[name] = ax.scatter(
            x[members],
            y[members],
            s=2.8 * style.MARKER_SIZE,
            color=style.hue(i),
            marker=style.MARKERS[i % len(style.MARKERS)],
            edgecolors="white",
            linewidths=0.4,
            label=name or None,
            zorder=3,
        )
    return points


def _if_defined(
    compute: Callable[[NDArray[Any], NDArray[Any]], Result], x: NDArray[Any], y: NDArray[Any]
) -> Result | None:
    """The result, or None where it is refused: too few or too many pairs, equal numbers, or numbers that are NaN."""
    try:
        return compute(x, y)
    except InputError:
        return None


def _write(coefficients: Correlation, ax: Axes) -> None:
    low, high = coefficients.pearson.interval
    text = f"r = {coefficients.pearson.value:.2f}  [{low:.2f}, {high:.2f}]\nn = {coefficients.pearson.n}"
    below = coefficients.pearson.value > 0  # a rising cloud leaves the lower right corner free, a falling one the upper
    y, side = (0.03, "bottom") if below else (0.97, "top")
    ax.text(0.98, y, text.replace("-", "−"), transform=ax.transAxes, ha="right", va=side, fontsize="small")
