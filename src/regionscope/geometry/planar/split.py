"""One nonlinearity in the plane: cut every cell along the zero lines of all units that pass through it, all at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

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
            return self.values[vertices, units].double()
        value = self.values[vertices, units % n].double()
        return value - torch.tensor(self.at, dtype=torch.float64, device=value.device)[units // n]

    def tolerance_at(self, vertices: Tensor, units: Tensor) -> Tensor:
        """How near to zero counts as zero for these units at these vertices."""
        if self.tolerance.ndim == 1:
            return self.tolerance[vertices]
        return self.tolerance[vertices, units % self.values.shape[1]]


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

    Cost: one scan of the signs (edges x units bytes), plus work in proportion to the number of new vertices.
    """
    table = SignTable.of(units.values, units.at, units.tolerance)
    if zeros is not None:
        table.codes[zeros[:, 0], zeros[:, 1]] = 0
    points, crossings = edge_points(mesh, units, table, cells)
    divided = subdivide(mesh, points)
    evaluate = OnPoints.of(mesh, points, units)
    corner, unit, snapped = ends_at_vertices(mesh, units, table, cells)
    slot = torch.cat([divided.point_slots[crossings.point].flatten(), divided.corner_slots[corner]])
    chord_ends = _ChordEnds(slot, torch.cat([crossings.unit.repeat_interleave(2), unit])).inside(divided.mesh, cells)
    chords, repaired = _chords(divided.mesh, chord_ends, table, crossings, evaluate)
    chords, met, unsettled = meetings(divided.mesh, chords, evaluate)
    result, old_cell = cut(divided.mesh, chords, met, layer)
    still = torch.zeros(mesh.n_cells, dtype=torch.bool, device=old_cell.device)
    still[unsettled] = True
    crossing_vertex = divided.mesh.n_vertices + torch.arange(len(met), device=old_cell.device)
    new_zeros = torch.cat(
        [
            *([] if zeros is None else [zeros]),  # the cells may be cut a third time
            torch.stack([mesh.n_vertices + crossings.point, crossings.unit], 1),
            torch.stack([crossing_vertex, chords.unit[met.i]], 1),
            torch.stack([crossing_vertex, chords.unit[met.j]], 1),
        ]
    )
    interpolation = interpolation_of(mesh, divided.mesh, points, chords, met)
    snapped = torch.cat([snapped, mesh.edges[crossings.merged, 0], repaired])
    return PlanarSplit(result, old_cell, interpolation, new_zeros, still[old_cell].nonzero()[:, 0], snapped)


def interpolation_of(mesh: Mesh, divided: Mesh, points: Points, chords: Chords, met: Meetings) -> Interpolation:
    """How the new points on the edges of ``mesh`` and the crossings of chords arise from its vertices."""
    ends = mesh.edges[points.edge]
    c, d = divided.corners[chords.p[met.i]], divided.corners[chords.q[met.i]]
    simple = Interpolation.of_points(mesh.n_vertices, ends[:, 0], ends[:, 1], points.t)
    return replace(simple, c=c, d=d, s=met.t_i)


def edge_points(mesh: Mesh, units: Units, table: SignTable, cells: Tensor | None) -> tuple[Points, Crossings]:
    """New points where a unit changes sign along an edge of the cells (all, or the listed ones)."""
    scanned = None if cells is None else mesh.sides[gather_rows(mesh.offsets, cells)[0]].unique()
    edges = mesh.edges if scanned is None else mesh.edges[scanned]
    row, unit = table.sign_changes(edges[:, 0], edges[:, 1])
    a, b = (end.index_select(0, row) for end in edges.unbind(1))
    edge = row if scanned is None else scanned[row]
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
        old = torch.arange(mesh.n_vertices, device=mesh.edges.device)
        ends = mesh.edges[points.edge]
        t = torch.cat([torch.zeros(mesh.n_vertices, dtype=torch.float64, device=old.device), points.t])
        return OnPoints(units, torch.cat([old, ends[:, 0]]), torch.cat([old, ends[:, 1]]), t)

    def __call__(self, vertices: Tensor, units: Tensor) -> Tensor:
        at_first = self.units(self.first[vertices], units)
        return torch.lerp(at_first, self.units(self.second[vertices], units), self.t[vertices])

    def tolerance_at(self, vertices: Tensor, units: Tensor) -> Tensor:
        return self.units.tolerance_at(self.first[vertices], units)

    def of_group(self, vertices: Tensor, group: Tensor) -> Tensor:
        """Values (x, m) of all candidates of a group."""
        if not isinstance(self.units, Candidates):
            raise TypeError("only candidates for a maximum come in groups")
        at_first = self.units.of_group(self.first[vertices], group)
        return torch.lerp(at_first, self.units.of_group(self.second[vertices], group), self.t[vertices, None])


def ends_at_vertices(mesh: Mesh, units: Units, table: SignTable, cells: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Corners at which a zero line enters a cell through an existing vertex: (corner, unit) pairs.

    The unit is zero there and has opposite signs at the two neighbouring corners; where rounding leaves it zero at two
    corners in a row, the signs on either side of the pair count.
    """
    zero = torch.zeros(mesh.n_vertices, dtype=torch.bool, device=mesh.edges.device)
    zero[table.vertices_with_zero()] = True
    corners = zero[mesh.corners].nonzero()[:, 0]
    if cells is not None and len(corners):
        listed = torch.zeros(mesh.n_cells, dtype=torch.bool, device=zero.device)
        listed[cells] = True
        corners = corners[listed[mesh.corner_cells()[corners]]]
    if len(corners) == 0:
        return corners, corners, corners
    after = next_in_row(mesh.offsets)
    before = torch.empty_like(after)
    before[after] = torch.arange(len(after), device=after.device)
    vertex = mesh.corners
    row, unit = table.sign_changes(vertex[before[corners]], vertex[after[corners]], on=vertex[corners])
    double = corners[zero[vertex[after[corners]]]]
    pair, pair_unit = table.sign_changes(vertex[before[double]], vertex[after[after[double]]], on=vertex[double])
    both = table.codes[vertex[after[double[pair]]], pair_unit] == 0
    corner = torch.cat([corners[row], double[pair[both]]])
    unit = torch.cat([unit, pair_unit[both]])
    return corner, unit, vertex[corner][units(vertex[corner], unit) != 0]


@dataclass(frozen=True)
class _ChordEnds:
    """Corners at which zero lines enter or leave a cell: ``slot`` (x,) into ``Mesh.corners``, -1 outside the slice, and
    the ``unit`` (x,) that is zero there.
    """

    slot: Tensor
    unit: Tensor

    def inside(self, mesh: Mesh, cells: Tensor | None) -> _ChordEnds:
        """Those inside the slice (with ``cells``: inside the listed cells)."""
        chosen = self.slot >= 0
        if cells is not None:
            listed = torch.zeros(mesh.n_cells, dtype=torch.bool, device=self.slot.device)
            listed[cells] = True
            chosen &= listed[mesh.corner_cells()[self.slot]]
        return _ChordEnds(self.slot[chosen], self.unit[chosen])


def _chords(
    mesh: Mesh, ends: _ChordEnds, table: SignTable, crossings: Crossings, evaluate: Evaluate
) -> tuple[Chords, Tensor]:
    """Pair the ends of each unit in each cell into chords; where there are not two, rounding is put right.

    Also returns a vertex of every cell that had to be put right.
    """
    key, order = (mesh.corner_cells()[ends.slot] * table.n_units + ends.unit).sort()
    slots = ends.slot[order]
    group, counts = torch.unique_consecutive(key, return_counts=True)
    start = counts.cumsum(0) - counts
    paired = counts == 2
    p, q, of = slots[start[paired]], slots[start[paired] + 1], group[paired]
    if not bool(paired.all()):
        more = repair_ends(mesh, group[~paired], table, crossings, evaluate)
        p, q, of = torch.cat([p, more[:, 0]]), torch.cat([q, more[:, 1]]), torch.cat([of, more[:, 2]])
    chords, _ = Chords.between(mesh, of // table.n_units, p, q, of % table.n_units)
    irregular = mesh.corners[mesh.offsets[group[~paired] // table.n_units]]
    return chords, irregular[irregular < table.words.shape[0]]
