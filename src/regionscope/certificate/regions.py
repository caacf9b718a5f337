"""The true region of a pattern, and the patterns behind its facets; all in integers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from regionscope.certificate.integers import IntegerNetwork, Pattern
from regionscope.certificate.polytopes import Polytope, region_of


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
        if key not in self.known:
            self.known[key] = self._computed(pattern)
        return self.known[key]

    def somewhere(self) -> bytes:
        """The pattern of a region that touches the middle of the slice."""
        network = self.network
        middle = [sum(numbers) for numbers in zip(*network.corners, strict=True)]
        directions = ([step**power for power in range(network.dim)] for step in itertools.count(1))
        patterns = (network.pattern(middle, direction) for direction in directions)
        return next(pattern.tobytes() for pattern in patterns if self.of(pattern) is not None)

    def _computed(self, pattern: Pattern) -> TrueRegion | None:
        network = self.network
        n_border, cell = len(network.border), network.cell(pattern)
        polytope = region_of(cell.constraints, network.corners, n_border, network.dim)
        if polytope is None:
            return None
        behind: list[bytes | None] = []
        for own, rows in polytope.facets:
            if min(rows) < n_border:
                behind.append(None)
                continue
            if len(rows) == 1 and not cell.degenerate:
                behind.append(network.flipped(pattern, rows[0]).tobytes())
                continue
            middle = [sum(numbers) for numbers in zip(*(polytope.corners[i] for i in own), strict=True)]
            outwards = [-number for number in cell.constraints[rows[0]][:-1]]
            behind.append(network.pattern(middle, outwards).tobytes())
        return TrueRegion(polytope, behind)

    def grow(self, start: Iterable[bytes], stop: Callable[[bytes], bool], most: int) -> dict[bytes, TrueRegion] | None:
        """All regions reached from those of the patterns ``start`` without entering one at which ``stop`` says so.

        None if there are more than ``most``.
        """
        waiting, found = list(dict.fromkeys(start)), {}
        while waiting:
            key = waiting.pop()
            if key in found:
                continue
            region = self.of(pattern_of(key))
            if region is None:
                raise AssertionError("A pattern behind a facet has no region. Please report this fault of regionscope.")
            found[key] = region
            if len(found) > most:
                return None
            waiting += [
                other for other in region.behind if other is not None and other not in found and not stop(other)
            ]
        return found
