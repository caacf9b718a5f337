"""Exact regions on two-dimensional slices: the mesh is carried through the network, part by part, depth first.

The cutting itself is in ``geometry/planar``: ``cut`` for thresholds, ``envelope`` for maxima.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.exact.budget import Budget, Keep, Record, bytes_of, corner_inputs
from regionscope.exact.carry import Parts, State, Walk
from regionscope.exact.zero_tolerance import at_vertices, snapped_signs
from regionscope.geometry import Slice
from regionscope.geometry import arrays as xp
from regionscope.geometry.arrays import rows_at_a_time
from regionscope.geometry.crossing import Units
from regionscope.geometry.interpolation import Interpolation
from regionscope.geometry.maxima import Candidates
from regionscope.geometry.planar.cut import PlanarCut, cut_units
from regionscope.geometry.planar.envelope import cut_maxima
from regionscope.geometry.planar.largest import cut_largest
from regionscope.geometry.planar.mesh import Mesh
from regionscope.geometry.planar.split import side_by_side, split_edges
from regionscope.geometry.planar.stitch import Part, groups_of_cells, stitch, tag_borders
from regionscope.geometry.ragged import gather_rows, mean_of_rows, next_in_row, offsets_of, owners
from regionscope.network import Fold, Largest, Maxima, Program, Thresholds, Values

FinishedMesh = tuple[Mesh, Tensor, Tensor]
"""The mesh of some cells, the coordinates (v, 2) and the outputs of the network (v, c) at its vertices."""

_CUT_BYTES = 4096  # held for each vertex of a cut while it is made
_SAMPLE = 256  # cells from which the size of a cut is estimated
_HEADROOM = 3  # a part starts at a third of its limit, so that later folds need not part it again


@dataclass(frozen=True)
class PlaneState(State[FinishedMesh]):
    """A mesh with what is known at its vertices: coordinates (v, 2), the slice they belong to (v,), live values.

    cells: those that the next fold has still to cut, None for all. zeros: (z, 2) vertices and units of that fold that
    are zero there. On a CPU ``mesh`` and ``slice_id`` are NumPy arrays, the others are tensors.
    """

    mesh: Mesh
    coords: Tensor
    slice_id: Tensor
    values: dict[str, Tensor]
    cells: Tensor | None = None
    zeros: Tensor | None = None

    def cut(self, walk: Walk[FinishedMesh], layer: int, share: float) -> PlaneState | Parts[FinishedMesh]:
        """Cut in rounds, as maxima need several; in parts once there are too many vertices."""
        state, fold = self, walk.program.folds[layer]
        while state.cells is None or len(state.cells):
            zero_tolerance = at_vertices(walk.zero_tolerances[layer], state.slice_id)
            compared = fold.compared(state.values)
            if state.cells is None and walk.consume is not None:
                n_parts = -(-_expected_vertices(compared, state) * _CUT_BYTES // walk.budget.memory)
                if n_parts > 1 and state.mesh.n_cells > 1:
                    return state._parts(walk, None, n_parts)
            if state.cells is None and isinstance(compared, Maxima):
                walk.record.snap(xp.take(state.slice_id, xp.numpy_on_cpu(snapped_signs(compared, zero_tolerance))))
            result = cut_plane(compared, state, zero_tolerance, layer, walk.extent)
            walk.record.snap(xp.take(state.slice_id, result.snapped))
            max_vertices = walk.budget.rows(fold, walk.held, state.coords.device)
            if result.mesh.n_vertices > max_vertices and result.mesh.n_cells > 1:
                return state._parts(walk, result, -(-_HEADROOM * result.mesh.n_vertices // max_vertices))
            state = _follow(state, result)
            if len(result.unsettled):  # the rest takes about as long as this round
                share /= 2
                walk.record.report_progress(share)
        return state

    def _parts(self, walk: Walk[FinishedMesh], cut: PlanarCut | None, n_parts: int) -> Parts[FinishedMesh]:
        """Groups of the new cells; their values are made only when their turn comes.

        cut: at the next fold; None parts the cells before it. The work is shared in proportion to the number of cells.
        """
        walk.keep = None  # neighbours in other parts have to find the same points on the border
        state = xp.as_tensors(self)
        after = _uncut(state.mesh) if cut is None else xp.as_tensors(cut)
        coords = after.interpolation.apply(state.coords)
        slice_id = after.interpolation.copy_first(state.slice_id)
        position = coords[after.mesh.corners[after.mesh.offsets[:-1]]]
        groups = groups_of_cells(after.mesh, position, n_parts)
        first_tag = walk.next_tag
        mesh, n_tags = tag_borders(after.mesh, groups, first_tag)
        walk.next_tag += n_tags
        interpolation, vertices_of_parts = after.interpolation.matrix(), []

        def part_of(group: Tensor) -> tuple[PlaneState, float]:
            part, vertices = mesh.extract(group)
            vertices_of_parts.append(vertices)
            matrix = interpolation.of(vertices)
            values = {name: matrix.apply(rows) for name, rows in state.values.items()}
            local = torch.full((mesh.n_vertices,), -1, dtype=torch.int64, device=vertices.device)
            local[vertices] = torch.arange(len(vertices), device=vertices.device)
            zeros = torch.stack([local[after.zeros[:, 0]], after.zeros[:, 1]], 1)
            unsettled = None if cut is None else torch.isin(group, after.unsettled).nonzero()[:, 0]
            part_state = PlaneState(
                xp.numpy_on_cpu(part), coords[vertices], xp.numpy_on_cpu(slice_id[vertices]), values, unsettled,
                zeros[zeros[:, 0] >= 0],
            )  # fmt: skip
            return part_state, len(group) / mesh.n_cells

        def joined(parts: list[FinishedMesh]) -> FinishedMesh:
            if walk.program.jumps:
                return side_by_side(parts)
            finished = [Part(part[0], part[1:], v) for part, v in zip(parts, vertices_of_parts, strict=True)]
            stitched, arrays = stitch(finished, mesh.n_vertices, first_tag, n_tags)
            return stitched, arrays[0], arrays[1]

        return Parts(map(part_of, groups), bytes_of(state.values), joined)

    def behind(self, values: dict[str, Tensor]) -> PlaneState:
        return PlaneState(self.mesh, self.coords, self.slice_id, values)

    def advanced(self, walk: Walk[FinishedMesh], fold: Fold) -> PlaneState:
        """Behind a fold that jumps, cells on different pieces share no vertices; each has the pieces of its middle."""
        if fold.chosen is None:
            return self.behind(fold.advance(self.values, consume=True))
        mesh = xp.as_tensors(self.mesh)
        pieces = _pieces_of_cells(mesh, fold, self.values)
        left, right = mesh.edge_cells().unbind(1)
        apart = (left >= 0) & (right >= 0) & (pieces[left] != pieces[right]).any(1)
        mesh, origin = split_edges(mesh, apart, walk.next_tag)
        walk.next_tag += int(apart.sum())
        cell = torch.empty_like(origin)
        cell[mesh.corners] = mesh.corner_cells()
        values = {name: value[origin] for name, value in self.values.items()}
        values = fold.advance(values, consume=True, pieces=pieces[cell])
        slice_id = xp.take(self.slice_id, xp.numpy_on_cpu(origin))
        return PlaneState(xp.numpy_on_cpu(mesh), self.coords[origin], slice_id, values)

    def region_slices(self, single: bool) -> Tensor:
        return self.mesh.slice_id

    def cell_corners(self) -> tuple[Tensor, Tensor]:
        return xp.as_tensors(self.mesh).cell_corners()

    def take(self, mask: Tensor) -> PlaneState:
        mesh, kept = self.mesh.extract(xp.numpy_on_cpu(mask.nonzero()[:, 0]))
        vertices = xp.as_tensors(kept)
        values = {name: rows[vertices] for name, rows in self.values.items()}
        return PlaneState(mesh, self.coords[vertices], xp.take(self.slice_id, kept), values)

    def finish(self, outputs: Tensor) -> FinishedMesh:
        return xp.as_tensors(self.mesh), self.coords, outputs


def plane_mesh(corners: Sequence[Tensor]) -> tuple[Mesh, Tensor, Tensor]:
    """One cell a slice, from its corners (m, 2): the mesh, the coordinates of its vertices and their slices."""
    coords, n = torch.cat(tuple(corners)), sum(map(len, corners))
    sizes = xp.array([len(coords) for coords in corners], xp.numpy_on_cpu(coords))
    offsets, vertex, slice_id = offsets_of(sizes), xp.arange(n, sizes), xp.arange(len(corners), sizes)
    none, sides, following = xp.full(n, -1, sizes), xp.empty(n, sizes), next_in_row(offsets)
    ends, order = xp.sort(xp.minimum(vertex, following) * n + xp.maximum(vertex, following))
    xp.put(sides, order, vertex)
    mesh = Mesh(n, xp.stack(*xp.quotients(ends, n)), none, none, vertex, sides, offsets, slice_id)
    return mesh, coords, xp.repeat(slice_id, sizes, n)


def partition_planes(
    program: Program, slices: Sequence[Slice], zero_tolerances: Sequence[Tensor], budget: Budget, record: Record, *,
    keep: Keep | None = None, consume: Callable[[FinishedMesh], object] | None = None,
) -> FinishedMesh:  # fmt: skip
    """The exact partition of all slices: mesh, coordinates (v, 2), outputs of the network at the vertices (v, c).

    keep: which cells to go on with after each fold; the others are left out of the result. Once the mesh is
    worked through in parts, all cells are kept. consume: called with each finished part, which is then forgotten; the
    result is the last part.
    """
    corners = [slice.corners.to(program.device, torch.float64) for slice in slices]
    mesh, coords, slice_id = plane_mesh(corners)
    walk = Walk.of(program, zero_tolerances, budget, record, corners, keep=keep, consume=consume)
    values = program.begin(corner_inputs(program, slices, corners))
    return walk.carry(PlaneState(mesh, coords, slice_id, values))


def cut_plane(
    compared: Thresholds | Maxima, state: PlaneState, zero_tolerance: Tensor, layer: int, extent: float
) -> PlanarCut:
    """Cut the cells at this fold. extent: of the walk."""
    if isinstance(compared, Thresholds):
        units = Units(compared.values, compared.at, zero_tolerance, state.coords, extent)
        return cut_units(state.mesh, units, layer=layer, cells=state.cells, zeros=state.zeros)
    candidates = Candidates(compared.values, compared.groups, zero_tolerance)
    mesh, cells = xp.as_tensors(state.mesh), xp.as_tensors(state.cells)
    if isinstance(compared, Largest):
        result = cut_largest(mesh, candidates, compared.k, state.coords, layer=layer, cells=cells, extent=extent)
    else:
        result = cut_maxima(mesh, candidates, state.coords, layer=layer, cells=cells, extent=extent)
    return xp.numpy_on_cpu(result)


def _pieces_of_cells(mesh: Mesh, fold: Fold, values: Values) -> Tensor:
    """(r, n_units): the pieces of the fold in the middle of each cell, some cells at a time."""
    row_bytes = sum(value[0].numel() * value.element_size() for value in values.values())
    step, pieces = rows_at_a_time(row_bytes, mesh.offsets.device), []
    for start in range(0, mesh.n_cells, step):
        offsets = mesh.offsets[start : start + step + 1]
        corners = mesh.corners[offsets[0] : offsets[-1]]
        middle = {
            name: mean_of_rows(value[corners].reshape(len(corners), -1), offsets - offsets[0]).view(
                -1, *value.shape[1:]
            )
            for name, value in values.items()
        }
        pieces.append(fold.pattern(middle))
    return torch.cat(pieces)


def _expected_vertices(compared: Thresholds | Maxima, state: PlaneState) -> int:
    """About how many vertices a cut adds, from the lines that pass through a sample of the cells; half of them meet."""
    if not isinstance(compared, Thresholds):
        return 0
    mesh = xp.as_tensors(state.mesh)
    cells = torch.arange(0, mesh.n_cells, max(1, mesh.n_cells // _SAMPLE), device=mesh.offsets.device)
    index, offsets = gather_rows(mesh.offsets, cells)
    values, of = compared.values[mesh.corners[index]], owners(offsets, len(index))
    row = of[:, None].expand_as(values)
    low, high = (values.new_zeros(len(cells), values.shape[1]).scatter_reduce(0, row, values, way, include_self=False)
                 for way in ("amin", "amax"))  # fmt: skip
    lines = torch.stack([((low < threshold) & (high > threshold)).sum(1) for threshold in compared.at]).sum(0).double()
    return int((lines + lines * (lines - 1) / 4).mean() * mesh.n_cells)


def _uncut(mesh: Mesh) -> PlanarCut:
    none = mesh.edges.new_empty(0)
    points = Interpolation.of_points(mesh.n_vertices, none, none, none.double())
    return PlanarCut(mesh, none, points, mesh.edges.new_empty(0, 2), none, none)


def _follow(state: PlaneState, result: PlanarCut) -> PlaneState:
    rest = result.unsettled, result.zeros
    if result.mesh.n_vertices == state.mesh.n_vertices:
        return PlaneState(result.mesh, state.coords, state.slice_id, state.values, *rest)
    coords, *rows = result.interpolation.apply_all([state.coords, *state.values.values()])
    values = dict(zip(state.values, rows, strict=True))
    return PlaneState(result.mesh, coords, result.interpolation.copy_first(state.slice_id), values, *rest)
