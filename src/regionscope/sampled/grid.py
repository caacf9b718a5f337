"""Counts of one label's pieces on a plain lattice, and on one that is refined until they settle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regionscope.checks import read_integer
from regionscope.errors import InputError
from regionscope.geometry import Slice
from regionscope.sampled.components import count_linked
from regionscope.sampled.label_points import label_lattice
from regionscope.sampled.labels import Labeller, open_labeller
from regionscope.sampled.lattice import Lattice, default_grid, kind_of, make_lattice
from regionscope.sampled.refinement import joined_counts


@dataclass(frozen=True, eq=False)
class LabelMap:
    """Labels (p,) int64 of a slice at the points of a lattice."""

    slice: Slice
    lattice: Lattice
    labels: Tensor

    def __repr__(self) -> str:
        return f"LabelMap(slice={self.slice!r}, points={len(self.labels)}, labels={len(self.labels.unique())})"

    @property
    def coords(self) -> Tensor:
        """The points in coordinates of the slice (p, k)."""
        low, high = self.slice.corners.amin(0).cpu(), self.slice.corners.amax(0).cpu()
        return low + self.lattice.units * (high - low)

    @property
    def count(self) -> int:
        """Number of connected pieces of one label, with face connectivity along the axes of the lattice."""
        return int(count_linked(self.labels[None], self.lattice.pairs)[0])


@dataclass(frozen=True)
class RefinedCounts:
    """Counts (s,) of s slices after refining; ``plain`` (s,) on the first grid; ``grid`` (s,) the last one.

    settled: (s,) whether the last halving left the count as it was.
    """

    counts: Tensor
    plain: Tensor
    grid: Tensor
    settled: Tensor


def lattice_for(slices: Sequence[Slice], grid: int | None) -> Lattice:
    """The lattice of ``grid`` points along each axis (None: the default of this dimension) for slices of one kind."""
    kind, dim = kind_of(slices), slices[0].dim
    return make_lattice(kind, dim, default_grid(kind, dim) if grid is None else grid)


def label_maps(
    model: Any, slices: Slice | Sequence[Slice], grid: int | None = None, *, memory: int | None = None
) -> list[LabelMap]:
    """The labels of each slice on the lattice. Cost: one forward pass over all points.

    model: any classifier that ``region_count`` accepts, or a ``Labeller`` (see ``open_labeller``). slices: one, or
    several of one dimension. grid: number of points along each axis; by default as in ``region_count``. memory: bytes
    for the activations of a batch.
    """
    several = [slices] if isinstance(slices, Slice) else list(slices)
    for slice in several:
        if not isinstance(slice, Slice):
            kind = type(slice).__name__
            raise InputError(f"Expected a Slice for label_maps(), got {kind}. Pass a Segment, a Simplex or a Box.")
    if not several:
        return []
    if not isinstance(model, Labeller):
        with open_labeller(model, None, several[0].input_shape, memory=memory, widened=True) as labeller:
            return label_maps(labeller, several, grid)
    lattice = lattice_for(several, grid)
    labels = label_lattice(model, several, lattice.units)
    return [LabelMap(slice, lattice, row) for slice, row in zip(several, labels, strict=True)]


def grid_counts(labeller: Labeller, slices: Sequence[Slice], grid: int | None = None) -> Tensor:
    """Number of connected pieces of one label on each slice (s,), as its lattice shows them.

    Cost: one forward pass over (number of slices) * (points of the lattice).
    """
    lattice = lattice_for(slices, grid)
    return count_linked(label_lattice(labeller, slices, lattice.units), lattice.pairs)


def refined_counts(
    labeller: Labeller, slices: Sequence[Slice], grid: int | None = None, *, max_points: int = 100_000
) -> RefinedCounts:
    """Halve the spacing of each slice until its count is the same twice in a row.

    At every spacing, ``joined_counts`` first joins pieces of one label that a short path of that label connects:
    face connectivity alone breaks thin diagonal wedges into points, however fine the lattice is. Points of a lattice
    are points of the next one, so each is labelled once. A slice stops unsettled if the next lattice has more than
    ``max_points`` points. Cost: at least 2^k times that of the plain grid; only slices that still change go on.
    """
    read_integer("max_points", max_points)
    lattice = lattice_for(slices, grid)
    labels = label_lattice(labeller, slices, lattice.units)
    plain = count_linked(labels, lattice.pairs)
    counts, last = joined_counts(labeller, slices, lattice, labels), torch.full_like(plain, lattice.grid)
    settled = torch.zeros(len(slices), dtype=torch.bool, device="cpu")
    active = torch.arange(len(slices), device="cpu")
    while len(active) and lattice.points_when_halved <= max_points:
        lattice = lattice.halved
        mine = [slices[i] for i in active.tolist()]
        old = lattice.parents
        finer = labels.new_empty(len(mine), len(lattice))
        finer[:, old] = labels
        finer[:, ~old] = label_lattice(labeller, mine, lattice.units[~old])
        now = joined_counts(labeller, mine, lattice, finer)
        same = now == counts[active]
        counts[active], last[active] = now, lattice.grid
        settled[active[same]] = True
        active, labels = active[~same], finer[~same]
    return RefinedCounts(counts, plain, last, settled)
