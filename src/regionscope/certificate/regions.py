"""The true region of a pattern, and the patterns behind its facets; all in integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from regionscope.certificate.integers import IntegerNetwork, Integers, Pattern


@dataclass(frozen=True)
class TrueRegion:
    """The polytope of an activation region, and for each facet the pattern behind it (None: outside)."""

    polytope: Polytope
    behind: list[bytes | None]


def pattern_of(key: bytes) -> Pattern:
    """The pattern whose bytes these are."""
    return np.frombuffer(key, dtype=np.int16)


class TrueRegions:
    """Regions of one network on one slice, each computed when it is asked for and then kept."""

    def __init__(self, network: IntegerNetwork) -> None:
        self.network = network
        self.known: dict[bytes, TrueRegion | None] = {}

    def of(self, pattern: Pattern) -> TrueRegion | None:
        """The region of a pattern; None if no inner point of the slice has it."""
        key = pattern.tobytes()
        self.prepare([key])
        return self.known[key]

    def prepare(self, keys: Iterable[bytes]) -> None:
        """Compute the regions of these patterns together, which is faster than one after another."""
        unknown = [key for key in dict.fromkeys(keys) if key not in self.known]
        for start in range(0, len(unknown), self.network.together):
            self._compute(unknown[start : start + self.network.together])

    def somewhere(self) -> bytes:
        """The pattern of a region that touches the middle of the slice."""
        network = self.network
        middle = [sum(numbers) for numbers in zip(*network.corners, strict=True)]
        directions = ([step**power for power in range(network.dim)] for step in itertools.count(1))
        patterns = (network.pattern(middle, direction) for direction in directions)
        return next(pattern.tobytes() for pattern in patterns if self.of(pattern) is not None)

    def _compute(self, keys: list[bytes]) -> None:
        network, n_border = self.network, len(self.network.border)
        patterns = np.stack([pattern_of(key) for key in keys])
        middles, outwards, places = list[list[int]](), list[list[int]](), list[tuple[list[bytes | None], int]]()
        for key, pattern, cell in zip(keys, patterns, network.cells(patterns), strict=True):
            polytope = region_of(cell.constraints, network.corners, n_border, network.dim)
            if polytope is None:
                self.known[key] = None
                continue
            behind: list[bytes | None] = [None] * len(polytope.facets)
            self.known[key] = TrueRegion(polytope, behind)
            for facet, (ends, rows) in enumerate(polytope.facets):
                if min(rows) < n_border:
                    continue
                if len(rows) == 1 and not cell.degenerate:
                    behind[facet] = network.flipped(pattern, rows[0]).tobytes()
                    continue
                middles.append([sum(numbers) for numbers in zip(*(polytope.corners[i] for i in ends), strict=True)])
                outwards.append([-number for number in cell.constraints[rows[0]][:-1]])
                places.append((behind, facet))
        for start in range(0, len(places), network.together):
            part = slice(start, start + network.together)
            for (behind, facet), beside in zip(
                places[part], network.patterns(middles[part], outwards[part]), strict=True
            ):
                behind[facet] = beside.tobytes()

    def grow(self, start: Iterable[bytes], stop: Callable[[bytes], bool], most: int) -> dict[bytes, TrueRegion] | None:
        """All regions reached from those of the patterns ``start`` without entering one at which ``stop`` says so.

        None if there are more than ``most``.
        """
        waiting, found = list(dict.fromkeys(start)), {}
        while waiting:
            key = waiting.pop()
            if key in found:
                continue
            if key not in self.known:
                self.prepare([key, *waiting[-self.network.together :]])
            region = self.known[key]
            if region is None:
                raise AssertionError("A pattern behind a facet has no region. Please report this fault of regionscope.")
            found[key] = region
            if len(found) > most:
                return None
            waiting += [
                other for other in region.behind if other is not None and other not in found and not stop(other)
            ]
        return found


# Convex polytopes in integers: corners in homogeneous coordinates, cut by half-spaces one after another.
#
# The double description method: a corner knows the constraints that are zero at it, as bits of an integer. Two corners
# are ends of an edge if no third corner shares all zeros that they share. Nothing is rounded, in any dimension.

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
