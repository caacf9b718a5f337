"""One nonlinearity in the plane: cut every cell along the zero lines of all units that pass through it, all at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regionscope.geometry.arrays import (
    arange,
    argsort,
    cat,
    differences,
    double,
    empty,
    full,
    lerp,
    mask,
    nonzero,
    numpy_on_cpu,
    put,
    quotients,
    stack,
    take,
    unique,
)
from regionscope.geometry.crossing import Crossings, Points, SignTable, place_points
from regionscope.geometry.interpolation import Interpolation
from regionscope.geometry.maxima import Candidates
from regionscope.geometry.planar.arrangement import Chords, Evaluate, Meetings, cut, meetings
from regionscope.geometry.planar.irregular import repair_ends
from regionscope.geometry.planar.mesh import Mesh, subdivide
from regionscope.geometry.ragged import gather_rows, next_in_row


@dataclass(frozen=True)
class Units:
    """Functions that are affine on every cell: unit ``i * n + j`` is ``values[:, j] - at[i]`` at the vertices.

    values: (v, n); tolerance: (v,) or (v, n) how near to zero counts as zero at each vertex.
    """

    values: Tensor
    at: tuple[float, ...]
    tolerance: Tensor

    def __call__(self, vertices: Tensor, units: Tensor) -> Tensor:
        n = self.values.shape[1]
        if self.at == (0.0,):
            return double(self.values[vertices, units])
        value = double(self.values[vertices, units % n])
        if isinstance(value, np.ndarray):
            return value - np.array(self.at)[units // n]
        return value - torch.tensor(self.at, dtype=torch.float64, device=value.device)[units // n]

    def tolerance_at(self, vertices: Tensor, units: Tensor) -> Tensor:
        """How near to zero counts as zero for these units at these vertices."""
        if self.tolerance.ndim == 1:
            return self.tolerance[vertices]
        return self.tolerance[vertices, units if len(self.at) == 1 else units % self.values.shape[1]]


@dataclass(frozen=True)
class PlanarSplit:
    """The mesh after cutting.

    old_cell: (r,) the old cell of each new cell.
    zeros: (z, 2) pairs (vertex, unit) where the unit is zero by construction, with those known before.
    unsettled: cells to be cut once more, when the new vertices have their values.
    snapped: (s,) old vertices at or next to which a sign could not be told from zero, once for each time.
    """

    mesh: Mesh
    old_cell: Tensor
    interpolation: Interpolation
    zeros: Tensor
    unsettled: Tensor
    snapped: Tensor


def split(
    mesh: Mesh, units: Units, *, layer: int, cells: Tensor | None = None, zeros: Tensor | None = None
) -> PlanarSplit:
    """Cut the cells (all, or the listed ones) along the zero lines of all units.

    ``zeros`` (z, 2): pairs (vertex, unit) known to be zero from an earlier cut at the same nonlinearity.

    On a CPU the result consists of NumPy arrays.

    Cost: one scan of the signs (edges x units bytes), plus work in proportion to the number of new vertices.
    """
    mesh, units = numpy_on_cpu(mesh), numpy_on_cpu(units)
    cells, zeros = numpy_on_cpu(cells), numpy_on_cpu(zeros)
    table = SignTable.of(units.values, units.at, units.tolerance)
    if zeros is not None:
        table.codes[zeros[:, 0], zeros[:, 1]] = 0
    points, crossings = edge_points(mesh, units, table, cells)
    marked = table.vertices_with_zero()
    corner, unit, snapped = ends_at_vertices(mesh, units, table, cells, marked)
    # Later, the new vertices lie on their folds.
    hidden = [table.snapped(units.tolerance, marked)] if cells is None else []
    if len(points) == 0 and len(corner) == 0:
        return _uncut(mesh, points, zeros, cat([*hidden, snapped]))
    divided = subdivide(mesh, points)
    evaluate = OnPoints.of(mesh, points, units)
    slot = cat([take(divided.point_slots, crossings.point).reshape(-1), take(divided.corner_slots, corner)])
    both_sides = stack(crossings.unit, crossings.unit).reshape(-1)
    chord_ends = _ChordEnds(slot, cat([both_sides, unit])).inside(divided.mesh, cells)
    chords, repaired = _chords(divided.mesh, chord_ends, table, crossings, evaluate)
    chords, met, unsettled = meetings(divided.mesh, chords, evaluate)
    result, old_cell = cut(divided.mesh, chords, met, layer)
    still = mask(mesh.n_cells, False, old_cell)
    still[unsettled] = True
    crossing_vertex = divided.mesh.n_vertices + arange(len(met), old_cell)
    new_zeros = cat(
        [
            *([] if zeros is None else [zeros]),  # the cells may be cut a third time
            stack(mesh.n_vertices + crossings.point, crossings.unit),
            stack(crossing_vertex, take(chords.unit, met.i)),
            stack(crossing_vertex, take(chords.unit, met.j)),
        ]
    )
    interpolation = interpolation_of(mesh, divided.mesh, points, chords, met)
    snapped = cat([*hidden, snapped, take(mesh.edges[:, 0], crossings.merged), repaired])
    return PlanarSplit(result, old_cell, interpolation, new_zeros, nonzero(take(still, old_cell)), snapped)


def _uncut(mesh: Mesh, points: Points, zeros: Tensor | None, snapped: Tensor) -> PlanarSplit:
    """The mesh as it was: nothing passes through its cells."""
    none = points.edge
    same = Interpolation.of_points(mesh.n_vertices, none, none, points.t)
    known = full((0, 2), 0, none) if zeros is None else zeros
    return PlanarSplit(mesh, arange(mesh.n_cells, none), same, known, none, snapped)


def interpolation_of(mesh: Mesh, divided: Mesh, points: Points, chords: Chords, met: Meetings) -> Interpolation:
    """How the new points on the edges of ``mesh`` and the crossings of chords arise from its vertices."""
    a, b = (take(mesh.edges[:, i], points.edge) for i in range(2))
    c, d = (take(divided.corners, take(end, met.i)) for end in (chords.p, chords.q))
    none = full((0, 3), 0, a)
    return Interpolation(mesh.n_vertices, a, b, points.t, c, d, met.t_i, none, double(none))


def edge_points(mesh: Mesh, units: Units, table: SignTable, cells: Tensor | None) -> tuple[Points, Crossings]:
    """New points where a unit changes sign along an edge of the cells (all, or the listed ones)."""
    scanned = None if cells is None else unique(take(mesh.sides, gather_rows(mesh.offsets, cells)[0]))
    edges = mesh.edges if scanned is None else take(mesh.edges, scanned)
    row, unit = table.sign_changes(edges[:, 0], edges[:, 1])
    a, b = (take(edges[:, i], row) for i in range(2))
    edge = row if scanned is None else take(scanned, row)
    return place_points(edge, unit, units(a, unit), units(b, unit), units.tolerance_at(a, unit))


@dataclass(frozen=True)
class OnPoints:
    """Values of units at the vertices of the mesh and, numbered after them, at the new points."""

    units: Units | Candidates
    first: Tensor
    second: Tensor
    t: Tensor

    @staticmethod
    def of(mesh: Mesh, points: Points, units: Units | Candidates) -> OnPoints:
        old = arange(mesh.n_vertices, mesh.edges)
        first, second = (cat([old, take(mesh.edges[:, i], points.edge)]) for i in range(2))
        return OnPoints(units, first, second, cat([double(full(mesh.n_vertices, 0, old)), points.t]))

    def __call__(self, vertices: Tensor, units: Tensor) -> Tensor:
        at_first, at_second = (self.units(take(end, vertices), units) for end in (self.first, self.second))
        return lerp(at_first, at_second, take(self.t, vertices))

    def tolerance_at(self, vertices: Tensor, units: Tensor) -> Tensor:
        return self.units.tolerance_at(take(self.first, vertices), units)

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
    zero = mask(mesh.n_vertices, False, mesh.edges)
    zero[table.vertices_with_zero() if marked is None else marked] = True
    corners = nonzero(take(zero, mesh.corners))
    if cells is not None and len(corners):
        corners = corners[_listed(mesh, cells, corners)]
    if len(corners) == 0:
        return corners, corners, corners
    after = next_in_row(mesh.offsets)
    before = empty(len(after), after)
    put(before, after, arange(len(after), after))
    vertex = mesh.corners
    row, unit = table.sign_changes(vertex[before[corners]], vertex[after[corners]], on=vertex[corners])
    double_zero = corners[zero[vertex[after[corners]]]]
    pair, pair_unit = table.sign_changes(
        vertex[before[double_zero]], vertex[after[after[double_zero]]], on=vertex[double_zero]
    )
    both = table.codes[vertex[after[double_zero[pair]]], pair_unit] == 0
    corner = cat([corners[row], double_zero[pair[both]]])
    unit = cat([unit, pair_unit[both]])
    return corner, unit, vertex[corner][units(vertex[corner], unit) != 0]


def _listed(mesh: Mesh, cells: Tensor, corners: Tensor) -> Tensor:
    """Whether each of the corners belongs to a listed cell."""
    listed = mask(mesh.n_cells, False, corners)
    listed[cells] = True
    return take(take(listed, mesh.corner_cells()), corners)


@dataclass(frozen=True)
class _ChordEnds:
    """Corners at which zero lines enter or leave a cell: ``slot`` (x,) into ``Mesh.corners``, -1 outside the slice, and
    the ``unit`` (x,) that is zero there.
    """

    slot: Tensor
    unit: Tensor

    def inside(self, mesh: Mesh, cells: Tensor | None) -> _ChordEnds:
        """Those inside the slice (with ``cells``: inside the listed cells)."""
        inside = nonzero(self.slot >= 0)
        if cells is not None:
            inside = inside[_listed(mesh, cells, take(self.slot, inside))]
        return _ChordEnds(take(self.slot, inside), take(self.unit, inside))


def _chords(
    mesh: Mesh, ends: _ChordEnds, table: SignTable, crossings: Crossings, evaluate: Evaluate
) -> tuple[Chords, Tensor]:
    """Pair the ends of each unit in each cell into chords; where there are not two, rounding is put right.

    Also returns a vertex of every cell that had to be put right.
    """
    key = take(mesh.corner_cells(), ends.slot) * table.n_units + ends.unit
    order = argsort(key)
    key, slots = take(key, order), take(ends.slot, order)
    new = mask(len(key), True, key)
    new[1:] = key[1:] != key[:-1]
    start = nonzero(new)
    group, paired = take(key, start), differences(cat([start, full(1, len(key), key)])) == 2
    regular = nonzero(paired)
    of, first = take(group, regular), take(start, regular)
    p, q = take(slots, first), take(slots, first + 1)
    irregular = group[~paired]
    if len(irregular):
        more = repair_ends(mesh, irregular, table, crossings, evaluate)
        p, q, of = cat([p, more[:, 0]]), cat([q, more[:, 1]]), cat([of, more[:, 2]])
    cell, unit = quotients(of, table.n_units)
    chords, _ = Chords.between(mesh, cell, p, q, unit)
    vertices = take(mesh.corners, take(mesh.offsets, irregular // table.n_units))
    return chords, vertices[vertices < len(table.words)]
