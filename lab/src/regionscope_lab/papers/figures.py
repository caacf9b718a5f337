"""Figures of items: plain values that a finding has, and how they are drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure as Drawing

from regionscope.plot import style
from regionscope_lab.free_legend import free_legend

_INCHES, _LETTERS = (6.0, 4.0), 60
_SPREAD = 0.6  # of the place of a name, for the series side by side


@dataclass(frozen=True)
class Series:
    """Points in one colour; series with one label share it. intervals: the 95% ends of each y, or none."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    intervals: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What a figure shows. joined: whether points are joined. names: of the places 0, 1, ... along x, or none."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    joined: bool = True
    log_x: bool = False
    names: Sequence[str] = ()


def side_by_side(title: str, y_label: str, names: Sequence[str], series: Iterable[Series]) -> Figure:
    """Series side by side at the place of each name, with their intervals."""
    every = list(series)
    shifts = [_SPREAD * ((i + 0.5) / len(every) - 0.5) for i in range(len(every))]
    moved = [
        Series(one.label, [x + shift for x in one.x], one.y, one.intervals)
        for one, shift in zip(every, shifts, strict=True)
    ]
    return Figure(title=title, x_label="", y_label=y_label, series=moved, joined=False, names=names)


def draw(figure: Figure) -> Drawing:
    """One panel with a legend where there is more than one label."""
    drawing = Drawing(figsize=_INCHES, dpi=style.DPI, layout="constrained")
    drawing.suptitle(textwrap.fill(figure.title, _LETTERS))
    ax = drawing.add_subplot()
    labels = list(dict.fromkeys(one.label for one in figure.series))
    for one in figure.series:
        i = labels.index(one.label)
        first = next(other for other in figure.series if other.label == one.label) is one
        marker = "" if figure.joined else style.MARKERS[i % len(style.MARKERS)]
        ax.plot(
            one.x, one.y, linestyle="-" if figure.joined else "", marker=marker, markersize=4, linewidth=1,
            color=style.hue(i), label=one.label if first else None,
        )  # fmt: skip
        if one.intervals:
            low, high = zip(*one.intervals, strict=True)
            ax.vlines(one.x, low, high, color=style.hue(i), linewidth=1)
    if figure.log_x:
        ax.set_xscale("symlog")
    if figure.names:
        ax.set_xticks(range(len(figure.names)), figure.names, rotation=30, ha="right")
    ax.set(xlabel=figure.x_label, ylabel=textwrap.fill(figure.y_label, _LETTERS // 2))
    style.plain_axes([ax])
    if len(labels) > 1:
        drawing.draw_without_rendering()  # from here on it is known where everything is
        free_legend(ax)
    return drawing
