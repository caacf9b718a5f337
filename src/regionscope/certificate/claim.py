"""What a partition claims, as NumPy arrays, and whether its regions and walls fit together as numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from regionscope.certificate.bits import Bits
from regionscope.certificate.integers import IntegerNetwork
from regionscope.certificate.regions import TrueRegions
from regionscope.certificate.steps import Steps, read_steps
from regionscope.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ClaimedPartition:
    """The arrays of a partition; see ``Partition`` and ``Walls``. ``dim``: of the slice."""

    dim: int
    vertices: FloatArray
    corners: IntArray
    offsets: IntArray
    wall_vertices: IntArray
    wall_offsets: IntArray
    wall_regions: IntArray
    wall_layer: IntArray

    @staticmethod
    def of(part: Any) -> ClaimedPartition:
        walls = part.walls
        arrays = (part.corners, part.offsets, walls.vertices, walls.offsets, walls.regions, walls.layer)
        return ClaimedPartition(part.slice.dim, part.vertices.cpu().numpy(), *(array.cpu().numpy() for array in arrays))

    @property
    def n(self) -> int:
        """Number of regions."""
        return len(self.offsets) - 1

    def part(self, regions: IntArray) -> ClaimedPartition:
        """The same claim with the corners of these regions only; its walls stay."""
        counts = np.diff(self.offsets)[regions]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        entry = np.arange(offsets[-1]) + np.repeat(self.offsets[regions] - offsets[:-1], counts)
        return replace(self, corners=self.corners[entry], offsets=offsets)

    @cached_property
    def points(self) -> FloatArray:
        """The vertex of each corner."""
        return self.vertices[self.corners]

    @cached_property
    def owner(self) -> IntArray:
        """The region of each corner."""
        return np.repeat(np.arange(self.n), np.diff(self.offsets))

    @cached_property
    def sides(self) -> IntArray:
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
        wall = order[place]
        return np.where(keys[wall] == wanted, wall, -1)

    @cached_property
    def meeting(self) -> IntArray:
        """The k walls that meet in each corner (corners, k); -1 where there are more or fewer, or where it is unknown.

        In space all vertices of the walls of a region have to be corners of it.
        """
        if self.dim == 1:
            return self.sides[:, None]
        if self.dim == 2:
            previous = np.arange(-1, len(self.corners) - 1)
            previous[self.offsets[:-1]] = self.offsets[1:] - 1
            return np.stack([self.sides[previous], self.sides], 1)
        wall = np.tile(np.repeat(np.arange(len(self.wall_regions)), np.diff(self.wall_offsets)), 2)
        region, n = self.wall_regions[wall, np.repeat([0, 1], len(wall) // 2)], len(self.vertices)
        key = region * n + np.tile(self.wall_vertices, 2)
        order = key.argsort(kind="stable")
        first, end = (np.searchsorted(key[order], self.owner * n + self.corners, side) for side in ("left", "right"))
        total = np.bincount(region[region >= 0], minlength=self.n)
        whole = (end - first == self.dim) & (total == self.dim * np.diff(self.offsets))[self.owner]
        entry = order[np.minimum(first[:, None] + np.arange(self.dim), len(order) - 1)]
        return np.where(whole[:, None], wall[entry], -1)

    def faults(self) -> list[tuple[str, IntArray]]:
        """What does not fit together, with the regions concerned.

        In space a wall has at least three vertices. On lines and planes every side of a region is one wall, every inner
        wall has a region on either side, and the vertices are as many as Euler's formula says.
        """
        inner = (self.wall_regions >= 0).all(1)
        pairs = self.wall_regions[inner]
        faults = [("a wall has the same region on both sides", pairs[pairs[:, 0] == pairs[:, 1], 0])]
        if self.dim > 2:
            flat = self.wall_regions[np.diff(self.wall_offsets) < self.dim]
            faults.append(("a wall has too few vertices", np.unique(flat[flat >= 0])))
            return [(reason, regions) for reason, regions in faults if len(regions)]
        sides, owner = self.sides, self.owner
        faults.append(("a side of a region is no wall", owner[sides < 0]))
        beside = (self.wall_regions[sides] == owner[:, None]).any(1) & (sides >= 0)
        faults.append(("a wall does not name the region that it bounds", owner[~beside]))
        uses = np.bincount(sides[sides >= 0], minlength=len(self.wall_regions))
        wrong = np.flatnonzero(uses != (self.wall_regions >= 0).sum(1))
        around = self.wall_regions[wrong].ravel()
        faults.append(("a wall bounds more or fewer regions than it names", around[around >= 0]))
        used = np.zeros(len(self.vertices), dtype=bool)
        used[self.corners] = True
        if self.dim == 2 and used.sum() != 1 + len(self.wall_regions) - self.n:
            faults.append(("vertices, walls and regions contradict Euler's formula", np.arange(self.n)))
        return [(reason, np.unique(regions)) for reason, regions in faults if len(regions)]


# ``Subject``: a partition to certify, beside the network that it should belong to.

# of the extent of the slice: a stored vertex that is farther from the true one is refuted; or computed again
MOST_VERTEX_ERROR, MOST_DOUBTED_ERROR = 1e-6, 1e-7


@dataclass(frozen=True, eq=False)
class Subject:
    """A partition, what it claims, and its network as steps.

    most: largest number of regions to compute in integers. vertex_error: largest distance of a stored vertex from the
    true one, as a share of the extent of the slice.
    """

    part: Any
    most: int
    vertex_error: float
    claim: ClaimedPartition
    steps: Steps
    code: Bits
    n_border: int

    @staticmethod
    def of(part: Any, most: int, vertex_error: float = MOST_VERTEX_ERROR) -> Subject:
        """From a partition that carries its network."""
        steps, n_border = read_steps(part.program), len(part.slice.halfspaces[1])
        return Subject(part, most, vertex_error, ClaimedPartition.of(part), steps, Bits(steps, n_border), n_border)

    @property
    def n_rows(self) -> int:
        """Number of constraints of a region: the sides of the slice, and the units."""
        return self.n_border + self.steps.n_rows

    @cached_property
    def most_moved(self) -> float:
        """How far a stored vertex may be from the true one."""
        return self.vertex_error * float(np.ptp(self.claim.vertices, axis=0).max())

    @cached_property
    def network(self) -> IntegerNetwork:
        """The network in integers."""
        return IntegerNetwork(self.steps, self.part.slice)

    @cached_property
    def true(self) -> TrueRegions:
        """The true regions, each computed when it is asked for."""
        return TrueRegions(self.network)
