"""The cells of a decision map: intervals, convex polygons that share vertices by index, or boxes.

Every kind can be *cut*: along lines (functions w_0 + w x of the slice coordinates x, one or two parallel ones for a
cell), or in two halves across its longest side. Each cut returns the new cells and, for each, the old cell that it is
part of. Rounding moves new vertices off the lines, so what holds on a part is checked again at its own corners.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

from regionscope.errors import InputError
from regionscope.geometry import Slice
from regionscope.geometry.crossing import Points
from regionscope.geometry.planar import mesh as planar
from regionscope.geometry.planar.arrangement import Chords, Meetings, cut
from regionscope.geometry.planar.mesh import Mesh, cut_edges
from regionscope.geometry.ragged import gather_rows, next_in_row, owners
from regionscope.types import BoolArray, FloatArray, IntArray

EPS = float(np.finfo(np.float64).eps)
_SNAP = 1e-6  # of an edge: new points nearer to its ends fall on them
_SPARE = 1 + 1e-11  # the frame of a cell is larger by so much, for rounding


class Cells(Protocol):
    """Cells that cover a slice, none over another."""

    @property
    def sizes(self) -> FloatArray:
        """Length, area or volume of each cell (n,), in slice coordinates."""

    def __len__(self) -> int: ...

    def corners(self, chosen: IntArray) -> FloatArray:
        """Corners (b, v, k) in slice coordinates; cells with fewer corners repeat one."""

    def frames(self, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
        """Centers (b, k) and half axes (b, k, k) of parallelepipeds that hold the cells, the longest axis first."""

    def cut(self, chosen: IntArray, lines: FloatArray) -> tuple[Self, IntArray]:
        """Cut cells (b,) along parallel lines (b, m, 1 + k), w_0 + w x = 0, as far as these pass through them."""

    def halved(self, chosen: IntArray) -> tuple[Self, IntArray]:
        """Cut cells in two halves across their longest axis."""

    def neighbours(self) -> IntArray:
        """Pairs of cells (p, 2) that share a wall."""

    def loops_of_corners(self) -> list[FloatArray]:
        """The corners (m, k) of each cell."""

    def locate(self, coords: FloatArray) -> IntArray:
        """A cell that holds each point (n,), -1 for points outside."""


def cells_of(slice: Slice) -> Cells:
    """One cell that is the whole slice."""
    corners = slice.corners.cpu().numpy()
    basis = slice.basis.flatten(1).cpu().numpy()
    metric = np.linalg.cholesky(basis @ basis.T)
    if slice.dim == 1:
        return Intervals(corners[:, 0])
    if slice.dim == 2:
        n = len(corners)
        number = np.arange(n)
        edges = np.stack([number, np.roll(number, -1)], 1)
        none = np.full(n, -1)
        mesh = Mesh(n, edges, none, none, number, number, np.array([0, n]), np.zeros(1, np.int64))  # type: ignore[arg-type]
        return Polygons(mesh, corners, metric)
    low, high = corners.min(0), corners.max(0)
    if slice.dim != 3 or len(corners) != 8:
        raise InputError(
            f"Expected a segment, a plane or a Box of dimension 3, got {slice!r}. Pass a slice of a lower dimension."
        )
    return Boxes((low + high)[None] / 2, (high - low)[None] / 2, metric)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals between neighbouring ``ends`` (n + 1,)."""

    ends: FloatArray

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def sizes(self) -> FloatArray:
        return np.diff(self.ends)

    def corners(self, chosen: IntArray) -> FloatArray:
        return np.stack([self.ends[chosen], self.ends[chosen + 1]], 1)[:, :, None]

    def frames(self, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
        low, high = self.ends[chosen], self.ends[chosen + 1]
        center = (low + high) / 2
        half = np.maximum(high - center, center - low) * _SPARE
        return center[:, None], half[:, None, None]

    def cut(self, chosen: IntArray, lines: FloatArray) -> tuple[Intervals, IntArray]:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            places = -lines[:, :, 0] / lines[:, :, 1]
        low, high = self.ends[chosen, None], self.ends[chosen + 1, None]
        width = high - low
        return self._with_ends(places[(places > low + _SNAP * width) & (places < high - _SNAP * width)])

    def halved(self, chosen: IntArray) -> tuple[Intervals, IntArray]:
        low, high = self.ends[chosen], self.ends[chosen + 1]
        middle = (low + high) / 2
        return self._with_ends(middle[(low < middle) & (middle < high)])

    def _with_ends(self, places: FloatArray) -> tuple[Intervals, IntArray]:
        ends = np.union1d(self.ends, places)
        return Intervals(ends), np.searchsorted(self.ends, ends[:-1], side="right") - 1

    def loops_of_corners(self) -> list[FloatArray]:
        return list(self.corners(np.arange(len(self))))

    def locate(self, coords: FloatArray) -> IntArray:
        cell = np.searchsorted(self.ends, coords[:, 0], side="right") - 1
        cell = np.where(coords[:, 0] == self.ends[-1], len(self) - 1, cell)
        inside: IntArray = np.where((cell >= 0) & (cell < len(self)), cell, -1)
        return inside

    n_vertices = property(lambda self: len(self.ends))

    def vertices(self, chosen: IntArray) -> IntArray:
        """Numbers of the corners (b, 2)."""
        return np.stack([chosen, chosen + 1], 1)

    def neighbours(self) -> IntArray:
        number = np.arange(len(self) - 1)
        return np.stack([number, number + 1], 1)


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes with sides along the axes of the slice coordinates: centers and half widths (n, 3)."""

    center: FloatArray
    half: FloatArray
    metric: FloatArray

    def __len__(self) -> int:
        return len(self.center)

    @property
    def sizes(self) -> FloatArray:
        sizes: FloatArray = np.prod(2 * self.half, axis=1)
        return sizes

    def corners(self, chosen: IntArray) -> FloatArray:
        signs = np.array(np.meshgrid(*[(-1.0, 1.0)] * 3, indexing="ij")).reshape(3, -1).T
        return self.center[chosen, None] + signs * self.half[chosen, None]

    def frames(self, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
        return self.center[chosen], self.half[chosen, :, None] * np.eye(3) * _SPARE

    def cut(self, chosen: IntArray, lines: FloatArray) -> tuple[Boxes, IntArray]:
        """Boxes stay whole: a plane would leave parts that are no boxes."""
        return self, np.arange(len(self))

    def halved(self, chosen: IntArray) -> tuple[Boxes, IntArray]:
        axis = (self.half[chosen] * np.linalg.norm(self.metric, axis=1)).argmax(1)
        whole = np.ones(len(self), bool)
        whole[chosen] = False
        half, center = self.half[chosen].copy(), self.center[chosen]
        rows = np.arange(len(chosen))
        half[rows, axis] /= 2
        step = np.zeros_like(half)
        step[rows, axis] = half[rows, axis]
        old = np.concatenate([np.flatnonzero(whole), chosen, chosen])
        order = np.argsort(old, kind="stable")
        centers = np.concatenate([self.center[whole], center - step, center + step])[order]
        halves = np.concatenate([self.half[whole], half, half])[order]
        return replace(self, center=centers, half=halves), old[order]

    def loops_of_corners(self) -> list[FloatArray]:
        return list(self.corners(np.arange(len(self))))

    def locate(self, coords: FloatArray) -> IntArray:
        low, high = self.center - self.half, self.center + self.half
        return _located(coords, low, high, partial(_in_boxes, low=low, high=high))

    def neighbours(self) -> IntArray:
        """By comparison of all sides: two boxes touch if they meet along one axis and overlap along the others."""
        pairs = []
        low, high = self.center - self.half, self.center + self.half
        for axis in range(3):
            others = [i for i in range(3) if i != axis]
            order = np.argsort(low[:, axis], kind="stable")
            for i in range(len(self)):
                start = np.searchsorted(low[order, axis], high[i, axis] - _SNAP * self.half[i, axis])
                stop = np.searchsorted(low[order, axis], high[i, axis] + _SNAP * self.half[i, axis])
                rows = order[start:stop]
                shared = np.minimum(high[rows][:, others], high[i, others])
                shared -= np.maximum(low[rows][:, others], low[i, others])
                touching = (shared > 0).all(1)
                pairs.append(np.stack([np.full(touching.sum(), i), rows[touching]], 1))
        return np.concatenate(pairs)


@dataclass(frozen=True, eq=False)
class Polygons:
    """A mesh of convex polygons, the coordinates of its vertices (v, 2), and a metric: x @ metric is isometric."""

    mesh: Mesh
    coords: FloatArray
    metric: FloatArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def offsets(self) -> IntArray:
        """Where the corners of each cell start (n + 1,)."""
        return np.asarray(self.mesh.offsets)

    @property
    def loops(self) -> IntArray:
        """The vertices of each cell, counter-clockwise."""
        return np.asarray(self.mesh.corners)

    @property
    def sizes(self) -> FloatArray:
        areas: FloatArray = np.asarray(planar.areas(self.mesh, self.coords))  # type: ignore[arg-type]
        return np.maximum(areas, 0.0)

    def corners(self, chosen: IntArray) -> FloatArray:
        corners: FloatArray = self.coords[self.vertices(chosen)]
        return corners

    def frames(self, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
        corners = self.corners(chosen) @ self.metric
        middle = corners.mean(1, keepdims=True)
        corners = corners - middle
        sides = np.roll(corners, -1, axis=1) - corners
        longest = (sides**2).sum(2).argmax(1)
        along = sides[np.arange(len(sides)), longest]
        length = np.linalg.norm(along, axis=1, keepdims=True)
        along = np.where(length > 0, along / np.maximum(length, 1e-300), [1.0, 0.0])
        axes = np.stack([along, np.stack([-along[:, 1], along[:, 0]], 1)], 1)
        heights = np.einsum("bvj,bij->bvi", corners, axes)
        low, high = heights.min(1), heights.max(1)
        center = middle[:, 0] + np.einsum("bi,bij->bj", (low + high) / 2, axes)
        rounding = 8 * EPS * np.abs(middle).max(2) + 1e-300
        half = np.maximum((high - low) / 2, np.maximum(1e-13 * (high - low).max(1, keepdims=True), rounding))
        order = np.argsort(-half, axis=1, kind="stable")
        rows = np.arange(len(half))[:, None]
        inverse = np.linalg.inv(self.metric)
        frame = (half[:, :, None] * axes)[rows, order] @ inverse
        return center @ inverse, frame * _SPARE

    def cut(self, chosen: IntArray, lines: FloatArray) -> tuple[Polygons, IntArray]:
        taken: Any = gather_rows(self.mesh.offsets, chosen)  # type: ignore[arg-type]
        index, starts = taken
        row = np.asarray(owners(starts))
        following = np.asarray(next_in_row(starts))
        points = self.coords[self.loops[index]]
        ends = _crossings(points, following, row, lines)
        if ends is None:
            return self, np.arange(len(self))
        slot, share, cell, chord = ends
        corners, sides = self.loops, np.asarray(self.mesh.sides)
        snapped = np.where(share < _SNAP, slot, np.where(share > 1 - _SNAP, following[slot], -1))
        new = np.flatnonzero(snapped < 0)
        place = index[slot[new]]
        edge = sides[place]
        forward = corners[place] == np.asarray(self.mesh.edges)[edge, 0]
        along = np.where(forward, share[new], 1 - share[new])
        order = np.lexsort((along, edge))
        fresh = np.ones(len(order), bool)
        fresh[1:] = (np.diff(edge[order]) != 0) | (np.diff(along[order]) > _SNAP)
        number = np.empty(len(order), np.int64)
        number[order] = np.cumsum(fresh) - 1
        first = order[fresh]
        points_on_edges: Any = (edge[first], along[first])
        divided = cut_edges(self.mesh, Points(*points_on_edges))
        a, b = (np.asarray(self.mesh.edges)[edge[first], i] for i in range(2))
        t = along[first][:, None]
        coords = np.concatenate([self.coords, (1 - t) * self.coords[a] + t * self.coords[b]])
        slots = np.empty(len(slot), np.int64)
        old = np.flatnonzero(snapped >= 0)
        slots[old] = np.asarray(divided.corner_slots)[index[snapped[old]]]
        slots[new] = np.asarray(divided.point_slots)[number, np.where(forward, 0, 1)]
        pairs = slots[np.lexsort((cell, chord))].reshape(-1, 2)
        of_pair = np.unique(np.stack([chord, cell], 1), axis=0)[:, 1]
        order = np.argsort(of_pair, kind="stable")
        ends_of_chords: Any = (chosen[of_pair[order]], *pairs[order].T, np.zeros(len(of_pair), np.int64))
        chords, _ = Chords.between(divided.mesh, *ends_of_chords)
        none: Any = np.zeros(0, np.int64)
        nothing = Meetings(none, none, none.astype(np.float64), none, none)
        mesh, old_cell = cut(divided.mesh, chords, nothing, 0)
        return replace(self, mesh=mesh, coords=coords), np.asarray(old_cell)

    def halved(self, chosen: IntArray) -> tuple[Polygons, IntArray]:
        if not len(chosen):
            return self, np.arange(len(self))
        center, frame = self.frames(chosen)
        normal = frame[:, 0] @ self.metric @ self.metric.T
        lines = np.concatenate([-(normal * center).sum(1, keepdims=True), normal], 1)
        return self.cut(chosen, lines[:, None])

    def loops_of_corners(self) -> list[FloatArray]:
        return np.split(self.coords[self.loops], self.offsets[1:-1])

    def locate(self, coords: FloatArray) -> IntArray:
        corners = self.corners(np.arange(len(self)))
        return _located(coords, corners.min(1), corners.max(1), partial(_in_polygons, corners=corners))

    n_vertices = property(lambda self: len(self.coords))

    def vertices(self, chosen: IntArray) -> IntArray:
        """Numbers of the corners (b, v); cells with fewer corners repeat one."""
        counts = np.diff(self.offsets)[chosen]
        place = np.minimum(np.arange(counts.max(initial=1)), counts[:, None] - 1)
        numbers: IntArray = self.loops[self.offsets[chosen][:, None] + place]
        return numbers

    def neighbours(self) -> IntArray:
        cells = np.asarray(self.mesh.edge_cells())
        pairs: IntArray = cells[(cells >= 0).all(1)]
        return pairs


def _crossings(
    points: FloatArray, following: IntArray, row: IntArray, lines: FloatArray
) -> tuple[IntArray, FloatArray, IntArray, IntArray] | None:
    """Where lines leave and enter cells: the side of the cell, the place on it, the cell and the line; in pairs."""
    slots, shares, cells, chords = [], [], [], []
    for j in range(lines.shape[1]):
        values = lines[row, j, 0] + (lines[row, j, 1:] * points).sum(1)
        above: BoolArray = values > 0
        crossing = np.flatnonzero(above != above[following])
        twice = np.bincount(row[crossing], minlength=len(lines)) == 2  # more only where rounding hides the sign
        crossing = crossing[twice[row[crossing]]]
        start, stop = values[crossing], values[following[crossing]]
        slots.append(crossing)
        shares.append(start / (start - stop))
        cells.append(row[crossing])
        chords.append(np.full(len(crossing), j))
    if not sum(map(len, slots)):
        return None
    return np.concatenate(slots), np.concatenate(shares), np.concatenate(cells), np.concatenate(chords)


# Which cell holds a point: a grid of bins over all cells, and a test of the cells that meet the bin of the point.


def _located(
    coords: FloatArray, low: FloatArray, high: FloatArray, holds: Callable[[FloatArray, IntArray], BoolArray]
) -> IntArray:
    """The first cell that holds each point; ``holds(points, cells)`` tests pairs. low, high: of each cell (n, k)."""
    start, stop = low.min(0), high.max(0)
    k = coords.shape[1]
    bins = max(1, round(len(low) ** (1 / k)))
    scale = bins / np.maximum(stop - start, 1e-300)
    first = np.clip(((low - start) * scale).astype(np.int64), 0, bins - 1)
    last = np.clip(((high - start) * scale).astype(np.int64), 0, bins - 1)
    spans = last - first + 1
    counts = spans.prod(1)
    cell = np.repeat(np.arange(len(low)), counts)
    rank = np.arange(len(cell)) - np.repeat(np.cumsum(counts) - counts, counts)
    number = np.zeros(len(cell), np.int64)
    for axis in range(k):
        number = number * bins + first[cell, axis] + rank % spans[cell, axis]
        rank = rank // spans[cell, axis]
    order = np.argsort(number, kind="stable")
    cell, number = cell[order], number[order]
    inside: Any = np.all((coords >= start) & (coords <= stop), axis=1)
    place = np.clip(((np.where(inside[:, None], coords, start) - start) * scale).astype(np.int64), 0, bins - 1)
    bin_of = np.zeros(len(coords), np.int64)
    for axis in range(k):
        bin_of = bin_of * bins + place[:, axis]
    begin, end = np.searchsorted(number, bin_of), np.searchsorted(number, bin_of, side="right")
    result = np.full(len(coords), -1)
    waiting = np.flatnonzero(np.logical_and(inside, begin < end))
    while len(waiting):
        candidate = cell[begin[waiting]]
        success = holds(coords[waiting], candidate)
        result[waiting[success]] = candidate[success]
        begin[waiting] += 1
        waiting = waiting[~success & (begin[waiting] < end[waiting])]
    return result


def _in_boxes(points: FloatArray, cell: IntArray, *, low: FloatArray, high: FloatArray) -> BoolArray:
    inside: BoolArray = np.all((points >= low[cell]) & (points <= high[cell]), axis=1)
    return inside


def _in_polygons(points: FloatArray, cell: IntArray, *, corners: FloatArray) -> BoolArray:
    """Whether each point is left of all sides, up to rounding."""
    polygon = corners[cell]
    sides = np.roll(polygon, -1, axis=1) - polygon
    away = points[:, None] - polygon
    turn = sides[..., 0] * away[..., 1] - sides[..., 1] * away[..., 0]
    size = np.abs(sides).sum(2) * (np.abs(polygon).sum(2) + np.abs(points).sum(1)[:, None])
    inside: BoolArray = (turn >= -4 * EPS * size).all(1)
    return inside
