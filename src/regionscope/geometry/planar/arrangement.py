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

import numpy as np
import torch
from torch import Tensor

from regionscope.geometry import arrays as xp
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
        p, q = xp.minimum(p, q), xp.maximum(p, q)
        gap, length = q - p, xp.take(xp.differences(mesh.offsets), cell)
        proper = (gap > 1) & (gap < length - 1)
        chosen = xp.nonzero(proper)
        chosen = xp.take(chosen, xp.argsort(xp.take(p * (len(mesh.corners) + 1) + q, chosen)))
        chords = Chords(cell, p, q, unit).keep(chosen)
        new = xp.mask(len(chords), True, p)
        new[1:] = (chords.p[1:] != chords.p[:-1]) | (chords.q[1:] != chords.q[:-1])
        return chords.keep(xp.nonzero(new)), proper

    def __len__(self) -> int:
        return len(self.p)

    def keep(self, chosen: Tensor) -> Chords:
        """The chords of a mask or an index."""
        return Chords(self.cell[chosen], self.p[chosen], self.q[chosen], self.unit[chosen])


@dataclass(frozen=True)
class Meetings:
    """Crossings of two chords i < j of one cell (p_i < p_j < q_i < q_j): place on the first one, and order on each."""

    i: Tensor
    j: Tensor
    t_i: Tensor
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
        entries = _measure(mesh, chords, i, j, evaluate)
        bad = _conflicts(len(chords), entries)
        if not bad.any():
            return chords, _rank(entries, len(chords)), xp.unique(unsettled) if len(unsettled) else unsettled
        unsettled = xp.cat([unsettled, chords.cell[bad]])
        good = ~bad
        renumber = good.cumsum(0) - 1
        kept = xp.nonzero(xp.take(good, i) & xp.take(good, j))
        i, j = (xp.take(renumber, xp.take(x, kept)) for x in (i, j))
        chords = chords.keep(xp.nonzero(good))


def alternating_pairs(chords: Chords) -> tuple[Tensor, Tensor]:
    """Pairs of chords whose ends alternate around their cell."""
    low, high = xp.searchsorted(chords.p, chords.p, right=True), xp.searchsorted(chords.p, chords.q)
    counts = xp.maximum(high - low, xp.full(1, 0, low))
    found_i, found_j = [chords.p[:0]], [chords.p[:0]]
    ends = offsets_of(counts)
    start = 0
    while start < len(chords):
        stop = int(xp.searchsorted(ends, ends[start] + _PAIRS, right=True)) - 1
        stop = min(max(stop, start + 1), len(chords))
        i = xp.repeat(xp.arange(stop, low)[start:], counts[start:stop])
        j = ranges(low[start:stop], counts[start:stop])
        alternate = xp.nonzero(xp.take(chords.q, j) > xp.take(chords.q, i))
        found_i.append(xp.take(i, alternate))
        found_j.append(xp.take(j, alternate))
        start = stop
    return xp.cat(found_i), xp.cat(found_j)


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


@np.errstate(divide="ignore", invalid="ignore")  # as with tensors: rounding may leave two values of one sign
def _measure(mesh: Mesh, chords: Chords, i: Tensor, j: Tensor, evaluate: Evaluate) -> _Entries:
    chord, other = xp.cat([i, j]), xp.cat([j, i])
    unit = xp.take(chords.unit, other)
    start, end = (xp.take(mesh.corners, xp.take(corner, chord)) for corner in (chords.p, chords.q))
    up, uq = evaluate(start, unit), evaluate(end, unit)
    t = up / (up - uq)
    crossing = xp.arange(len(i), i)
    order = sort_by(chord, t)
    tolerance = evaluate.tolerance_at(start, unit)
    return _Entries(
        i, j, *(xp.take(x, order) for x in (chord, other, t, up, uq, tolerance, xp.cat([crossing, crossing])))
    )


def _conflicts(n: int, entries: _Entries) -> Tensor:
    """Chords to leave out (n,): of each doubtful crossing the later chord, so that the first one always stays."""
    bad = xp.mask(n, False, entries.chord)
    hidden = xp.minimum(abs(entries.up), abs(entries.uq)) <= entries.tolerance
    doubtful = hidden | ((entries.up > 0) == (entries.uq > 0))
    bad[xp.maximum(entries.chord, entries.other)[doubtful]] = True
    close = xp.nonzero(coincident(entries.chord, entries.t, entries.up, entries.uq, entries.tolerance))
    if len(close):
        others = xp.maximum(xp.take(entries.other, close), xp.take(entries.other, close + 1))
        bad[xp.maximum(xp.take(entries.chord, close), others)] = True
    return bad


def _rank(entries: _Entries, n: int) -> Meetings:
    counts = xp.bincount(entries.chord, n)
    rank = xp.arange(len(entries.chord), entries.chord) - xp.take(offsets_of(counts), entries.chord)
    x = len(entries.pair_i)
    t, ranks = xp.empty(2 * x, entries.t, torch.float64), xp.empty(2 * x, entries.chord)
    place = entries.crossing + x * (entries.chord != xp.take(entries.pair_i, entries.crossing))
    xp.put(t, place, entries.t)
    xp.put(ranks, place, rank)
    return Meetings(entries.pair_i, entries.pair_j, t[:x], ranks[:x], ranks[x:])


@dataclass(frozen=True)
class CutPieces:
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
        whole = xp.mask(mesh.n_cells, True, self.cell)
        whole[self.touched] = False
        kept = xp.nonzero(whole)
        index, offsets = gather_rows(mesh.offsets, kept)
        return (
            xp.cat([xp.take(mesh.corners, index), self.corners]),
            xp.cat([xp.take(mesh.sides, index), self.sides]),
            xp.cat([offsets[:-1], self.offsets + len(index)]),
            xp.cat([kept, self.cell]),
        )


def cut_pieces(mesh: Mesh, chords: Chords, met: Meetings, vertex: Tensor) -> CutPieces:
    """The pieces of the cells that have a chord, in the order of these cells. ``vertex`` (x,): of each crossing."""
    if len(chords) == 0:
        none, zero = chords.cell, xp.full(1, 0, chords.cell)
        return CutPieces(none, none, none, none, zero, zero, xp.full((0, 2), 0, none))
    new = xp.mask(len(chords), True, chords.cell)
    new[1:] = chords.cell[1:] != chords.cell[:-1]
    touched = xp.take(chords.cell, xp.nonzero(new))
    slots, slot_offsets = gather_rows(mesh.offsets, touched)
    local = xp.empty(len(mesh.corners), slots)
    xp.put(local, slots, xp.arange(len(slots), slots))
    parts, nodes = _chord_parts(mesh, chords, met, vertex)
    loops, loop_offsets = _cycles(_following(mesh, chords, met, parts, local, slot_offsets))
    m = len(nodes)
    new_edges = xp.arange(m, slots) + len(mesh.edges)
    origin = xp.cat([xp.take(mesh.corners, slots), nodes[:, 0], nodes[:, 1]])
    side = xp.cat([xp.take(mesh.sides, slots), new_edges, new_edges])
    chord_cell = xp.take(chords.cell, owners(parts, m))
    half_cell = xp.cat([xp.take(touched, owners(slot_offsets, len(slots))), chord_cell, chord_cell])
    cell = xp.take(half_cell, xp.take(loops, loop_offsets[:-1]))
    return CutPieces(touched, cell, xp.take(origin, loops), xp.take(side, loops), loop_offsets, parts, nodes)


def cut(mesh: Mesh, chords: Chords, met: Meetings, layer: int) -> tuple[Mesh, Tensor]:
    """The mesh after cutting cells along the chords, and the old cell that each new cell comes from.

    Vertex ``mesh.n_vertices + x`` is crossing x. Untouched cells keep their loops; new cells stand where the old one
    stood.
    """
    if len(chords) == 0:
        return mesh, xp.arange(mesh.n_cells, mesh.edges)
    vertex = mesh.n_vertices + xp.arange(len(met), chords.p)
    pieces = cut_pieces(mesh, chords, met, vertex)
    m = len(pieces.nodes)
    corners, sides, offsets, old_cell = pieces.with_untouched(mesh)
    order = xp.argsort(old_cell)
    index, offsets = gather_rows(offsets, order)
    old_cell = xp.take(old_cell, order)
    result = Mesh(
        mesh.n_vertices + len(met),
        xp.cat([mesh.edges, pieces.nodes]),
        xp.cat([mesh.layer, xp.full(m, layer, mesh.layer)]),
        xp.cat([mesh.tags, xp.full(m, -1, mesh.tags)]),
        xp.take(corners, index),
        xp.take(sides, index),
        offsets,
        xp.take(mesh.slice_id, old_cell),
    )
    return result, old_cell


def _chord_parts(mesh: Mesh, chords: Chords, met: Meetings, vertex: Tensor) -> tuple[Tensor, Tensor]:
    """Offsets (n + 1,) of the parts of each chord between crossings, and the two vertices of each part (m, 2)."""
    n = len(chords)
    parts = offsets_of(xp.bincount(met.i, n) + xp.bincount(met.j, n) + 1)
    nodes = xp.empty(2 * (n + 2 * len(met)), parts)
    xp.put(nodes, 2 * parts[:-1], xp.take(mesh.corners, chords.p))
    xp.put(nodes, 2 * parts[1:] - 1, xp.take(mesh.corners, chords.q))
    for chord, rank in ((met.i, met.rank_i), (met.j, met.rank_j)):
        place = 2 * (xp.take(parts, chord) + rank)  # the part that ends in the crossing
        xp.put(nodes, place + 1, vertex)
        xp.put(nodes, place + 2, vertex)
    return parts, nodes.reshape(-1, 2)


def _following(mesh: Mesh, chords: Chords, met: Meetings, parts: Tensor, local: Tensor, slot_offsets: Tensor) -> Tensor:
    """For every half-edge the next one around the face on its left.

    Half-edges: those of the touched cells, then all parts of chords from p to q, then from q to p.
    """
    b, m = int(slot_offsets[-1]), int(parts[-1])
    following = xp.empty(b + 2 * m, parts)
    following[:b] = next_in_row(slot_offsets)
    # two chords: i comes first around the cell, so the end q_j lies on the left of i, and p_i on the left of j
    i, j = (b + xp.take(parts, x) + rank for x, rank in ((met.i, met.rank_i), (met.j, met.rank_j)))
    for half_edge, then in (
        (i, j + 1),
        (i + 1 + m, j + m),
        (j, i + m),
        (j + 1 + m, i + 1),
    ):  # i and j end in the crossing
        xp.put(following, half_edge, then)
    # ends of chords on the border of their cell
    p_out, q_out = b + parts[:-1], b + parts[1:] - 1 + m
    lengths, gap = xp.take(xp.differences(mesh.offsets), chords.cell), chords.q - chords.p
    slot = xp.cat([chords.p, chords.q])
    turn = xp.cat([gap, lengths - gap])  # how far round the other end lies
    order = xp.argsort(slot * (int(lengths.max()) + 1) + turn)
    slot, leave = xp.take(slot, order), xp.take(xp.cat([p_out, q_out]), order)
    arrive = xp.take(xp.cat([p_out + m, q_out - m]), order)
    first = xp.mask(len(slot), True, slot)
    first[1:] = slot[1:] != slot[:-1]
    last = xp.nonzero(xp.cat([first[1:], first[:1]]))
    before = xp.empty(b, slot)
    xp.put(before, following[:b], xp.arange(b, slot))
    place = xp.take(local, slot)
    xp.put(following, arrive, xp.where(first, place, xp.cat([leave[-1:], leave[:-1]])))
    xp.put(following, xp.take(before, xp.take(place, last)), xp.take(leave, last))
    return following


def _cycles(following: Tensor) -> tuple[Tensor, Tensor]:
    """The cycles of a permutation as a ragged array, each from its smallest element on, sorted by it."""
    n = len(following)
    number = xp.arange(n, following)
    label, jump = xp.minimum(number, following), xp.take(following, following)  # pieces have three sides or more
    while True:
        label = xp.minimum(label, xp.take(label, jump))
        if bool((label == xp.take(label, following)).all()):
            break
        jump = xp.take(jump, jump)
    heads = xp.nonzero(label == number)
    return walk(following, heads, xp.take(xp.bincount(label, n), heads))


def walk(following: Tensor, heads: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of ``counts`` elements, each from its head on to the one that follows, as a ragged array."""
    offsets = offsets_of(counts)
    loops = xp.empty(int(offsets[-1]), following)
    current, place, left = heads, offsets[:-1], counts
    while len(current):
        xp.put(loops, place, current)
        alive = xp.nonzero(left > 1)
        if len(alive) < len(current):
            current, place, left = (xp.take(x, alive) for x in (current, place, left))
        current, place, left = xp.take(following, current), place + 1, left - 1
    return loops, offsets
