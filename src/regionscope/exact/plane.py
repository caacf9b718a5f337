"""Exact regions on two-dimensional slices: the mesh is carried through the network, part by part, depth first.

The cutting itself is in ``geometry/planar``: ``cut`` for thresholds, ``envelope`` for maxima.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.exact.budget import Budget, Keep, Record, bytes_of, corner_inputs, shares_of_folds
from regionscope.exact.zero_tolerance import at_vertices, snapped_signs
from regionscope.geometry import Slice
from regionscope.geometry import arrays as xp
from regionscope.geometry.crossing import Units
from regionscope.geometry.interpolation import Interpolation
from regionscope.geometry.maxima import Candidates
from regionscope.geometry.planar.cut import PlanarCut, cut_units
from regionscope.geometry.planar.envelope import cut_maxima
from regionscope.geometry.planar.mesh import Mesh
from regionscope.geometry.planar.stitch import Part, groups_of_cells, stitch, tag_borders
from regionscope.geometry.ragged import gather_rows, next_in_row, offsets_of, owners
from regionscope.network import Maxima, Program, Thresholds

Consume = Callable[[Mesh, Tensor, Tensor], None]
"""Takes finished cells: their mesh, the coordinates (v, 2) and the outputs (v, c) at its vertices."""

_CUT_BYTES = 4096  # held for each vertex of a cut while it is made
_SAMPLE = 256  # cells from which the size of a cut is estimated
_HEADROOM = 3  # a part starts at a third of its limit, so that later folds need not part it again


@dataclass(frozen=True)
class PlaneState:
    """A mesh with what is known at its vertices: coordinates (v, 2), the slice they belong to (v,), live values.

    On a CPU ``mesh`` and ``slice_id`` are NumPy arrays, the others are tensors.
    """

    mesh: Mesh
    coords: Tensor
    slice_id: Tensor
    values: dict[str, Tensor]


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
    keep: Keep | None = None, consume: Consume | None = None,
) -> tuple[Mesh, Tensor, Tensor]:  # fmt: skip
    """The exact partition of all slices: mesh, coordinates (v, 2), outputs of the network at the vertices (v, c).

    keep: which cells to go on with after each fold; the others are left out of the result. Once the mesh is
    worked through in parts, all cells are kept. consume: called with each finished part, which is then forgotten; the
    result is the last part.
    """
    corners = [slice.corners.to(program.device, torch.float64) for slice in slices]
    mesh, coords, slice_id = plane_mesh(corners)
    cutter = _PlaneCutter(program, zero_tolerances, budget, record, shares_of_folds(program, 2), keep, consume)
    values = program.begin(corner_inputs(program, slices, corners))
    return cutter.carry(0, PlaneState(mesh, coords, slice_id, values), None, None, share=1.0)


def cut_plane(
    compared: Thresholds | Maxima,
    state: PlaneState,
    zero_tolerance: Tensor,
    layer: int,
    cells: Tensor | None,
    zeros: Tensor | None,
) -> PlanarCut:
    """Cut the cells at this fold."""
    if isinstance(compared, Thresholds):
        return cut_units(
            state.mesh, Units(compared.values, compared.at, zero_tolerance), layer=layer, cells=cells, zeros=zeros
        )
    candidates = Candidates(compared.values, compared.groups, zero_tolerance)
    mesh = xp.as_tensors(state.mesh)
    return xp.numpy_on_cpu(cut_maxima(mesh, candidates, state.coords, layer=layer, cells=xp.as_tensors(cells)))


@dataclass
class _PlaneCutter:
    program: Program
    zero_tolerances: Sequence[Tensor]
    budget: Budget
    record: Record
    shares: Sequence[float]  # see ``shares_of_folds``
    keep: Keep | None = None
    consume: Consume | None = None
    next_tag: int = 0
    held: int = 0  # bytes of values that wait for their turn

    def carry(
        self, start: int, state: PlaneState, cells: Tensor | None, zeros: Tensor | None, *, share: float
    ) -> tuple[Mesh, Tensor, Tensor]:
        """Carry a mesh through fold ``start`` (``cells``: only these are left to cut) and all later ones.

        share: of all the work, for the progress.
        """
        folds = self.program.folds
        for layer in range(start, len(folds)):
            reported, layer_share = 0.0, share * self.shares[layer]
            while cells is None or len(cells):
                zero_tolerance = at_vertices(self.zero_tolerances[layer], state.slice_id)
                compared = folds[layer].compared(state.values)
                if cells is None and self.consume is not None:
                    n_parts = -(-_expected_vertices(compared, state) * _CUT_BYTES // self.budget.memory)
                    if n_parts > 1 and state.mesh.n_cells > 1:
                        return self._in_parts(layer, state, None, n_parts, share)
                if cells is None and isinstance(compared, Maxima):
                    self.record.snap(xp.take(state.slice_id, xp.numpy_on_cpu(snapped_signs(compared, zero_tolerance))))
                result = cut_plane(compared, state, zero_tolerance, layer, cells, zeros)
                self.record.snap(xp.take(state.slice_id, result.snapped))
                max_vertices = self.budget.rows(folds[layer], self.held, state.coords.device)
                if result.mesh.n_vertices > max_vertices and result.mesh.n_cells > 1:
                    n_parts = -(-_HEADROOM * result.mesh.n_vertices // max_vertices)
                    return self._in_parts(layer, state, result, n_parts, share - reported)
                state, cells, zeros = _follow(state, result), result.unsettled, result.zeros
                if len(cells):  # maxima need several rounds: the rest takes about as long as this one
                    half = (layer_share - reported) / 2
                    self.record.report_progress(half)
                    reported += half
            self.record.add(layer, state.mesh.slice_id, self.budget.max_regions)
            values = folds[layer].advance(state.values, consume=True)
            state = PlaneState(state.mesh, state.coords, state.slice_id, values)
            if self.keep is not None:
                mask = self.keep(layer, xp.as_tensors(state.mesh).cell_corners, state.coords, values)
                state = state if mask is None else _kept(state, mask)
            self.record.report_progress(layer_share - reported)
            share, cells, zeros = share - layer_share, None, None
        self.record.report_progress(share)
        mesh, outputs = xp.as_tensors(state.mesh), self.program.outputs(state.values)
        if self.consume is not None:
            self.consume(mesh, state.coords, outputs)
        return mesh, state.coords, outputs

    def _in_parts(
        self, layer: int, state: PlaneState, cut: PlanarCut | None, n_parts: int, share: float
    ) -> tuple[Mesh, Tensor, Tensor]:
        """Work through groups of the new cells one after another; their values are made only when their turn comes.

        cut: at fold ``layer``; None parts the cells before it. share: of all the work, divided in proportion
        to the number of cells.
        """
        self.keep = None  # neighbours in other parts have to find the same points on the border
        state = xp.as_tensors(state)
        after = _uncut(state.mesh) if cut is None else xp.as_tensors(cut)
        coords = after.interpolation.apply(state.coords)
        slice_id = after.interpolation.copy_first(state.slice_id)
        position = coords[after.mesh.corners[after.mesh.offsets[:-1]]]
        groups = groups_of_cells(after.mesh, position, n_parts)
        first_tag = self.next_tag
        mesh, n_tags = tag_borders(after.mesh, groups, first_tag)
        self.next_tag += n_tags
        parts, interpolation = [], after.interpolation.matrix()
        waiting = bytes_of(state.values)
        self.held += waiting
        for group in groups:
            part, vertices = mesh.extract(group)
            matrix = interpolation.of(vertices)
            values = {name: matrix.apply(rows) for name, rows in state.values.items()}
            local = torch.full((mesh.n_vertices,), -1, dtype=torch.int64, device=vertices.device)
            local[vertices] = torch.arange(len(vertices), device=vertices.device)
            zeros = torch.stack([local[after.zeros[:, 0]], after.zeros[:, 1]], 1)
            unsettled = None if cut is None else torch.isin(group, after.unsettled).nonzero()[:, 0]
            part_state = PlaneState(
                xp.numpy_on_cpu(part), coords[vertices], xp.numpy_on_cpu(slice_id[vertices]), values
            )
            part_share = share * len(group) / mesh.n_cells
            finished = self.carry(layer, part_state, unsettled, zeros[zeros[:, 0] >= 0], share=part_share)
            if self.consume is None:
                parts.append(Part(finished[0], finished[1:], vertices))
        self.held -= waiting
        if self.consume is not None:
            return finished
        stitched, arrays = stitch(parts, mesh.n_vertices, first_tag, n_tags)
        return stitched, arrays[0], arrays[1]


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
    if result.mesh.n_vertices == state.mesh.n_vertices:
        return PlaneState(result.mesh, state.coords, state.slice_id, state.values)
    matrix = result.interpolation.matrix()
    values = {name: matrix.apply(rows) for name, rows in state.values.items()}
    return PlaneState(result.mesh, matrix.apply(state.coords), result.interpolation.copy_first(state.slice_id), values)


def _kept(state: PlaneState, mask: Tensor) -> PlaneState:
    """The cells of the mask alone."""
    mesh, kept = state.mesh.extract(xp.numpy_on_cpu(mask.nonzero()[:, 0]))
    vertices = xp.as_tensors(kept)
    values = {name: rows[vertices] for name, rows in state.values.items()}
    return PlaneState(mesh, state.coords[vertices], xp.take(state.slice_id, kept), values)
