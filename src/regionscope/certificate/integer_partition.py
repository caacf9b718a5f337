"""The true partition of a line or plane, computed in integers; its coordinates and outputs are rounded at the end."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from regionscope.certificate.certify import MOST_IN_INTEGERS
from regionscope.certificate.claim import ClaimedPartition, Subject
from regionscope.certificate.regions import IntegerPoint, TrueRegion, pattern_of
from regionscope.certificate.true_counts import Counts, RegionGraph, count
from regionscope.errors import LimitReached
from regionscope.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class TruePartition:
    """The arrays of a partition; see ``Partition`` and ``Walls``.

    sizes: in slice coordinates. counts: linear regions, labels and decision regions.
    """

    claim: ClaimedPartition
    outputs: FloatArray
    sizes: FloatArray
    counts: Counts


def true_partition(part: Any) -> TruePartition | None:
    """The true partition of the slice of ``part``, by its network.

    None if it has too many regions, if the slice has more than two dimensions, or if integers do not take the network.
    Corners that are the same in float64 stay two.
    """
    if part.slice.dim > 2:
        return None
    try:
        return _computed(Subject.of(part, MOST_IN_INTEGERS))
    except LimitReached:
        return None


def _computed(subject: Subject) -> TruePartition | None:
    true, dim = subject.true, subject.claim.dim
    regions = true.grow([true.somewhere()], lambda key: False, subject.most)
    if regions is None:
        return None
    if dim == 1:
        regions = dict(sorted(regions.items(), key=lambda item: min(map(_place, item[1].polytope.corners))))
    loops = [_loop(region, dim) for region in regions.values()]
    points = list(dict.fromkeys(point for loop in loops for point in loop))
    number = {point: i for i, point in enumerate(points)}
    vertices = np.array([[x / point[-1] for x in point[:-1]] for point in points])
    corners, offsets = np.array([number[point] for loop in loops for point in loop]), _offsets(loops)
    patterns = np.array([pattern_of(key) for key in regions]).reshape(len(regions), -1)
    bits, walls = subject.code.encode(patterns), _walls([[number[point] for point in loop] for loop in loops], dim)
    sides = np.array(list(walls.values()))
    layer, inner = np.full(len(sides), -1), (sides >= 0).all(1)
    layer[inner] = subject.code.walls(bits, sides[inner])[1]
    outer = sum(other is None for region in regions.values() for other in region.behind)
    if (layer[inner] < 0).any() or outer != (~inner).sum():
        return None
    network, step = subject.network, subject.network.together
    blocks = [network.cells(patterns[start : start + step]) for start in range(0, len(patterns), step)]
    cells = [cell.outputs for block in blocks for cell in block]
    nothing = np.zeros((0, len(cells[0]), dim))
    counts = count(subject.steps, RegionGraph(subject.code, bits, sides[inner], nothing, nothing), lambda i: cells[i])
    outputs, below = np.zeros((len(points), len(cells[0]))), subject.network.denominators[subject.steps.output_name]
    for cell, loop in zip(cells, loops, strict=True):
        for point in loop:
            outputs[number[point]] = [x / (point[-1] * below) for x in cell.dot(np.array(point, dtype=object))]
    ends = np.array(list(walls))
    claim = ClaimedPartition(dim, vertices, corners, offsets, ends.reshape(-1), _offsets(list(walls)), sides, layer)
    return TruePartition(claim, outputs, np.array([float(_size(loop)) for loop in loops]), counts)


def _offsets(rows: Sequence[Sized]) -> IntArray:
    offsets: IntArray = np.cumsum([0, *map(len, rows)])
    return offsets


def _walls(loops: list[list[int]], dim: int) -> dict[tuple[int, ...], list[int]]:
    """The regions on both sides of each wall, by its vertices; -1 is outside.

    On a line the region before the wall comes first, on a plane the one on its left.
    """
    walls: dict[tuple[int, ...], list[int]] = {}
    for i, loop in enumerate(loops):
        if dim == 1:
            sides: list[tuple[tuple[int, ...], int]] = [((loop[0],), 1), ((loop[1],), 0)]
        else:
            pairs = zip(loop, [*loop[1:], loop[0]], strict=True)
            sides = [((min(a, b), max(a, b)), int(a > b)) for a, b in pairs]
        for ends, side in sides:
            walls.setdefault(ends, [-1, -1])[side] = i
    return walls


def _place(point: IntegerPoint) -> Fraction:
    return Fraction(point[0], point[1])


def _loop(region: TrueRegion, dim: int) -> list[IntegerPoint]:
    """The corners of a region: ascending, or counter-clockwise."""
    corners = region.polytope.corners
    if dim == 1:
        return sorted(corners, key=_place)
    follows: dict[int, list[int]] = {}
    for ends, _ in region.polytope.facets:
        a, b = ends
        follows.setdefault(a, []).append(b)
        follows.setdefault(b, []).append(a)
    loop = [0, follows[0][0]]
    while len(loop) < len(corners):
        loop.append(next(i for i in follows[loop[-1]] if i != loop[-2]))
    ordered = [corners[i] for i in loop]
    return ordered if _size(ordered) > 0 else ordered[::-1]


def _size(loop: list[IntegerPoint]) -> Fraction:
    """The length of an interval, or the area of a polygon."""
    if len(loop[0]) == 2:
        return _place(loop[1]) - _place(loop[0])
    points = [(Fraction(x, w), Fraction(y, w)) for x, y, w in loop]
    pairs = zip(points, [*points[1:], points[0]], strict=True)
    return sum((a[0] * b[1] - a[1] * b[0] for a, b in pairs), Fraction(0)) / 2
