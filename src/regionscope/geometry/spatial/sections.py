"""The second half of a cut in space: every cell divided by all units that cross it, once its faces are divided."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope.geometry.crossing import coincident
from regionscope.geometry.planar.arrangement import (
    Chords,
    CutPieces,
    Evaluate,
    Meetings,
    alternating_pairs,
    divide,
    walk,
)
from regionscope.geometry.planar.mesh import Mesh
from regionscope.geometry.polytope.split import NewVertices
from regionscope.geometry.ragged import offsets_of, ranges, sort_within
from regionscope.geometry.spatial.faces import Curves, FaceCut, Unresolved


@dataclass(frozen=True)
class Sections:
    """The pieces of cells' sections {unit = 0}, which lines {unit = other = 0} cut out of them.

    cell, unit: (n,) of each section. new: the points of three units. new_units: (x, 3), ascending.
    corners, sides, offsets: the loops of the pieces. of_piece: (q,) the section of each.
    edges: (m, 2) the parts of the lines; they are numbered after the edges of the faces.
    n_lines: (n,) lines whose lower unit is that of the section. n_points: likewise points of three units.
    deferred: as in ``FaceCut``, with those that it holds.
    """

    cell: Tensor
    unit: Tensor
    new: NewVertices
    new_units: Tensor
    corners: Tensor
    sides: Tensor
    offsets: Tensor
    of_piece: Tensor
    edges: Tensor
    n_lines: Tensor
    n_points: Tensor
    deferred: Tensor


@dataclass(frozen=True)
class _Loops:
    """The borders of the sections, as loops of a mesh, and the cell and unit (n,) of each section."""

    cell: Tensor
    unit: Tensor
    mesh: Mesh


@dataclass(frozen=True)
class _Lines:
    """Lines in which two sections of a cell meet: a chord in each of the two.

    key: (l,) (cell * n_units + lower) * n_units + higher, ascending. low, high: (l,) the chord in the section of the
    lower and in that of the higher unit. a, b: (l,) the ends, in the direction of ``low``. turned: (l,) whether
    ``high`` runs from b to a.
    """

    key: Tensor
    low: Tensor
    high: Tensor
    a: Tensor
    b: Tensor
    turned: Tensor


@dataclass(frozen=True)
class _Triples:
    """Points in which three sections u < v < w of a cell meet.

    lines: (3, x) the lines uv, uw and vw. rank, t: (3, x) the place of the point on each, and where it lies between a
    and b. counts: (l,) points on each line.
    """

    units: Tensor
    lines: Tensor
    rank: Tensor
    t: Tensor
    counts: Tensor


def find_sections(cut: FaceCut, n_units: int, deferred: Tensor) -> Sections:
    """Cut the sections of all cells, but for those of ``deferred`` (see ``FaceCut``).

    Units whose lines meet another point too closely are deferred, too: of those in question the last, so that the first
    one of a cell is never left out. Raises ``Unresolved`` with the keys of sections whose border is not one loop.
    """
    while True:
        curves = cut.curves
        if len(deferred):
            curves = curves.keep(~torch.isin(curves.cell * n_units + curves.unit, deferred))
        loops = _borders(curves, cut.solids.edges, cut.solids.n_vertices, n_units)
        chords, bad = _chords(loops, cut, deferred, n_units)
        lines, unpaired = _lines(loops, chords, n_units)
        bad = torch.cat([bad, unpaired])
        triples = None
        if len(bad) == 0:
            triples, bad = _triples(loops, chords, lines, cut.evaluate, n_units)
        if triples is not None and len(bad) == 0:
            met, bad = _meetings(loops, chords, lines, triples, n_units)
            if len(bad) == 0:
                return _pieces(loops, chords, lines, triples, met, cut, deferred)
        deferred = torch.cat([deferred, bad]).unique()


def _borders(curves: Curves, edges: Tensor, n_vertices: int, n_units: int) -> _Loops:
    """Link the edges of each section into a loop."""
    key, order = (curves.cell * n_units + curves.unit).sort()
    group, section, counts = torch.unique_consecutive(key, return_inverse=True, return_counts=True)
    edge = curves.edge.index_select(0, order)
    ends = edges.index_select(0, edge)  # half-edge 2 i + 1 runs along edge i from its second end
    place, half = (section[:, None] * n_vertices + ends).flatten().sort()
    pairs = place.view(-1, 2)
    if not bool((pairs[:, 0] == pairs[:, 1]).all()) or bool((pairs[1:, 0] == pairs[:-1, 1]).any()):
        ends_at, often = torch.unique_consecutive(place, return_counts=True)
        raise Unresolved(group[(ends_at[often != 2] // n_vertices).unique()])
    one, other = half.view(-1, 2).unbind(1)
    following = torch.empty_like(half).scatter_(0, one ^ 1, other).scatter_(0, other ^ 1, one)
    loop, offsets = walk(following, 2 * (counts.cumsum(0) - counts), counts)
    seen = torch.zeros(len(edge), dtype=torch.bool, device=edge.device)
    seen[loop >> 1] = True
    if not bool(seen.all()):
        raise Unresolved(group[section[~seen].unique()])
    corners, sides = ends.flatten().index_select(0, loop), edge.index_select(0, loop >> 1)
    none = group[:0]
    mesh = Mesh(n_vertices, edges, none, none, corners, sides, offsets, none)
    return _Loops(group // n_units, group % n_units, mesh)


def _chords(loops: _Loops, cut: FaceCut, deferred: Tensor, n_units: int) -> tuple[Chords, Tensor]:
    """Straight cuts of the sections, from zero to zero of another unit; and keys of cuts to defer."""
    mesh, vertex = loops.mesh, loops.mesh.corners
    section = mesh.corner_cells()
    slot = (vertex >= cut.first_crossing).nonzero()[:, 0]
    both = cut.crossing_units.sum(1).index_select(0, vertex.index_select(0, slot) - cut.first_crossing)
    other = both - loops.unit.index_select(0, section.index_select(0, slot))
    slot, other = _with_zeros(loops, cut.zeros, section, slot, other, n_units)
    key = section.index_select(0, slot) * n_units + other
    if len(deferred):
        stays = ~torch.isin(loops.cell[section[slot]] * n_units + other, deferred)
        key, slot = key[stays], slot[stays]
    key, order = key.sort()
    slot = slot.index_select(0, order)
    group, counts = torch.unique_consecutive(key, return_counts=True)
    start = counts.cumsum(0) - counts
    two = (counts == 2).nonzero()[:, 0]
    p, of = start.index_select(0, two), group.index_select(0, two)
    p, q = slot.index_select(0, p), slot.index_select(0, p + 1)
    chords, proper = Chords.between(mesh, of // n_units, p, q, of % n_units)
    bad = _scattered(mesh, group, start, counts, slot, n_units)
    if len(chords) < int(proper.sum()):  # three sections through one line
        wanted = of[proper]
        bad = torch.cat([bad, wanted[~torch.isin(wanted, chords.cell * n_units + chords.unit)]])
    return chords, _later(loops, bad, n_units)


def _scattered(mesh: Mesh, group: Tensor, start: Tensor, counts: Tensor, slot: Tensor, n_units: int) -> Tensor:
    """Of groups section * n_units + other with more than two zeros, those that do not lie along one side in a row."""
    many = (counts > 2).nonzero()[:, 0]
    if len(many) == 0:
        return group[many]
    first, last = mesh.offsets[group[many] // n_units], mesh.offsets[group[many] // n_units + 1]
    here = slot[ranges(start[many], counts[many])]
    of = torch.repeat_interleave(counts[many])
    follows = torch.zeros(len(many), dtype=torch.int64, device=slot.device)
    follows.index_add_(0, of[1:], ((here[1:] == here[:-1] + 1) & (of[1:] == of[:-1])).long())
    ends = offsets_of(counts[many])
    follows += (here[ends[:-1]] == first) & (here[ends[1:] - 1] == last - 1)
    return group[many[follows != counts[many] - 1]]


def _later(loops: _Loops, keys: Tensor, n_units: int) -> Tensor:
    """Of keys section * n_units + other, the cut to defer: the later one of the two units in their cell."""
    section = keys // n_units
    return loops.cell[section] * n_units + torch.maximum(loops.unit[section], keys % n_units)


def _with_zeros(
    loops: _Loops, zeros: Tensor, section: Tensor, slot: Tensor, other: Tensor, n_units: int
) -> tuple[Tensor, Tensor]:
    """Add the corners that lie on the zero sets of further units."""
    if len(zeros) == 0:
        return slot, other
    vertex = loops.mesh.corners
    counts = torch.bincount(zeros[:, 0], minlength=loops.mesh.n_vertices)
    more = (counts[vertex] > 0).nonzero()[:, 0]
    repeats = counts[vertex[more]]
    unit = zeros[ranges(offsets_of(counts)[vertex[more]], repeats), 1]
    more = more.repeat_interleave(repeats)
    cell = loops.cell[section[more]]
    new = (unit != loops.unit[section[more]]) & torch.isin(cell * n_units + unit, loops.cell * n_units + loops.unit)
    return torch.cat([slot, more[new]]), torch.cat([other, unit[new]])


def _lines(loops: _Loops, chords: Chords, n_units: int) -> tuple[_Lines, Tensor]:
    """Pair the two chords of each line; and the cuts to defer because a chord has no partner."""
    own = loops.unit.index_select(0, chords.cell)
    low, high = torch.minimum(own, chords.unit), torch.maximum(own, chords.unit)
    key, order = ((loops.cell.index_select(0, chords.cell) * n_units + low) * n_units + high).sort()
    group, counts = torch.unique_consecutive(key, return_counts=True)
    if len(key) != 2 * len(group) or bool((counts != 2).any()):
        lonely = group[counts != 2]
        empty = _Lines(*[group[:0]] * 6)
        return empty, lonely // (n_units * n_units) * n_units + lonely % n_units
    first, second = order[::2], order[1::2]
    swap = own.index_select(0, first) > chords.unit.index_select(0, first)
    first, second = torch.where(swap, second, first), torch.where(swap, first, second)
    corners = loops.mesh.corners
    (a, b), (c, d) = (
        [corners.index_select(0, end.index_select(0, chord)) for end in (chords.p, chords.q)]
        for chord in (first, second)
    )
    turned = c != a
    other = torch.where(turned, d, c)
    wrong = group[other != a]
    return _Lines(group, first, second, a, b, turned), wrong // (n_units * n_units) * n_units + wrong % n_units


def _triples(
    loops: _Loops, chords: Chords, lines: _Lines, units: Evaluate, n_units: int
) -> tuple[_Triples | None, Tensor]:
    """The points of three units, sorted along each line; and the cuts to defer because two are too near."""
    lower = (chords.unit > loops.unit[chords.cell]).nonzero()[:, 0]
    line_of = torch.empty(len(chords), dtype=torch.int64, device=lower.device)
    line_of[lines.low] = torch.arange(len(lines.key), device=lower.device)
    own = chords.keep(lower)
    i, j = alternating_pairs(own)
    v, w = own.unit.index_select(0, i), own.unit.index_select(0, j)
    swap = v > w
    i, j = torch.where(swap, j, i), torch.where(swap, i, j)
    v, w = torch.minimum(v, w), torch.maximum(v, w)
    section = own.cell.index_select(0, i)
    cell, u = loops.cell.index_select(0, section), loops.unit.index_select(0, section)
    third_key = (cell * n_units + v) * n_units + w
    third = torch.searchsorted(lines.key, third_key).clamp(max=max(0, len(lines.key) - 1))
    cut_key = cell * n_units + w
    missing = lines.key[third] != third_key if len(lines.key) else torch.zeros_like(w, dtype=torch.bool)
    if bool(missing.any()):
        return None, cut_key[missing]
    on = torch.stack([line_of[lower[i]], line_of[lower[j]], third])
    line, other = on.flatten(), torch.cat([w, v, u])
    a = lines.a.index_select(0, line)
    up, uq = units(a, other), units(lines.b.index_select(0, line), other)
    tolerance = units.tolerance_at(a, other)
    doubtful = (torch.minimum(up.abs(), uq.abs()) <= tolerance) | (up.sign() == uq.sign())
    t = up / (up - uq)
    order = line.argsort(stable=True)
    order = order.index_select(0, sort_within(line.index_select(0, order), t.index_select(0, order)))
    same = coincident(*(each.index_select(0, order) for each in (line, t, up, uq, tolerance))).nonzero()[:, 0]
    key = cut_key.repeat(3)
    bad = torch.cat([key[doubtful], torch.maximum(key[order[same]], key[order[same + 1]])])
    counts = torch.bincount(line, minlength=len(lines.key))
    rank = torch.empty_like(line)
    rank[order] = torch.arange(len(line), device=line.device) - offsets_of(counts)[line[order]]
    return _Triples(torch.stack([u, v, w], 1), on, rank.view(3, -1), t.view(3, -1), counts), bad


def _meetings(loops: _Loops, chords: Chords, lines: _Lines, triples: _Triples, n_units: int) -> tuple[Meetings, Tensor]:
    """Each point of three units as a crossing of two chords, in each of its three sections."""
    (uv, uw, vw), counts = triples.lines, triples.counts
    backwards = torch.where(lines.turned[triples.lines], counts[triples.lines] - 1 - triples.rank, triples.rank)
    i = torch.cat([lines.low[uv], lines.high[uv], lines.high[uw]])
    j = torch.cat([lines.low[uw], lines.low[vw], lines.high[vw]])
    rank_i = torch.cat([triples.rank[0], backwards[0], backwards[1]])
    rank_j = torch.cat([triples.rank[1], triples.rank[2], backwards[2]])
    swap = i > j
    i, j = torch.where(swap, j, i), torch.where(swap, i, j)
    rank_i, rank_j = torch.where(swap, rank_j, rank_i), torch.where(swap, rank_i, rank_j)
    p, q = chords.p, chords.q
    wrong = ~((p[i] < p[j]) & (p[j] < q[i]) & (q[i] < q[j]))
    cut_key = (lines.key[vw] // (n_units * n_units) * n_units + triples.units[:, 2]).repeat(3)
    none = triples.t[0, :0]
    return Meetings(i, j, none, none, rank_i, rank_j), cut_key[wrong]


def _pieces(
    loops: _Loops, chords: Chords, lines: _Lines, triples: _Triples, met: Meetings, cut: FaceCut, deferred: Tensor
) -> Sections:
    mesh, device = loops.mesh, chords.p.device
    v, n_points = cut.solids.n_vertices, triples.units.shape[0]
    vertex = (v + torch.arange(n_points, device=device)).repeat(3)
    found = divide(mesh, chords, met, vertex)
    edges, sides = _line_parts(lines, triples.counts, found, len(mesh.edges))
    corners, sides, offsets, of_piece = replace(found, sides=sides).with_untouched(mesh)
    uv = triples.lines[0]
    n = mesh.n_cells
    of_line = chords.cell[lines.low]
    return Sections(
        cell=loops.cell,
        unit=loops.unit,
        new=NewVertices(lines.a[uv], lines.b[uv], triples.t[0]),
        new_units=triples.units,
        corners=corners,
        sides=sides,
        offsets=offsets,
        of_piece=of_piece,
        edges=edges,
        n_lines=torch.bincount(of_line, minlength=n),
        n_points=torch.bincount(of_line[uv], minlength=n),
        deferred=deferred,
    )


def _line_parts(lines: _Lines, counts: Tensor, found: CutPieces, n_edges: int) -> tuple[Tensor, Tensor]:
    """The parts of each line as edges, once; and the sides of the pieces, numbered accordingly."""
    start = offsets_of(counts + 1)
    total = len(found.nodes) // 2
    line = torch.repeat_interleave(counts + 1, output_size=total)
    rank = torch.arange(total, device=line.device) - start[line]
    low = found.parts[lines.low][line] + rank
    high = found.parts[lines.high][line] + torch.where(lines.turned[line], counts[line] - rank, rank)
    number = torch.empty(len(found.nodes), dtype=torch.int64, device=line.device)
    number[low] = number[high] = n_edges + torch.arange(total, device=line.device)
    sides = torch.cat([torch.arange(n_edges, device=line.device), number])[found.sides]
    return found.nodes[low], sides
