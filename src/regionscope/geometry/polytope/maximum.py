"""Cutting polytopes by the upper envelope of several functions, with no boundary between two that both lose.

Over a cell, the graph of the maximum is the lower boundary of the polyhedron {(x, y) : y >= z_i(x) for all i}, one
dimension up. Candidates are added one by one, each a half-space that cuts the polyhedron; what is left of candidate i's
facet lies over the points where i is the largest. Nothing is ever cut along z_i = z_j where another is larger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope.geometry.bitsets import pack, unpack
from regionscope.geometry.polytope.complex import NO_WALL, Complex, join, squeeze
from regionscope.geometry.polytope.cut import Halves, NewVertices, cut_in_two
from regionscope.geometry.polytope.faces import maximal
from regionscope.geometry.ragged import gather_rows, offsets_of

_BOOLS = 1 << 22  # entries of the largest intermediate array


@dataclass(frozen=True)
class PolytopeEnvelope:
    """The outcome of ``cut_maxima``.

    Attributes:
        cells: the refined complex: untouched cells first.
        new: batches of new vertices, each built on the vertices before it. ``extend`` applies them.
        old_cell: (r',) the cell of the old complex that holds each new cell.
        winner: (r',) the candidate that is the largest in each new cell; of several, the lowest.
        snapped: ids of vertices where two values that are not quite equal counted as a tie, once for each such tie.
        unresolved: as in ``PolytopeCut``.
    """

    cells: Complex
    new: tuple[NewVertices, ...]
    old_cell: Tensor
    winner: Tensor
    snapped: Tensor
    unresolved: int

    def extend(self, x: Tensor) -> Tensor:
        """Values at the vertices of the new complex of anything affine on every old cell, from its values (v, ...)."""
        for batch in self.new:
            x = batch.extend(x)
        return x


def cut_maxima(cells: Complex, z: Tensor, tol: Tensor | float, *, label: int = 0) -> PolytopeEnvelope:
    """Cut each cell into the parts where z_0, ..., z_{m-1} is the largest; a tie over a part goes to the lowest.

    z (v, m): values at the vertices, affine on each cell and the same from all cells at a shared vertex. Two values
    within ``tol`` (a number, or one for each vertex) are equal. New facets carry ``label``. Cells still meet face to
    face. Vertices that a later candidate swallowed stay as unused ids, which ``Complex.compact`` leaves out.

    Cost: at most m - 1 cuts of the cells in which no single candidate is the largest everywhere.
    """
    tol = torch.as_tensor(tol, dtype=z.dtype, device=z.device).expand(len(z))
    below = z.amax(1, keepdim=True) - z
    close = (below > 0) & (below <= tol[:, None])
    trails = torch.zeros(cells.n_cells, z.shape[1] + 1, dtype=torch.int32, device=z.device)
    marks = torch.cat([below > tol[:, None], close.any(1, keepdim=True)], dim=1)
    trails.index_add_(0, cells.cell_of_corner, marks[cells.corners].int())
    leads = trails[:, :-1] == 0
    winner = leads.int().argmax(1)
    # A tie that is not exact may be taken back for the sake of a neighbour, so a cell with one is looked at again.
    undivided = leads.any(1) & (trails[:, -1] == 0)

    old = torch.arange(cells.n_cells, device=z.device)
    if bool(undivided.all()):
        return PolytopeEnvelope(cells, (), old, winner, old[:0], 0)
    base = max(0, int(cells.walls.max()) + 1)
    lifted = _lift(cells.take(~undivided), base)
    best, batches, snapped, unresolved = z[:, 0], [], [old[:0]], 0
    for j in range(1, z.shape[1]):
        gap = best - z[:, j]
        codes = torch.where(gap.abs() <= tol, 0, gap.sign())
        lifted, halves = _raise(lifted, codes, gap, base + j)
        unresolved += halves.unresolved
        snapped.append(halves.snapped)
        if len(halves.new):
            batches.append(halves.new)
            z, tol = halves.new.extend(z), halves.new.extend(tol)
            best = torch.cat([best, z[len(best) :, j]])
        best = torch.maximum(best, z[:, j])
    parts, row, won = _project(lifted, base, label)
    return PolytopeEnvelope(
        join([cells.take(undivided), parts]),
        tuple(batches),
        torch.cat([old[undivided], old[~undivided][row]]),
        torch.cat([winner[undivided], won]),
        torch.cat(snapped),
        unresolved,
    )


def _lift(cells: Complex, label: int) -> Complex:
    """{(x, y) : x in the cell, y >= z_0(x)}: the cell as floor, walls over its facets, the point at infinity (-1)."""
    width = cells.walls.shape[1]
    owner = torch.cat([torch.arange(cells.n_cells, device=cells.corners.device), cells.cell_of_corner])
    order = owner.argsort(stable=True)
    corners = torch.cat([cells.corners.new_full((cells.n_cells,), -1), cells.corners])
    walls = torch.cat([cells.walls, cells.walls.new_full((cells.n_cells, 1), label)], dim=1)
    bits = torch.cat([cells.walls != NO_WALL, unpack(cells.tight, width)])
    floor = (corners >= 0)[:, None]
    tight, walls = squeeze(torch.cat([bits, floor], dim=1)[order], owner[order], walls)
    offsets = offsets_of(cells.offsets.diff() + 1)
    return replace(cells, dim=cells.dim + 1, corners=corners[order], offsets=offsets, tight=tight, walls=walls)


def _raise(lifted: Complex, codes: Tensor, gap: Tensor, label: int) -> tuple[Complex, Halves]:
    """Keep the part of each lifted cell above one more candidate; gap = height of the vertex above that candidate."""
    infinity = torch.ones_like(gap[:1])
    halves = cut_in_two(lifted, torch.cat([codes, infinity]), torch.cat([gap, infinity]), label=label)
    order = torch.cat([(~halves.cut).nonzero().flatten(), halves.cut.nonzero().flatten()]).argsort()
    raised = join([lifted.take(~halves.cut), halves.plus]).take(order)
    return replace(raised, n_vertices=lifted.n_vertices + len(halves.new)), halves


def _project(lifted: Complex, base: int, label: int) -> tuple[Complex, Tensor, Tensor]:
    """The facets of the candidates as cells, with the lifted cell and the candidate of each."""
    row, facet = (lifted.walls >= base).nonzero().unbind(1)
    won = lifted.walls[row, facet] - base
    index, offsets = gather_rows(lifted.offsets, row)
    owner = torch.repeat_interleave(offsets.diff())
    width = lifted.walls.shape[1]
    bits = unpack(lifted.tight[index], width)
    on = bits.gather(1, facet[owner][:, None]).squeeze(1)
    index, owner, bits = index[on], owner[on], bits[on]
    bits.scatter_(1, facet[owner][:, None], False)
    offsets = offsets_of(torch.bincount(owner, minlength=len(row)))

    walls = torch.where(lifted.walls >= base, label, lifted.walls)[row]
    walls = torch.where(_facets_of(bits, owner, offsets), walls, NO_WALL)
    bits &= (walls != NO_WALL)[owner]
    tight, walls = squeeze(bits, owner, walls)
    parts = Complex(
        lifted.dim - 1, lifted.corners[index], offsets, tight, walls, lifted.slice_id[row], lifted.n_vertices
    )
    return parts, row, won


def _facets_of(bits: Tensor, owner: Tensor, offsets: Tensor) -> Tensor:
    """(r, f) which sets of corners (the columns of ``bits``, cell by cell) are facets: those that lie in no other."""
    sizes, width = offsets.diff(), bits.shape[1]
    members = torch.zeros(len(sizes), width, dtype=torch.bool, device=bits.device)
    most = int(sizes.max())
    place = torch.arange(len(owner), device=owner.device) - offsets[owner]
    step = max(1, _BOOLS // max(1, width * max(width, most)))
    for start in range(0, len(sizes), step):
        stop = min(start + step, len(sizes))
        inside = slice(int(offsets[start]), int(offsets[stop]))
        sets = torch.zeros(stop - start, width, most, dtype=torch.bool, device=bits.device)
        sets[owner[inside] - start, :, place[inside]] = bits[inside]
        members[start:stop] = maximal(pack(sets))
    return members
