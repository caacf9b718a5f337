"""Partitions in slice coordinates: polygons in 2-D, bands over the coordinate in 1-D."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Polygon
from numpy.typing import NDArray
from torch import Tensor

from regionscope.checks import check_class_names
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, Partition
from regionscope.geometry import Slice
from regionscope.geometry.points import PointLike
from regionscope.inputs import read_array
from regionscope.plot import style
from regionscope.plot.artists import Cells, Segments
from regionscope.plot.kinds import decision_for, partition_for
from regionscope.plot.legends import class_legend, clear_of_bar
from regionscope.plot.ticks import input_ticks

_OUTLINE = "slice outline"
_BAR = (1.04, 0.0, 0.05, 1.0)  # of the axes: left, bottom, width and height of a colour bar
_APART = 4.5  # points: lines that are closer on average are thinner
_CROWDED = {1: 2.0, 2: 1.3}  # points, by dimension: lines that are closer on average would hide the colours


def linear_regions(
    part: Partition,
    *,
    ax: Axes | None = None,
    ids: PointLike | None = None,
    edges: bool = True,
    rasterized: bool = False,
) -> Cells:
    """Fill each linear region, with the edges between them on top; one affine map has one colour.

    Colours look random and depend on the id alone. ids: (r,) an id for each activation region in place of
    ``part.linear_ids``; regions that keep their id from one epoch to the next keep their colour, and
    ``torch.arange(len(part))`` shows the activation regions. edges: between different ids. They are left out
    where they would hide the colours: more than about 3,000 regions per square inch, or 36 per inch of a segment.
    rasterized: in PDF and SVG files, draw the regions as an image; everything else stays vector.
    """
    partition_for("linear_regions", part)
    ax = style.axes_or_current(ax)
    ids = part.linear_ids if ids is None else _one_each(ids, part, "ids")
    fill = _fill(part, style.region_colours(ids), ax, rasterized=rasterized)
    if edges:
        _edges(part, ax, between=ids, rasterized=rasterized)
    return fill


def region_values(
    part: Partition,
    values: PointLike,
    *,
    ax: Axes | None = None,
    colormap: str = "cividis",
    colorbar: bool = True,
    label: str = "value",
    edges: bool = False,
    rasterized: bool = False,
) -> Cells:
    """Colour each activation region by its number in ``values`` (r,): its size, the norm of its slope, a distance.

    colorbar: whether to draw a colour bar beside the axes; it is the ``colorbar`` of the artist. A figure without a
    layout engine then gets a constrained layout. label: name of the numbers, at the colour bar.
    """
    numbers = _one_each(values, partition_for("region_values", part), "values")
    ax = style.axes_or_current(ax)
    bars = [artist.colorbar for artist in ax.collections if isinstance(artist, Cells) and artist.colorbar is not None]
    fill = _fill(part, np.zeros((1, 3)), ax, rasterized=rasterized)
    fill.set_array(numbers.detach().double().cpu().numpy())
    fill.set_cmap(colormap)
    fill.autoscale_None()
    if colorbar:
        for covered in bars:
            covered.remove()
        bar = ax.figure.colorbar(fill, cax=ax.inset_axes(_BAR), label=label)  # as high as the map at any scale
        bar.outline.set_linewidth(0.6)
        bar.ax.tick_params(labelsize="small", width=0.6, length=2.5)
        clear_of_bar(ax)
    if edges:
        _edges(part, ax, between=torch.arange(len(part), device=part.vertices.device), rasterized=rasterized)
    return fill


def decision_regions(
    dec: DecisionRegions,
    *,
    ax: Axes | None = None,
    boundary: bool = True,
    class_names: Sequence[str] | None = None,
    rasterized: bool = False,
) -> Cells:
    """Fill each piece with the colour of its class, and draw the exact decision boundary on top.

    class_names: one name for each class, by label; adds a legend with the classes that occur, outside the axes.
    ``plot.class_legend(dec.labels)`` adds one without names.
    """
    decision_for("decision_regions", dec)
    if class_names is not None:
        check_class_names(class_names, dec.n_classes)
    ax = style.axes_or_current(ax)
    fill = _fill(dec.partition, style.class_colours(dec.piece_labels, pale=True), ax, rasterized=rasterized)
    if boundary:
        decision_boundary(dec, ax=ax)
    if class_names is not None:
        class_legend(dec.labels, ax=ax, class_names=class_names)
    return fill


def decision_mosaic(
    dec: DecisionRegions,
    *,
    ax: Axes | None = None,
    ids: PointLike | None = None,
    edges: bool = True,
    boundary: bool = True,
    class_names: Sequence[str] | None = None,
    rasterized: bool = False,
) -> Cells:
    """Linear and decision regions in one picture: the hue is the class, the shade the linear region.

    ids: (r,) an id for each piece of ``dec.partition`` in place of its ``linear_ids``, as in ``linear_regions``;
    ``dec.piece_parents`` shows the activation regions. class_names: as in ``decision_regions``.
    """
    part = decision_for("decision_mosaic", dec).partition
    if class_names is not None:
        check_class_names(class_names, dec.n_classes)
    ax = style.axes_or_current(ax)
    ids = part.linear_ids if ids is None else _one_each(ids, part, "ids")
    fill = _fill(part, style.shaded_colours(ids, dec.piece_labels), ax, rasterized=rasterized)
    if edges:
        _edges(part, ax, between=ids, rasterized=rasterized)
    if boundary:
        decision_boundary(dec, ax=ax)
    if class_names is not None:
        class_legend(dec.labels, ax=ax, class_names=class_names)
    return fill


def decision_boundary(
    dec: DecisionRegions, *, ax: Axes | None = None, colour: str = style.BOUNDARY, width: float | None = None
) -> Segments:
    """The exact decision boundary: segments in 2-D; in 1-D a line across the band at each point. width: in points."""
    ax = style.axes_or_current(ax)
    ends = decision_for("decision_boundary", dec).boundary.detach().cpu().numpy()
    lines = Segments(
        _across(ends) if dec.partition.dim == 1 else ends,
        colour=colour,
        width=width or style.line(style.BOUNDARY_WIDTH),
        zorder=2.5,
    )
    ax.add_collection(lines, autolim=False)
    return lines


def outlines(part: Partition) -> list[NDArray[np.float64]]:
    """One outline (m, 2) for each region; an interval becomes a band of height 1."""
    _check_flat(part)
    if part.dim == 2:
        return part.polygons()
    ends = part.vertices[part.corners].reshape(-1, 2).detach().cpu().numpy()
    a, b = ends.T
    low, high = np.zeros_like(a), np.ones_like(a)
    return list(np.stack([np.stack([a, b, b, a], 1), np.stack([low, low, high, high], 1)], -1))


def wall_segments(part: Partition, walls: Tensor) -> NDArray[np.float64]:
    """The listed walls as segments (w, 2, 2): edges in 2-D, lines across the band in 1-D."""
    _check_flat(part)
    index = part.walls.offsets[walls][:, None] + torch.arange(part.dim, device=walls.device)
    ends = part.vertices[part.walls.vertices[index]].detach().cpu().numpy()
    return _across(ends) if part.dim == 1 else ends


def edge_width(part: Partition, n: int, ax: Axes) -> float:
    """The width of the lines between n regions of a partition: thinner where they are close together."""
    crowding = gap_between(part, n, ax) / _APART
    return style.line(style.EDGE_WIDTH) * min(
        1.0, max(style.THINNEST, math.sqrt(crowding) if part.dim == 1 else crowding)
    )


def gap_between(part: Partition, n: int, ax: Axes) -> float:
    """The side of a square of the mean area of n regions, or the mean length of n intervals, in points of the axes."""
    _check_flat(part)
    box, extent = ax.get_window_extent(), np.ptp(part.slice.corners.cpu().numpy(), axis=0)
    scale = min(float(size) / length for size, length in zip((box.width, box.height), extent, strict=False))
    return float(scale * (extent.prod() / max(n, 1)) ** (1 / part.dim)) / ax.figure.dpi * 72


def frame_slice(slice: Slice, ax: Axes) -> None:
    """Axes limits that show the slice and nothing else; equal scales in 2-D. See ``input_ticks`` for the numbers.

    A slice that does not fill the axes, such as a triangle, gets an outline in place of the frame on top and right.
    """
    corners = slice.corners.cpu().numpy()
    ax.set_xlim(corners[:, 0].min(), corners[:, 0].max())
    if slice.dim == 1:
        ax.set_ylim(0.0, 1.0)
        ax.set_yticks([])
        ax.set_aspect("auto")
    else:
        ax.set_ylim(corners[:, 1].min(), corners[:, 1].max())
        ax.set_aspect("equal")
        if len(corners) != 4:
            _outline(corners, ax)
    input_ticks(slice, (ax.xaxis, ax.yaxis)[: slice.dim])


def _check_flat(part: Partition) -> None:
    if part.dim > 2:
        raise InputError(
            f"Expected a slice of dimension 1 or 2, got dimension {part.dim}. Draw a level_set() for dimension 3."
        )


def _outline(corners: NDArray[np.float64], ax: Axes) -> None:
    """The edges of a slice that is not a box, once for each axes."""
    ax.spines[["top", "right"]].set_visible(False)
    drawn = [patch.get_xy()[:-1] for patch in ax.patches if isinstance(patch, Polygon) and patch.get_gid() == _OUTLINE]
    if not any(np.array_equal(shown, corners) for shown in drawn):
        edge = Polygon(
            corners, fill=False, edgecolor=style.BLACK, linewidth=0.8, joinstyle="round", zorder=2.6, clip_on=False
        )
        edge.set_gid(_OUTLINE)
        ax.add_artist(edge)


def _fill(part: Partition, colours: NDArray[np.float64], ax: Axes, *, rasterized: bool) -> Cells:
    fill = Cells(outlines(part), colours, rasterized=rasterized)
    ax.add_collection(fill, autolim=False)
    frame_slice(part.slice, ax)
    return fill


def _edges(part: Partition, ax: Axes, *, between: Tensor, rasterized: bool) -> None:
    """The walls between regions of different ids, darker for later layers, unless they would hide the regions."""
    walls = part.walls.inner
    a, b = between.to(walls.device)[part.walls.regions[walls]].T
    n = int(between.unique().numel())
    if gap_between(part, n, ax) < _CROWDED[part.dim]:
        return
    drawn, layers = walls[a != b], len(part.by_layer)
    lines = Segments(
        wall_segments(part, drawn),
        colour=style.layer_greys(layers)[part.walls.layer[drawn].clamp(max=layers - 1).cpu().numpy()],
        width=edge_width(part, n, ax),
        rasterized=rasterized,
        zorder=1.5,
    )
    ax.add_collection(lines, autolim=False)


def _across(points: NDArray[Any]) -> NDArray[np.float64]:
    coords = points.reshape(-1)
    ends = [np.stack([coords, height], -1) for height in (np.zeros_like(coords), np.ones_like(coords))]
    return np.stack(ends, 1)


def _one_each(values: PointLike, part: Partition, name: str) -> Tensor:
    needed = f"Expected {name} to hold one number for each of {len(part):,} regions"
    try:
        read = read_array(values)
    except (TypeError, ValueError, RuntimeError) as reason:
        raise InputError(f"{needed}, got values that cannot be read ({reason}). Pass an array.") from reason
    if read.shape != (len(part),):
        raise InputError(f"{needed}, got shape {tuple(read.shape)}. Pass them in the order of the regions.")
    return read
