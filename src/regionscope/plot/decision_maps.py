"""Proven maps of networks with smooth activations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from regionscope.checks import check_class_names, check_instance
from regionscope.errors import InputError
from regionscope.formatting import counted
from regionscope.plot import style
from regionscope.plot.artists import Cells, Segments
from regionscope.plot.figures import panel_of
from regionscope.plot.legends import class_legend
from regionscope.plot.regions import frame_slice
from regionscope.smooth import DecisionMap
from regionscope.types import FloatArray

_HATCH = "////"


def decision_map(
    result: DecisionMap,
    *,
    ax: Axes | None = None,
    edges: bool = False,
    class_names: Sequence[str] | None = None,
    rasterized: bool = False,
) -> Cells:
    """Fill each proven cell with the colour of its class, and hatch the cells whose label is not proven.

    edges: whether to draw the sides of all cells. class_names: one name for each class, by label; adds a legend with
    the classes that occur, outside the axes.
    """
    _check(result)
    if class_names is not None:
        check_class_names(class_names, result.judge.n_labels)
    ax = style.axes_or_current(ax)
    outlines = _outlines(result)
    proven = np.flatnonzero(result.labels.numpy() >= 0)
    colours = style.class_colours(result.labels[torch.from_numpy(proven)], pale=True)
    fill = Cells([outlines[i] for i in proven], colours, rasterized=rasterized)
    ax.add_collection(fill, autolim=False)
    undecided = [outlines[i] for i in np.flatnonzero(result.labels.numpy() < 0)]
    if undecided:
        hatched = PolyCollection(
            undecided, facecolors="white", edgecolors=style.BLACK, hatch=_HATCH, linewidths=0.0, rasterized=rasterized,
            zorder=1.4,
        )  # fmt: skip
        hatched.set_label("undecided")
        ax.add_collection(hatched, autolim=False)
    if edges:
        sides = np.concatenate([np.stack([outline, np.roll(outline, -1, 0)], 1) for outline in outlines])
        ax.add_collection(Segments(sides, colour=style.BLACK, width=style.THINNEST, zorder=1.5), autolim=False)
    frame_slice(result.slice, ax)
    if class_names is not None:
        class_legend(result.labels[result.labels >= 0], ax=ax, class_names=class_names)
    return fill


def decision_map_figure(result: DecisionMap, *, class_names: Sequence[str] | None = None) -> Figure:
    """One panel with the map, a legend of the classes that occur, and the undecided share as its title."""
    _check(result)
    figure, ax = panel_of(result.slice)
    decision_map(result, ax=ax)
    legend = class_legend(result.labels[result.labels >= 0], ax=ax, class_names=class_names)
    style.add_room(figure, right=legend.get_window_extent().width / figure.dpi)
    ax.set_title(f"{counted(len(result), 'cell')}, {100 * result.undecided:.2g} % undecided")
    return figure


def _check(result: DecisionMap) -> None:
    advice = "Compute it with regionscope.decision_map(model, slice)"
    check_instance("plot.decision_map()", result, DecisionMap, advice=advice)
    if result.slice.dim > 2:
        raise InputError(f"Expected a map of dimension 1 or 2, got dimension {result.slice.dim}. Map a plane.")


def _outlines(result: DecisionMap) -> list[FloatArray]:
    """One outline (m, 2) for each cell; an interval becomes a band of height 1."""
    cells = result.parts.loops_of_corners()
    if result.slice.dim == 2:
        return cells
    height = np.array([0.0, 0.0, 1.0, 1.0])
    return [np.stack([np.concatenate([ends[:, 0], ends[::-1, 0]]), height], 1) for ends in cells]
