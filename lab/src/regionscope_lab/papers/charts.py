"""What a figure of a study shows, as plain values: `chart_figures` draws them, nothing is computed there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regionscope.measures.correlate import Correlation, correlate
from regionscope.measures.fit import LinearFit, linear_fit

Scale = Literal["linear", "log", "symlog"]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of one colour: ``stderr`` or ``std`` is a standard error or deviation for each y, or empty.

    interval: in place of these, the lower and the upper end of a 95% interval for each y. All are drawn around
    curves and bars, and the report says which it is.
    beside: as a curve, the label of the series that this one is compared with: dashed, in its colour,
    or in a colour of its own where no series has that label.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    stderr: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    beside: str = ""
    interval: tuple[tuple[float, float], ...] = ()

    @staticmethod
    def of(label: str, points: Iterable[Sequence[float]], *, beside: str = "") -> Series:
        """From (x, y) or (x, y, standard error) of each point."""
        x, y, *stderr = list(zip(*points, strict=True)) or [(), ()]
        return Series(label=label, x=x, y=y, stderr=stderr[0] if stderr else (), beside=beside)


@dataclass(frozen=True, kw_only=True)
class _OfSeries:
    title: str
    x_label: str = ""
    y_label: str
    series: tuple[Series, ...]


@dataclass(frozen=True, kw_only=True)
class Scatter(_OfSeries):
    """Points in groups, the least-squares line through all of them, and their correlation."""

    fit: LinearFit | None = None
    found: Correlation | None = None

    @staticmethod
    def fitted(*, title: str, x_label: str, y_label: str, series: tuple[Series, ...]) -> Scatter:
        """With line and correlation computed from all points."""
        x = [value for one in series for value in one.x]
        y = [value for one in series for value in one.y]
        return Scatter(
            title=title, x_label=x_label, y_label=y_label, series=series, fit=linear_fit(x, y), found=correlate(x, y)
        )


@dataclass(frozen=True, kw_only=True)
class Lines(_OfSeries):
    """Curves with bands; ``levels`` are horizontal lines with a name, such as a bound."""

    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    levels: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Bars(_OfSeries):
    """Bars in groups: one series each, its x ignored, one bar for each of ``names``; NaN stands for no value."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A partition (a ``Partition`` or ``DecisionRegions``), what of it to draw, and points on top.

    result: None for points alone. layer: of a ``Partition``, the regions as this fold leaves them.
    """

    title: str
    result: Any
    kind: Literal["linear", "decision", "neurons"] = "linear"
    points: Any = None
    labels: Any = None
    layer: str = ""


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """A grid of pictures, row by row; ``inches`` is the width of one.

    Pictures of points alone show the same part of the plane as those of two-dimensional slices beside them.
    """

    title: str
    columns: int
    pictures: tuple[Picture, ...]
    inches: float = 2.6


Chart = Scatter | Lines | Bars | Pictures
