"""The second half of a cut in space: every cell divided by all units that cross it, once its faces are divided."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from regionscope.geometry.arrays import (
    arange,
    argsort,
    bincount,
    cat,
    empty,
    full,
    isin,
    mask,
    maximum,
    minimum,
    nonzero,
    put,
    quotients,
    repeat,
    searchsorted,
    sort,
    stack,
    take,
    unique,
    where,
)
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
    one of a cell is never left out. Raises ``Unresolved`` with the keys of sections whose border is not one loop.
    """
    while True:
        curves = cut.curves
        if len(deferred):
            curves = curves.keep(~isin(curves.cell * n_units + curves.unit, deferred))
        loops = linked(curves, cut.solids.edges, cut.solids.n_vertices, n_units)
        chords, bad = _chords(loops, cut, deferred, n_units)
        lines, unpaired = _lines(loops, chords, n_units)
        bad = cat([bad, unpaired])
        triples = None
        if len(bad) == 0:
            triples, bad = _triples(loops, chords, lines, cut.evaluate, n_units)
        if triples is not None and len(bad) == 0:
            met, bad = _meetings(loops, chords, lines, triples, n_units)
            if len(bad) == 0:
                return _pieces(loops, chords, lines, triples, met, cut=cut, deferred=deferred)
        deferred = unique(cat([deferred, bad]))


def linked(curves: Curves, edges: Tensor, n_vertices: int, n_units: int) -> Loops:
    """Link the edges of each section into a loop."""
    key, order = sort(curves.cell * n_units + curves.unit)
    first, counts = runs(key)
    group, section = take(key, first), repeat(arange(len(first), first), counts, len(key))
    edge = take(curves.edge, order)
    ends = take(edges, edge)  # half-edge 2 i + 1 runs along edge i from its second end
    place, half = sort((section[:, None] * n_vertices + ends).reshape(-1))
    pairs = place.reshape(-1, 2)
    if not bool((pairs[:, 0] == pairs[:, 1]).all()) or bool((pairs[1:, 0] == pairs[:-1, 1]).any()):
        start, often = runs(place)
        raise Unresolved(group[unique(place[start[often != 2]] // n_vertices)])
    one, other = half[::2], half[1::2]
    following = empty(len(half), half)
    put(following, one ^ 1, other)
    put(following, other ^ 1, one)
    loop, offsets = walk(following, 2 * first, counts)
    seen = mask(len(edge), False, edge)
    seen[loop >> 1] = True
    if not bool(seen.all()):
        raise Unresolved(group[unique(section[~seen])])
    corners, sides = take(ends.reshape(-1), loop), take(edge, loop >> 1)
    none = group[:0]
    mesh = Mesh(n_vertices, edges, none, none, corners, sides, offsets, none)
    return Loops(*quotients(group, n_units), mesh)


def _chords(loops: Loops, cut: FaceCut, deferred: Tensor, n_units: int) -> tuple[Chords, Tensor]:
    """Straight cuts of the sections, from zero to zero of another unit; and keys of cuts to defer."""
    mesh, vertex = loops.mesh, loops.mesh.corners
    section = mesh.corner_cells()
    slot = nonzero(vertex >= cut.first_crossing)
    units = take(cut.crossing_units, take(vertex, slot) - cut.first_crossing)
    other = units[:, 0] + units[:, 1] - take(loops.unit, take(section, slot))
    slot, other = _with_zeros(loops, cut.zeros, section, slot, other, n_units)
    key = take(section, slot) * n_units + other
    if len(deferred):
        stays = ~isin(loops.cell[section[slot]] * n_units + other, deferred)
        key, slot = key[stays], slot[stays]
    key, order = sort(key)
    slot = take(slot, order)
    start, counts = runs(key)
    group = take(key, start)
    two = nonzero(counts == 2)
    p, of = take(start, two), take(group, two)
    p, q = take(slot, p), take(slot, p + 1)
    section, unit = quotients(of, n_units)
    chords, proper = Chords.between(mesh, section, p, q, unit)
    bad = _scattered(mesh, group, start, counts, slot, n_units)
    if len(chords) < int(proper.sum()):  # three sections through one line
        wanted = of[proper]
        bad = cat([bad, wanted[~isin(wanted, chords.cell * n_units + chords.unit)]])
    return chords, _later(loops, bad, n_units)


def _scattered(mesh: Mesh, group: Tensor, start: Tensor, counts: Tensor, slot: Tensor, n_units: int) -> Tensor:
    """Of groups section * n_units + other with more than two zeros, those that do not lie along one side in a row."""
    many = nonzero(counts > 2)
    if len(many) == 0:
        return group[many]
    first, last = mesh.offsets[group[many] // n_units], mesh.offsets[group[many] // n_units + 1]
    here = slot[ranges(start[many], counts[many])]
    ends = offsets_of(counts[many])
    of = owners(ends, len(here))
    follows = bincount(of[1:][(here[1:] == here[:-1] + 1) & (of[1:] == of[:-1])], len(many))
    follows += (here[ends[:-1]] == first) & (here[ends[1:] - 1] == last - 1)
    return group[many[follows != counts[many] - 1]]


def _later(loops: Loops, keys: Tensor, n_units: int) -> Tensor:
    """Of keys section * n_units + other, the cut to defer: the later one of the two units in their cell."""
    section = keys // n_units
    return loops.cell[section] * n_units + maximum(loops.unit[section], keys % n_units)


def _with_zeros(
    loops: Loops, zeros: Tensor, section: Tensor, slot: Tensor, other: Tensor, n_units: int
) -> tuple[Tensor, Tensor]:
    """Add the corners that lie on the zero sets of further units."""
    if len(zeros) == 0:
        return slot, other
    vertex = loops.mesh.corners
    counts = bincount(zeros[:, 0], loops.mesh.n_vertices)
    more = nonzero(counts[vertex] > 0)
    repeats = counts[vertex[more]]
    unit = zeros[ranges(offsets_of(counts)[vertex[more]], repeats), 1]
    more = repeat(more, repeats)
    cell = loops.cell[section[more]]
    new = (unit != loops.unit[section[more]]) & isin(cell * n_units + unit, loops.cell * n_units + loops.unit)
    return cat([slot, more[new]]), cat([other, unit[new]])


def _lines(loops: Loops, chords: Chords, n_units: int) -> tuple[_Lines, Tensor]:
    """Pair the two chords of each line; and the cuts to defer because a chord has no partner."""
    own = take(loops.unit, chords.cell)
    low, high = minimum(own, chords.unit), maximum(own, chords.unit)
    key, order = sort((take(loops.cell, chords.cell) * n_units + low) * n_units + high)
    start, counts = runs(key)
    group = take(key, start)
    if len(key) != 2 * len(group) or bool((counts != 2).any()):
        lonely = group[counts != 2]
        return _Lines(*[group[:0]] * 6), lonely // (n_units * n_units) * n_units + lonely % n_units
    first, second = order[::2], order[1::2]
    swap = take(own, first) > take(chords.unit, first)
    first, second = where(swap, second, first), where(swap, first, second)
    corners = loops.mesh.corners
    (a, b), (c, d) = ([take(corners, take(end, chord)) for end in (chords.p, chords.q)] for chord in (first, second))
    turned = c != a
    wrong = group[where(turned, d, c) != a]
    return _Lines(group, first, second, a, b, turned), wrong // (n_units * n_units) * n_units + wrong % n_units


def _triples(
    loops: Loops, chords: Chords, lines: _Lines, units: Evaluate, n_units: int
) -> tuple[_Triples | None, Tensor]:
    """The points of three units, sorted along each line; and the cuts to defer because two are too near."""
    lower = nonzero(chords.unit > take(loops.unit, chords.cell))
    line_of = empty(len(chords), lower)
    put(line_of, lines.low, arange(len(lines.key), lower))
    own = chords.keep(lower)
    i, j = alternating_pairs(own)
    swap = take(own.unit, i) > take(own.unit, j)
    i, j = where(swap, j, i), where(swap, i, j)
    v, w = take(own.unit, i), take(own.unit, j)
    section = take(own.cell, i)
    cell, u = take(loops.cell, section), take(loops.unit, section)
    third_key, cut_key = (cell * n_units + v) * n_units + w, cell * n_units + w
    third = searchsorted(lines.key, third_key)
    missing = take(cat([lines.key, full(1, -1, third)]), third) != third_key
    if bool(missing.any()):
        return None, cut_key[missing]
    on = take(line_of, take(lower, i)), take(line_of, take(lower, j)), third
    line, other = cat(on), cat([w, v, u])
    a = take(lines.a, line)
    up, uq = units(a, other), units(take(lines.b, line), other)
    tolerance = units.tolerance_at(a, other)
    doubtful = (minimum(abs(up), abs(uq)) <= tolerance) | ((up > 0) == (uq > 0))
    t = up / (up - uq)
    order = argsort(line)
    order = take(order, sort_within(take(line, order), take(t, order)))
    same = nonzero(coincident(*(take(each, order) for each in (line, t, up, uq, tolerance))))
    key = cat([cut_key, cut_key, cut_key])
    bad = cat([key[doubtful], maximum(key[order[same]], key[order[same + 1]])])
    counts = bincount(line, len(lines.key))
    rank = empty(len(line), line)
    put(rank, order, arange(len(line), line) - take(offsets_of(counts), take(line, order)))
    return _Triples(stack(u, v, w), line.reshape(3, -1), rank.reshape(3, -1), t.reshape(3, -1), counts), bad


def _meetings(loops: Loops, chords: Chords, lines: _Lines, triples: _Triples, n_units: int) -> tuple[Meetings, Tensor]:
    """Each point of three units as a crossing of two chords, in each of its three sections."""
    uv, uw, vw = triples.lines
    rank = triples.rank
    backwards = [
        where(take(lines.turned, line), take(triples.counts, line) - 1 - own, own)
        for line, own in zip((uv, uw, vw), rank, strict=True)
    ]
    i = cat([take(lines.low, uv), take(lines.high, uv), take(lines.high, uw)])
    j = cat([take(lines.low, uw), take(lines.low, vw), take(lines.high, vw)])
    rank_i, rank_j = cat([rank[0], backwards[0], backwards[1]]), cat([rank[1], rank[2], backwards[2]])
    swap = i > j
    i, j = where(swap, j, i), where(swap, i, j)
    rank_i, rank_j = where(swap, rank_j, rank_i), where(swap, rank_i, rank_j)
    (p_i, q_i), (p_j, q_j) = ((take(chords.p, x), take(chords.q, x)) for x in (i, j))
    wrong = nonzero(~((p_i < p_j) & (p_j < q_i) & (q_i < q_j))) % max(1, len(uv))
    cut_key = take(lines.key, vw) // (n_units * n_units) * n_units + triples.units[:, 2]
    none = triples.t[0, :0]
    return Meetings(i, j, none, none, rank_i, rank_j), take(cut_key, wrong)


def _pieces(
    loops: Loops, chords: Chords, lines: _Lines, triples: _Triples, met: Meetings, *, cut: FaceCut, deferred: Tensor
) -> Sections:
    mesh = loops.mesh
    vertex = cut.solids.n_vertices + arange(len(triples.units), chords.p)
    found = divide(mesh, chords, met, cat([vertex, vertex, vertex]))
    edges, sides = _line_parts(lines, triples.counts, found, len(mesh.edges))
    corners, sides, offsets, of_piece = replace(found, sides=sides).with_untouched(mesh)
    uv = triples.lines[0]
    n = mesh.n_cells
    of_line = take(chords.cell, lines.low)
    return Sections(
        cell=loops.cell,
        unit=loops.unit,
        new=NewVertices(take(lines.a, uv), take(lines.b, uv), triples.t[0]),
        new_units=triples.units,
        corners=corners,
        sides=sides,
        offsets=offsets,
        of_piece=of_piece,
        edges=edges,
        n_lines=bincount(of_line, n),
        n_points=bincount(take(of_line, uv), n),
        deferred=deferred,
    )


def _line_parts(lines: _Lines, counts: Tensor, found: CutPieces, n_edges: int) -> tuple[Tensor, Tensor]:
    """The parts of each line as edges, once; and the sides of the pieces, numbered accordingly."""
    start = offsets_of(counts + 1)
    total = len(found.nodes) // 2
    line = owners(start, total)
    rank = arange(total, line) - take(start, line)
    low = take(take(found.parts, lines.low), line) + rank
    turned = where(take(lines.turned, line), take(counts, line) - rank, rank)
    high = take(take(found.parts, lines.high), line) + turned
    number = empty(n_edges + len(found.nodes), line)
    number[:n_edges] = arange(n_edges, line)
    for part in (low, high):
        put(number, n_edges + part, n_edges + arange(total, line))
    return take(found.nodes, low), take(number, found.sides)
