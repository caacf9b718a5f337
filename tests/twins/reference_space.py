"""One convex polytope at a time: cutting it by an affine function, its size, and whether two of them touch.

The slow twin's geometry. A cell is its vertices and, for each vertex, the set of facets it lies on; this is the double
description method (Motzkin et al. 1953) in its plainest form, and the same few lines serve every dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import ConvexHull

from regionscope.tolerance import FLAT
from regionscope.types import FloatArray


@dataclass(frozen=True)
class Cell:
    """A convex polytope with interior.

    vertices: (m, k), in no particular order.
    facets: for each vertex, the numbers of all facets it lies on. A facet number names one cut; the two sides of the
        cut share it.
    values: (m, n), what n functions, affine on the cell, are at its vertices.
    """

    vertices: FloatArray
    facets: tuple[frozenset[int], ...]
    values: FloatArray

    def with_values(self, values: FloatArray) -> Cell:
        """The same cell, carrying other functions."""
        return replace(self, values=values)

    @property
    def center(self) -> FloatArray:
        """The mean of the vertices (k,), a point strictly inside."""
        return np.asarray(self.vertices.mean(axis=0))


def root_cell(corners: FloatArray, normals: FloatArray, offsets: FloatArray) -> Cell:
    """The domain {c : normals @ c <= offsets} with the given corners; facet i is row i of ``normals``."""
    slack = offsets - corners @ normals.T
    tight = slack <= FLAT * np.abs(corners).max()
    facets = tuple(frozenset(int(i) for i in np.flatnonzero(row)) for row in tight)
    return Cell(corners, facets, np.zeros((len(corners), 0)))


def positive_part(cell: Cell, u: FloatArray, facet: int, zero: float) -> Cell | None:
    """The part of the cell where the affine function with values ``u`` (m,) at its vertices is not negative.

    None when that part has no interior, the cell itself when it is all of it. A value within ``zero`` of 0 is 0. A new
    vertex appears where an edge runs from a positive to a negative vertex, and lies on the new ``facet``.
    """
    positive, negative = np.flatnonzero(u > zero), np.flatnonzero(u < -zero)
    if len(positive) == 0:
        return None
    if len(negative) == 0:
        return cell
    vertices, facets, values = [], [], []
    for i in np.flatnonzero(u >= -zero):
        vertices.append(cell.vertices[i])
        values.append(cell.values[i])
        facets.append(cell.facets[i] if u[i] > zero else cell.facets[i] | {facet})
    for i in positive:
        for j in negative:
            if _is_edge(cell, int(i), int(j)):
                t = u[i] / (u[i] - u[j])
                vertices.append(cell.vertices[i] + t * (cell.vertices[j] - cell.vertices[i]))
                values.append(cell.values[i] + t * (cell.values[j] - cell.values[i]))
                facets.append((cell.facets[i] & cell.facets[j]) | {facet})
    return Cell(np.array(vertices), tuple(facets), np.array(values))


def _is_edge(cell: Cell, i: int, j: int) -> bool:
    """Two vertices span an edge when no third one lies on every facet that they share."""
    shared = cell.facets[i] & cell.facets[j]
    return not any(shared <= other for m, other in enumerate(cell.facets) if m not in (i, j))


def ordered(cell: Cell) -> FloatArray:
    """The vertices: ascending for k = 1, counter-clockwise for k = 2, as they are otherwise."""
    k = cell.vertices.shape[1]
    if k == 1:
        return np.sort(cell.vertices, axis=0)
    if k == 2:
        whitened = np.linalg.svd(cell.vertices - cell.center, full_matrices=False)[0]  # makes slivers round
        around = cell.vertices[np.argsort(np.arctan2(whitened[:, 1], whitened[:, 0]))]
        return around if _shoelace(around) > 0 else around[::-1]
    return cell.vertices


def _shoelace(points: FloatArray) -> float:
    x, y = (points - points[0]).T
    return float(x[:-1] @ y[1:] - y[:-1] @ x[1:]) / 2


def measure(cell: Cell) -> float:
    """Length, area (shoelace formula) or volume (convex hull) in slice coordinates."""
    points = ordered(cell)
    k = points.shape[1]
    if k == 1:
        return float(points[-1, 0] - points[0, 0])
    if k == 2:
        return _shoelace(points)
    return float(ConvexHull(points).volume)


def neighbours(cells: list[Cell], unit: FloatArray, touch: float) -> list[tuple[int, int]]:
    """Pairs of cells whose common boundary has positive (k - 1)-measure.

    Lengths are taken in coordinates divided by ``unit`` (k,), the extent of the slice; less than ``touch`` is nothing.
    Two cells can only touch along the cut that told them apart, so it is enough to compare cells that share a facet,
    and of these only the ones that reach it in more than an edge or a corner.
    """
    scaled = [replace(cell, vertices=cell.vertices / unit) for cell in cells]
    on_facet: dict[int, list[int]] = {}
    for index, cell in enumerate(scaled):
        for facet in frozenset().union(*cell.facets):
            on_facet.setdefault(facet, []).append(index)
    pairs: set[tuple[int, int]] = set()
    for facet, members in on_facet.items():
        sides = {index: _facet_of(scaled[index], facet) for index in members}
        wide = [index for index, side in sides.items() if _rank(side.vertices, touch) == len(unit) - 1]
        pairs.update((wide[p], wide[q]) for p, q in _overlaps([sides[index] for index in wide], facet, touch))
    return sorted(pairs)


def _facet_of(cell: Cell, facet: int) -> Cell:
    """The vertices of the cell that lie on one facet, with all their facets."""
    on = [i for i, facets in enumerate(cell.facets) if facet in facets]
    return Cell(cell.vertices[on], tuple(cell.facets[i] for i in on), cell.values[on])


def _overlaps(sides: list[Cell], facet: int, touch: float) -> Iterator[tuple[int, int]]:
    """Pairs of convex sets with interior in one hyperplane that share more than a set of measure zero there."""
    if not sides:
        return
    points = np.concatenate([side.vertices for side in sides])
    q = points.shape[1] - 1
    frame = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2][:q]
    flat = [replace(side, vertices=(side.vertices - points[0]) @ frame.T) for side in sides]
    if q < 2:  # points, which are all the same one, or intervals
        yield from _boxes_that_overlap(flat, touch)
        return
    borders = [list(_borders_of(side, facet, touch)) for side in flat]
    for a, b in _boxes_that_overlap(flat, -2 * touch):
        rest: Cell | None = replace(flat[a], facets=tuple(facets - {facet} for facets in flat[a].facets))
        for number, border in enumerate(borders[b], start=1):
            if rest is not None:
                rest = positive_part(rest, rest.vertices @ border[:-1] + border[-1], -number, touch)
        if rest is not None:
            yield a, b


def _boxes_that_overlap(cells: list[Cell], least: float) -> Iterator[tuple[int, int]]:
    """Pairs of cells whose bounding boxes share more than ``least`` along every axis."""
    low = np.array([cell.vertices.min(axis=0) for cell in cells])
    high = np.array([cell.vertices.max(axis=0) for cell in cells])
    for p in range(len(cells)):
        shared = np.minimum(high[p], high[p + 1 :]) - np.maximum(low[p], low[p + 1 :])
        for q in np.flatnonzero((shared > least).all(axis=1)):
            yield p, p + 1 + int(q)


def _rank(points: FloatArray, touch: float) -> int:
    """Dimension of the affine hull of the points (m, q); extents of at most ``touch`` do not count."""
    return int((np.linalg.svd(points - points.mean(axis=0), compute_uv=False) > touch).sum())


def _borders_of(cell: Cell, facet: int, touch: float) -> Iterator[FloatArray]:
    """Each border of a convex set in ``facet`` as (normal, offset), where normal @ x + offset >= 0 inside."""
    points, inside = cell.vertices, cell.center
    for other in sorted(frozenset().union(*cell.facets) - {facet}):
        on = points[[other in facets for facets in cell.facets]]
        if _rank(on, touch) < points.shape[1] - 1:
            continue  # this facet meets the set in a corner only
        center = on.mean(axis=0)
        axes = np.linalg.svd(on - center, full_matrices=True)[2]
        normal = axes[-1] * (1.0 if (inside - center) @ axes[-1] > 0 else -1.0)
        yield np.append(normal, -normal @ center)
