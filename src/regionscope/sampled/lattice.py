"""Lattices of points inside slices, and which of them are neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import torch
from torch import Tensor

from regionscope.checks import is_integer
from regionscope.errors import InputError
from regionscope.geometry import Box, Segment, Simplex, Slice

Kind = Literal["simplex", "box"]

_PAPER_GRIDS = {1: 200, 2: 30}
_DEFAULT_POINTS = 1024
_MOST_POINTS = 50_000_000


@dataclass(frozen=True, eq=False)
class Lattice:
    """The points u = index / (grid - 1) of a slice: u in [0, 1]^k ("box"), or u >= 0 with sum u <= 1 ("simplex").

    grid: points along each axis. index: (p, k) int64, in lexicographic order.
    Two points are neighbours when their indices differ by one along one axis (face connectivity along the lattice's
    axes).
    """

    kind: Kind
    dim: int
    grid: int
    index: Tensor

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"Lattice({self.kind}, dim={self.dim}, grid={self.grid}, points={len(self)})"

    @cached_property
    def units(self) -> Tensor:
        """(p, k) float64 positions in [0, 1]."""
        return self.index.to(torch.float64) / (self.grid - 1)

    @cached_property
    def pairs(self) -> Tensor:
        """(m, 2) neighbours, each pair once. Cost: one sorted search an axis."""
        strides = torch.tensor([self.grid ** (self.dim - 1 - i) for i in range(self.dim)])
        keys = (self.index * strides).sum(1)  # ascending, as the rows are in lexicographic order
        pairs = []
        for axis in range(self.dim):
            last = self.grid - 1
            used = self.index[:, axis] if self.kind == "box" else self.index.sum(1)
            start = (used < last).nonzero()[:, 0]
            pairs.append(torch.stack([start, torch.searchsorted(keys, keys[start] + strides[axis])], 1))
        return torch.cat(pairs)

    @cached_property
    def parents(self) -> Tensor:
        """(p,) bool: the points of the lattice of twice the spacing, in the order in which they stand there."""
        return (self.index % 2 == 0).all(1)

    @property
    def halved(self) -> Lattice:
        """The lattice of half the spacing; every point of this one is in it."""
        return make_lattice(self.kind, self.dim, 2 * self.grid - 1)

    @property
    def points_when_halved(self) -> int:
        return n_points(self.kind, self.dim, 2 * self.grid - 1)


def n_points(kind: Kind, dim: int, grid: int) -> int:
    """Number of lattice points: grid^k in a box, C(grid - 1 + k, k) in a simplex.

    >>> n_points("simplex", 2, 30)
    465
    """
    return grid**dim if kind == "box" else math.comb(grid - 1 + dim, dim)


def default_grid(kind: Kind, dim: int) -> int:
    """Default number of points along each axis: 200 in 1-D and 30 in 2-D, as in Li et al. 2025, appendix B.

    The paper gives no number for more dimensions. There: the most, but at least 3, for which a slice has at most 1,024
    points.

    >>> [default_grid("simplex", k) for k in (1, 2, 3, 4, 5, 6)]
    [200, 30, 17, 11, 8, 7]
    """
    if dim in _PAPER_GRIDS:
        return _PAPER_GRIDS[dim]
    grid = 3
    while n_points(kind, dim, grid + 1) <= _DEFAULT_POINTS:
        grid += 1
    return grid


@lru_cache(maxsize=8)
def make_lattice(kind: Kind, dim: int, grid: int) -> Lattice:
    """Build the lattice; cost: its number of points."""
    if not is_integer(grid, least=2):
        raise InputError(
            f"Expected grid to be a whole number of at least 2 points along each axis, got {grid!r}. "
            "Pass 50, for example."
        )
    points = n_points(kind, dim, grid)
    if points > _MOST_POINTS or grid**dim >= 2**63:
        raise InputError(
            f"Expected at most {_MOST_POINTS:,} points in every slice, got {points:.3g} with grid={grid} in {dim} "
            "dimensions. Lower grid."
        )
    index = torch.zeros(1, 0, dtype=torch.int64, device="cpu")
    for _ in range(dim):
        room = torch.full((len(index),), grid, device="cpu") if kind == "box" else grid - index.sum(1)
        row = torch.arange(len(index), device="cpu").repeat_interleave(room)
        value = torch.arange(len(row), device="cpu") - (room.cumsum(0) - room)[row]
        index = torch.cat([index[row], value[:, None]], 1)
    return Lattice(kind, dim, grid, index)


def kind_of(slices: Sequence[Slice]) -> Kind:
    """Which lattice fits these slices (all of one dimension)."""
    kinds: set[Kind] = {"box" if isinstance(slice, Box) and slice.dim > 1 else "simplex" for slice in slices}
    if len(kinds) > 1:
        raise InputError("Expected only simplices or only boxes, got both. Pass them in separate calls.")
    return kinds.pop()


def corners_and_directions(slices: Sequence[Slice]) -> Tensor:
    """Corner and directions (s, 1 + k, d) float64: the input at u in [0, 1]^k is frame[0] + sum u_i frame[1 + i]."""
    return torch.stack([_frame(slice) for slice in slices])


def _frame(slice: Slice) -> Tensor:
    origin, basis = slice.origin.flatten()[None], slice.basis.flatten(1)
    if isinstance(slice, Segment):
        origin, basis = origin + slice.lo * basis, (slice.hi - slice.lo) * basis
    elif isinstance(slice, Box):
        reach = slice.radius[:, None] * basis
        origin, basis = origin - reach.sum(0), 2 * reach
    elif not isinstance(slice, Simplex):
        raise InputError(
            f"Expected a Segment, Simplex or Box, got {type(slice).__name__}. "
            "Build one from inputs, such as Segment(a, b) or Box.through([a, b, c])."
        )
    return torch.cat([origin, basis])
