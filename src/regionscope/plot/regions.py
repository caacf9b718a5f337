"""Partitions in slice coordinates: polygons in 2-D, bands over the coordinate in 1-D."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection

from regionscope.errors import InputError
from regionscope.plot import style
from regionscope.regions import DecisionRegions, Partition

__all__ = ["decision_boundary", "decision_regions", "linear_regions"]


def linear_regions(part: Partition, *, ax: Axes) -> PolyCollection:
    """Fill each activation region; those that share one affine map share one colour, and their edges are drawn."""
    fill = PolyCollection(
        _outlines(part),
        facecolors=style.region_colours(part.linear_ids),
        edgecolors=style.EDGE,
        linewidths=style.EDGE_WIDTH,
    )
    return _add(fill, part, ax)


def decision_regions(dec: DecisionRegions, *, ax: Axes) -> PolyCollection:
    """Fill each piece with the colour of its class, and draw the exact decision boundary on top."""
    colours = style.class_colours(dec.piece_labels, pale=True)
    # The edge has the colour of the face: it only closes the hairline that antialiasing leaves between two pieces.
    fill = PolyCollection(_outlines(dec.partition), facecolors=colours, edgecolors=colours, linewidths=style.EDGE_WIDTH)
    _add(fill, dec.partition, ax)
    decision_boundary(dec, ax=ax)
    return fill


def decision_boundary(dec: DecisionRegions, *, ax: Axes) -> LineCollection:
    """The exact decision boundary: segments in 2-D; in 1-D a line across the band at each point."""
    ends = dec.boundary.detach().cpu().numpy()
    if dec.partition.dim == 1:
        at = ends.reshape(-1)
        ends = np.stack([np.stack([at, np.zeros_like(at)], -1), np.stack([at, np.ones_like(at)], -1)], 1)
    lines = LineCollection(list(ends), colors=style.BOUNDARY, linewidths=style.BOUNDARY_WIDTH, capstyle="round")
    ax.add_collection(lines, autolim=False)
    return lines


def _outlines(part: Partition) -> list[np.ndarray[Any, Any]]:
    """One closed outline (m, 2) for each region; an interval becomes a band of height 1."""
    if part.dim == 2:
        return [np.asarray(polygon) for polygon in part.polygons()]
    if part.dim == 1:
        ends = part.vertices[part.corners].reshape(-1, 2).detach().cpu().numpy()
        return [np.array([[a, 0.0], [b, 0.0], [b, 1.0], [a, 1.0]]) for a, b in ends]
    raise InputError(f"A picture needs a slice of dimension 1 or 2, and this one has {part.dim}.")


def _add(fill: PolyCollection, part: Partition, ax: Axes) -> PolyCollection:
    ax.add_collection(fill, autolim=False)
    corners = part.slice.corners.cpu().numpy()
    ax.set_xlim(corners[:, 0].min(), corners[:, 0].max())
    if part.dim == 1:
        ax.set_ylim(0.0, 1.0)
        ax.set_yticks([])
    else:
        ax.set_ylim(corners[:, 1].min(), corners[:, 1].max())
        ax.set_aspect("equal")
    return fill
