"""Cutting all polytopes of a complex along the zero set of one function.

The double description step (Motzkin et al. 1953; Fukuda and Prodon 1996): the zero set meets a cell in the vertices
where the function vanishes and in one new vertex on each edge whose ends have opposite signs. Edges are found by set
inclusion, so several vertices on the zero set, a zero facet or more than k facets through a vertex are no special case.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope.geometry.bitsets import popcount, unpack
from regionscope.geometry.polytope.complex import NO_WALL, Complex, join, squeeze
from regionscope.geometry.polytope.faces import is_polytope
from regionscope.geometry.ragged import offsets_of, owners, ranges

_PAIRS = 1 << 21  # pairs of corners examined at a time


@dataclass(frozen=True)
class NewVertices:
    """New vertex i stands at a_i + t_i (b_i - a_i), for old ids a < b and 0 <= t <= 1."""

    a: Tensor
    b: Tensor
    t: Tensor

    def __len__(self) -> int:
        return len(self.a)

    def lerp(self, x: Tensor) -> Tensor:
        """Values at the new vertices of anything affine on every cell, from its values (v, ...) at the old ones."""
        t = self.t.to(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
        return torch.lerp(x[self.a], x[self.b], t)

    def extend(self, x: Tensor) -> Tensor:
        """Values at the old vertices, then at the new ones."""
        return torch.cat([x, self.lerp(x)]) if len(self) else x


@dataclass(frozen=True)
class PolytopeCut:
    """The outcome of ``cut_along``.

    Attributes:
        cells: the refined complex: untouched cells first, then the positive, then the negative parts.
        new: the new vertices; their ids follow the old ones.
        old_cell: (r',) the cell of the old complex that holds each new cell.
        side: (r',) int8, the sign of the function in a cell that was cut off, 0 in an untouched cell.
        snapped: ids of the vertices of cells cut here that are on the zero set although their value is not quite 0.
        unresolved: number of cells with signs that fit no flat cut, even after taking snaps back.
    """

    cells: Complex
    new: NewVertices
    old_cell: Tensor
    side: Tensor
    snapped: Tensor
    unresolved: int


@dataclass(frozen=True)
class Halves:
    """The cells that take both signs (mask ``cut``) and their two parts, in one order; else see ``PolytopeCut``."""

    cut: Tensor
    plus: Complex
    minus: Complex
    new: NewVertices
    snapped: Tensor
    unresolved: int


@dataclass(frozen=True)
class _CrossedEdges:
    """Edges that change sign: the cell, the vertex ids of the two ends and the facets through both."""

    cell: Tensor
    plus: Tensor
    minus: Tensor
    common: Tensor


def cut_along(cells: Complex, codes: Tensor, u: Tensor, *, label: int = 0, within: Tensor | None = None) -> PolytopeCut:
    """Cut every cell in which ``u`` takes both signs along its zero set.

    codes (v,): the sign -1, 0 or 1 of the value u (v,) at each vertex, where 0 puts the vertex on the zero set. u must
    be affine on each cell and the same from all cells at a shared vertex; then cells still meet face to face. The new
    facets carry ``label``. ``within`` (r,) restricts the cut to some cells, for a u that has a meaning only there;
    where a cell is cut and its neighbour is not, the facet between them no longer matches.

    When a thin cell has several vertices within rounding of the zero set, snapping all of them may fit no flat cut;
    then the farther ones take the sign of their value instead, until the cut is flat.

    Cost: O(corners), plus O(pairs of corners of opposite sign) in the cells that are cut.

    >>> square = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> A, b = torch.tensor([[-1.0, 0.0], [0.0, -1.0], [1.0, 0.0], [0.0, 1.0]]), torch.tensor([0.0, 0.0, 1.0, 1.0])
    >>> one, coords = Complex.of_domains([(square, A, b)])
    >>> u = coords[:, 0] - coords[:, 1]
    >>> two = cut_along(one, u.sign(), u)
    >>> two.cells.corners.tolist(), two.cells.offsets.tolist(), len(two.new)
    ([0, 1, 2, 0, 2, 3], [0, 3, 6], 0)
    """
    halves = cut_in_two(cells, codes, u, label=label, within=within)
    old = torch.arange(cells.n_cells, device=codes.device)
    kept, cut = old[~halves.cut], old[halves.cut]
    n_vertices = cells.n_vertices + len(halves.new)
    if len(cut) == 0:
        side = torch.zeros_like(old, dtype=torch.int8)
        return PolytopeCut(cells, halves.new, old, side, halves.snapped, halves.unresolved)
    refined = join([cells.take(kept), halves.plus, halves.minus])
    signs = torch.tensor([0, 1, -1], dtype=torch.int8, device=codes.device)
    counts = torch.tensor([len(kept), len(cut), len(cut)], device=codes.device)
    return PolytopeCut(
        replace(refined, n_vertices=n_vertices),
        halves.new,
        torch.cat([kept, cut, cut]),
        signs.repeat_interleave(counts),
        halves.snapped,
        halves.unresolved,
    )


def cut_in_two(cells: Complex, codes: Tensor, u: Tensor, *, label: int = 0, within: Tensor | None = None) -> Halves:
    """The two parts of every cell that takes both signs. See ``cut_along``.

    A vertex id of -1 (which reads the last entry of ``codes`` and ``u``) stands for a point at infinity: the crossing
    on an edge towards it is not a new vertex but the other end again.
    """
    codes = given = codes.to(torch.int8)
    while True:
        cut = _takes_both_signs(cells, codes)
        if within is not None:
            cut &= within
        part = cells.take(cut)
        code = codes[part.corners]
        crossings = _crossings(part, code)
        ids, new = _numbered(crossings, u, cells.n_vertices)
        plus = _half(part, code, crossings, ids, label)
        minus = _half(part, -code, crossings, ids, label)
        doubtful = torch.unique(part.cell_of_corner[given[part.corners] == 0])
        if len(doubtful):
            doubtful = doubtful[~(is_polytope(plus.take(doubtful)) & is_polytope(minus.take(doubtful)))]
        loose = _farthest_snapped(part.take(doubtful), codes, u)
        if len(loose) == 0:
            snapped = part.corners[code == 0].unique()
            return Halves(cut, plus, minus, new, snapped[u[snapped] != 0], len(doubtful))
        codes = codes.clone()
        codes[loose] = u[loose].sign().to(torch.int8)


def _takes_both_signs(cells: Complex, codes: Tensor) -> Tensor:
    """(r,) whether a cell has corners of both strict signs."""
    code = codes[cells.corners]
    positive = offsets_of((code > 0).long())[cells.offsets].diff()
    negative = offsets_of((code < 0).long())[cells.offsets].diff()
    return (positive > 0) & (negative > 0)


def _crossings(part: Complex, code: Tensor) -> _CrossedEdges:
    """The edges of each cell whose ends have strictly opposite signs."""
    cell = part.cell_of_corner
    plus, minus = (code > 0).nonzero().flatten(), (code < 0).nonzero().flatten()
    n_minus = torch.bincount(cell[minus], minlength=part.n_cells)
    first_minus = offsets_of(n_minus)[:-1]
    degree = popcount(part.tight)
    crossings = []
    for chunk in _chunks(plus, n_minus[cell[plus]]):
        counts = n_minus[cell[chunk]]
        p = chunk.repeat_interleave(counts)
        m = minus[ranges(first_minus[cell[chunk]], counts)]
        common = part.tight[p] & part.tight[m]
        enough = popcount(common) >= part.dim - 1
        p, m, common = p[enough], m[enough], common[enough]
        # Any k - 1 of the k facets through a simple vertex meet in an edge, so only the others need the full test.
        edge = torch.minimum(degree[p], degree[m]) <= part.dim
        doubtful = (~edge).nonzero().flatten()
        edge[doubtful] = _holders(part, cell[p[doubtful]], common[doubtful]) == 2
        crossings.append((p[edge], m[edge], common[edge]))
    p, m, common = (torch.cat(parts) for parts in zip(*crossings, strict=True))
    return _CrossedEdges(cell[p], part.corners[p], part.corners[m], common)


def _holders(cells: Complex, cell: Tensor, facets: Tensor) -> Tensor:
    """The number of corners of ``cell[i]`` that lie on all the facets of the set ``facets[i]``."""
    sizes = cells.offsets.diff()[cell]
    number = torch.zeros_like(cell)
    for chunk in _chunks(torch.arange(len(cell), device=cell.device), sizes):
        corner = ranges(cells.offsets[cell[chunk]], sizes[chunk])
        which = owners(offsets_of(sizes[chunk]))
        holds = ((facets[chunk][which] & ~cells.tight[corner]) == 0).all(1)
        number[chunk] = torch.bincount(which[holds], minlength=len(chunk))
    return number


def _chunks(items: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    """Consecutive items whose weights add up to about ``_PAIRS``."""
    number = (weights.cumsum(0) - weights) // _PAIRS
    _, sizes = torch.unique_consecutive(number, return_counts=True)
    return items.split(sizes.tolist()) if len(items) else (items,)


def _numbered(crossings: _CrossedEdges, u: Tensor, first: int) -> tuple[Tensor, NewVertices]:
    """The vertex id of each crossing: one for each edge {a, b}, whatever the number of cells around it."""
    a, b = torch.minimum(crossings.plus, crossings.minus), torch.maximum(crossings.plus, crossings.minus)
    real = a >= 0
    keys, which = torch.unique(a[real] * first + b[real], return_inverse=True)
    ids = b.clone()
    ids[real] = first + which
    a, b = keys // max(first, 1), keys % max(first, 1)
    return ids, NewVertices(a, b, u[a] / (u[a] - u[b]))


def _half(part: Complex, code: Tensor, crossings: _CrossedEdges, ids: Tensor, label: int) -> Complex:
    """The part of each cell where the sign is not negative.

    A facet lives on iff one of its corners is strictly positive: otherwise only a lower face of it is left.
    """
    cell, width = part.cell_of_corner, part.walls.shape[1]
    bits = unpack(part.tight, width)
    positive, stays = code > 0, code >= 0
    reached = torch.zeros(part.walls.shape, dtype=torch.int32, device=code.device)
    reached.index_add_(0, cell[positive], bits[positive].int())
    walls = torch.where(reached > 0, part.walls, NO_WALL)

    owner = torch.cat([cell[stays], crossings.cell])
    corners = torch.cat([part.corners[stays], ids])
    on_zero = torch.cat([code[stays] == 0, torch.ones_like(ids, dtype=torch.bool)])
    bits = torch.cat([bits[stays], unpack(crossings.common, width)]) & (reached > 0)[owner]
    order = corners.argsort()
    order = order[owner[order].argsort(stable=True)]
    owner = owner[order]
    tight, walls = squeeze(
        torch.cat([bits, on_zero[:, None]], dim=1)[order],
        owner,
        torch.cat([walls, walls.new_full((len(walls), 1), label)], dim=1),
    )
    offsets = offsets_of(torch.bincount(owner, minlength=part.n_cells))
    return replace(part, corners=corners[order], offsets=offsets, tight=tight, walls=walls)


def _farthest_snapped(cells: Complex, codes: Tensor, u: Tensor) -> Tensor:
    """In each cell, the vertices with code 0 whose value is at least half as far from 0 as any of them."""
    cell = cells.cell_of_corner
    distance = torch.where(codes[cells.corners] == 0, u[cells.corners].abs(), 0)
    farthest = distance.new_zeros(cells.n_cells).scatter_reduce(0, cell, distance, "amax")
    far = (distance > 0) & (distance >= farthest[cell] / 2)
    loose: Tensor = cells.corners[far].unique()
    return loose
