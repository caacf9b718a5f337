"""Legends that cover nothing: in a free corner of their axes, or outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

_BELOW = -0.16  # top of a legend below its axes, of the height of the axes
_HANDLE, _LONG_HANDLE = 2.0, 4.0  # length of a line in a legend, and of a dashed one, in letters
_NARROW = 0.3  # of the width of a figure: a legend up to this goes beside the axes, a wider one below them
_CORNERS: dict[Any, tuple[float, float]] = {
    "upper right": (1.0, 1.0),
    "upper left": (0.0, 1.0),
    "lower right": (1.0, 0.0),
    "lower left": (0.0, 0.0),
    "upper center": (0.5, 1.0),
    "lower center": (0.5, 0.0),
    "center right": (1.0, 0.5),
    "center left": (0.0, 0.5),
}  # places of a legend, in the order of preference, as shares of the room in the axes


def free_legend(*panels: Axes) -> None:
    """A legend in the first place of each panel that is free, else outside.

    Outside is below the axes in a figure of several panels; else on the right, or below where the legend is wide. To be
    called when everything is drawn, in a figure with a constrained layout.
    """
    figure: Any = panels[0].get_figure(root=True)
    if figure.stale:
        figure.draw_without_rendering()  # now it is known where everything is
    for ax in panels:
        if ax.get_legend_handles_labels()[0] and not _legend_inside(ax, figure):
            figure.draw_without_rendering()


def _legend_inside(ax: Axes, figure: Any) -> bool:
    """Add a legend, and say whether it stands inside the axes, where it moves nothing else."""
    handles, labels = ax.get_legend_handles_labels()
    look: dict[str, Any] = {"frameon": False, "fontsize": "small", "handlelength": _handle_length(handles)}
    legend = ax.legend(loc="upper right", **look)  # "best" warns where a machine is slow
    box, area, pad = legend.get_window_extent(), ax.get_window_extent(), _pad(legend, figure)
    for name, where in _CORNERS.items():
        if is_free(_inside(area, box.width, box.height, where, pad).padded(pad), ax):
            legend.set_loc(name)
            return True
    if len(figure.axes) > 1:
        ax.legend(**look | {"fontsize": "x-small"}, loc="upper center", bbox_to_anchor=(0.5, _BELOW), ncols=2)
        return False
    legend.remove()
    wide = figure.bbox.width
    if box.width <= _NARROW * wide:
        figure.legend(handles, labels, loc="outside right center", **look)
    else:
        columns = min(len(labels), max(1, int(wide // (box.width + 4 * pad))))  # 4: the space between two columns
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, **look)
    return False


def _handle_length(handles: Sequence[Any]) -> float:
    """Length of the lines in a legend, in letters: a dashed one shows two dashes on each side of its marker."""
    dashed = any(isinstance(handle, Line2D) and handle.get_linestyle() == "--" for handle in handles)
    return _LONG_HANDLE if dashed else _HANDLE


def _inside(area: Bbox, width: float, height: float, where: tuple[float, float], pad: float) -> Bbox:
    x = area.x0 + pad + where[0] * (area.width - 2 * pad - width)
    y = area.y0 + pad + where[1] * (area.height - 2 * pad - height)
    return Bbox.from_bounds(x, y, width, height)


def _pad(legend: Legend, figure: Figure) -> float:
    return float(legend.borderaxespad * legend.prop.get_size_in_points() * figure.dpi / 72)


def is_free(box: Bbox, ax: Axes, *, but: object = None) -> bool:
    """Whether nothing of the data, no other text and no legend is in a box of the figure, in pixels."""
    for line in ax.lines:
        if line.get_transform().transform_path(line.get_path()).intersects_bbox(box, filled=False):
            return False
    for patch in ax.patches:
        if patch.get_transform().transform_path(patch.get_path()).intersects_bbox(box, filled=True):
            return False
    for drawn in ax.collections:
        if isinstance(drawn, PathCollection):
            points = np.asarray(drawn.get_offset_transform().transform(drawn.get_offsets()))
            if bool(np.any(np.all((box.min < points) & (points < box.max), axis=1))):
                return False
        elif any(
            drawn.get_transform().transform_path(path).intersects_bbox(box, filled=True) for path in drawn.get_paths()
        ):
            return False
    return not any(box.overlaps(other) for other in _words(ax, but))


def _words(ax: Axes, but: object) -> Iterator[Bbox]:
    yield from (text.get_window_extent() for text in ax.texts if text is not but)
    if (legend := ax.get_legend()) is not None and but is not None:
        yield legend.get_window_extent()
