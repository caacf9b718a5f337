"""Many convex polytopes of any dimension at once, glued face to face: the data.

A polytope is known by its vertices and, for each of them, the facets it lies on: whether two vertices span an edge, or
a set of them a face, follows by set inclusion alone. Coordinates are kept by the caller: a vertex is an id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope.geometry.bitsets import pack
from regionscope.geometry.ragged import gather_rows, mean_of_rows, offsets_of, owners
from regionscope.tolerance import Tolerance

NO_WALL = int(torch.iinfo(torch.int64).min)  # fills the rows of Complex.walls

Domain = tuple[Tensor, Tensor, Tensor]  # corners (m, k), A (h, k), b (h,) with hull of corners = {c : A c <= b}


@dataclass(frozen=True)
class Complex:
    """Convex ``dim``-polytopes (cells) that meet face to face; two corners are the same iff they have the same id.

    Attributes:
        dim: k, the dimension of every cell.
        corners: (n,) vertex ids, ragged: cell i has ``corners[offsets[i]:offsets[i + 1]]``, ascending.
        offsets: (r + 1,)
        tight: (n, w) bit sets, for each corner of each cell the set of the cell's facets on which it lies.
        walls: (r, f) what made facet 0, 1, ... of each cell: the label of ``cut_along``, or -1 - h for half-space h of
            the domain. Rows end with ``NO_WALL``.
        slice_id: (r,) the domain that holds the cell.
        n_vertices: ids are below this.
    """

    dim: int
    corners: Tensor
    offsets: Tensor
    tight: Tensor
    walls: Tensor
    slice_id: Tensor
    n_vertices: int

    @staticmethod
    def of_domains(domains: Sequence[Domain]) -> tuple[Complex, Tensor]:
        """One cell for each bounded domain {c : A c <= b} with the given corners, and all coordinates (v, k).

        No halfspace may be redundant. A corner lies on a halfspace's border when A c - b vanishes within
        ``Tolerance.zero`` of its terms.
        """
        zero = Tolerance.of(torch.float64).zero
        coords = torch.cat([corners for corners, _, _ in domains])
        dim, device = coords.shape[1], coords.device
        counts = torch.tensor([len(corners) for corners, _, _ in domains], device=device)
        width = max(len(b) for _, _, b in domains)
        walls = torch.full((len(domains), width), NO_WALL, device=device)
        bits = torch.zeros(len(coords), width, dtype=torch.bool, device=device)
        offsets = offsets_of(counts)
        for i, (corners, a, b) in enumerate(domains):
            walls[i, : len(b)] = -1 - torch.arange(len(b), device=device)
            slack = (corners @ a.T - b).abs()
            on = slack <= zero * (corners.abs() @ a.abs().T + b.abs())
            bits[int(offsets[i]) : int(offsets[i + 1]), : len(b)] = on
        ids = torch.arange(len(coords), device=device)
        slices = torch.arange(len(domains), device=device)
        return Complex(dim, ids, offsets, pack(bits), walls, slices, len(coords)), coords

    @property
    def n_cells(self) -> int:
        return len(self.offsets) - 1

    @property
    def cell_of_corner(self) -> Tensor:
        """(n,) the cell of each entry of ``corners``."""
        return owners(self.offsets, len(self.corners))

    @property
    def vertex_slice_id(self) -> Tensor:
        """(v,) the domain of each vertex (0 for an id that no cell uses)."""
        slice_id = self.slice_id.new_zeros(self.n_vertices)
        slice_id[self.corners] = self.slice_id[self.cell_of_corner]
        return slice_id

    def cell_corners(self) -> tuple[Tensor, Tensor]:
        """The vertices of each cell, as a ragged array: vertices and offsets (r + 1,)."""
        return self.corners, self.offsets

    def take(self, cells: Tensor) -> Complex:
        """The cells of a mask (r,) or an index, with the same vertex ids."""
        rows = cells.nonzero().flatten() if cells.dtype == torch.bool else cells
        index, offsets = gather_rows(self.offsets, rows)
        return replace(
            self,
            corners=self.corners[index],
            offsets=offsets,
            tight=self.tight[index],
            walls=self.walls[rows],
            slice_id=self.slice_id[rows],
        )

    def compact(self) -> tuple[Complex, Tensor]:
        """The same cells with unused ids left out, and the old id of each new one (ascending)."""
        used = torch.zeros(self.n_vertices, dtype=torch.bool, device=self.corners.device)
        used[self.corners] = True
        kept = used.nonzero().flatten()
        return replace(self, corners=(used.cumsum(0) - 1)[self.corners], n_vertices=len(kept)), kept


def join(parts: Sequence[Complex]) -> Complex:
    """The cells of all parts, which number their vertices alike, in order."""
    words = max(part.tight.shape[1] for part in parts)
    width = max(part.walls.shape[1] for part in parts)
    return Complex(
        dim=parts[0].dim,
        corners=torch.cat([part.corners for part in parts]),
        offsets=offsets_of(torch.cat([part.offsets.diff() for part in parts])),
        tight=torch.cat([_widened(part.tight, words, 0) for part in parts]),
        walls=torch.cat([_widened(part.walls, width, NO_WALL) for part in parts]),
        slice_id=torch.cat([part.slice_id for part in parts]),
        n_vertices=max(part.n_vertices for part in parts),
    )


def squeeze(bits: Tensor, cell: Tensor, walls: Tensor) -> tuple[Tensor, Tensor]:
    """Renumber each cell's facets so that the live ones (``walls != NO_WALL``) come first: ``tight`` and ``walls``.

    bits (n, f): the facets of each corner, false where the facet is not live; cell (n,): the owner of each corner.
    """
    dead = walls == NO_WALL
    order = dead.to(torch.int8).argsort(dim=1, stable=True)
    width = int((~dead).sum(1).max()) if len(walls) else 0
    order = order[:, :width]
    return pack(bits.gather(1, order[cell])), walls.gather(1, order)


def centres(cells: Complex, coords: Tensor) -> Tensor:
    """(r, k) the mean of each cell's corners, which lies in its interior. coords: (v, k)."""
    return mean_of_rows(coords[cells.corners], cells.offsets)


def _widened(rows: Tensor, width: int, fill: int) -> Tensor:
    extra = width - rows.shape[1]
    return rows if extra == 0 else torch.cat([rows, rows.new_full((len(rows), extra), fill)], dim=1)
