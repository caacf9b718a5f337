"""What a partition claims, as NumPy arrays, and whether its regions and walls fit together as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regionscope.certificate.integers import Pattern
from regionscope.certificate.steps import Largest, Numbers, Steps

__all__ = ["Claim", "wall_rows"]

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Claim:
    """The arrays of a partition; see ``Partition`` and ``Walls``. ``dim``: of the slice."""

    dim: int
    vertices: Numbers
    corners: Index
    offsets: Index
    wall_vertices: Index
    wall_regions: Index
    wall_layer: Index

    @staticmethod
    def of(part: Any) -> Claim:
        walls = part.walls
        arrays = (part.corners, part.offsets, walls.vertices, walls.regions, walls.layer)
        return Claim(part.slice.dim, part.vertices.cpu().numpy(), *(array.cpu().numpy() for array in arrays))

    @property
    def n(self) -> int:
        """Number of regions."""
        return len(self.offsets) - 1

    @cached_property
    def owner(self) -> Index:
        """The region of each corner."""
        return np.repeat(np.arange(self.n), np.diff(self.offsets))

    @cached_property
    def sides(self) -> Index:
        """On a line or plane: the wall that starts in each corner and runs to the next one; -1 where there is none.

        On a line a wall is a vertex.
        """
        if self.dim == 1:
            keys, wanted = self.wall_vertices, self.corners
        else:
            following = np.arange(1, len(self.corners) + 1)
            following[self.offsets[1:] - 1] = self.offsets[:-1]
            ends, n = self.wall_vertices.reshape(-1, 2), len(self.vertices)
            keys = ends.min(1) * n + ends.max(1)
            here, there = self.corners, self.corners[following]
            wanted = np.minimum(here, there) * n + np.maximum(here, there)
        order = keys.argsort(kind="stable")
        place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
        found = order[place]
        return np.where(keys[found] == wanted, found, -1)

    def faults(self) -> list[tuple[str, Index]]:
        """What does not fit together, with the regions concerned.

        On lines and planes every side of a region is one wall, every inner wall has a region on either side, and the
        vertices are as many as Euler's formula says.
        """
        inner = (self.wall_regions >= 0).all(1)
        pairs = self.wall_regions[inner]
        found = [("a wall has the same region on both sides", pairs[pairs[:, 0] == pairs[:, 1], 0])]
        if self.dim > 2:
            return [(reason, regions) for reason, regions in found if len(regions)]
        sides, owner = self.sides, self.owner
        found.append(("a side of a region is no wall", owner[sides < 0]))
        beside = (self.wall_regions[sides] == owner[:, None]).any(1) & (sides >= 0)
        found.append(("a wall does not name the region that it bounds", owner[~beside]))
        uses = np.bincount(sides[sides >= 0], minlength=len(self.wall_regions))
        wrong = np.flatnonzero(uses != (self.wall_regions >= 0).sum(1))
        around = self.wall_regions[wrong].ravel()
        found.append(("a wall bounds more or fewer regions than it names", around[around >= 0]))
        if self.dim == 2 and len(np.unique(self.corners)) != 1 + len(self.wall_regions) - self.n:
            found.append(("vertices, walls and regions contradict Euler's formula", np.arange(self.n)))
        return [(reason, np.unique(regions)) for reason, regions in found if len(regions)]


def wall_rows(steps: Steps, patterns: Pattern, here: Index, there: Index, n_border: int) -> tuple[Index, Index]:
    """For pairs of neighbours: the constraint of region ``here`` that is zero on their wall, as numbered by
    ``IntegerNetwork.cell`` (-1 unless exactly one unit differs, by one piece), and the first nonlinearity at which the
    patterns differ (-1 if at none)."""
    folds, base = steps.folds, n_border
    starts, strides, largest, layers, bases = [], [], [], [], []
    for fold in folds:
        starts += list(range(fold.n_units))
        strides += [fold.rows_per_unit] * fold.n_units
        largest += [isinstance(fold, Largest)] * fold.n_units
        layers += [fold.layer] * fold.n_units
        bases += [base] * fold.n_units
        base += fold.n_units * fold.rows_per_unit
    start, stride, is_largest, layer, first = map(np.array, (starts, strides, largest, layers, bases))
    row, at = (np.full(len(here), -1, dtype=np.int64) for _ in range(2))
    step = max(1, (1 << 26) // max(1, patterns.shape[1]))
    for i in range(0, len(here) if patterns.shape[1] else 0, step):
        own, other = patterns[here[i : i + step]], patterns[there[i : i + step]]
        differs = own != other
        changed, unit = differs.sum(1), differs.argmax(1)
        index = np.arange(len(unit))
        a, b = own[index, unit].astype(np.int64), other[index, unit].astype(np.int64)
        number = first[unit] + start[unit] * stride[unit] + np.where(is_largest[unit], b, np.minimum(a, b))
        good = (changed == 1) & (is_largest[unit] | (np.abs(a - b) == 1))
        row[i : i + step] = np.where(good, number, -1)
        at[i : i + step] = np.where(changed > 0, layer[unit], -1)
    return row, at
