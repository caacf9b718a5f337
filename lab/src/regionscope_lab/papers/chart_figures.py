"""Figures of studies: a chart (plain values) becomes a matplotlib figure."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from regionscope.exact import DecisionRegions
from regionscope.plot import style
from regionscope.plot.correlation import correlation_scatter
from regionscope.plot.legends import free_legend, is_free
from regionscope.plot.marks import data
from regionscope.plot.regions import decision_mosaic, decision_regions, linear_regions
from regionscope.plot.ticks import log_ticks, place_ticks, whole_ticks
from regionscope.plot.walls import zero_lines
from regionscope_lab.papers.charts import Bars, Chart, Lines, Picture, Pictures, Scatter, Series

_INCHES = (6.0, 4.0)
_MARGIN, _BAND = 0.05, 0.5  # of their range, around the points of a scatter plot: free, and at most for the band
_TITLE, _LABEL, _SMALL = 10, 12, 14  # letters to an inch: of a title, of the label of an axis, over a panel
_TITLE_INCHES, _SMALL_INCHES = 0.22, 0.15  # height of a line of text
_BESIDE = 16  # letters on a line beside the axes
_PADS = 0.09  # inches between two panels
_WIDE = 4  # series whose bars are wide enough for a word


def chart_figure(chart: Chart) -> Figure:
    """The figure of any chart: legends and names cover nothing that is drawn."""
    if isinstance(chart, Pictures):
        return _pictures(chart)
    figure = Figure(figsize=_INCHES, dpi=style.DPI, layout="constrained")
    title, alone = chart.title, len(chart.series) == 1 and not isinstance(chart, Lines)
    if alone and isinstance(chart, Scatter) and chart.series[0].label not in title:
        title += f", {chart.series[0].label}"  # a legend with one marker would look like one more point
    figure.suptitle(textwrap.fill(title, int(_TITLE * _INCHES[0])))
    ax = figure.add_subplot()
    if isinstance(chart, Scatter):
        _scatter(chart, ax)
    elif isinstance(chart, Lines):
        _lines(chart, ax)
    else:
        _bars(chart, ax)
    ax.set_xlabel(textwrap.fill(chart.x_label, int(_LABEL * _INCHES[0] * 0.8)))
    ax.set_ylabel(textwrap.fill(chart.y_label, int(_LABEL * _INCHES[1] * 0.8)))
    style.plain_axes([ax])
    whole_ticks(ax.yaxis, [y for series in chart.series for y in series.y if math.isfinite(y)])
    figure.draw_without_rendering()  # from here on it is known where everything is
    if isinstance(chart, Bars):
        _slant_names(ax)
    if not alone:
        free_legend(ax)
    if isinstance(chart, Lines):
        _name_levels(chart, ax)
    return figure


def _scatter(chart: Scatter, ax: Axes) -> None:
    x = [value for series in chart.series for value in series.x]
    y = np.array([value for series in chart.series for value in series.y], dtype=float)
    names = [series.label for series in chart.series for _ in series.x]
    drawn = correlation_scatter(x, y, ax=ax, groups=names, fit=chart.fit, found=chart.found)
    if (named := ax.get_legend()) is not None:
        named.remove()
    low, high = (float(y.min()), float(y.max())) if len(y) else (0.0, 0.0)
    if drawn.line is not None and drawn.band is not None and low < high:
        near = (low - _BAND * (high - low), high + _BAND * (high - low))  # a band of few runs is wider than any cloud
        band = np.clip(np.asarray(drawn.band.get_paths()[0].vertices)[:, 1], *near)
        shown = np.concatenate([y, np.asarray(drawn.line.get_ydata(), dtype=float), band])
        margin = _MARGIN * float(np.ptp(shown))
        ax.set_ylim(float(shown.min()) - margin, float(shown.max()) + margin)


def _lines(chart: Lines, ax: Axes) -> None:
    names = [series.label for series in chart.series]
    ax.set(xscale=chart.x_scale, yscale=chart.y_scale)  # first, as limits are chosen on the scale that is set
    for place, series in enumerate(chart.series):
        i = names.index(series.beside) if series.beside and series.beside in names else place
        marker = style.MARKERS[i % len(style.MARKERS)] if len(series.x) <= 30 else ""
        dashes = "--" if series.beside else "-"
        ax.plot(series.x, series.y, dashes, marker=marker, markersize=4, color=style.hue(i), label=series.label or None)
        if (ends := _ends(series)) is not None:
            ax.fill_between(series.x, ends[0], ends[1], color=style.hue(i), alpha=style.BAND_ALPHA, linewidth=0)
    for _, level in chart.levels:
        ax.axhline(level, color=style.TEXT_GREY, linewidth=1, linestyle="--")
    places = [x for series in chart.series for x in series.x]
    whole_ticks(ax.xaxis, places)
    if not place_ticks(ax.xaxis, places):
        log_ticks(ax.xaxis)
    log_ticks(ax.yaxis)


def _bars(chart: Bars, ax: Axes) -> None:
    width = 0.8 / max(1, len(chart.series))
    place = np.arange(len(chart.names))
    for i, series in enumerate(chart.series):
        at = place + (i - (len(chart.series) - 1) / 2) * width
        y = np.asarray(series.y, dtype=float)
        known = np.isfinite(y)
        ax.bar(at[known], y[known], width, color=style.hue(i), label=series.label or None)
        if (ends := _ends(series)) is not None:
            middle, half = ends.mean(0)[known], np.ptp(ends, 0)[known] / 2
            whiskers = ax.errorbar(at[known], middle, half, fmt="none", ecolor=style.BLACK, elinewidth=1, capsize=2)
            for artist in whiskers.get_children():
                artist.set_path_effects([withStroke(linewidth=2, foreground="white")])  # to be seen on a dark bar
        turned = 90 if len(chart.series) > _WIDE else 0  # upright, the words would cover the bars beside
        for x in at[~known]:
            ax.annotate(
                "n/a", (x, 0), (0, 2), textcoords="offset points", ha="center", fontsize="small", rotation=turned
            )
    ax.set_xlim(-0.6, len(chart.names) - 0.4)
    ax.set_xticks(place, chart.names)
    if ax.get_ylim()[0] < 0:
        ax.axhline(0, color=style.BLACK, linewidth=0.6)


def _ends(series: Series) -> NDArray[np.float64] | None:
    """Lower and upper ends (2, n) of what surrounds the values of a series, if anything."""
    if series.interval:
        return np.asarray(series.interval, dtype=float).T
    error = series.stderr or series.std
    if not error:
        return None
    y, half = np.asarray(series.y, dtype=float), np.asarray(error, dtype=float)
    return np.stack([y - half, y + half])


def _slant_names(ax: Axes) -> None:
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    if any(right.x0 < left.x1 for left, right in pairwise(boxes)):
        for label in ax.get_xticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor")


def _name_levels(chart: Lines, ax: Axes) -> None:
    """The name of each level on its line or under it where it covers nothing, else beside the axes."""
    area = ax.get_window_extent()
    for name, level in chart.levels:
        text = ax.annotate(
            name, (1, level), (0, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
            color=style.TEXT_GREY, fontsize="small",
        )  # fmt: skip
        spots = [(x, ha, va) for va in ("bottom", "top") for x, ha in ((1, "right"), (0, "left"), (0.5, "center"))]
        for x, ha, va in spots:
            text.xy = (x, level)
            text.set(ha=ha, va=va, position=({"right": -2, "left": 4}.get(ha, 0), 2 if va == "bottom" else -2))
            box = text.get_window_extent()
            if area.y0 <= box.y0 and box.y1 <= area.y1 and is_free(box, ax, but=text):
                break
        else:
            text.xy = (1, level)
            text.set(ha="left", va="center", position=(4, 0), text=textwrap.fill(name, _BESIDE))


def _pictures(chart: Pictures) -> Figure:
    rows = -(-len(chart.pictures) // chart.columns)
    figure = Figure(dpi=style.DPI, layout="constrained")
    grid = figure.subplots(rows, chart.columns, squeeze=False)
    for ax in grid.flat[len(chart.pictures) :]:
        ax.set_axis_off()
    axes = list(grid.flat[: len(chart.pictures)])
    for picture, ax in zip(chart.pictures, axes, strict=True):
        _picture(picture, ax)
        lines = [textwrap.fill(line, int(_SMALL * chart.inches)) for line in picture.title.split("\n")]
        ax.set_title("\n".join(lines), fontsize="small")
        ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    _same_limits(chart.pictures, axes)
    width = chart.inches * chart.columns
    title = textwrap.fill(chart.title, int(_TITLE * width))
    figure.suptitle(title)
    heights = [_height(axes[i : i + chart.columns], chart.inches) for i in range(0, len(axes), chart.columns)]
    figure.set_size_inches(width, sum(heights) + _TITLE_INCHES * (title.count("\n") + 1) + _PADS / 2)
    return figure


def _same_limits(pictures: Sequence[Picture], axes: Sequence[Axes]) -> None:
    """Points alone are shown within the limits of the slices beside them, or, without such, within common limits."""
    alone = [ax for picture, ax in zip(pictures, axes, strict=True) if picture.result is None]
    flat = [ax for ax in axes if ax not in alone and ax.get_aspect() != "auto"]
    if not alone or (not flat and len(alone) < len(axes)):
        return
    ends = np.array([(*ax.get_xlim(), *ax.get_ylim()) for ax in flat or alone])
    for ax in alone:
        ax.set_xlim(ends[:, 0].min(), ends[:, 1].max())
        ax.set_ylim(ends[:, 2].min(), ends[:, 3].max())


def _height(axes: Sequence[Axes], inches: float) -> float:
    """Of a row of panels, titles included, so that panels of equal scales fill their width."""
    ratios = [
        abs(float(np.diff(ax.get_ylim())[0] / np.diff(ax.get_xlim())[0])) if ax.get_aspect() != "auto" else 1.0
        for ax in axes
    ]
    lines = max(ax.get_title().count("\n") + 1 for ax in axes)
    return (inches - _PADS) * max(ratios) + _SMALL_INCHES * lines + 1.2 * _PADS


def _picture(picture: Picture, ax: Axes) -> None:
    result = picture.result
    if result is None:
        style.map_axes([ax], ticks=False)
    elif isinstance(result, DecisionRegions):
        draw = decision_regions if picture.kind == "decision" else decision_mosaic
        draw(result, ax=ax, rasterized=True)
    elif picture.kind == "neurons":
        zero_lines(result, ax=ax, rasterized=True)
    elif picture.layer:
        names = list(result.by_layer)
        linear_regions(result, ax=ax, ids=result.layer_ids(picture.layer), edges=False, rasterized=True)
        zero_lines(result, ax=ax, layers=names[: names.index(picture.layer) + 1], rasterized=True)
    else:
        linear_regions(result, ax=ax, rasterized=True)
    if picture.points is not None:
        data(picture.points, picture.labels, ax=ax)
