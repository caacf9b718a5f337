"""One fold in the plane: cut every cell along the zero lines of all units that pass through it, all at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import torch
from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.crossing import Crossings, Points, SignTable, Units, place_points
from regionscope.geometry.interpolation import Interpolation
from regionscope.geometry.maxima import Candidates
from regionscope.geometry.planar.arrangement import Chords, Evaluate, Meetings, cut, meetings
from regionscope.geometry.planar.mesh import Mesh, cut_edges
from regionscope.geometry.ragged import gather_rows, next_in_row


@dataclass(frozen=True)
class PlanarCut:
    """The mesh after cutting.

    old_cell: (r,) the old cell of each new cell.
    zeros: (z, 2) pairs (vertex, unit) where the unit is zero by construction, with those known before.
    unsettled: cells to be cut once more, when the new vertices have their values.
    snapped: (s,) old vertices at or next to which rounding hides a sign or the place of a fold, once for each time.
    """

    mesh: Mesh
    old_cell: Tensor
    interpolation: Interpolation
    zeros: Tensor
    unsettled: Tensor
    snapped: Tensor


def cut_units(
    mesh: Mesh, units: Units, *, layer: int, cells: Tensor | None = None, zeros: Tensor | None = None
) -> PlanarCut:
    """Cut the cells (all, or the listed ones) along the zero lines of all units.

    ``zeros`` (z, 2): pairs (vertex, unit) known to be zero from an earlier cut at the same fold.

    On a CPU the result consists of NumPy arrays.

    Cost: one scan of the signs (edges x units bytes), plus work in proportion to the number of new vertices.
    """
    mesh, units = xp.numpy_on_cpu(mesh), xp.numpy_on_cpu(units)
    cells, zeros = xp.numpy_on_cpu(cells), xp.numpy_on_cpu(zeros)
    table = SignTable.of(units)
    if zeros is not None:
        table.codes[zeros[:, 0], zeros[:, 1]] = 0
    points, crossings = edge_points(mesh, units, table, cells)
    marked = table.vertices_with_zero()
    corner, unit, snapped = ends_at_vertices(mesh, units, table, cells, marked)
    # Later, the new vertices lie on their folds.
    hidden = [table.snapped(units.tolerance, marked)] if cells is None else []
    if len(points) == 0 and len(corner) == 0:
        return _uncut(mesh, points, zeros, xp.cat([*hidden, snapped]))
    edge_cut = cut_edges(mesh, points)
    evaluate = OnPoints.of(mesh, points, units)
    slot = xp.cat([xp.take(edge_cut.point_slots, crossings.point).reshape(-1), xp.take(edge_cut.corner_slots, corner)])
    both_sides = xp.stack(crossings.unit, crossings.unit).reshape(-1)
    chord_ends = _ChordEnds(slot, xp.cat([both_sides, unit])).inside(edge_cut.mesh, cells)
    chords, repaired = _chords(edge_cut.mesh, chord_ends, table, crossings, evaluate)
    chords, met, unsettled = meetings(edge_cut.mesh, chords, evaluate)
    result, old_cell = cut(edge_cut.mesh, chords, met, layer)
    still = xp.mask(mesh.n_cells, False, old_cell)
    still[unsettled] = True
    crossing_vertex = edge_cut.mesh.n_vertices + xp.arange(len(met), old_cell)
    new_zeros = xp.cat(
        [
            *([] if zeros is None else [zeros]),  # the cells may be cut a third time
            xp.stack(mesh.n_vertices + crossings.point, crossings.unit),
            xp.stack(crossing_vertex, xp.take(chords.unit, met.i)),
            xp.stack(crossing_vertex, xp.take(chords.unit, met.j)),
        ]
    )
    interpolation = interpolation_of(mesh, edge_cut.mesh, points, chords, met)
    snapped = xp.cat([*hidden, snapped, xp.take(mesh.edges[:, 0], crossings.hidden), repaired])
    return PlanarCut(result, old_cell, interpolation, new_zeros, xp.nonzero(xp.take(still, old_cell)), snapped)


def _uncut(mesh: Mesh, points: Points, zeros: Tensor | None, snapped: Tensor) -> PlanarCut:
    """The mesh as it was: nothing passes through its cells."""
    none = points.edge
    same = Interpolation.of_points(mesh.n_vertices, none, none, points.t)
    known = xp.full((0, 2), 0, none) if zeros is None else zeros
    return PlanarCut(mesh, xp.arange(mesh.n_cells, none), same, known, none, snapped)


def interpolation_of(mesh: Mesh, with_points: Mesh, points: Points, chords: Chords, met: Meetings) -> Interpolation:
    """How the new points on the edges of ``mesh`` and the crossings of chords arise from its vertices."""
    a, b = (xp.take(mesh.edges[:, i], points.edge) for i in range(2))
    c, d = (xp.take(with_points.corners, xp.take(end, met.i)) for end in (chords.p, chords.q))
    none = xp.full((0, 3), 0, a)
    return Interpolation(mesh.n_vertices, a, b, points.t, c, d, met.t_i, none, xp.double(none))


def edge_points(mesh: Mesh, units: Units, table: SignTable, cells: Tensor | None) -> tuple[Points, Crossings]:
    """New points where a unit changes sign along an edge of the cells (all, or the listed ones)."""
    scanned = None if cells is None else xp.unique(xp.take(mesh.sides, gather_rows(mesh.offsets, cells)[0]))
    edges = mesh.edges if scanned is None else xp.take(mesh.edges, scanned)
    row, unit = table.sign_changes(edges[:, 0], edges[:, 1])
    a, b = (xp.take(edges[:, i], row) for i in range(2))
    edge = row if scanned is None else xp.take(scanned, row)
    length = partial(shares_of_slice, mesh, units.coords, units.extent)
    return place_points(edge, unit, units(a, unit), units(b, unit), units.tolerance_at(a, unit), length)


def shares_of_slice(mesh: Mesh, coords: Tensor, extent: float, edges: Tensor) -> Tensor:
    """The longest side of edges (x,) as a share of the ``extent`` of the slice."""
    a, b = (xp.take(coords, xp.take(mesh.edges[:, i], edges)) for i in range(2))
    return xp.largest(abs(a - b), 1) / extent


@dataclass(frozen=True)
class OnPoints:
    """Values of units at the vertices of the mesh and, numbered after them, at the new points."""

    units: Units | Candidates
    first: Tensor
    second: Tensor
    t: Tensor

    @staticmethod
    def of(mesh: Mesh, points: Points, units: Units | Candidates) -> OnPoints:
        old = xp.arange(mesh.n_vertices, mesh.edges)
        first, second = (xp.cat([old, xp.take(mesh.edges[:, i], points.edge)]) for i in range(2))
        return OnPoints(units, first, second, xp.cat([xp.double(xp.full(mesh.n_vertices, 0, old)), points.t]))

    def __call__(self, vertices: Tensor, units: Tensor) -> Tensor:
        at_first, at_second = (self.units(xp.take(end, vertices), units) for end in (self.first, self.second))
        return xp.lerp(at_first, at_second, xp.take(self.t, vertices))

    def tolerance_at(self, vertices: Tensor, units: Tensor) -> Tensor:
        return self.units.tolerance_at(xp.take(self.first, vertices), units)

    def of_group(self, vertices: Tensor, group: Tensor) -> Tensor:
        """Values (x, m) of all candidates of a group."""
        if not isinstance(self.units, Candidates):
            raise TypeError("Only candidates for a maximum come in groups. Please report this fault of regionscope.")
        at_first = self.units.of_group(self.first[vertices], group)
        return torch.lerp(at_first, self.units.of_group(self.second[vertices], group), self.t[vertices, None])


def ends_at_vertices(
    mesh: Mesh, units: Units, table: SignTable, cells: Tensor | None, marked: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Corners at which a zero line enters a cell through an existing vertex: (corner, unit) pairs.

    The unit is zero there and has opposite signs at the two neighbouring corners; where rounding leaves it zero at two
    corners in a row, the signs on either side of the pair count. marked: ``vertices_with_zero``, where they are known.
    """
    zero = xp.mask(mesh.n_vertices, False, mesh.edges)
    zero[table.vertices_with_zero() if marked is None else marked] = True
    corners = xp.nonzero(xp.take(zero, mesh.corners))
    if cells is not None and len(corners):
        corners = corners[_listed(mesh, cells, corners)]
    if len(corners) == 0:
        return corners, corners, corners
    after = next_in_row(mesh.offsets)
    before = xp.empty(len(after), after)
    xp.put(before, after, xp.arange(len(after), after))
    vertex = mesh.corners
    row, unit = table.sign_changes(vertex[before[corners]], vertex[after[corners]], on=vertex[corners])
    double_zero = corners[zero[vertex[after[corners]]]]
    pair, pair_unit = table.sign_changes(
        vertex[before[double_zero]], vertex[after[after[double_zero]]], on=vertex[double_zero]
    )
    both = table.codes[vertex[after[double_zero[pair]]], pair_unit] == 0
    corner = xp.cat([corners[row], double_zero[pair[both]]])
    unit = xp.cat([unit, pair_unit[both]])
    return corner, unit, vertex[corner][units(vertex[corner], unit) != 0]


def _listed(mesh: Mesh, cells: Tensor, corners: Tensor) -> Tensor:
    """Whether each of the corners belongs to a listed cell."""
    listed = xp.mask(mesh.n_cells, False, corners)
    listed[cells] = True
    return xp.take(xp.take(listed, mesh.corner_cells()), corners)


@dataclass(frozen=True)
class _ChordEnds:
    """Corners at which zero lines enter or leave a cell: ``slot`` (x,) into ``Mesh.corners``, -1 outside the slice, and
    the ``unit`` (x,) that is zero there.
    """

    slot: Tensor
    unit: Tensor

    def inside(self, mesh: Mesh, cells: Tensor | None) -> _ChordEnds:
        """Those inside the slice (with ``cells``: inside the listed cells)."""
        inside = xp.nonzero(self.slot >= 0)
        if cells is not None:
            inside = inside[_listed(mesh, cells, xp.take(self.slot, inside))]
        return _ChordEnds(xp.take(self.slot, inside), xp.take(self.unit, inside))


def _chords(
    mesh: Mesh, ends: _ChordEnds, table: SignTable, crossings: Crossings, evaluate: Evaluate
) -> tuple[Chords, Tensor]:
    """Pair the ends of each unit in each cell into chords; where there are not two, they are repaired.

    Also returns a vertex of every cell that had to be repaired.
    """
    key = xp.take(mesh.corner_cells(), ends.slot) * table.n_units + ends.unit
    order = xp.argsort(key)
    key, slots = xp.take(key, order), xp.take(ends.slot, order)
    new = xp.mask(len(key), True, key)
    new[1:] = key[1:] != key[:-1]
    start = xp.nonzero(new)
    group, paired = xp.take(key, start), xp.differences(xp.cat([start, xp.full(1, len(key), key)])) == 2
    regular = xp.nonzero(paired)
    of, first = xp.take(group, regular), xp.take(start, regular)
    p, q = xp.take(slots, first), xp.take(slots, first + 1)
    irregular = group[~paired]
    if len(irregular):
        repaired = repair_ends(mesh, irregular, table, crossings, evaluate)
        p, q, of = xp.cat([p, repaired[:, 0]]), xp.cat([q, repaired[:, 1]]), xp.cat([of, repaired[:, 2]])
    cell, unit = xp.quotients(of, table.n_units)
    chords, _ = Chords.between(mesh, cell, p, q, unit)
    vertices = xp.take(mesh.corners, xp.take(mesh.offsets, irregular // table.n_units))
    return chords, vertices[vertices < len(table.words)]


# Chords of thin cells in which rounding left wrong signs, repaired one cell at a time.
#
# In exact arithmetic a line through a convex cell meets its border in two points. When a cell is so thin that several
# of its corners cannot be told from the line, the signs around it may show none, one or more than two; here the two
# ends are chosen so that the strongest positive run of corners is cut off.


def repair_ends(mesh: Mesh, groups: Tensor, table: SignTable, crossings: Crossings, evaluate: Evaluate) -> Tensor:
    """Ends (p, q, group) of a chord for each irregular group = cell * n_units + unit; none where no cut is needed."""
    first_point = len(table.words)
    repairs = []
    for group in groups.tolist():
        cell, unit = divmod(group, table.n_units)
        start = int(mesh.offsets[cell])
        vertices = mesh.corners[start : int(mesh.offsets[cell + 1])]
        units = xp.full(len(vertices), unit, vertices)
        values = evaluate(vertices, units).tolist()
        tolerances = evaluate.tolerance_at(vertices, units).tolist()
        on_line = set((crossings.point[crossings.unit == unit] + first_point).tolist())
        signs = [
            0.0 if vertex in on_line or abs(value) <= tolerance else math.copysign(1.0, value)
            for vertex, value, tolerance in zip(vertices.tolist(), values, tolerances, strict=True)
        ]
        old = xp.nonzero(vertices < first_point)
        for i, code in zip(old.tolist(), table.codes[vertices[old], unit].tolist(), strict=True):
            signs[i] = (0.0, 1.0, -1.0)[code]
        ends = _cut_off_strongest(signs, values)
        if ends is not None:
            repairs.append((start + ends[0], start + ends[1], group))
    return xp.array(repairs, mesh.corners).reshape(-1, 3)


def _cut_off_strongest(signs: list[float], values: list[float]) -> tuple[int, int] | None:
    """Positions just outside the strongest positive run of a cyclic sign sequence, or None if one sign is missing.

    >>> _cut_off_strongest([1, 0, 0, -1, -1, 0], [5, 0, 0, -2, -2, 0])
    (5, 1)
    """
    if 1 not in signs or -1 not in signs:
        return None
    n = len(signs)
    start = signs.index(-1)
    turned = [(start + i) % n for i in range(n)]
    runs = [list(run) for sign, run in groupby(turned, key=lambda i: signs[i]) if sign == 1]
    best = max(runs, key=lambda run: max(values[i] for i in run))
    return (best[0] - 1) % n, (best[-1] + 1) % n
