"""Legends that cover nothing: of classes, beside the axes; of curves, in a free corner or outside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.offsetbox import AnnotationBbox
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray
from torch import Tensor

from regionscope.errors import InputError
from regionscope.formatting import counted
from regionscope.plot import style

_ROW, _ROW_SIZE = 0.2, 8.33  # inches of a row of letters of this size
_WIDEST = 0.9  # of the width of a figure, of a legend below the axes
_GAP = 0.08  # inches between axes and legend
_BELOW = -0.16  # top of a legend below its axes, of the height of the axes
_COLUMNS = 4  # of a class legend there
_ROUNDS, _STILL = 5, 2.0  # at most, of a layout; pixels by which axes may move in the last of them
_NARROW = 0.3  # of the width of a figure: a legend up to this goes beside the axes, a wider one below them


_LOOK: dict[str, Any] = {
    "borderaxespad": 0.0, "frameon": False, "fontsize": "small", "handlelength": 1.1, "handleheight": 1.1,
}  # fmt: skip


class ClassLegend(Legend):
    """A legend that knows what it shows: classes (label -> name), names of all classes, and marks (name -> handle).

    areas: the classes that are areas. markers: label -> the marker of its points. A class may be both.
    """

    classes: dict[int, str]
    names: Sequence[str] | None
    marks: dict[str, Line2D]
    areas: set[int]
    markers: dict[int, str]


def class_legend(
    labels: Tensor,
    *,
    ax: Axes | None = None,
    class_names: Sequence[str] | None = None,
    markers: Mapping[int, str] | None = None,
) -> ClassLegend:
    """A legend to the right of the axes with one entry for each class that occurs in ``labels`` (n,).

    class_names: name of each class, by label; "class 3" by default. markers: marker of the points of each class, by
    label; without it, the classes are areas. A second call on the same axes adds its classes,
    with the names of the first call. A figure without a layout engine gets a constrained layout, so that the legend is
    not cut off.
    """
    ax = style.axes_or_current(ax)
    shown = sorted(int(label) for label in labels.unique())
    if class_names is not None:
        check_names(labels, class_names)
    before = ax.get_legend()
    known = before if isinstance(before, ClassLegend) else None
    names = class_names if class_names is not None or known is None else known.names
    classes = dict(known.classes) if known is not None else {}
    for label in shown:
        if class_names is not None or label not in classes:
            classes[label] = f"class {label}" if names is None or label >= len(names) else str(names[label])
    marks, areas, shapes = (known.marks, known.areas, known.markers) if known is not None else ({}, set(), {})
    if markers is None:
        areas = areas | {*shown}
    else:
        shapes = shapes | {label: markers[label] for label in shown}
    return _make(ax, dict(sorted(classes.items())), names, marks, areas, shapes)


def check_names(labels: Tensor, class_names: Sequence[str]) -> None:
    """Refuse names that end before the last label."""
    last = int(labels.max()) if labels.numel() else -1
    if last >= len(class_names):
        raise InputError(
            f"Expected class_names= to name each class up to {last}, got {counted(len(class_names), 'name')}. "
            "Pass one name for each label, in the order of the labels."
        )


def mark_legend(name: str, marker: str, *, ax: Axes, colour: str, size: float | None = None) -> ClassLegend:
    """The legend of the axes with an entry for marks of one kind, below the classes. size: their area in points."""
    before = ax.get_legend()
    known = before if isinstance(before, ClassLegend) else None
    handle = Line2D([], [], marker=marker, linestyle="", color=colour, markeredgecolor=style.BLACK, markeredgewidth=0.6)
    if size is not None:
        handle.set_markersize(math.sqrt(size))
    if known is None:
        return _make(ax, {}, None, {name: handle}, set(), {})
    return _make(ax, known.classes, known.names, {**known.marks, name: handle}, known.areas, known.markers)


class _SettledLayout(ConstrainedLayoutEngine):
    """A constrained layout that is repeated until no axes move, as axes of equal scales need beside a legend."""

    def execute(self, fig: Any) -> None:
        before = _corners(fig)
        for _ in range(_ROUNDS):
            super().execute(fig)
            after = _corners(fig)
            if np.abs(after - before).max(initial=0.0) < _STILL:
                return
            before = after


def _corners(figure: Any) -> Any:
    """Lower left and upper right corners of the room of all axes (2n, 2), in pixels."""
    corners = [ax.get_position(original=True).get_points() for ax in figure.axes]
    return np.concatenate([*corners, np.zeros((0, 2))]) * figure.bbox.size


def make_room(ax: Axes) -> None:
    """Let the next drawing lay the figure out so that what stands outside the axes is not cut off.

    A figure without a layout engine gets a constrained layout. A layout other than a constrained one is left as it is,
    and so is a figure with a colour bar that was made without a layout engine, which constrained layouts cannot handle.
    """
    figure: Any = ax.get_figure(root=True)
    engine = figure.get_layout_engine()
    if engine is None and not _has_empty_cells(figure):
        figure.set_layout_engine(_SettledLayout())
    elif type(engine) is ConstrainedLayoutEngine:
        compress = bool(getattr(engine, "_compress", False))  # which get() leaves out
        figure.set_layout_engine(_SettledLayout(**engine.get(), compress=compress))


def _has_empty_cells(figure: Any) -> bool:
    """Whether axes are in a grid with a row of height 0, as Matplotlib puts above and below such a colour bar."""
    grids = [spec.get_gridspec() for grid in figure.axes if (spec := grid.get_subplotspec()) is not None]
    return any(0 in [*grid.get_height_ratios(), *grid.get_width_ratios()] for grid in grids)


def clear_of_bar(ax: Axes) -> None:
    """Make room for a colour bar that was drawn beside the axes; a class legend that stood there goes below them."""
    make_room(ax)
    if isinstance(known := ax.get_legend(), ClassLegend):
        _make(ax, known.classes, known.names, known.marks, known.areas, known.markers)


def lay_out(ax: Axes) -> None:
    """Make room now, for what is placed by the size of the axes."""
    make_room(ax)
    figure: Any = ax.get_figure(root=True)
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)


def legend_beside(handles: Sequence[Any], *, ax: Axes, title: str | None = None, grow: bool = False) -> Legend:
    """A legend of these artists by their labels: to the right of the axes, or below them where it is wide.

    grow: enlarge the figure for it, so that it goes below only where a look fixes the width.
    """
    figure: Any = ax.get_figure(root=True)
    named: dict[str, Any] = {"title": title, "title_fontsize": "small", "alignment": "left"} if title else {}
    legend: Legend = ax.legend(handles=handles, **_beside(ax, len(handles) + len(named) // 3), **named)
    wide, room = legend.get_window_extent().width, figure.bbox.width
    if grow and not style.is_column():
        style.add_room(figure, right=wide / figure.dpi + _GAP)
    elif wide > _NARROW * room:
        legend.remove()
        below = max(0.0, ax.get_window_extent().y0 - (ax.xaxis.get_tightbbox() or ax.get_window_extent()).y0)
        shift = ScaledTranslation(0.0, -below / figure.dpi - _GAP, figure.dpi_scale_trans)
        columns = min(len(handles), max(1, int(_WIDEST * room / wide)))
        legend = ax.legend(
            handles=handles, **_LOOK, **named, loc="upper center", ncols=columns, bbox_to_anchor=(0.5, 0.0),
            bbox_transform=ax.transAxes + shift,
        )  # fmt: skip
        if grow:
            style.add_room(figure, below=legend.get_window_extent().height / figure.dpi)
    make_room(ax)
    return legend


def _make(
    ax: Axes, classes: dict[int, str], names: Sequence[str] | None, marks: dict[str, Line2D], areas: set[int],
    markers: dict[int, str],
) -> ClassLegend:  # fmt: skip
    handles: list[Any] = [_handle(label, label in areas, markers.get(label)) for label in classes]
    labels = [*classes.values(), *marks]
    title: dict[str, Any] = (
        {"title": "class", "title_fontsize": "small", "alignment": "left"} if classes and names is not None else {}
    )
    legend = ClassLegend(ax, [*handles, *marks.values()], labels, **_beside(ax, len(labels) + len(title) // 3), **title)
    legend.classes, legend.names, legend.marks, legend.areas, legend.markers = classes, names, marks, areas, markers
    ax.legend_ = legend
    make_room(ax)
    return legend


def _beside(ax: Axes, n: int) -> dict[str, Any]:
    """Options of a legend with n entries to the right of the axes, in as many columns as its height needs.

    Below the axes where a colour bar stands to their right.
    """
    figure: Any = ax.get_figure(root=True)
    if ax.child_axes:
        return {**_LOOK, "loc": "upper center", "bbox_to_anchor": (0.5, _BELOW), "ncols": min(n, _COLUMNS)}
    area, row = ax.get_window_extent(), _ROW * style.points("small") / _ROW_SIZE
    whole = ax.get_position(original=True).height * figure.bbox.height  # a map may leave some of it above and below
    rows = max(1, int((area.height + whole) / 2 / ax.figure.dpi / row))
    beside = [artist.get_window_extent().x1 - area.x1 for artist in ax.artists if isinstance(artist, AnnotationBbox)]
    gap = _GAP + max(0.0, *beside, 0.0) / ax.figure.dpi  # of images on the right
    return {
        **_LOOK, "loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "ncols": -(-n // rows),
        "bbox_transform": ax.transAxes + ScaledTranslation(gap, 0.0, figure.dpi_scale_trans),
    }  # fmt: skip


def _handle(label: int, area: bool, marker: str | None) -> Any:
    """A patch for the area of a class, the marker of its points, or the marker on the patch."""
    labels = torch.tensor([label], device="cpu")
    pale, full = style.class_colours(labels, pale=True)[0], style.class_colours(labels)[0]
    patch = Patch(facecolor=pale, edgecolor=full, linewidth=1.2)
    if marker is None:
        return patch
    point = Line2D([], [], marker=marker, linestyle="", color=full, markeredgecolor=style.BLACK, markeredgewidth=0.6)
    return (patch, point) if area else point


def spread(wanted: NDArray[np.float64], wide: NDArray[np.float64], room: float) -> NDArray[np.float64]:
    """Middles of boxes in one row, as close as possible (least squares) to the sorted ones wanted, without overlaps.

    wide: widths of the boxes. room: the middles stay between 0 and this where the boxes fit. Isotonic regression by
    pooling adjacent violators, of the places less the widths before them.

    >>> spread(np.array([1.0, 1.0, 9.0]), np.array([2.0, 2.0, 2.0]), 10.0).tolist()
    [0.0, 2.0, 9.0]
    """
    before = np.concatenate([[0.0], np.cumsum((wide[:-1] + wide[1:]) / 2)])
    pools: list[tuple[float, int]] = []
    for target in wanted - before:
        mean, n = float(target), 1
        while pools and pools[-1][0] > mean:
            last, m = pools.pop()
            mean, n = (last * m + mean * n) / (m + n), m + n
        pools.append((mean, n))
    fitted = np.concatenate([np.full(n, mean) for mean, n in pools])
    return np.asarray(np.clip(fitted, 0.0, max(0.0, room - float(before[-1]))) + before)
