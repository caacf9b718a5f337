"""The first half of a cut in space: points on the edges, and the faces divided along the zero lines of all units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope.geometry.crossing import Crossings, Points, SignTable
from regionscope.geometry.planar.arrangement import Chords, Meetings, divide, meetings
from regionscope.geometry.planar.split import OnPoints, Units, edge_points, ends_at_vertices
from regionscope.geometry.polytope.split import NewVertices
from regionscope.geometry.ragged import gather_rows, offsets_of, owners, ranges
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
        a, b, t = (x.index_select(0, vertices) for x in (self.first, self.second, self.t))
        return torch.lerp(self.on_points(a, units), self.on_points(b, units), t)

    def tolerance_at(self, vertices: Tensor, units: Tensor) -> Tensor:
        """How near to zero counts as zero for these units at these vertices."""
        return self.on_points.tolerance_at(self.first.index_select(0, vertices), units)


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
    snapped: old vertices at which a sign could not be told from zero, once for each time.
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
class _Divided:
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
    """Divide the faces (all, or the listed ones) along the zero lines of all units.

    Where the signs around a face fit no straight line, vertices on the zero set (in ``table``) take the sign of their
    value instead. Cost: one scan of the signs (edges x units bytes), plus work in proportion to the new vertices.
    """
    n, loops = table.n_units, solids.loops
    while True:
        points, crossings = edge_points(loops, units, table, faces)
        points.t.nan_to_num_(0.5).clamp_(0, 1)  # a sign that was inherited may differ from that of a value near zero
        divided = _subdivide(solids, points, crossings)
        corner, unit, snapped = ends_at_vertices(loops, units, table, faces)
        slot = torch.cat([divided.slot, divided.start[corner]])
        face = torch.cat([divided.face, torch.searchsorted(solids.offsets, corner, right=True) - 1])
        key, order = (face * n + torch.cat([divided.unit, unit])).sort()
        slot = slot.index_select(0, order)
        group, counts = torch.unique_consecutive(key, return_counts=True)
        if len(key) == 2 * len(group) and bool((counts == 2).all()):
            break
        loosen(solids.corners, solids.offsets, group[counts != 2], units, table)
        faces = None  # more faces may have vertices with both signs now
    whole = divided.solids.loops
    chords, proper = Chords.between(whole, group // n, slot[::2], slot[1::2], group % n)
    evaluate = OnPoints.of(loops, divided.points, units)
    chords, met, _ = meetings(whole, chords, evaluate)
    wanted = group[proper]
    left_out = wanted[:0] if len(chords) == len(wanted) else wanted[~torch.isin(wanted, chords.cell * n + chords.unit)]
    waiting = solids.cells[left_out // n]
    deferred = (waiting * n + left_out[:, None] % n)[waiting >= 0].unique()
    return _cut_along(solids, table, divided, chords, met, evaluate, deferred, snapped)


def _cut_along(
    solids: Solids, table: SignTable, divided: _Divided, chords: Chords, met: Meetings,
    evaluate: OnPoints, deferred: Tensor, snapped: Tensor,
) -> FaceCut:  # fmt: skip
    whole = divided.solids
    vertex = whole.n_vertices + torch.arange(len(met), device=table.words.device)
    pieces = divide(whole.loops, chords, met, vertex)
    corners, sides, offsets, old_face = pieces.with_untouched(whole.loops)
    cut = replace(
        whole,
        n_vertices=whole.n_vertices + len(met),
        edges=torch.cat([whole.edges, pieces.nodes]),
        corners=corners,
        sides=sides,
        offsets=offsets,
        cells=torch.stack([side.index_select(0, old_face) for side in whole.cells.unbind(1)], 1),
        wall=whole.wall.index_select(0, old_face),
    )
    zeros, along_edges = _zero_edges(solids, table, divided)
    ends = solids.edges[divided.points.edge]
    c, d = whole.corners[chords.p[met.i]], whole.corners[chords.q[met.i]]
    number = torch.arange(whole.n_vertices, device=c.device)
    zero = met.t_i.new_zeros(whole.n_vertices)
    return FaceCut(
        solids=cut,
        new=(NewVertices(ends[:, 0], ends[:, 1], divided.points.t), NewVertices(c, d, met.t_i)),
        evaluate=OnCrossings(evaluate, torch.cat([number, c]), torch.cat([number, d]), torch.cat([zero, met.t_i])),
        first_crossing=whole.n_vertices,
        crossing_units=torch.stack([chords.unit[met.i], chords.unit[met.j]], 1),
        zeros=zeros,
        point_zeros=torch.stack([solids.n_vertices + divided.crossings.point, divided.crossings.unit], 1),
        curves=_on_faces(whole, chords, pieces.parts, len(pieces.nodes), along_edges),
        deferred=deferred,
        snapped=torch.cat([snapped, solids.edges[divided.crossings.merged, 0]]),
    )


def _on_faces(whole: Solids, chords: Chords, parts: Tensor, m: int, more: Curves) -> Curves:
    """The parts of the chords, each for the cells on both sides of its face, and ``more``."""
    number = owners(parts, m)
    face, unit = chords.cell.index_select(0, number), chords.unit.index_select(0, number)
    first, second = (side.index_select(0, face) for side in whole.cells.unbind(1))
    edge = len(whole.edges) + torch.arange(m, device=unit.device)
    both = (second >= 0).nonzero()[:, 0]
    return Curves(
        torch.cat([first, second[both], more.cell]),
        torch.cat([unit, unit[both], more.unit]),
        torch.cat([edge, edge[both], more.edge]),
    )


def _subdivide(solids: Solids, points: Points, crossings: Crossings) -> _Divided:
    """Put new vertices into edges and into all faces around them. Vertex ``n_vertices + i`` is point i."""
    e, p, v, device = len(solids.edges), len(points), solids.n_vertices, solids.edges.device
    counts = torch.bincount(points.edge, minlength=e)
    before = offsets_of(counts)[:-1]  # number of the first point on each edge
    first = torch.arange(e, device=device) + before
    index = torch.arange(p, device=device)
    edges = torch.empty((e + p, 2), dtype=torch.int64, device=device)
    place = 2 * (points.edge + index)  # of the part that ends in the point
    for here, vertex in (
        (2 * first, solids.edges[:, 0]), (2 * (first + counts) + 1, solids.edges[:, 1]),
        (place + 1, v + index), (place + 2, v + index),
    ):  # fmt: skip
        edges.view(-1).scatter_(0, here, vertex)

    extra = counts.index_select(0, solids.sides)
    total = offsets_of(extra)
    start = torch.arange(len(extra), device=device) + total[:-1]
    crossed = extra.nonzero()[:, 0]
    side, k, corner = (x.index_select(0, crossed) for x in (solids.sides, extra, solids.corners))
    forwards = corner == solids.edges[:, 0].index_select(0, side)
    corners = torch.empty(len(extra) + int(total[-1]), dtype=torch.int64, device=device)
    sides = torch.empty_like(corners)
    corners.scatter_(0, start, solids.corners)
    sides.scatter_(0, start, first.index_select(0, solids.sides))
    back = ~forwards
    sides[start[crossed[back]]] += k[back]
    ends = offsets_of(k)
    of = owners(ends)
    step = torch.arange(len(of), device=device) - ends.index_select(0, of)  # of the point along the side
    ahead, whole_side = forwards.index_select(0, of), side.index_select(0, of)
    rank = torch.where(ahead, step, k.index_select(0, of) - 1 - step)
    slot = start.index_select(0, crossed).index_select(0, of) + 1 + step
    point = before.index_select(0, whole_side) + rank
    corners.scatter_(0, slot, v + point)
    sides.scatter_(0, slot, first.index_select(0, whole_side) + rank + ahead)
    whole = replace(
        solids, n_vertices=v + p, edges=edges, corners=corners, sides=sides,
        offsets=torch.cat([start, start.new_full((1,), len(corners))])[solids.offsets],
    )  # fmt: skip
    face = solids.face_of_corner.index_select(0, crossed).index_select(0, of)
    if len(crossings.unit) == p:
        unit = crossings.unit.index_select(0, point)
    else:  # several units share a point
        shared = torch.bincount(crossings.point, minlength=p)
        unit = crossings.unit[ranges(offsets_of(shared)[point], shared[point])]
        slot, face = slot.repeat_interleave(shared[point]), face.repeat_interleave(shared[point])
    return _Divided(whole, points, crossings, start, first, slot, face, unit)


def loosen(corners: Tensor, offsets: Tensor, keys: Tensor, units: Units, table: SignTable) -> None:
    """Let the vertices of rows (keys row * n_units + unit) that lie on the unit's zero set take the sign of its value.

    Of those in a row, only the ones at least half as far from zero as any of them. Raises ``Unresolved`` if all are 0.
    """
    n = table.n_units
    index, ends = gather_rows(offsets, keys // n)
    of = owners(ends, len(index))
    vertex, unit = corners[index], (keys % n)[of]
    value = units(vertex, unit)
    distance = torch.where(table.codes[vertex, unit] == 0, value.abs(), 0)
    farthest = distance.new_zeros(len(keys)).scatter_reduce(0, of, distance, "amax")
    if bool((farthest == 0).any()):
        raise Unresolved(keys[farthest == 0])
    loose = distance >= farthest[of] / 2
    vertex, unit, value = vertex[loose], unit[loose], value[loose]
    table.codes[vertex, unit] = torch.where(value > 0, 1, 2).to(torch.uint8)


def _zero_edges(solids: Solids, table: SignTable, divided: _Divided) -> tuple[Tensor, Curves]:
    """``FaceCut.zeros``, and the parts of old edges along which a unit vanishes in a cell that it cuts."""
    v, n, crossings = solids.n_vertices, table.n_units, divided.crossings
    none = solids.wall[:0]
    shared = torch.bincount(crossings.point, minlength=len(divided.points))[crossings.point] > 1
    marked = table.vertices_with_zero()
    if len(marked) == 0:
        return torch.stack([v + crossings.point[shared], crossings.unit[shared]], 1), Curves(none, none, none)
    row, unit = (table.codes[marked][:, :n] == 0).nonzero(as_tuple=True)
    found = [torch.stack([marked[row], unit], 1)]
    on_zero = torch.zeros(v, dtype=torch.bool, device=marked.device)
    on_zero[marked] = True
    edge = on_zero[solids.edges].all(1).nonzero()[:, 0]
    row, unit = ((table.codes[solids.edges[edge, 0]] | table.codes[solids.edges[edge, 1]])[:, :n] == 0).nonzero(
        as_tuple=True
    )
    edge = edge[row]  # sorted by edge
    points = torch.bincount(divided.points.edge, minlength=len(solids.edges))
    first_point, n_points = offsets_of(points)[edge], points[edge]
    found.append(torch.stack([v + ranges(first_point, n_points), unit.repeat_interleave(n_points)], 1))
    along = torch.zeros(len(solids.edges), dtype=torch.bool, device=marked.device)
    along[edge] = True
    shared |= along[divided.points.edge[crossings.point]]
    found.append(torch.stack([v + crossings.point[shared], crossings.unit[shared]], 1))
    zeros = torch.cat(found)
    zeros = zeros[(zeros[:, 0] * n + zeros[:, 1]).argsort()]
    which, cell = _separating(solids, table, edge, unit)
    parts = 1 + n_points[which]
    pieces = ranges(divided.first[edge[which]], parts)
    return zeros, Curves(cell.repeat_interleave(parts), unit[which].repeat_interleave(parts), pieces)


def _separating(solids: Solids, table: SignTable, edge: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs (i, cell) such that the two faces of the cell at ``edge[i]`` lie on different sides of ``unit[i]``."""
    n_edges = len(solids.edges)
    counts = torch.bincount(edge, minlength=n_edges)
    start = offsets_of(counts)
    corner = (counts[solids.sides] > 0).nonzero()[:, 0]
    repeats = counts[solids.sides[corner]]
    which = ranges(start[solids.sides[corner]], repeats)  # rows of (edge, unit)
    face = solids.face_of_corner[corner].repeat_interleave(repeats)
    index, ends = gather_rows(solids.offsets, face)
    of = owners(ends, len(index))
    code = table.codes[solids.corners[index], unit[which][of]]
    above, below = (torch.zeros(len(face), dtype=torch.int64, device=edge.device) for _ in range(2))
    above.index_add_(0, of, (code == 1).long())
    below.index_add_(0, of, (code == 2).long())
    sign = (above > 0).long() - (below > 0).long()
    cells = solids.cells[face]
    both = cells >= 0
    key = (which[:, None] * solids.n_cells + cells)[both]
    sign = sign[:, None].expand(-1, 2)[both]
    group, inverse = torch.unique(key, return_inverse=True)
    least, most = (torch.zeros_like(group).scatter_reduce(0, inverse, sign, kind) for kind in ("amin", "amax"))
    group = group[(least < 0) & (most > 0)]
    return group // solids.n_cells, group % solids.n_cells
