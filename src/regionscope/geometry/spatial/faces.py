"""The first half of a cut in space: points on the edges, and the faces cut along the zero lines of all units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.crossing import Crossings, Points, SignTable, Units, codes_of
from regionscope.geometry.planar.arrangement import Chords, Meetings, cut_pieces, meetings
from regionscope.geometry.planar.cut import OnPoints, edge_points, ends_at_vertices
from regionscope.geometry.polytope.cut import NewVertices
from regionscope.geometry.ragged import gather_rows, offsets_of, owners, ranges, runs
from regionscope.geometry.spatial.solids import Solids


class Unresolved(ArithmeticError):
    """Rounding left signs that fit no flat cut: those of the cells, or of keys cell * n_units + unit, in ``where``."""

    def __init__(self, where: Tensor) -> None:
        super().__init__(where)
        self.where = where


@dataclass(frozen=True)
class Curves:
    """Edges (s,) on the border of a cell (s,) along which a unit (s,) that cuts the cell vanishes."""

    cell: Tensor
    unit: Tensor
    edge: Tensor

    def keep(self, chosen: Tensor) -> Curves:
        """The entries of a mask or an index."""
        return Curves(self.cell[chosen], self.unit[chosen], self.edge[chosen])


@dataclass(frozen=True)
class OnCrossings:
    """Values of units at old vertices, points on edges and crossings, each interpolated from those before."""

    on_points: OnPoints
    first: Tensor
    second: Tensor
    t: Tensor

    def __call__(self, vertices: Tensor, units: Tensor) -> Tensor:
        a, b, t = (xp.take(x, vertices) for x in (self.first, self.second, self.t))
        return xp.lerp(self.on_points(a, units), self.on_points(b, units), t)

    def tolerance_at(self, vertices: Tensor, units: Tensor) -> Tensor:
        """How near to zero counts as zero for these units at these vertices."""
        return self.on_points.tolerance_at(xp.take(self.first, vertices), units)


@dataclass(frozen=True)
class FaceCut:
    """Solids whose faces are cut along the zero lines of the units, while the cells are still whole.

    solids: with the new vertices and edges. Its ``cells`` are the old ones.
    new: two batches of new vertices: the points on edges, then the crossings of two lines in a face.
    evaluate: values of the units at all of these vertices.
    first_crossing, crossing_units: number of the first crossing, and the two units (x, 2) of each.
    point_zeros: (y, 2) pairs of a point on an edge and a unit that makes it.
    zeros: (z, 2) pairs of an old vertex or a point at which several units vanish, and one of these; sorted by vertex.
    curves: where the sections of the cells meet their faces.
    deferred: keys cell * n_units + unit of cuts that have to wait until the new vertices have their values.
    snapped: old vertices at which rounding hides a sign or the place of a fold, once for each time.
    """

    solids: Solids
    new: tuple[NewVertices, NewVertices]
    evaluate: OnCrossings
    first_crossing: int
    crossing_units: Tensor
    point_zeros: Tensor
    zeros: Tensor
    curves: Curves
    deferred: Tensor
    snapped: Tensor


@dataclass(frozen=True)
class _EdgeCut:
    """Faces with points in their sides: ``start`` (c,) is the new place of each corner, ``first`` (e,) the first part
    of each old edge. ``slot``, ``face``, ``unit`` (x,): corners at which a unit crosses an edge of a face.
    """

    solids: Solids
    points: Points
    crossings: Crossings
    start: Tensor
    first: Tensor
    slot: Tensor
    face: Tensor
    unit: Tensor


def cut_faces(solids: Solids, units: Units, table: SignTable, faces: Tensor | None = None) -> FaceCut:
    """Cut the faces (all, or the listed ones) along the zero lines of all units.

    Where the signs around a face fit no straight line, vertices on the zero set (in ``table``) take the sign of their
    value instead. Cost: one scan of the signs (edges x units bytes), plus work in proportion to the new vertices.
    """
    n, loops = table.n_units, solids.loops
    while True:
        points, crossings = edge_points(loops, units, table, faces)
        points = Points(points.edge, _between(points.t))
        edge_cut = _cut_edges(solids, points, crossings)
        corner, unit, snapped = ends_at_vertices(loops, units, table, faces)
        slot = xp.cat([edge_cut.slot, xp.take(edge_cut.start, corner)])
        face = xp.cat([edge_cut.face, xp.searchsorted(solids.offsets, corner, right=True) - 1])
        key, order = xp.sort(face * n + xp.cat([edge_cut.unit, unit]))
        slot = xp.take(slot, order)
        first, counts = runs(key)
        group = xp.take(key, first)
        if len(key) == 2 * len(group) and bool((counts == 2).all()):
            break
        loosen(solids.corners, solids.offsets, group[counts != 2], units, table)
        faces = None  # more faces may have vertices with both signs now
    whole = edge_cut.solids.loops
    face, unit = xp.quotients(group, n)
    chords, proper = Chords.between(whole, face, slot[::2], slot[1::2], unit)
    evaluate = OnPoints.of(loops, edge_cut.points, units)
    chords, met, _ = meetings(whole, chords, evaluate)
    wanted = group[proper]
    left_out = wanted[:0] if len(chords) == len(wanted) else wanted[~xp.isin(wanted, chords.cell * n + chords.unit)]
    waiting = solids.cells[left_out // n]
    deferred = xp.unique((waiting * n + left_out[:, None] % n)[waiting >= 0])
    return _cut_along(solids, table, edge_cut, chords, met, evaluate=evaluate, deferred=deferred, snapped=snapped)


def _between(t: Tensor) -> Tensor:
    """Between 0 and 1, also where a sign that was inherited differs from that of a value near zero."""
    if isinstance(t, np.ndarray):
        return xp.numpy.nan_to_num(t, nan=0.5).clip(0, 1)
    return t.nan_to_num(0.5).clamp(0, 1)


def _cut_along(
    solids: Solids, table: SignTable, edge_cut: _EdgeCut, chords: Chords, met: Meetings, *,
    evaluate: OnPoints, deferred: Tensor, snapped: Tensor,
) -> FaceCut:  # fmt: skip
    whole, loops = edge_cut.solids, edge_cut.solids.loops
    pieces = cut_pieces(loops, chords, met, whole.n_vertices + xp.arange(len(met), whole.edges))
    corners, sides, offsets, old_face = pieces.with_untouched(loops)
    cut = replace(
        whole,
        n_vertices=whole.n_vertices + len(met),
        edges=xp.cat([whole.edges, pieces.nodes]),
        corners=corners,
        sides=sides,
        offsets=offsets,
        cells=xp.take(whole.cells, old_face),
        wall=xp.take(whole.wall, old_face),
    )
    zeros, along_edges = _zero_edges(solids, table, edge_cut)
    ends = xp.take(solids.edges, edge_cut.points.edge)
    c, d = (xp.take(whole.corners, xp.take(end, met.i)) for end in (chords.p, chords.q))
    number = xp.arange(whole.n_vertices, c)
    zero = xp.double(xp.full(whole.n_vertices, 0, c))
    return FaceCut(
        solids=cut,
        new=(NewVertices(ends[:, 0], ends[:, 1], edge_cut.points.t), NewVertices(c, d, met.t_i)),
        evaluate=OnCrossings(evaluate, xp.cat([number, c]), xp.cat([number, d]), xp.cat([zero, met.t_i])),
        first_crossing=whole.n_vertices,
        crossing_units=xp.stack(xp.take(chords.unit, met.i), xp.take(chords.unit, met.j)),
        zeros=zeros,
        point_zeros=xp.stack(solids.n_vertices + edge_cut.crossings.point, edge_cut.crossings.unit),
        curves=_on_faces(whole, chords, pieces.parts, len(pieces.nodes), along_edges),
        deferred=deferred,
        snapped=xp.cat([snapped, xp.take(solids.edges[:, 0], edge_cut.crossings.hidden)]),
    )


def _on_faces(whole: Solids, chords: Chords, parts: Tensor, m: int, more: Curves) -> Curves:
    """The parts of the chords, each for the cells on both sides of its face, and ``more``."""
    number = owners(parts, m)
    unit, cells = xp.take(chords.unit, number), xp.take(whole.cells, xp.take(chords.cell, number))
    edge = len(whole.edges) + xp.arange(m, unit)
    both = xp.nonzero(cells[:, 1] >= 0)
    return Curves(
        xp.cat([cells[:, 0], xp.take(cells[:, 1], both), more.cell]),
        xp.cat([unit, xp.take(unit, both), more.unit]),
        xp.cat([edge, xp.take(edge, both), more.edge]),
    )


def _cut_edges(solids: Solids, points: Points, crossings: Crossings) -> _EdgeCut:
    """Put new vertices into edges and into all faces around them. Vertex ``n_vertices + i`` is point i."""
    e, p, v = len(solids.edges), len(points), solids.n_vertices
    counts = xp.bincount(points.edge, e)
    before = offsets_of(counts)[:-1]  # number of the first point on each edge
    first = xp.arange(e, counts) + before
    index = xp.arange(p, counts)
    flat = xp.empty(2 * (e + p), counts)
    place = 2 * (points.edge + index)  # of the part that ends in the point
    for slots, vertex in (
        (2 * first, solids.edges[:, 0]), (2 * (first + counts) + 1, solids.edges[:, 1]),
        (place + 1, v + index), (place + 2, v + index),
    ):  # fmt: skip
        xp.put(flat, slots, vertex)

    extra = xp.take(counts, solids.sides)
    total = offsets_of(extra)
    start = xp.arange(len(extra), counts) + total[:-1]
    crossed = xp.nonzero(extra > 0)
    side, k, corner = (xp.take(x, crossed) for x in (solids.sides, extra, solids.corners))
    forwards = corner == xp.take(solids.edges[:, 0], side)
    corners = xp.empty(len(extra) + int(total[-1]), counts)
    sides = xp.empty(len(corners), counts)
    xp.put(corners, start, solids.corners)
    xp.put(sides, start, xp.take(first, solids.sides))
    back = xp.nonzero(~forwards)
    sides[xp.take(start, xp.take(crossed, back))] += xp.take(k, back)
    ends = offsets_of(k)
    of = owners(ends)
    step = xp.arange(len(of), of) - xp.take(ends, of)  # of the point along the side
    ahead, whole_side = xp.take(forwards, of), xp.take(side, of)
    rank = xp.where(ahead, step, xp.take(k, of) - 1 - step)
    slot = xp.take(xp.take(start, crossed), of) + 1 + step
    point = xp.take(before, whole_side) + rank
    xp.put(corners, slot, v + point)
    xp.put(sides, slot, xp.take(first, whole_side) + rank + ahead)
    whole = replace(
        solids, n_vertices=v + p, edges=flat.reshape(-1, 2), corners=corners, sides=sides,
        offsets=xp.take(xp.cat([start, xp.full(1, len(corners), start)]), solids.offsets),
    )  # fmt: skip
    face = xp.take(xp.take(solids.face_of_corner, crossed), of)
    if len(crossings.unit) == p:
        unit = xp.take(crossings.unit, point)
    else:  # several units share a point
        shared = xp.bincount(crossings.point, p)
        repeats = xp.take(shared, point)
        unit = xp.take(crossings.unit, ranges(xp.take(offsets_of(shared), point), repeats))
        slot, face = xp.repeat(slot, repeats), xp.repeat(face, repeats)
    return _EdgeCut(whole, points, crossings, start, first, slot, face, unit)


def loosen(corners: Tensor, offsets: Tensor, keys: Tensor, units: Units, table: SignTable) -> None:
    """Let the vertices of rows (keys row * n_units + unit) that lie on the unit's zero set take the sign of its value.

    Of those in a row, only the ones at least half as far from zero as any of them. Raises ``Unresolved`` if all are 0.
    """
    n = table.n_units
    index, ends = gather_rows(offsets, keys // n)
    of = owners(ends, len(index))
    vertex, unit = corners[index], (keys % n)[of]
    value = units(vertex, unit)
    distance = xp.where(table.codes[vertex, unit] == 0, abs(value), 0)
    farthest = _largest(of, distance, len(keys))
    if bool((farthest == 0).any()):
        raise Unresolved(keys[farthest == 0])
    loose = distance >= farthest[of] / 2
    vertex, unit, value = vertex[loose], unit[loose], value[loose]
    table.codes[vertex, unit] = codes_of(value, 0)


def _largest(group: Tensor, values: Tensor, n: int) -> Tensor:
    """(n,): the largest of the ``values`` (x,) of each group, at least 0."""
    largest = xp.double(xp.full(n, 0, group))
    if isinstance(largest, np.ndarray):
        xp.numpy.maximum.at(largest, group, values)
        return largest
    return largest.scatter_reduce(0, group, values, "amax")


def _zero_edges(solids: Solids, table: SignTable, edge_cut: _EdgeCut) -> tuple[Tensor, Curves]:
    """``FaceCut.zeros``, and the parts of old edges along which a unit vanishes in a cell that it cuts."""
    v, n, crossings = solids.n_vertices, table.n_units, edge_cut.crossings
    none = solids.wall[:0]
    shared = xp.take(xp.bincount(crossings.point, len(edge_cut.points)), crossings.point) > 1
    marked = table.vertices_with_zero()
    if len(marked) == 0:
        return xp.stack(v + crossings.point[shared], crossings.unit[shared]), Curves(none, none, none)
    row, unit = _pairs(table.codes[marked][:, :n] == 0)
    edges = [xp.stack(marked[row], unit)]
    on_zero = xp.mask(v, False, marked)
    on_zero[marked] = True
    edge = xp.nonzero(on_zero[solids.edges].all(1))
    row, unit = _pairs((table.codes[solids.edges[edge, 0]] | table.codes[solids.edges[edge, 1]])[:, :n] == 0)
    edge = edge[row]  # sorted by edge
    points = xp.bincount(edge_cut.points.edge, len(solids.edges))
    first_point, n_points = offsets_of(points)[edge], points[edge]
    edges.append(xp.stack(v + ranges(first_point, n_points), xp.repeat(unit, n_points)))
    along = xp.mask(len(solids.edges), False, marked)
    along[edge] = True
    shared |= along[edge_cut.points.edge[crossings.point]]
    edges.append(xp.stack(v + crossings.point[shared], crossings.unit[shared]))
    zeros = xp.cat(edges)
    zeros = zeros[xp.sort(zeros[:, 0] * n + zeros[:, 1])[1]]
    which, cell = _separating(solids, table, edge, unit)
    parts = 1 + n_points[which]
    pieces = ranges(edge_cut.first[edge[which]], parts)
    return zeros, Curves(xp.repeat(cell, parts), xp.repeat(unit[which], parts), pieces)


def _pairs(flags: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of the entries that are True."""
    row, column = flags.nonzero() if isinstance(flags, np.ndarray) else flags.nonzero(as_tuple=True)
    return row, column


def _separating(solids: Solids, table: SignTable, edge: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs (i, cell) such that the two faces of the cell at ``edge[i]`` lie on different sides of ``unit[i]``."""
    n_edges = len(solids.edges)
    counts = xp.bincount(edge, n_edges)
    start = offsets_of(counts)
    corner = xp.nonzero(counts[solids.sides] > 0)
    repeats = counts[solids.sides[corner]]
    which = ranges(start[solids.sides[corner]], repeats)  # rows of (edge, unit)
    face = xp.repeat(solids.face_of_corner[corner], repeats)
    index, ends = gather_rows(solids.offsets, face)
    of = owners(ends, len(index))
    code = table.codes[solids.corners[index], unit[which][of]]
    above, below = (xp.bincount(of[code == sign], len(face)) > 0 for sign in (1, 2))
    cells = solids.cells[face]
    both = cells >= 0
    key = (which[:, None] * solids.n_cells + cells)[both]
    signs = [xp.stack(side & ~other, side & ~other)[both] for side, other in ((above, below), (below, above))]
    up, down = (xp.unique(key[sign]) for sign in signs)
    group = up[xp.isin(up, down)]
    return group // solids.n_cells, group % solids.n_cells
