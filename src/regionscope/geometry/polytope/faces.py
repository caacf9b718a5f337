"""Questions about a complex of polytopes: which cells are neighbours, how large they are, simplices that fill them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.errors import CheckFailed
from regionscope.geometry.bitsets import holds, lowest, pack, popcount, unpack
from regionscope.geometry.polytope.complex import NO_WALL, Complex
from regionscope.geometry.ragged import gather_rows, offsets_of, ranges

_CELLS = 4096  # cells triangulated at a time
_PAIRS = 1 << 20  # pairs of facets compared at a time


@dataclass(frozen=True)
class Facets:
    """The facets of a complex, each once.

    Attributes:
        cells: (q, 2) the cells on its two sides; the second is -1 where there is none (the border of the domain).
        corners: vertex ids, ragged: facet i has ``corners[offsets[i]:offsets[i + 1]]``, ascending.
        offsets: (q + 1,)
        wall: (q,) the label of ``Complex.walls``: negative on the border of the domain.
    """

    cells: Tensor
    corners: Tensor
    offsets: Tensor
    wall: Tensor


def facets(cells: Complex) -> Facets:
    """All facets with the cells on both sides. Two cells are neighbours iff they share a facet, as a set of vertices.

    Cost: a sort of all (cell, facet) pairs for each corner of the largest facet.
    """
    width = cells.walls.shape[1]
    bits = unpack(cells.tight, width)
    corner, local = bits.nonzero().unbind(1)
    key = cells.cell_of_corner[corner] * width + local
    order = key.argsort(stable=True)  # stable: corners stay ascending within a facet
    owner, counts = torch.unique_consecutive(key[order], return_counts=True)
    ids, offsets = cells.corners[corner[order]], offsets_of(counts)

    same = _rank_rows(ids, offsets, cells.n_vertices)
    order = same.argsort(stable=True)
    same, twice = torch.unique_consecutive(same[order], return_counts=True)
    start = offsets_of(twice)[:-1]
    first = order[start]
    second = order[torch.where(twice > 1, start + 1, start)]
    cell = owner // max(width, 1)
    index, facet_offsets = gather_rows(offsets, first)
    return Facets(
        cells=torch.stack([cell[first], torch.where(twice > 1, cell[second], -1)], dim=1),
        corners=ids[index],
        offsets=facet_offsets,
        wall=cells.walls.flatten()[owner[first]],
    )


def _rank_rows(values: Tensor, offsets: Tensor, bound: int) -> Tensor:
    """One number for each ragged row; equal numbers iff equal rows. Values lie in 0..bound - 1."""
    counts = offsets.diff()
    rank = torch.zeros_like(counts)
    columns = range(int(counts.max()) if len(counts) else 0)
    at_once = max(1, (62 - len(counts).bit_length()) // (bound + 1).bit_length())  # as many as an int64 has room for
    for start in columns[::at_once]:
        for column in columns[start : start + at_once]:
            inside = column < counts
            value = torch.where(inside, values[torch.where(inside, offsets[:-1] + column, 0)], bound)
            rank = rank * (bound + 1) + value
        rank = torch.unique(rank, return_inverse=True)[1]
    return rank


def maximal(sets: Tensor) -> Tensor:
    """(s, f) which of the f sets in each row (s, f, w; from ``pack``) lie in no other; of equals the first, none empty.

    >>> maximal(torch.tensor([[[0b011], [0b010], [0b110], [0b011], [0b000]]]))
    tensor([[ True, False,  True, False, False]])
    """
    index = torch.arange(sets.shape[1], device=sets.device)
    same = index[None, :] >= index[:, None]  # [i, j]: sets i and j are equal, and j does not come first
    inside = torch.ones_like(same)  # [i, j]: set i lies in set j
    for word in sets.unbind(-1):
        a, b = word[:, :, None], word[:, None]
        same = same & (a == b)
        inside = inside & ((a & ~b) == 0)
    return (sets != 0).any(-1) & ~(inside & ~same).any(-1)


def triangulate(cells: Complex) -> tuple[Tensor, Tensor]:
    """Simplices (s, k + 1) of vertex ids that fill the cells, and the cell (s,) of each.

    Pulling triangulation: a face is the cone from its lowest vertex over its facets that do not hold that vertex. The
    lowest vertex of a face does not depend on the cell, so the simplices meet face to face across cells. Raises
    ``CheckFailed`` where an edge has another number of ends than two.
    Cost: the number of simplices times (facets of a cell)^2.
    """
    on, face, ids = _tables(cells)
    cell = torch.arange(cells.n_cells, device=ids.device)
    apexes: list[Tensor] = []
    for _ in range(cells.dim - 1):
        apex = lowest(face)
        of_face, below = _facets_of(face, cell, on)
        opposite = ~holds(below, apex[of_face])
        of_face = of_face[opposite]
        apexes = [earlier[of_face] for earlier in [*apexes, ids[cell, apex]]]
        cell, face = cell[of_face], below[opposite]
    if bool((popcount(face) != 2).any()):
        raise CheckFailed(
            "Expected regions with the faces of polytopes, got some that rounding left open. Take a larger slice, or "
            "pass a Tolerance with another zero."
        )
    ends = ids[cell][unpack(face, ids.shape[1])].view(-1, 2)
    return torch.stack([*apexes, ends[:, 0], ends[:, 1]], dim=1), cell


def is_polytope(cells: Complex) -> Tensor:
    """(r,) whether the faces of each cell fit together as those of a polytope do.

    A face of dimension d has at least d + 1 facets, an edge has two ends, and between a face and a face two dimensions
    lower lie exactly two others (the diamond property; Ziegler, Lectures on Polytopes, theorem 2.7).
    Cost: the number of faces of all dimensions times (facets of a cell)^2.
    """
    on, face, _ = _tables(cells)
    cell = torch.arange(cells.n_cells, device=face.device)
    fits = torch.ones(cells.n_cells, dtype=torch.bool, device=face.device)
    upper = lower = cell[:0]  # pairs: a face and one of its facets, as rows of the levels above and here
    upper_cell = cell
    for d in range(cells.dim, 0, -1):
        of_face, below = _facets_of(face, cell, on)
        count = torch.bincount(of_face, minlength=len(face))
        fits[cell[(count != 2) | (popcount(face) != 2) if d == 1 else count < d + 1]] = False
        name, example = _distinct(cell[of_face], below)
        grand = upper.repeat_interleave(count[lower])
        chain = grand * (len(example) + 1) + name[ranges(offsets_of(count)[lower], count[lower])]
        diamond, between = torch.unique(chain, return_counts=True)
        fits[upper_cell[diamond[between != 2] // (len(example) + 1)]] = False
        upper, lower, upper_cell = of_face, name, cell
        cell, face = cell[of_face[example]], below[example]
    return fits


def _tables(cells: Complex) -> tuple[Tensor, Tensor, Tensor]:
    """Sets of corners, numbered cell by cell: those on each facet (r, f, w) and all (r, w), as words; ids (r, m)."""
    sizes, owner, width = cells.offsets.diff(), cells.cell_of_corner, cells.walls.shape[1]
    most = int(sizes.max()) if cells.n_cells else 0
    place = torch.arange(len(owner), device=owner.device) - cells.offsets[owner]
    ids = cells.corners.new_zeros(cells.n_cells, most)
    ids[owner, place] = cells.corners
    on = torch.zeros(cells.n_cells, width, most, dtype=torch.bool, device=owner.device)
    on[owner, :, place] = unpack(cells.tight, width)
    live = int((cells.walls != NO_WALL).sum(1).max()) if cells.n_cells else 0
    words = pack(on[:, :live])
    return words, pack(torch.arange(most, device=owner.device) < sizes[:, None]), ids


def _facets_of(face: Tensor, cell: Tensor, on: Tensor) -> tuple[Tensor, Tensor]:
    """The facets (q, w) of each face (s, w) of a cell, as sets of corners, and the row (q,) of the face."""
    step = max(1, _PAIRS // max(1, on.shape[1] ** 2 * on.shape[2]))
    owners, facets = [cell[:0]], [face[:0]]
    for start in range(0, len(face), step):
        part = face[start : start + step, None]
        meets = on[cell[start : start + step]] & part
        meets *= (meets != part).any(-1, keepdim=True)  # a facet that holds the whole face does not bound it
        owner, which = maximal(meets).nonzero().unbind(1)
        owners.append(owner + start)
        facets.append(meets[owner, which])
    return torch.cat(owners), torch.cat(facets)


def _distinct(cell: Tensor, sets: Tensor) -> tuple[Tensor, Tensor]:
    """One number for each distinct pair of cell and set (q, w), and a row that has it."""
    number = cell
    for word in sets.unbind(1):
        kinds, kind = torch.unique(word, return_inverse=True)
        number = torch.unique(number * (len(kinds) + 1) + kind, return_inverse=True)[1]
    example = torch.zeros(int(number.max()) + 1 if len(number) else 0, dtype=torch.int64, device=cell.device)
    example[number] = torch.arange(len(number), device=cell.device)
    return number, example


def volumes(cells: Complex, coords: Tensor) -> Tensor:
    """(r,) the k-dimensional volume of each cell in coordinates (v, k): the sum over its simplices.

    >>> from regionscope.geometry.slices import Simplex
    >>> corner = Simplex([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> one, coords = Complex.of_domains([(corner.corners, *corner.halfspaces)])
    >>> round(float(6 * volumes(one, coords)), 12)
    1.0
    """
    total = coords.new_zeros(cells.n_cells)
    by_size = cells.offsets.diff().argsort()  # cells of like size together, so that little of the dense tables is empty
    for index in by_size.split(_CELLS):
        simplices, owner = triangulate(cells.take(index))
        points = coords[simplices]
        size = torch.linalg.det(points[:, 1:] - points[:, :1]).abs() / math.factorial(cells.dim)
        total.index_add_(0, index[owner], size)
    return total
