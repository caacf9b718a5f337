"""The one place where colours, widths, sizes and the look of axes live; nothing here changes matplotlib's settings.

The first seven hues are those of Okabe and Ito (2008), "Color universal design"; three dark ones complete ten classes.
Colour-blind readers can tell all ten apart, in full and in the tint of areas. Ordered things (layers, moments) run
through cividis or viridis, which also keep their order in grey.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regionscope.errors import InputError
from regionscope.plot.ticks import few_ticks, group_digits

Colours = np.ndarray[Any, np.dtype[np.float64]]

DPI = 150
PANEL_INCHES = 4.0
BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7"
BLACK, GREY, LIGHT, PALE = "#1A1A1A", "#888888", "#BBBBBB", "#EEEEEE"
TEXT_GREY = "#555555"  # contrast 7.5 : 1 on white; GREY has 3.5 : 1 and is for lines
EDGE, EDGE_WIDTH = "#333333", 0.35
THINNEST = 0.12  # share of their width that lines keep where there are many
BOUNDARY, BOUNDARY_WIDTH = "#000000", 1.6
LINE_WIDTH, BAND_ALPHA = 1.5, 0.18
MARKERS, MARKER_SIZE = "osD^vP*X<p", 10.0

# The hues of Humayun et al. 2023: purple for train, orange for test, blue for random points; accuracy stays behind.
POINT_SETS = {"train": "#7B3294", "test": "#E66101", "random": "#2C7FB8"}
ACCURACY = {"train": ("#555555", "-"), "test": ("#555555", "--")}

# Blue and vermillion come first: two classes are the common case, and these two are the furthest apart.
_HUES = np.array(
    [
        [0, 114, 178],  # blue
        [213, 94, 0],  # vermillion
        [0, 158, 115],  # bluish green
        [230, 159, 0],  # orange
        [86, 180, 233],  # sky blue
        [204, 121, 167],  # reddish purple
        [240, 228, 66],  # yellow
        [24, 0, 192],  # ultramarine
        [96, 72, 48],  # brown
        [72, 0, 96],  # dark violet
    ],
    dtype=np.float64,
)
_TINTS = np.array([0.30, 0.45, 0.60, 0.75])  # share of white in a region's colour
_SHADES = np.array([0.12, 0.26, 0.40, 0.52, 0.64, 0.76])  # the same for regions of one class
_REGION_HUES = 7  # those of linear regions: the dark hues are for classes
_CLASS_TINT = 0.45
_WHOLE = (0.0, 0.1, 0.96, 0.9)  # of a figure: three-dimensional axes, and room for labels below and on the right
_LAYERS = (0.0, 0.82)  # of viridis: its yellow end is too pale for lines on white


def region_colours(ids: Tensor) -> Colours:
    """A colour (r, 3) for each region id (r,): pseudo-random, and the same for the same id in every picture."""
    hue, tint = np.divmod(_scrambled(ids, _REGION_HUES * len(_TINTS)), len(_TINTS))
    return _tinted(_HUES[hue], _TINTS[tint][:, None])


def shaded_colours(ids: Tensor, labels: Tensor) -> Colours:
    """A colour (r, 3) for each region: the hue is that of its class label (r,), the shade that of its id (r,)."""
    hues = _HUES[labels.to(torch.int64).cpu().numpy() % len(_HUES)]
    return _tinted(hues, _SHADES[_scrambled(ids, len(_SHADES))][:, None])


def class_colours(labels: Tensor, *, pale: bool = False) -> Colours:
    """The colour (n, 3) of each class label (n,): ten colours, then from the start again.

    The colour depends on the label alone, so that a class looks the same in every figure. pale: the tint for areas.
    """
    hues = _HUES[labels.to(torch.int64).cpu().numpy() % len(_HUES)]
    return _tinted(hues, np.float64(_CLASS_TINT if pale else 0.0))


def hue(i: int) -> tuple[float, float, float]:
    """The hue of class i; there are ten, then from the start again."""
    red, green, blue = _HUES[i % len(_HUES)] / 255.0
    return float(red), float(green), float(blue)


def layer_colours(n: int) -> Colours:
    """A colour (n, 3) for each of n layers, from dark violet (first) to light green (last)."""
    return np.asarray(matplotlib.colormaps["viridis"](np.linspace(*_LAYERS, max(n, 1))))[:n, :3]


def edge_width(n: int) -> float:
    """The width of outlines when n regions share a panel: thinner the more there are."""
    return EDGE_WIDTH * min(1.0, max(THINNEST, math.sqrt(4000 / max(n, 1))))


def axes_or_current(ax: Axes | None, *, projection: str | None = None) -> Axes:
    """``ax``, or where it is None pyplot's current axes, which are made with this projection if there are none."""
    if ax is not None and not isinstance(ax, Axes):
        several = isinstance(ax, np.ndarray)
        advice = "Pass one of its axes, such as ax=axes.flat[0]" if several else "Pass one axes of plt.subplots()"
        raise InputError(f"Expected Matplotlib axes for ax=, got {type(ax).__name__}. {advice}.")
    if ax is not None and projection is not None and getattr(ax, "name", "") != projection:
        raise InputError(
            'Expected three-dimensional axes, got a plane one. Make them with add_subplot(projection="3d").'
        )
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    current = plt.gcf()
    if current.axes:
        return current.gca()
    if projection == "3d" and current.get_layout_engine() is None:
        return current.add_axes(_WHOLE, projection=projection)
    return current.add_subplot(projection=projection)


def figure(rows: int, columns: int, *, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure of its own (not pyplot's) with rows x columns panels of ``width`` x ``height`` inches.

    The axes are one flat list, row by row, also for several rows: those of ``plt.subplots`` after ``axes.flatten()``.
    options: those of ``add_subplot``, such as projection="3d".

    >>> made, (upper_left, upper_right, lower_left, lower_right) = figure(2, 2, width=3, height=3)
    """
    made = Figure(figsize=(columns * width, rows * height), dpi=DPI, layout="constrained")
    axes = [made.add_subplot(rows, columns, i + 1, **options) for i in range(rows * columns)]
    return made, axes


def map_axes(axes: Sequence[Axes], *, ticks: bool = True) -> None:
    """Axes around a slice: a thin frame, and few ticks, or neither ticks nor names."""
    for ax in axes:
        for spine in ax.spines.values():
            spine.set(linewidth=0.6, color=BLACK)
        if ticks:
            ax.tick_params(labelsize="small", width=0.6, length=2.5, color=BLACK)
            few_ticks(ax.xaxis)
            few_ticks(ax.yaxis)
        else:
            ax.set(xticks=[], yticks=[], xlabel="", ylabel="")


def space_axes(ax: Any) -> None:
    """Three-dimensional axes: few ticks, no walls, no grid."""
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        few_ticks(axis)
        axis.get_major_locator().set_params(prune="both")  # end labels meet at the corners
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
        axis.line.set(linewidth=0.6, color=GREY)
        axis.set_tick_params(labelsize="small", pad=0)
    ax.zaxis.set_tick_params(pad=3)  # its labels stand beside the ticks, not below them
    ax.grid(False)
    ax.view_init(elev=38, azim=-60)


def plain_axes(axes: Sequence[Axes]) -> None:
    """Axes around curves: no frame on the top and on the right."""
    for ax in axes:
        group_digits(ax.xaxis)
        group_digits(ax.yaxis)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize="small", width=0.6, length=2.5)
        ax.spines[["left", "bottom"]].set_linewidth(0.6)


def _scrambled(ids: Tensor, n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A number below n for each id, by the finaliser of splitmix64 (Steele et al. 2014).

    The ids of neighbouring regions have much in common. After a single multiplication their colours still do: the two
    sides of a wall then agree three times as often as by chance.
    """
    mixed = (ids.cpu().numpy().astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return ((mixed >> np.uint64(32)) % np.uint64(n)).astype(np.int64)


def _tinted(rgb: Colours, white: Colours | np.float64) -> Colours:
    return np.asarray((rgb + (255.0 - rgb) * white) / 255.0)
