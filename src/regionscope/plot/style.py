"""The one place where colours, widths, sizes and the look of axes live; only ``look`` changes matplotlib's settings.

Classes have the colours of ``palette``. Ordered things (layers, moments) run through cividis or viridis, which also
keep their order in grey.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from torch import Tensor

from regionscope.checks import check_positive, one_of
from regionscope.errors import InputError
from regionscope.plot.palette import CLASS_TINT, FIRST_HUES, Colours, class_hues, tinted
from regionscope.plot.ticks import few_ticks, group_digits

DPI = 150
PANEL_INCHES = 4.0
BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7"
BLACK, GREY, LIGHT, PALE = "#1A1A1A", "#888888", "#BBBBBB", "#EEEEEE"
EDGE, EDGE_WIDTH = "#333333", 0.35
THINNEST = 0.12  # share of their width that lines keep where there are many
BOUNDARY, BOUNDARY_WIDTH = "#000000", 1.6
LINE_WIDTH, BAND_ALPHA = 1.5, 0.18
MARKERS, MARKER_SIZE = "osD^vP*X<p", 10.0

# The hues of Humayun et al. 2023: purple for train, orange for test, blue for random points; accuracy stays behind.
POINT_SETS = {"train": "#7B3294", "test": "#E66101", "random": "#2C7FB8"}
ACCURACY = {"train": ("#555555", "-"), "test": ("#555555", "--")}

_TINTS = np.array([0.30, 0.45, 0.60, 0.75])  # share of white in a region's colour
_SHADES = np.array([0.12, 0.26, 0.40, 0.52, 0.64, 0.76])  # the same for regions of one class
_REGION_HUES = 7  # those of linear regions: the dark hues are for classes
_WHOLE = (0.0, 0.1, 0.96, 0.9)  # of a figure: three-dimensional axes, and room for labels below and on the right
_LAYERS = (0.82, 0.0)  # of viridis: its yellow end is too pale for lines on white
_EDGES = (0.55, 0.2)  # grey of the walls of the first layer and of the last one


@dataclass(frozen=True)
class Look:
    """The proportions of figures; see ``look``.

    width: of a whole figure in inches; None leaves it to each figure. text: size of the text in points. family: of the
    font. lines: factor of all line widths. dpi: of figures that are saved as pixels.
    """

    width: float | None = None
    text: float | None = None
    family: str = "DejaVu Sans"
    lines: float = 1.0
    dpi: int = DPI


LOOKS = {
    "paper": Look(width=3.25, text=9.0, family="STIXGeneral", lines=0.7, dpi=300),
    "talk": Look(width=8.0, text=18.0, lines=1.6, dpi=200),
}
_SCREEN = Look()
_LOOK = ContextVar("look", default=_SCREEN)


@contextmanager
def look(name: str, *, width: float | None = None) -> Iterator[None]:
    """Figures that are made inside this ``with`` block are as a paper or the slides of a talk need them.

    name: "paper" has the width of a column (3.25 inches), text of 9 points in the Times-like font that Matplotlib
        brings, and thin lines. "talk" is 8 inches wide, with text of 18 points and thick lines.
    width: of a whole figure in inches in place of these, such as 6.75 for both columns. The panels share it.

    Matplotlib's own settings follow inside the block, also for axes of ``plt.subplots``, and are as before after it.
    PDF files have TrueType fonts, which publishers ask for.

    >>> with look("paper", width=5.5):
    ...     made, axes = figure(1, 2, width=8, height=4)
    >>> made.get_size_inches().tolist()
    [5.5, 2.75]
    """
    one_of("look", name, tuple(LOOKS))
    if width is not None:
        check_positive(width=width)
    chosen = LOOKS[name] if width is None else replace(LOOKS[name], width=float(width))
    token = _LOOK.set(chosen)
    try:
        with matplotlib.rc_context(_settings(chosen)):
            yield
    finally:
        _LOOK.reset(token)


def _settings(chosen: Look) -> Any:
    """Matplotlib's settings for a look."""
    thin = 0.8 * chosen.lines
    return {
        **_FILES, "font.size": chosen.text, "font.family": [chosen.family], "axes.titlesize": "medium",
        "mathtext.fontset": "stix" if chosen.family.startswith("STIX") else "dejavusans",
        "figure.figsize": (chosen.width, 0.75 * (chosen.width or 0.0)), "figure.dpi": DPI, "savefig.dpi": chosen.dpi,
        "lines.linewidth": 1.5 * chosen.lines, "axes.linewidth": thin, "patch.linewidth": chosen.lines,
        "xtick.major.width": thin, "ytick.major.width": thin,
    }  # fmt: skip


_LEAST = 13.0  # height of a panel, in sizes of the text
_FILES: Any = {
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
}  # TrueType; Matplotlib's own choice, Type 3, is refused by publishers


class OwnFigure(Figure):
    """A figure whose files have TrueType fonts, whatever Matplotlib's settings are."""

    def savefig(self, fname: Any, **options: Any) -> None:
        """Write a file, as ``Figure.savefig`` does."""
        with matplotlib.rc_context(_FILES):
            super().savefig(fname, **options)


def line(width: float) -> float:
    """A line width in points, scaled as the look asks for."""
    return width * _LOOK.get().lines


def area(size: float) -> float:
    """The area of a marker in square points, scaled as the lines are."""
    return size * _LOOK.get().lines ** 2


def points(size: str) -> float:
    """A relative size of text, such as "small", in points: what is drawn later then keeps it."""
    return float(FontProperties(size=size).get_size_in_points())


def region_colours(ids: Tensor) -> Colours:
    """A colour (r, 3) for each region id (r,): pseudo-random, and the same for the same id in every picture."""
    hue, tint = np.divmod(_scrambled(ids, _REGION_HUES * len(_TINTS)), len(_TINTS))
    return tinted(FIRST_HUES[hue], _TINTS[tint][:, None]) / 255.0


def shaded_colours(ids: Tensor, labels: Tensor) -> Colours:
    """A colour (r, 3) for each region: the hue is that of its class label (r,), the shade that of its id (r,)."""
    return tinted(class_hues(labels), _SHADES[_scrambled(ids, len(_SHADES))][:, None]) / 255.0


def class_colours(labels: Tensor, *, pale: bool = False) -> Colours:
    """The colour (n, 3) of each class label (n,), which depends on the label alone and is the same in every figure.

    pale: the tint for areas. Beyond 256 classes, colours repeat.
    """
    return tinted(class_hues(labels), CLASS_TINT if pale else 0.0) / 255.0


def hue(i: int) -> tuple[float, float, float]:
    """The full colour of class i."""
    red, green, blue = class_colours(torch.tensor([i], device="cpu"))[0]
    return float(red), float(green), float(blue)


def layer_colours(n: int) -> Colours:
    """A colour (n, 3) for each of n layers: the first is light green, and later ones are darker, up to violet."""
    return np.asarray(matplotlib.colormaps["viridis"](np.linspace(*_LAYERS, n) if n > 1 else _LAYERS[1:]))[:n, :3]


def layer_greys(n: int) -> Colours:
    """A grey (n, 3) for each of n layers, darker for later ones; for what stands next to the colours of classes."""
    return np.repeat(np.linspace(*_EDGES, n) if n > 1 else _EDGES[1:], 3).reshape(-1, 3)[:n]


def edge_width(n: int) -> float:
    """The width of outlines when n regions share a panel: thinner the more there are."""
    return line(EDGE_WIDTH) * min(1.0, max(THINNEST, math.sqrt(4000 / max(n, 1))))


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
    """A figure of its own (not pyplot's) of ``width`` x ``height`` inches with rows x columns panels.

    Inside ``look`` the figure has the width of the look, and the same proportions unless its text needs more height.
    The axes are one flat list, row by row, also for several rows: those of ``plt.subplots`` after ``axes.flatten()``.
    options: those of ``add_subplot``, such as projection="3d".

    >>> made, (upper_left, upper_right, lower_left, lower_right) = figure(2, 2, width=6, height=6)
    """
    chosen = _LOOK.get()
    if chosen.width is not None and chosen.text is not None:
        width, height = chosen.width, max(height * chosen.width / width, rows * _LEAST * chosen.text / 72)
    made = OwnFigure(figsize=(width, height), dpi=chosen.dpi, layout="constrained")
    axes = [made.add_subplot(rows, columns, i + 1, **options) for i in range(rows * columns)]
    for ax in axes:  # ticks are made when they are drawn, perhaps outside the look
        ax.tick_params(labelsize=points("medium"), labelfontfamily=matplotlib.rcParams["font.family"])
    return made, axes


def is_column() -> bool:
    """Whether the look fixes the width of figures."""
    return _LOOK.get().width is not None


def add_room(figure: Any, *, right: float = 0.0, below: float = 0.0) -> None:
    """Enlarge a figure by inches for what stands beside its panels; the width of a look stays, and panels shrink."""
    width, height = figure.get_size_inches()
    if not is_column():
        figure.set_size_inches(width + right, height + below)
    else:
        figure.set_size_inches(width, height * max(0.3, 1 - right / width) + below)


def map_axes(axes: Sequence[Axes], *, ticks: bool = True) -> None:
    """Axes around a slice: a thin frame, and few ticks, or neither ticks nor names."""
    for ax in axes:
        for spine in ax.spines.values():
            spine.set(linewidth=line(0.6), color=BLACK)
        if ticks:
            ax.tick_params(labelsize=points("small"), width=line(0.6), length=2.5, color=BLACK)
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
        axis.line.set(linewidth=line(0.6), color=GREY)
        axis.set_tick_params(labelsize=points("small"), pad=0)
    ax.zaxis.set_tick_params(pad=3)  # its labels stand beside the ticks, not below them
    ax.grid(False)
    ax.view_init(elev=38, azim=-60)


def plain_axes(axes: Sequence[Axes]) -> None:
    """Axes around curves: no frame on the top and on the right."""
    for ax in axes:
        group_digits(ax.xaxis)
        group_digits(ax.yaxis)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=points("small"), width=line(0.6), length=2.5)
        ax.spines[["left", "bottom"]].set_linewidth(line(0.6))


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
