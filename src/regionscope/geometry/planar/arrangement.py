"""Cutting convex cells along many chords at once.

A cell is the loop of its corners, counter-clockwise, and a *half-edge* is one of its sides in that direction: the cell
lies on its left. ``Mesh.corners[i]`` is the vertex at which half-edge i starts, so a half-edge needs no record of its
own. The edge between two cells has two half-edges, one in each. A *chord* joins two corners of a cell:

    6 ------- 5 ------- 4     Chords a = (1, 5) and b = (3, 7). Around the cell the ends come in the order a, b, a, b.
    |         |         |     They alternate, so the chords cross, in a new vertex x.
    |    D    a    C    |
    |         |         |     x cuts a into the parts 1-x and x-5, and b into 3-x and x-7. Each part is a new edge with
    7 --- b - x --------3     two half-edges.
    |         |         |
    |    A    |    B    |     ``_following`` gives each half-edge the next one around the face on its left, the sharpest
    |         |         |     left turn: 1->2, 2->3, 3->x, x->1 is face B. It is a permutation, and its cycles are the
    0 ------- 1 ------- 2     new cells A, B, C and D.

Which chords cross, and which faces lie on which side, follows from the cyclic order of the ends alone; floating point
numbers only order the crossings along a chord.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regionscope.geometry.crossing import coincident
from regionscope.geometry.planar.mesh import Mesh
from regionscope.geometry.ragged import gather_rows, next_in_row, offsets_of, owners, ranges, sort_by

_PAIRS = 1 << 22  # pairs of chords examined at a time


class Evaluate(Protocol):
    """Values of units at vertices, and how near to zero counts as zero there."""

    def __call__(self, vertices: Tensor, units: Tensor) -> Tensor: ...

    def tolerance_at(self, vertices: Tensor, units: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Chords:
    """Straight cuts through cells: from corner ``p`` to corner ``q`` (indices into ``Mesh.corners``, p < q) of one
    cell.

    Sorted by (p, q), no two alike. ``unit`` vanishes along the chord.
    """

    cell: Tensor
    p: Tensor
    q: Tensor
    unit: Tensor

    @staticmethod
    def between(mesh: Mesh, cell: Tensor, p: Tensor, q: Tensor, unit: Tensor) -> tuple[Chords, Tensor]:
        """The chords that join corners p and q (x,), in either order, of the cells; of several alike the first.

        Also returns which pairs can be joined (x,) bool: neighbouring corners are joined by an edge already.
        """
        p, q = torch.minimum(p, q), torch.maximum(p, q)
        gap, length = q - p, mesh.offsets.diff()[cell]
        proper = (gap > 1) & (gap < length - 1)
        found = Chords(cell, p, q, unit).keep(proper)
        found = found.keep((found.p * (len(mesh.corners) + 1) + found.q).argsort(stable=True))
        new = torch.ones(len(found), dtype=torch.bool, device=p.device)
        new[1:] = (found.p[1:] != found.p[:-1]) | (found.q[1:] != found.q[:-1])
        return found.keep(new), proper

    def __len__(self) -> int:
        return len(self.p)

    def keep(self, chosen: Tensor) -> Chords:
        """The chords of a mask or an index."""
        return Chords(self.cell[chosen], self.p[chosen], self.q[chosen], self.unit[chosen])


@dataclass(frozen=True)
class Meetings:
    """Crossings of two chords i < j of one cell (p_i < p_j < q_i < q_j), and where they lie on each."""

    i: Tensor
    j: Tensor
    t_i: Tensor
    t_j: Tensor
    rank_i: Tensor
    rank_j: Tensor

    def __len__(self) -> int:
        return len(self.i)


def meetings(mesh: Mesh, chords: Chords, evaluate: Evaluate) -> tuple[Chords, Meetings, Tensor]:
    """All crossings of chords, in order along each; chords that cannot be placed safely yet are left out.

    A chord is left out when it passes too near another crossing (three chords through one point) or when rounding
    hides on which side of another chord its end lies. The first chord of a cell is never left out. Returns the chords
    kept, their crossings, and the cells in which one was left out: cutting those again, with the new vertices in
    place, settles it.
    """
    i, j = alternating_pairs(chords)
    unsettled = chords.cell[:0]
    while True:
        found = _measure(mesh, chords, i, j, evaluate)
        bad = _conflicts(len(chords), found)
        if not bad.any():
            return chords, _rank(found, len(chords)), unsettled.unique()
        unsettled = torch.cat([unsettled, chords.cell[bad]])
        good = ~bad
        renumber = good.cumsum(0) - 1
        kept = good[i] & good[j]
        i, j = renumber[i[kept]], renumber[j[kept]]
        chords = chords.keep(good)


def alternating_pairs(chords: Chords) -> tuple[Tensor, Tensor]:
    """Pairs of chords whose ends alternate around their cell."""
    low = torch.searchsorted(chords.p, chords.p, right=True)
    high = torch.searchsorted(chords.p, chords.q)
    counts = (high - low).clamp(min=0)
    found_i, found_j = [chords.p[:0]], [chords.p[:0]]
    ends = offsets_of(counts)
    start = 0
    while start < len(chords):
        stop = int(torch.searchsorted(ends, ends[start] + _PAIRS, right=True)) - 1
        stop = min(max(stop, start + 1), len(chords))
        i = torch.repeat_interleave(torch.arange(start, stop, device=low.device), counts[start:stop])
        j = ranges(low[start:stop], counts[start:stop])
        alternate = chords.q[j] > chords.q[i]
        found_i.append(i[alternate])
        found_j.append(j[alternate])
        start = stop
    return torch.cat(found_i), torch.cat(found_j)


@dataclass(frozen=True)
class _Entries:
    """Every crossing twice, once for each of its chords, sorted along the chords."""

    pair_i: Tensor
    pair_j: Tensor
    chord: Tensor
    other: Tensor
    t: Tensor
    up: Tensor
    uq: Tensor
    tolerance: Tensor
    crossing: Tensor


def _measure(mesh: Mesh, chords: Chords, i: Tensor, j: Tensor, evaluate: Evaluate) -> _Entries:
    chord, other = torch.cat([i, j]), torch.cat([j, i])
    unit = chords.unit[other]
    start = mesh.corners[chords.p[chord]]
    up = evaluate(start, unit)
    uq = evaluate(mesh.corners[chords.q[chord]], unit)
    t = up / (up - uq)
    crossing = torch.arange(len(i), device=i.device).repeat(2)
    order = sort_by(chord, t)
    tolerance = evaluate.tolerance_at(start[order], unit[order])
    return _Entries(i, j, chord[order], other[order], t[order], up[order], uq[order], tolerance, crossing[order])


def _conflicts(n: int, found: _Entries) -> Tensor:
    """Chords to leave out (n,): of each doubtful crossing the later chord, so that the first one always stays."""
    bad = torch.zeros(n, dtype=torch.bool, device=found.chord.device)
    doubtful = (torch.minimum(found.up.abs(), found.uq.abs()) <= found.tolerance) | (found.up.sign() == found.uq.sign())
    bad[torch.maximum(found.chord, found.other)[doubtful]] = True
    near = coincident(found.chord, found.t, found.up, found.uq, found.tolerance).nonzero()[:, 0]
    three = torch.stack([found.chord[near], found.other[near], found.other[near + 1]])
    if len(near):
        bad[three.amax(0)] = True
    return bad


def _rank(found: _Entries, n: int) -> Meetings:
    counts = torch.bincount(found.chord, minlength=n)
    rank = torch.arange(len(found.chord), device=found.chord.device) - offsets_of(counts)[found.chord]
    x = len(found.pair_i)
    t = torch.empty((2, x), dtype=found.t.dtype, device=found.t.device)
    ranks = torch.empty((2, x), dtype=torch.int64, device=found.t.device)
    on_j = (found.chord != found.pair_i[found.crossing]).long()
    t[on_j, found.crossing] = found.t
    ranks[on_j, found.crossing] = rank
    return Meetings(found.pair_i, found.pair_j, t[0], t[1], ranks[0], ranks[1])


@dataclass(frozen=True)
class Pieces:
    """What chords leave of the cells that they cut.

    touched: the cells that are cut, ascending. cell: (n,) the old cell of each piece.
    corners, sides, offsets: the loops of the pieces, as in ``Mesh``. Side ``len(mesh.edges) + i`` is part i of the
        chords. parts: offsets of the parts of each chord. nodes: (m, 2) the two vertices of each part.
    """

    touched: Tensor
    cell: Tensor
    corners: Tensor
    sides: Tensor
    offsets: Tensor
    parts: Tensor
    nodes: Tensor

    def with_untouched(self, mesh: Mesh) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Corners, sides and offsets of the cells of ``mesh`` that are not cut, then of the pieces; their old cells."""
        whole = torch.ones(mesh.n_cells, dtype=torch.bool, device=self.cell.device)
        whole[self.touched] = False
        kept = whole.nonzero()[:, 0]
        index, offsets = gather_rows(mesh.offsets, kept)
        return (
            torch.cat([mesh.corners.index_select(0, index), self.corners]),
            torch.cat([mesh.sides.index_select(0, index), self.sides]),
            torch.cat([offsets[:-1], self.offsets + len(index)]),
            torch.cat([kept, self.cell]),
        )


def divide(mesh: Mesh, chords: Chords, met: Meetings, vertex: Tensor) -> Pieces:
    """The pieces of the cells that have a chord, in the order of these cells. ``vertex`` (x,): of each crossing."""
    touched = chords.cell.unique_consecutive()
    if len(chords) == 0:
        none = chords.cell
        return Pieces(none, none, none, none, none.new_zeros(1), none.new_zeros(1), none.new_empty(0, 2))
    slots, slot_offsets = gather_rows(mesh.offsets, touched)
    local = torch.empty(len(mesh.corners), dtype=torch.int64, device=slots.device)
    local.scatter_(0, slots, torch.arange(len(slots), device=slots.device))
    parts, nodes = _chord_parts(mesh, chords, met, vertex)
    loops, loop_offsets = _cycles(_following(mesh, chords, met, parts, local, slot_offsets))
    m = len(nodes)
    new_edges = torch.arange(m, device=slots.device) + len(mesh.edges)
    origin = torch.cat([mesh.corners.index_select(0, slots), nodes[:, 0], nodes[:, 1]])
    side = torch.cat([mesh.sides.index_select(0, slots), new_edges, new_edges])
    chord_cell = chords.cell.index_select(0, owners(parts, m))
    slot_cell = touched.index_select(0, owners(slot_offsets, len(slots)))
    half_cell = torch.cat([slot_cell, chord_cell, chord_cell])
    cell = half_cell.index_select(0, loops.index_select(0, loop_offsets[:-1]))
    return Pieces(touched, cell, origin.index_select(0, loops), side.index_select(0, loops), loop_offsets, parts, nodes)


def cut(mesh: Mesh, chords: Chords, met: Meetings, layer: int) -> tuple[Mesh, Tensor]:
    """The mesh after cutting cells along the chords, and the old cell that each new cell comes from.

    Vertex ``mesh.n_vertices + x`` is crossing x. Untouched cells keep their loops; new cells stand where the old one
    stood.
    """
    if len(chords) == 0:
        return mesh, torch.arange(mesh.n_cells, device=mesh.edges.device)
    vertex = mesh.n_vertices + torch.arange(len(met), device=chords.p.device)
    found = divide(mesh, chords, met, vertex)
    m = len(found.nodes)
    corners, sides, offsets, old_cell = found.with_untouched(mesh)
    order = old_cell.argsort(stable=True)
    index, offsets = gather_rows(offsets, order)
    result = Mesh(
        mesh.n_vertices + len(met),
        torch.cat([mesh.edges, found.nodes]),
        torch.cat([mesh.layer, mesh.layer.new_full((m,), layer)]),
        torch.cat([mesh.tags, mesh.tags.new_full((m,), -1)]),
        corners[index],
        sides[index],
        offsets,
        mesh.slice_id[old_cell[order]],
    )
    return result, old_cell[order]


def _chord_parts(mesh: Mesh, chords: Chords, met: Meetings, vertex: Tensor) -> tuple[Tensor, Tensor]:
    """Offsets (n + 1,) of the parts of each chord between crossings, and the two vertices of each part (m, 2)."""
    n = len(chords)
    crossings = torch.bincount(met.i, minlength=n) + torch.bincount(met.j, minlength=n)
    parts = offsets_of(crossings + 1)
    nodes = torch.empty((n + 2 * len(met), 2), dtype=torch.int64, device=parts.device)
    nodes[parts[:-1], 0] = mesh.corners[chords.p]
    nodes[parts[1:] - 1, 1] = mesh.corners[chords.q]
    for chord, rank in ((met.i, met.rank_i), (met.j, met.rank_j)):
        place = 2 * (parts.index_select(0, chord) + rank)  # the part that ends in the crossing
        nodes.view(-1).scatter_(0, place + 1, vertex)
        nodes.view(-1).scatter_(0, place + 2, vertex)
    return parts, nodes


def _following(mesh: Mesh, chords: Chords, met: Meetings, parts: Tensor, local: Tensor, slot_offsets: Tensor) -> Tensor:
    """For every half-edge the next one around the face on its left.

    Half-edges: those of the touched cells, then all parts of chords from p to q, then from q to p.
    """
    b, m = int(slot_offsets[-1]), int(parts[-1])
    following = torch.empty(b + 2 * m, dtype=torch.int64, device=parts.device)
    following[:b] = next_in_row(slot_offsets)
    # two chords: i comes first around the cell, so the end q_j lies on the left of i, and p_i on the left of j
    i, j = (b + parts.index_select(0, x) + rank for x, rank in ((met.i, met.rank_i), (met.j, met.rank_j)))
    for here, then in ((i, j + 1), (i + 1 + m, j + m), (j, i + m), (j + 1 + m, i + 1)):  # i and j end in the crossing
        following.scatter_(0, here, then)
    # ends of chords on the border of their cell
    p_out, q_out = b + parts[:-1], b + parts[1:] - 1 + m
    p_in, q_in = p_out + m, q_out - m
    lengths = mesh.offsets.diff()[chords.cell]
    slot = torch.cat([chords.p, chords.q])
    turn = torch.cat([chords.q - chords.p, lengths - (chords.q - chords.p)])  # how far round the other end lies
    order = (slot * (int(lengths.max()) + 1) + turn).argsort()
    slot, leave, arrive = (x.index_select(0, order) for x in (slot, torch.cat([p_out, q_out]), torch.cat([p_in, q_in])))
    first = torch.ones(len(slot), dtype=torch.bool, device=slot.device)
    first[1:] = slot[1:] != slot[:-1]
    last = first.roll(-1)
    before = torch.empty(b, dtype=torch.int64, device=slot.device)
    before.scatter_(0, following[:b], torch.arange(b, device=slot.device))
    place = local.index_select(0, slot)
    following.scatter_(0, arrive, torch.where(first, place, leave.roll(1)))
    following[before[place[last]]] = leave[last]
    return following


def _cycles(following: Tensor) -> tuple[Tensor, Tensor]:
    """The cycles of a permutation as a ragged array, each from its smallest element on, sorted by it."""
    n = len(following)
    number = torch.arange(n, device=following.device)
    label, jump = number, following
    while True:
        label = torch.minimum(label, label.index_select(0, jump))
        if torch.equal(label, label.index_select(0, following)):
            break
        jump = jump.index_select(0, jump)
    heads = (label == number).nonzero()[:, 0]
    members = torch.zeros_like(label).scatter_add_(0, label, torch.ones_like(label[:1]).expand(n))
    return walk(following, heads, members.index_select(0, heads))


def walk(following: Tensor, heads: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of ``counts`` elements, each from its head on to the one that follows, as a ragged array."""
    offsets = offsets_of(counts)
    loops = following.new_empty(int(offsets[-1]))
    current, place, left = heads, offsets[:-1], counts
    while len(current):
        loops.scatter_(0, place, current)
        alive = (left > 1).nonzero()[:, 0]
        if len(alive) < len(current):
            current, place, left = (x.index_select(0, alive) for x in (current, place, left))
        current, place, left = following.index_select(0, current), place + 1, left - 1
    return loops, offsets
