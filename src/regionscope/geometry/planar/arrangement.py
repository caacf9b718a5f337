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

from regionscope.geometry.arrays import (
    arange,
    argsort,
    bincount,
    cat,
    differences,
    empty,
    full,
    mask,
    maximum,
    minimum,
    nonzero,
    put,
    repeat,
    searchsorted,
    take,
    unique,
    where,
)
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
        p, q = minimum(p, q), maximum(p, q)
        gap, length = q - p, take(differences(mesh.offsets), cell)
        proper = (gap > 1) & (gap < length - 1)
        chosen = nonzero(proper)
        chosen = take(chosen, argsort(take(p * (len(mesh.corners) + 1) + q, chosen)))
        found = Chords(cell, p, q, unit).keep(chosen)
        new = mask(len(found), True, p)
        new[1:] = (found.p[1:] != found.p[:-1]) | (found.q[1:] != found.q[:-1])
        return found.keep(nonzero(new)), proper

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
            return chords, _rank(found, len(chords)), unique(unsettled) if len(unsettled) else unsettled
        unsettled = cat([unsettled, chords.cell[bad]])
        good = ~bad
        renumber = good.cumsum(0) - 1
        kept = nonzero(take(good, i) & take(good, j))
        i, j = (take(renumber, take(x, kept)) for x in (i, j))
        chords = chords.keep(nonzero(good))


def alternating_pairs(chords: Chords) -> tuple[Tensor, Tensor]:
    """Pairs of chords whose ends alternate around their cell."""
    low, high = searchsorted(chords.p, chords.p, right=True), searchsorted(chords.p, chords.q)
    counts = maximum(high - low, full(1, 0, low))
    found_i, found_j = [chords.p[:0]], [chords.p[:0]]
    ends = offsets_of(counts)
    start = 0
    while start < len(chords):
        stop = int(searchsorted(ends, ends[start] + _PAIRS, right=True)) - 1
        stop = min(max(stop, start + 1), len(chords))
        i = repeat(arange(stop, low)[start:], counts[start:stop])
        j = ranges(low[start:stop], counts[start:stop])
        alternate = nonzero(take(chords.q, j) > take(chords.q, i))
        found_i.append(take(i, alternate))
        found_j.append(take(j, alternate))
        start = stop
    return cat(found_i), cat(found_j)


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
    chord, other = cat([i, j]), cat([j, i])
    unit = take(chords.unit, other)
    start, end = (take(mesh.corners, take(corner, chord)) for corner in (chords.p, chords.q))
    up, uq = evaluate(start, unit), evaluate(end, unit)
    t = up / (up - uq)
    crossing = arange(len(i), i)
    order = sort_by(chord, t)
    tolerance = evaluate.tolerance_at(start, unit)
    return _Entries(i, j, *(take(x, order) for x in (chord, other, t, up, uq, tolerance, cat([crossing, crossing]))))


def _conflicts(n: int, found: _Entries) -> Tensor:
    """Chords to leave out (n,): of each doubtful crossing the later chord, so that the first one always stays."""
    bad = mask(n, False, found.chord)
    hidden = minimum(abs(found.up), abs(found.uq)) <= found.tolerance
    doubtful = hidden | ((found.up > 0) == (found.uq > 0))
    bad[maximum(found.chord, found.other)[doubtful]] = True
    near = nonzero(coincident(found.chord, found.t, found.up, found.uq, found.tolerance))
    if len(near):
        others = maximum(take(found.other, near), take(found.other, near + 1))
        bad[maximum(take(found.chord, near), others)] = True
    return bad


def _rank(found: _Entries, n: int) -> Meetings:
    counts = bincount(found.chord, n)
    rank = arange(len(found.chord), found.chord) - take(offsets_of(counts), found.chord)
    x = len(found.pair_i)
    t, ranks = empty(2 * x, found.t, torch.float64), empty(2 * x, found.chord)
    place = found.crossing + x * (found.chord != take(found.pair_i, found.crossing))
    put(t, place, found.t)
    put(ranks, place, rank)
    return Meetings(found.pair_i, found.pair_j, t[:x], t[x:], ranks[:x], ranks[x:])


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
        whole = mask(mesh.n_cells, True, self.cell)
        whole[self.touched] = False
        kept = nonzero(whole)
        index, offsets = gather_rows(mesh.offsets, kept)
        return (
            cat([take(mesh.corners, index), self.corners]),
            cat([take(mesh.sides, index), self.sides]),
            cat([offsets[:-1], self.offsets + len(index)]),
            cat([kept, self.cell]),
        )


def divide(mesh: Mesh, chords: Chords, met: Meetings, vertex: Tensor) -> CutPieces:
    """The pieces of the cells that have a chord, in the order of these cells. ``vertex`` (x,): of each crossing."""
    if len(chords) == 0:
        none, zero = chords.cell, full(1, 0, chords.cell)
        return CutPieces(none, none, none, none, zero, zero, full((0, 2), 0, none))
    new = mask(len(chords), True, chords.cell)
    new[1:] = chords.cell[1:] != chords.cell[:-1]
    touched = take(chords.cell, nonzero(new))
    slots, slot_offsets = gather_rows(mesh.offsets, touched)
    local = empty(len(mesh.corners), slots)
    put(local, slots, arange(len(slots), slots))
    parts, nodes = _chord_parts(mesh, chords, met, vertex)
    loops, loop_offsets = _cycles(_following(mesh, chords, met, parts, local, slot_offsets))
    m = len(nodes)
    new_edges = arange(m, slots) + len(mesh.edges)
    origin = cat([take(mesh.corners, slots), nodes[:, 0], nodes[:, 1]])
    side = cat([take(mesh.sides, slots), new_edges, new_edges])
    chord_cell = take(chords.cell, owners(parts, m))
    half_cell = cat([take(touched, owners(slot_offsets, len(slots))), chord_cell, chord_cell])
    cell = take(half_cell, take(loops, loop_offsets[:-1]))
    return CutPieces(touched, cell, take(origin, loops), take(side, loops), loop_offsets, parts, nodes)


def cut(mesh: Mesh, chords: Chords, met: Meetings, layer: int) -> tuple[Mesh, Tensor]:
    """The mesh after cutting cells along the chords, and the old cell that each new cell comes from.

    Vertex ``mesh.n_vertices + x`` is crossing x. Untouched cells keep their loops; new cells stand where the old one
    stood.
    """
    if len(chords) == 0:
        return mesh, arange(mesh.n_cells, mesh.edges)
    vertex = mesh.n_vertices + arange(len(met), chords.p)
    found = divide(mesh, chords, met, vertex)
    m = len(found.nodes)
    corners, sides, offsets, old_cell = found.with_untouched(mesh)
    order = argsort(old_cell)
    index, offsets = gather_rows(offsets, order)
    old_cell = take(old_cell, order)
    result = Mesh(
        mesh.n_vertices + len(met),
        cat([mesh.edges, found.nodes]),
        cat([mesh.layer, full(m, layer, mesh.layer)]),
        cat([mesh.tags, full(m, -1, mesh.tags)]),
        take(corners, index),
        take(sides, index),
        offsets,
        take(mesh.slice_id, old_cell),
    )
    return result, old_cell


def _chord_parts(mesh: Mesh, chords: Chords, met: Meetings, vertex: Tensor) -> tuple[Tensor, Tensor]:
    """Offsets (n + 1,) of the parts of each chord between crossings, and the two vertices of each part (m, 2)."""
    n = len(chords)
    parts = offsets_of(bincount(met.i, n) + bincount(met.j, n) + 1)
    nodes = empty(2 * (n + 2 * len(met)), parts)
    put(nodes, 2 * parts[:-1], take(mesh.corners, chords.p))
    put(nodes, 2 * parts[1:] - 1, take(mesh.corners, chords.q))
    for chord, rank in ((met.i, met.rank_i), (met.j, met.rank_j)):
        place = 2 * (take(parts, chord) + rank)  # the part that ends in the crossing
        put(nodes, place + 1, vertex)
        put(nodes, place + 2, vertex)
    return parts, nodes.reshape(-1, 2)


def _following(mesh: Mesh, chords: Chords, met: Meetings, parts: Tensor, local: Tensor, slot_offsets: Tensor) -> Tensor:
    """For every half-edge the next one around the face on its left.

    Half-edges: those of the touched cells, then all parts of chords from p to q, then from q to p.
    """
    b, m = int(slot_offsets[-1]), int(parts[-1])
    following = empty(b + 2 * m, parts)
    following[:b] = next_in_row(slot_offsets)
    # two chords: i comes first around the cell, so the end q_j lies on the left of i, and p_i on the left of j
    i, j = (b + take(parts, x) + rank for x, rank in ((met.i, met.rank_i), (met.j, met.rank_j)))
    for here, then in ((i, j + 1), (i + 1 + m, j + m), (j, i + m), (j + 1 + m, i + 1)):  # i and j end in the crossing
        put(following, here, then)
    # ends of chords on the border of their cell
    p_out, q_out = b + parts[:-1], b + parts[1:] - 1 + m
    lengths, gap = take(differences(mesh.offsets), chords.cell), chords.q - chords.p
    slot = cat([chords.p, chords.q])
    turn = cat([gap, lengths - gap])  # how far round the other end lies
    order = argsort(slot * (int(lengths.max()) + 1) + turn)
    slot, leave = take(slot, order), take(cat([p_out, q_out]), order)
    arrive = take(cat([p_out + m, q_out - m]), order)
    first = mask(len(slot), True, slot)
    first[1:] = slot[1:] != slot[:-1]
    last = nonzero(cat([first[1:], first[:1]]))
    before = empty(b, slot)
    put(before, following[:b], arange(b, slot))
    place = take(local, slot)
    put(following, arrive, where(first, place, cat([leave[-1:], leave[:-1]])))
    put(following, take(before, take(place, last)), take(leave, last))
    return following


def _cycles(following: Tensor) -> tuple[Tensor, Tensor]:
    """The cycles of a permutation as a ragged array, each from its smallest element on, sorted by it."""
    n = len(following)
    number = arange(n, following)
    label, jump = minimum(number, following), take(following, following)  # pieces have three sides or more
    while True:
        label = minimum(label, take(label, jump))
        if bool((label == take(label, following)).all()):
            break
        jump = take(jump, jump)
    heads = nonzero(label == number)
    return walk(following, heads, take(bincount(label, n), heads))


def walk(following: Tensor, heads: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of ``counts`` elements, each from its head on to the one that follows, as a ragged array."""
    offsets = offsets_of(counts)
    loops = empty(int(offsets[-1]), following)
    current, place, left = heads, offsets[:-1], counts
    while len(current):
        put(loops, place, current)
        alive = nonzero(left > 1)
        if len(alive) < len(current):
            current, place, left = (take(x, alive) for x in (current, place, left))
        current, place, left = take(following, current), place + 1, left - 1
    return loops, offsets
