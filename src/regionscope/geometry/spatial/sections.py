"""The second half of a cut in space: every cell cut by all units that cross it, once its faces are cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.crossing import coincident
from regionscope.geometry.planar.arrangement import (
    Chords,
    CutPieces,
    Evaluate,
    Meetings,
    alternating_pairs,
    cut_pieces,
    walk,
)
from regionscope.geometry.planar.mesh import Mesh
from regionscope.geometry.polytope.cut import NewVertices
from regionscope.geometry.ragged import offsets_of, owners, ranges, runs, sort_within
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
class Loops:
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
    one of a cell is never left out. Raises ``Unresolved`` with the keys of sections whose border is not one loop of at
    least three edges.
    """
    while True:
        curves = cut.curves
        if len(deferred):
            curves = curves.keep(~xp.isin(curves.cell * n_units + curves.unit, deferred))
        loops = linked(curves, cut.solids.edges, cut.solids.n_vertices, n_units)
        chords, bad = _chords(loops, cut, deferred, n_units)
        lines, unpaired = _lines(loops, chords, n_units)
        bad = xp.cat([bad, unpaired])
        triples = None
        if len(bad) == 0:
            triples, bad = _triples(loops, chords, lines, cut.evaluate, n_units)
        if triples is not None and len(bad) == 0:
            met, bad = _meetings(chords, lines, triples, n_units)
            if len(bad) == 0:
                return _pieces(loops, chords, lines, triples, met, cut=cut, deferred=deferred)
        deferred = xp.unique(xp.cat([deferred, bad]))


def linked(curves: Curves, edges: Tensor, n_vertices: int, n_units: int) -> Loops:
    """Link the edges of each section into a loop."""
    key, order = xp.sort(curves.cell * n_units + curves.unit)
    first, counts = runs(key)
    group, section = xp.take(key, first), xp.repeat(xp.arange(len(first), first), counts, len(key))
    if bool((counts < 3).any()):  # two edges with the same ends
        raise Unresolved(group[counts < 3])
    edge = xp.take(curves.edge, order)
    ends = xp.take(edges, edge)  # half-edge 2 i + 1 runs along edge i from its second end
    place, half = xp.sort((section[:, None] * n_vertices + ends).reshape(-1))
    pairs = place.reshape(-1, 2)
    if not bool((pairs[:, 0] == pairs[:, 1]).all()) or bool((pairs[1:, 0] == pairs[:-1, 1]).any()):
        start, often = runs(place)
        raise Unresolved(group[xp.unique(place[start[often != 2]] // n_vertices)])
    one, other = half[::2], half[1::2]
    following = xp.empty(len(half), half)
    xp.put(following, one ^ 1, other)
    xp.put(following, other ^ 1, one)
    loop, offsets = walk(following, 2 * first, counts)
    seen = xp.mask(len(edge), False, edge)
    seen[loop >> 1] = True
    if not bool(seen.all()):
        raise Unresolved(group[xp.unique(section[~seen])])
    corners, sides = xp.take(ends.reshape(-1), loop), xp.take(edge, loop >> 1)
    none = group[:0]
    mesh = Mesh(n_vertices, edges, none, none, corners, sides, offsets, none)
    return Loops(*xp.quotients(group, n_units), mesh)


def _chords(loops: Loops, cut: FaceCut, deferred: Tensor, n_units: int) -> tuple[Chords, Tensor]:
    """Straight cuts of the sections, from zero to zero of another unit; and keys of cuts to defer."""
    mesh, vertex = loops.mesh, loops.mesh.corners
    section = mesh.corner_cells()
    slot = xp.nonzero(vertex >= cut.first_crossing)
    units = xp.take(cut.crossing_units, xp.take(vertex, slot) - cut.first_crossing)
    other = units[:, 0] + units[:, 1] - xp.take(loops.unit, xp.take(section, slot))
    slot, other = _with_zeros(loops, cut.zeros, section, slot, other, n_units)
    key = xp.take(section, slot) * n_units + other
    if len(deferred):
        stays = ~xp.isin(loops.cell[section[slot]] * n_units + other, deferred)
        key, slot = key[stays], slot[stays]
    key, order = xp.sort(key)
    slot = xp.take(slot, order)
    start, counts = runs(key)
    group = xp.take(key, start)
    two = xp.nonzero(counts == 2)
    p, of = xp.take(start, two), xp.take(group, two)
    p, q = xp.take(slot, p), xp.take(slot, p + 1)
    section, unit = xp.quotients(of, n_units)
    chords, proper = Chords.between(mesh, section, p, q, unit)
    bad = _scattered(mesh, group, start, counts, slot, n_units)
    if len(chords) < int(proper.sum()):  # three sections through one line
        wanted = of[proper]
        bad = xp.cat([bad, wanted[~xp.isin(wanted, chords.cell * n_units + chords.unit)]])
    return chords, _later(loops, bad, n_units)


def _scattered(mesh: Mesh, group: Tensor, start: Tensor, counts: Tensor, slot: Tensor, n_units: int) -> Tensor:
    """Of groups section * n_units + other with more than two zeros, those that do not lie along one side in a row."""
    many = xp.nonzero(counts > 2)
    if len(many) == 0:
        return group[many]
    first, last = mesh.offsets[group[many] // n_units], mesh.offsets[group[many] // n_units + 1]
    slots = slot[ranges(start[many], counts[many])]
    ends = offsets_of(counts[many])
    of = owners(ends, len(slots))
    follows = xp.bincount(of[1:][(slots[1:] == slots[:-1] + 1) & (of[1:] == of[:-1])], len(many))
    follows += (slots[ends[:-1]] == first) & (slots[ends[1:] - 1] == last - 1)
    return group[many[follows != counts[many] - 1]]


def _later(loops: Loops, keys: Tensor, n_units: int) -> Tensor:
    """Of keys section * n_units + other, the cut to defer: the later one of the two units in their cell."""
    section = keys // n_units
    return loops.cell[section] * n_units + xp.maximum(loops.unit[section], keys % n_units)


def _with_zeros(
    loops: Loops, zeros: Tensor, section: Tensor, slot: Tensor, other: Tensor, n_units: int
) -> tuple[Tensor, Tensor]:
    """Add the corners that lie on the zero sets of further units."""
    if len(zeros) == 0:
        return slot, other
    vertex = loops.mesh.corners
    counts = xp.bincount(zeros[:, 0], loops.mesh.n_vertices)
    corner = xp.nonzero(counts[vertex] > 0)
    repeats = counts[vertex[corner]]
    unit = zeros[ranges(offsets_of(counts)[vertex[corner]], repeats), 1]
    corner = xp.repeat(corner, repeats)
    cell = loops.cell[section[corner]]
    new = (unit != loops.unit[section[corner]]) & xp.isin(cell * n_units + unit, loops.cell * n_units + loops.unit)
    return xp.cat([slot, corner[new]]), xp.cat([other, unit[new]])


def _lines(loops: Loops, chords: Chords, n_units: int) -> tuple[_Lines, Tensor]:
    """Pair the two chords of each line; and the cuts to defer because a chord has no partner."""
    section_unit = xp.take(loops.unit, chords.cell)
    low, high = xp.minimum(section_unit, chords.unit), xp.maximum(section_unit, chords.unit)
    key, order = xp.sort((xp.take(loops.cell, chords.cell) * n_units + low) * n_units + high)
    start, counts = runs(key)
    group = xp.take(key, start)
    if len(key) != 2 * len(group) or bool((counts != 2).any()):
        lonely = group[counts != 2]
        return _Lines(*[group[:0]] * 6), lonely // (n_units * n_units) * n_units + lonely % n_units
    first, second = order[::2], order[1::2]
    swap = xp.take(section_unit, first) > xp.take(chords.unit, first)
    first, second = xp.where(swap, second, first), xp.where(swap, first, second)
    corners = loops.mesh.corners
    (a, b), (c, d) = (
        [xp.take(corners, xp.take(end, chord)) for end in (chords.p, chords.q)] for chord in (first, second)
    )
    turned = c != a
    wrong = group[xp.where(turned, d, c) != a]
    return _Lines(group, first, second, a, b, turned), wrong // (n_units * n_units) * n_units + wrong % n_units


def _triples(
    loops: Loops, chords: Chords, lines: _Lines, units: Evaluate, n_units: int
) -> tuple[_Triples | None, Tensor]:
    """The points of three units, sorted along each line; and the cuts to defer because two are too near."""
    lower = xp.nonzero(chords.unit > xp.take(loops.unit, chords.cell))
    line_of = xp.empty(len(chords), lower)
    xp.put(line_of, lines.low, xp.arange(len(lines.key), lower))
    lower_chords = chords.keep(lower)
    i, j = alternating_pairs(lower_chords)
    swap = xp.take(lower_chords.unit, i) > xp.take(lower_chords.unit, j)
    i, j = xp.where(swap, j, i), xp.where(swap, i, j)
    v, w = xp.take(lower_chords.unit, i), xp.take(lower_chords.unit, j)
    section = xp.take(lower_chords.cell, i)
    cell, u = xp.take(loops.cell, section), xp.take(loops.unit, section)
    third_key, cut_key = (cell * n_units + v) * n_units + w, cell * n_units + w
    third = xp.searchsorted(lines.key, third_key)
    missing = xp.take(xp.cat([lines.key, xp.full(1, -1, third)]), third) != third_key
    if bool(missing.any()):
        return None, cut_key[missing]
    on = xp.take(line_of, xp.take(lower, i)), xp.take(line_of, xp.take(lower, j)), third
    line, other = xp.cat(on), xp.cat([w, v, u])
    a = xp.take(lines.a, line)
    up, uq = units(a, other), units(xp.take(lines.b, line), other)
    tolerance = units.tolerance_at(a, other)
    doubtful = (xp.minimum(abs(up), abs(uq)) <= tolerance) | ((up > 0) == (uq > 0))
    t = up / (up - uq)
    order = xp.argsort(line)
    order = xp.take(order, sort_within(xp.take(line, order), xp.take(t, order)))
    same = xp.nonzero(coincident(*(xp.take(column, order) for column in (line, t, up, uq, tolerance))))
    key = xp.cat([cut_key, cut_key, cut_key])
    bad = xp.cat([key[doubtful], xp.maximum(key[order[same]], key[order[same + 1]])])
    counts = xp.bincount(line, len(lines.key))
    rank = xp.empty(len(line), line)
    xp.put(rank, order, xp.arange(len(line), line) - xp.take(offsets_of(counts), xp.take(line, order)))
    return _Triples(xp.stack(u, v, w), line.reshape(3, -1), rank.reshape(3, -1), t.reshape(3, -1), counts), bad


def _meetings(chords: Chords, lines: _Lines, triples: _Triples, n_units: int) -> tuple[Meetings, Tensor]:
    """Each point of three units as a crossing of two chords, in each of its three sections."""
    uv, uw, vw = triples.lines
    rank = triples.rank
    backwards = [
        xp.where(xp.take(lines.turned, line), xp.take(triples.counts, line) - 1 - place, place)
        for line, place in zip((uv, uw, vw), rank, strict=True)
    ]
    i = xp.cat([xp.take(lines.low, uv), xp.take(lines.high, uv), xp.take(lines.high, uw)])
    j = xp.cat([xp.take(lines.low, uw), xp.take(lines.low, vw), xp.take(lines.high, vw)])
    rank_i, rank_j = xp.cat([rank[0], backwards[0], backwards[1]]), xp.cat([rank[1], rank[2], backwards[2]])
    swap = i > j
    i, j = xp.where(swap, j, i), xp.where(swap, i, j)
    rank_i, rank_j = xp.where(swap, rank_j, rank_i), xp.where(swap, rank_i, rank_j)
    (p_i, q_i), (p_j, q_j) = ((xp.take(chords.p, x), xp.take(chords.q, x)) for x in (i, j))
    wrong = xp.nonzero(~((p_i < p_j) & (p_j < q_i) & (q_i < q_j))) % max(1, len(uv))
    cut_key = xp.take(lines.key, vw) // (n_units * n_units) * n_units + triples.units[:, 2]
    none = triples.t[0, :0]
    return Meetings(i, j, none, rank_i, rank_j), xp.take(cut_key, wrong)


def _pieces(
    loops: Loops, chords: Chords, lines: _Lines, triples: _Triples, met: Meetings, *, cut: FaceCut, deferred: Tensor
) -> Sections:
    mesh = loops.mesh
    vertex = cut.solids.n_vertices + xp.arange(len(triples.units), chords.p)
    pieces = cut_pieces(mesh, chords, met, xp.cat([vertex, vertex, vertex]))
    edges, sides = _line_parts(lines, triples.counts, pieces, len(mesh.edges))
    corners, sides, offsets, of_piece = replace(pieces, sides=sides).with_untouched(mesh)
    uv = triples.lines[0]
    n = mesh.n_cells
    of_line = xp.take(chords.cell, lines.low)
    return Sections(
        cell=loops.cell,
        unit=loops.unit,
        new=NewVertices(xp.take(lines.a, uv), xp.take(lines.b, uv), triples.t[0]),
        new_units=triples.units,
        corners=corners,
        sides=sides,
        offsets=offsets,
        of_piece=of_piece,
        edges=edges,
        n_lines=xp.bincount(of_line, n),
        n_points=xp.bincount(xp.take(of_line, uv), n),
        deferred=deferred,
    )


def _line_parts(lines: _Lines, counts: Tensor, pieces: CutPieces, n_edges: int) -> tuple[Tensor, Tensor]:
    """The parts of each line as edges, once; and the sides of the pieces, numbered accordingly."""
    start = offsets_of(counts + 1)
    total = len(pieces.nodes) // 2
    line = owners(start, total)
    rank = xp.arange(total, line) - xp.take(start, line)
    low = xp.take(xp.take(pieces.parts, lines.low), line) + rank
    turned = xp.where(xp.take(lines.turned, line), xp.take(counts, line) - rank, rank)
    high = xp.take(xp.take(pieces.parts, lines.high), line) + turned
    number = xp.empty(n_edges + len(pieces.nodes), line)
    number[:n_edges] = xp.arange(n_edges, line)
    for part in (low, high):
        xp.put(number, n_edges + part, n_edges + xp.arange(total, line))
    return xp.take(pieces.nodes, low), xp.take(number, pieces.sides)
