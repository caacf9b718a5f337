"""Convex polytopes in integers: corners in homogeneous coordinates, cut by half-spaces one after another.

The double description method: a corner knows the constraints that are zero at it, as bits of an integer. Two corners
are ends of an edge if no third corner shares all zeros that they share. Nothing is rounded, in any dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regionscope.certificate.integers import Integers

IntegerPoint = tuple[int, ...]


@dataclass(frozen=True)
class Polytope:
    """corners: homogeneous integers, each in lowest terms. facets: for each facet its corners and the rows of the
    constraints that are zero on it."""

    corners: list[IntegerPoint]
    facets: list[tuple[frozenset[int], list[int]]]


def region_of(constraints: Integers, corners: Sequence[IntegerPoint], n_border: int, dim: int) -> Polytope | None:
    """The part of a slice on which all constraints (n, k + 1) are >= 0; None if it has no inner points.

    corners: of the slice. n_border: number of constraints, at the start, that the slice itself satisfies.
    """
    points = [_reduced(corner) for corner in corners]
    zeros = [_bits(constraints[:n_border].dot(np.array(point, dtype=object)) == 0) for point in points]
    left = constraints[n_border:]
    index = np.arange(n_border, len(constraints))
    while True:
        values = left.dot(np.array(points, dtype=object).T)
        cutting = (values < 0).any(1)
        if not cutting.any():
            break
        left, index, values = left[cutting], index[cutting], values[cutting]
        if not (values > 0).any(1).all():
            return None
        first = int((values < 0).sum(1).argmax())
        points, zeros = _cut(points, zeros, values[first].tolist(), int(index[first]), dim)
    return _with_facets(constraints, points, dim)


def _cut(
    points: list[IntegerPoint], zeros: list[int], values: list[int], bit: int, dim: int
) -> tuple[list[IntegerPoint], list[int]]:
    """The corners of the part where the constraint with these values is >= 0."""
    kept, kept_zeros = [], []
    for point, zero, value in zip(points, zeros, values, strict=True):
        if value >= 0:
            kept.append(point)
            kept_zeros.append(zero | (1 << bit if value == 0 else 0))
    for p, above in enumerate(values):
        for n, below in enumerate(values):
            if above > 0 > below and _is_edge(zeros, p, n, dim):
                mixed = [above * b - below * a for a, b in zip(points[p], points[n], strict=True)]
                kept.append(_reduced(mixed))
                kept_zeros.append(zeros[p] & zeros[n] | 1 << bit)
    return kept, kept_zeros


def _is_edge(zeros: list[int], p: int, n: int, dim: int) -> bool:
    common = zeros[p] & zeros[n]
    if common.bit_count() < dim - 1:
        return False
    return not any(other & common == common for i, other in enumerate(zeros) if i not in (p, n))


def _with_facets(constraints: Integers, points: list[IntegerPoint], dim: int) -> Polytope:
    zero = constraints.dot(np.array(points, dtype=object).T) == 0
    found: dict[frozenset[int], list[int]] = {}
    for row in np.flatnonzero(zero.sum(1) >= dim):
        if not zero[row].all():  # else the constraint is zero everywhere
            found.setdefault(frozenset(np.flatnonzero(zero[row]).tolist()), []).append(int(row))
    facets = [(own, rows) for own, rows in found.items() if not any(own < other for other in found)]
    return Polytope(points, facets)


def _reduced(point: Sequence[int]) -> IntegerPoint:
    divisor = math.gcd(*point)
    return tuple(number // divisor for number in point)


def _bits(flags: Integers) -> int:
    return sum(1 << int(i) for i in np.flatnonzero(flags))
