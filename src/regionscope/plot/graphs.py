"""The function itself: its graph over a segment with the breakpoints, and over a plane as a folded surface."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from torch import Tensor

from regionscope.checks import check_class_names
from regionscope.errors import InputError
from regionscope.exact import Partition
from regionscope.geometry.ragged import next_in_row
from regionscope.plot import style
from regionscope.plot.artists import faces_in_space
from regionscope.plot.kinds import partition_for
from regionscope.plot.legends import legend_beside
from regionscope.plot.palette import Colours
from regionscope.plot.ticks import input_ticks

_MOST_NAMES = 20  # in the legend of a graph
_COVERED, _SMALLEST = 0.5, 2.0  # share of a curve that dots may cover, and their smallest diameter in points
_ROW, _ROWS = 0.04, 0.3  # of the axes: the height of a row of ticks, and of all rows at most
_THINNEST, _WIDEST = 0.2, 0.8  # points, of a tick
_IN_LEGEND = 40.0  # square points, of a tick in the legend
_HEIGHT = 0.6  # of the surface, against its wider side
_ZOOM = 0.98  # leaves room for the labels of the axes
_LAMP = np.array([-0.62, -0.25, 0.74])


@dataclass(frozen=True)
class FunctionGraph:
    """The artists of ``function_graph``: a line for each output, and for each layer its dots or ticks."""

    lines: tuple[Line2D, ...]
    breakpoints: dict[str, PathCollection]


def function_graph(
    part: Partition,
    *,
    ax: Axes | None = None,
    outputs: Sequence[int] | None = None,
    class_names: Sequence[str] | None = None,
) -> FunctionGraph:
    """The outputs over the coordinate of a one-dimensional slice, exact, with its breakpoints.

    The line connects the values at the vertices, since the network is affine between them. An output has the colour of
    its class, as in ``decision_regions``. Each breakpoint is a dot in the colour of the layer that folds there, a grey
    that is darker for later layers where several outputs are drawn. Where dots would hide the lines (from about 90
    breakpoints in a default figure), each breakpoint is a tick below the lines instead, in one row for each layer, the
    first layer on top.
    outputs: indices of the outputs to draw; all by default. A legend beside or below the axes names outputs and layers;
    ``ax.legend()`` replaces it. A figure without a layout engine gets a constrained layout.
    class_names: one name for each output, for the legend.
    """
    if partition_for("function_graph", part).dim != 1:
        raise InputError(
            f"Expected a slice of dimension 1, got dimension {part.dim}. Use plot.surface() for dimension 2."
        )
    ax = style.axes_or_current(ax)
    chosen = _outputs(part, range(part.outputs.shape[1]) if outputs is None else outputs)
    named = () if class_names is None else check_class_names(class_names, part.outputs.shape[1])
    coords = part.vertices[:, 0].detach().cpu().numpy()
    values = part.outputs.detach().cpu().numpy()
    order = np.argsort(coords, kind="stable")
    several = len(chosen) > 1
    hues = [style.hue(i) for i in chosen] if several else [style.BLACK]
    labels = [f"output {i} ({named[i]})" if named else f"output {i}" for i in chosen]
    lines = tuple(
        ax.plot(coords[order], values[order, i], color=hue, linewidth=style.line(style.LINE_WIDTH), label=label)[0]
        for i, hue, label in zip(chosen, hues, labels, strict=True)
    )
    dots = _breakpoints(part, coords, values[:, chosen], style.layer_greys if several else style.layer_colours, ax)
    ax.set_xlim(coords.min(), coords.max())
    input_ticks(part.slice, (ax.xaxis,))
    ax.set(ylabel="output" if several else labels[0])
    curves, layers = list(lines) if several else [], list(dots.values())
    if shown := next((some for some in ([*curves, *layers], curves) if 0 < len(some) <= _MOST_NAMES), None):
        for handle in legend_beside(shown, ax=ax).legend_handles:
            if isinstance(handle, PathCollection) and np.any(handle.get_linewidth()):  # a thin tick
                handle.set(sizes=[_IN_LEGEND], linewidth=1.2)
    return FunctionGraph(lines, dots)


def _breakpoints(
    part: Partition,
    coords: NDArray[np.float64],
    values: NDArray[np.float64],
    colours: Callable[[int], Colours],
    ax: Axes,
) -> dict[str, PathCollection]:
    """A dot on each line (v, outputs) where a layer folds, or ticks below the lines where dots would hide them."""
    n, layers = len(part.walls.inner), list(part.by_layer)
    wide = ax.get_window_extent().width / ax.figure.dpi * 72
    across = min(math.sqrt(style.area(style.MARKER_SIZE)), _COVERED * wide / max(n, 1))
    row = min(_ROW, _ROWS / max(len(layers), 1))
    if crowded := across < _SMALLEST:
        share, low, high = (len(layers) + 1) * row, values.min(), values.max()
        ax.update_datalim([(coords.min(), low - (high - low) * share / (1 - share))])  # room for the ticks
        ax.autoscale_view()
    dots = {}
    for layer, (name, title, colour) in enumerate(zip(layers, part.layers, colours(len(layers)), strict=True)):
        folds = part.walls.vertices[part.walls.offsets[:-1][part.walls.layer == layer]].cpu().numpy()
        look: dict[str, Any] = {"s": across**2, "linewidths": 0}
        x, y = np.tile(coords[folds], values.shape[1]), values[folds].T.reshape(-1)
        if crowded:
            tall = row * ax.get_window_extent().height / ax.figure.dpi * 72
            x, y = coords[folds], np.full(len(folds), (len(layers) - layer) * row)
            thin = max(_THINNEST, min(_WIDEST, _COVERED * wide / max(len(folds), 1)))
            look = {"s": (0.8 * tall) ** 2, "linewidths": thin, "marker": "|", "snap": False}
            look["transform"] = ax.get_xaxis_transform()
        dots[name] = ax.scatter(x, y, color=[colour], zorder=3, label=f"folds of {title}", **look)
    return dots


def surface(
    part: Partition,
    *,
    ax: Axes | None = None,
    output: int = 0,
    heights: Tensor | None = None,
    ids: Tensor | None = None,
) -> Any:
    """The graph of one output over a plane: each region is a flat polygon in space, in the colour of its map.

    ax: three-dimensional axes, as from ``figure.add_subplot(projection="3d")``. heights: (v,) numbers at the vertices
    to draw in place of an output, such as the difference of two outputs; name them with ``ax.set_zlabel``. ids: as in
    ``linear_regions``. Returns a ``Poly3DCollection`` with one polygon for each activation region.
    """
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

    if partition_for("surface", part).dim != 2:
        raise InputError(
            f"Expected a slice of dimension 2, got dimension {part.dim}. Use plot.function_graph() for dimension 1."
        )
    space: Any = style.axes_or_current(ax, projection="3d")
    zlabel = f"output {output}" if heights is None else ""
    if heights is None:
        heights = part.outputs[:, _outputs(part, [output])[0]]
    elif heights.shape != (len(part.vertices),):
        raise InputError(
            f"Expected one height for each of {len(part.vertices):,} vertices, got shape {tuple(heights.shape)}. "
            "Pass a tensor of shape (v,)."
        )
    points = np.column_stack([part.vertices.cpu().numpy(), heights.detach().cpu().numpy()])
    faces = faces_in_space(points, part.corners.cpu().numpy(), part.offsets.cpu().numpy())
    colours = style.region_colours(part.linear_ids if ids is None else ids)
    drawn = Poly3DCollection(
        faces,
        facecolors=colours * _light(points, part)[:, None],
        edgecolors=style.EDGE,
        linewidths=style.edge_width(len(part)),
    )
    space.add_collection3d(drawn)
    low, high = points.min(0), points.max(0)
    space.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], max(high[2], low[2] + 1e-12)))
    wide = high[:2] - low[:2]
    space.set_box_aspect((*wide, _HEIGHT * wide.max()), zoom=_ZOOM)
    input_ticks(part.slice, (space.xaxis, space.yaxis))
    space.set_zlabel(zlabel)
    style.space_axes(space)
    return drawn


def _light(points: NDArray[np.float64], part: Partition) -> NDArray[np.float64]:
    """How bright each face is (r,) under a lamp high up on the left, with heights scaled as they are drawn."""
    extent = np.ptp(points, axis=0)
    drawn = points / np.array([extent[:2].max(), extent[:2].max(), max(extent[2], 1e-300) / _HEIGHT])
    corners, offsets = part.corners.cpu().numpy(), part.offsets.cpu().numpy()
    following = corners[next_in_row(part.offsets).cpu().numpy()]
    edges = np.cross(drawn[corners], drawn[following])
    normal = np.add.reduceat(edges, offsets[:-1])  # Newell: the sum over the corners is twice the area vector
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    return np.asarray(np.clip(0.78 + 0.3 * (normal @ _LAMP), 0.0, 1.0))


def _outputs(part: Partition, outputs: Sequence[int]) -> list[int]:
    n = part.outputs.shape[1]
    for i in outputs:
        if not 0 <= i < n:
            raise InputError(f"Expected an output from 0 to {n - 1}, got {i}. Count the outputs from 0.")
    return list(outputs)
