"""Convex polytopes of dimension 1 to 3 with rational corners, cut without rounding.

A point is a tuple of integers (x_1, ..., x_k, w) with w > 0 and no common divisor; it stands for (x_1, ..., x_k) / w.
An affine function is a tuple of k + 1 integers, and its value at a point has the sign of their scalar product. A
polytope is a list of faces; a face is a list of corners in cyclic order. In dimension 1 and 2 the polytope is its only
face.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from operator import mul

Point = tuple[int, ...]
Function = tuple[int, ...]
Face = list[Point]
Polytope = list[Face]


def reduced(numbers: Sequence[int]) -> tuple[int, ...]:
    """The numbers without their common divisor."""
    divisor = math.gcd(*numbers) or 1
    return tuple(number // divisor for number in numbers)


def value(function: Function, point: Point) -> int:
    """A number with the sign of the function at the point."""
    return sum(map(mul, function, point))


def corners(polytope: Polytope) -> list[Point]:
    """Every corner once."""
    return polytope[0] if len(polytope) == 1 else list(dict.fromkeys(point for face in polytope for point in face))


def positive_face(face: Face, function: Function) -> Face:
    """The part of a face where the function is not negative."""
    values = [value(function, point) for point in face]
    kept = []
    for i, (point, here) in enumerate(zip(face, values, strict=True)):
        before = values[i - 1]
        if (before < 0 < here) or (here < 0 < before):
            pairs = zip(face[i - 1], point, strict=True)
            kept.append(reduced([abs(here) * p + abs(before) * q for p, q in pairs]))
        if here >= 0:
            kept.append(point)
    return list(dict.fromkeys(kept)) if len(face) == 2 else kept


def positive_part(polytope: Polytope, function: Function) -> Polytope:
    """The part of a polytope where the function is not negative; it must take both signs."""
    if len(polytope) == 1:
        return [positive_face(polytope[0], function)]
    faces = [face for face in (positive_face(face, function) for face in polytope) if len(face) > 2]
    follows: dict[Point, list[Point]] = defaultdict(list)
    for face in faces:
        edge = [point for point in face if not value(function, point)]
        if len(edge) == 2:
            follows[edge[0]].append(edge[1])
            follows[edge[1]].append(edge[0])
    previous, point = None, next(iter(follows))
    cut = [point]
    while (following := next(p for p in follows[point] if p != previous)) != cut[0]:
        previous, point = point, following
        cut.append(point)
    return [*faces, cut]


def signs(polytope: Polytope, function: Function) -> tuple[bool, bool]:
    """Whether the function is somewhere negative, and whether it is somewhere positive."""
    values = [value(function, point) for point in corners(polytope)]
    return min(values) < 0, max(values) > 0


@lru_cache(maxsize=1 << 12)
def hyperplane(rows: tuple[Point, ...]) -> Function:
    """The function that is zero on k points; the same for all points of one hyperplane."""
    minors = [(-1) ** i * _determinant([row[:i] + row[i + 1 :] for row in rows]) for i in range(len(rows) + 1)]
    function = reduced(minors)
    return function if next(filter(None, function)) > 0 else tuple(-number for number in function)


def facets(polytope: Polytope) -> list[Face]:
    """The faces of dimension k - 1."""
    if len(polytope) > 1:
        return polytope
    points = polytope[0]
    if len(points[0]) == 2:
        return [[point] for point in points]
    return [[points[i - 1], points[i]] for i in range(len(points))]


def joined(polytopes: Sequence[Polytope], keys: Sequence[Hashable]) -> list[int]:
    """For each polytope of a partition the first one that it is connected to by neighbours with the same key."""
    root = list(range(len(polytopes)))

    def find(i: int) -> int:
        while root[i] != i:
            i = root[i]
        return i

    for i, j, face, other in _facing(polytopes, keys):
        a, b = sorted((find(i), find(j)))
        if a != b and _overlap(face, other, polytopes[j]):
            root[b] = a
    return [find(i) for i in range(len(root))]


def neighbours(polytopes: Sequence[Polytope]) -> list[tuple[int, int]]:
    """All pairs of polytopes of a partition that share more than an edge of a facet."""
    facing = _facing(polytopes, [0] * len(polytopes))
    return [(i, j) for i, j, face, other in facing if _overlap(face, other, polytopes[j])]


def _facing(polytopes: Sequence[Polytope], keys: Sequence[Hashable]) -> Iterator[tuple[int, int, Face, Face]]:
    """Pairs of polytopes with the same key on two sides of one hyperplane, with their facets in it."""
    sides: dict[tuple[Function, bool, Hashable], list[tuple[int, Face]]] = defaultdict(list)
    often = Counter(keys)
    for i, polytope in enumerate(polytopes):
        if often[keys[i]] > 1:
            for face, plane, side in _half_spaces(polytope):
                sides[plane, side, keys[i]].append((i, face))
    for plane, side, key in list(sides):
        if side:
            for i, face in sides[plane, True, key]:
                for j, other in sides.get((plane, False, key), []):
                    yield i, j, face, other


def _overlap(face: Face, other: Face, polytope: Polytope) -> bool:
    """Whether a face and a facet of the polytope in the same hyperplane share more than their border."""
    k = len(face[0]) - 1
    if k == 1 or set(face) == set(other):
        return True
    for facet, plane, side in _half_spaces(polytope):
        if facet != other:
            face = positive_face(face, plane if side else tuple(-number for number in plane))
            if len(face) < k:
                return False
    return True


def _half_spaces(polytope: Polytope) -> Iterator[tuple[Face, Function, bool]]:
    """Each facet, the hyperplane through it, and whether the polytope lies where that is positive."""
    inside = tuple(map(sum, zip(*corners(polytope), strict=True)))
    for face in facets(polytope):
        plane = hyperplane(tuple(face[: len(inside) - 1]))
        yield face, plane, value(plane, inside) > 0


def _determinant(rows: list[Point]) -> int:
    if len(rows) == 1:
        return rows[0][0]
    minors = [_determinant([row[:i] + row[i + 1 :] for row in rows[1:]]) for i in range(len(rows))]
    return sum((-1) ** i * entry * minor for i, (entry, minor) in enumerate(zip(rows[0], minors, strict=True)))
