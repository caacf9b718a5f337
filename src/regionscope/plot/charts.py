"""Figures of studies: a chart (plain values) becomes a matplotlib figure."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regionscope.plot import style
from regionscope.plot.correlation import correlation_scatter
from regionscope.plot.points import data
from regionscope.plot.regions import decision_mosaic, decision_regions, linear_regions
from regionscope.plot.walls import zero_lines
from regionscope.regions import DecisionRegions
from regionscope.studies.charts import Bars, Chart, Lines, Picture, Pictures, Scatter

__all__ = ["chart_figure"]

_INCHES = (6.0, 4.0)
_INSIDE = 4  # curves whose legend finds a place among them
_TICKS = 9  # values on a logarithmic axis that are named one by one


def chart_figure(chart: Chart) -> Figure:
    """The figure of any chart."""
    if isinstance(chart, Pictures):
        return _pictures(chart)
    figure = Figure(figsize=_INCHES, dpi=style.DPI, layout="constrained")
    ax = figure.add_subplot()
    if isinstance(chart, Scatter):
        _scatter(chart, ax)
    elif isinstance(chart, Lines):
        _lines(chart, ax)
    else:
        _bars(chart, ax)
    ax.set_title(chart.title)
    style.plain_axes([ax])
    return figure


def _scatter(chart: Scatter, ax: Axes) -> None:
    x = [value for one in chart.series for value in one.x]
    y = [value for one in chart.series for value in one.y]
    names = [one.label for one in chart.series for _ in one.x]
    correlation_scatter(x, y, ax=ax, groups=names, fit=chart.fit, found=chart.found)
    ax.set(xlabel=chart.x_label, ylabel=chart.y_label)
    if len(chart.series) > 1:
        ax.legend(frameon=False)


def _lines(chart: Lines, ax: Axes) -> None:
    names = [one.label for one in chart.series]
    ax.set(xscale=chart.x_scale, yscale=chart.y_scale)  # first, as limits are chosen on the scale that is set
    for place, one in enumerate(chart.series):
        i = names.index(one.beside) if one.beside and one.beside in names else place
        marker = style.MARKERS[i % len(style.MARKERS)] if len(one.x) <= 30 else ""
        dashes = "--" if one.beside else "-"
        ax.plot(one.x, one.y, dashes, marker=marker, markersize=4, color=style.hue(i), label=one.label or None)
        if one.spread:
            y, half = np.asarray(one.y, dtype=float), np.asarray(one.spread, dtype=float)
            ax.fill_between(one.x, y - half, y + half, color=style.hue(i), alpha=style.BAND_ALPHA, linewidth=0)
    for name, level in chart.levels:
        ax.axhline(level, color=style.GREY, linewidth=1, linestyle="--")
        ax.annotate(name, (1, level), xycoords=("axes fraction", "data"), ha="right", va="bottom", color=style.GREY)
    ax.set(xlabel=chart.x_label, ylabel=chart.y_label)
    places = sorted({x for one in chart.series for x in one.x})
    if chart.x_scale == "log" and len(places) <= _TICKS:  # a few settings: their own values, not powers of ten
        ax.set_xticks(places, [f"{place:g}" for place in places])
        ax.minorticks_off()
    if len(chart.series) > _INSIDE:
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    elif any(one.label for one in chart.series):
        ax.legend(frameon=False)


def _bars(chart: Bars, ax: Axes) -> None:
    width = 0.8 / max(1, len(chart.series))
    place = np.arange(len(chart.names))
    for i, one in enumerate(chart.series):
        shift = (i - (len(chart.series) - 1) / 2) * width
        errors = one.spread or None
        ax.bar(place + shift, one.y, width, yerr=errors, color=style.hue(i), label=one.label or None, capsize=2)
    ax.set_xticks(place, chart.names)
    ax.set_ylabel(chart.y_label)
    if len(chart.series) > 1:
        ax.legend(frameon=False)


def _pictures(chart: Pictures) -> Figure:
    rows = -(-len(chart.pictures) // chart.columns)
    size = (chart.inches * chart.columns, (chart.inches + 0.2) * rows + 0.4)
    figure = Figure(figsize=size, dpi=style.DPI, layout="constrained")
    figure.suptitle(chart.title)
    grid = figure.subplots(rows, chart.columns, squeeze=False)
    for ax in grid.flat[len(chart.pictures) :]:
        ax.set_axis_off()
    for picture, ax in zip(chart.pictures, grid.flat, strict=False):
        _picture(picture, ax)
        ax.set_title(picture.title, fontsize="small")
        ax.set_xticks([])
        ax.set_yticks([])
    return figure


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
