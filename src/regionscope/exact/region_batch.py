"""The regions of several slices in one set of arrays, and their division by slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from regionscope.exact.line import FinishedLine, LineState
from regionscope.exact.plane import FinishedMesh
from regionscope.exact.polytopes import CellPartition
from regionscope.exact.space import SpacePartition
from regionscope.geometry import arrays as xp
from regionscope.geometry.planar.mesh import areas
from regionscope.geometry.planar.split import split_walls
from regionscope.geometry.polytope.complex import Complex
from regionscope.geometry.polytope.faces import facets, volumes
from regionscope.geometry.ragged import gather_rows, offsets_of, owners
from regionscope.network import Program

# The walls between regions.


@dataclass(frozen=True)
class Walls:
    """Faces of codimension one between regions: points in 1-D, edges in 2-D, facets in k-D.

    vertices: (n,) indices into ``Partition.vertices``, rows given by ``offsets`` (w + 1,).
    regions: (w, 2) the regions on both sides; -1 is outside the slice.
    layer: (w,) index into ``by_layer`` of the fold here; -1 on the border of the slice, and
        ``len(by_layer)`` where the wall is a decision boundary.
    """

    vertices: Tensor
    offsets: Tensor
    regions: Tensor
    layer: Tensor

    def __repr__(self) -> str:
        return f"Walls(n={len(self.layer)}, inner={len(self.inner)})"

    def to(self, device: torch.device | str) -> Walls:
        """The same walls with their tensors on ``device``."""
        return Walls(*(part.to(device) for part in (self.vertices, self.offsets, self.regions, self.layer)))

    @property
    def inner(self) -> Tensor:
        """Indices of the walls with a region on both sides."""
        return (self.regions >= 0).all(1).nonzero()[:, 0]


@dataclass(frozen=True)
class RegionBatch:
    """Regions and walls of one or several slices; those of different slices share no vertex.

    coords, outputs: (v, k) coordinates of the vertices, and (v, c) outputs of the network there.
    slice_id: (v,) the slice of each vertex.
    corners, offsets, sizes, walls: as in ``Partition``, but sizes are in slice coordinates.
    in_order: whether the vertices of each wall run around it, in three dimensions.
    """

    coords: Tensor
    outputs: Tensor
    slice_id: Tensor
    corners: Tensor
    offsets: Tensor
    sizes: Tensor
    walls: Walls
    in_order: bool = False

    @staticmethod
    def of_lines(finished: FinishedLine) -> RegionBatch:
        line, outputs = finished
        if line.run is not None:
            return RegionBatch._of_runs(line, outputs)
        arrays = xp.numpy_on_cpu(line)
        start = arrays.intervals
        index, after = xp.arange(len(arrays.coords) + 1, start), start + 1
        sides = xp.full((len(arrays.coords), 2), -1, start)
        sides[after, 0] = sides[start, 1] = index[: len(start)]
        walls = xp.as_tensors(Walls(index[:-1], index, sides, arrays.layer))
        corners, sizes = (
            xp.stack(start, after).reshape(-1),
            xp.take(arrays.coords, after) - xp.take(arrays.coords, start),
        )
        corners, offsets, sizes = map(xp.as_tensors, (corners, 2 * index[: len(start) + 1], sizes))
        return RegionBatch(
            xp.as_tensors(arrays.coords[:, None]), outputs, line.slice_id, corners, offsets, sizes, walls
        )

    @staticmethod
    def _of_runs(line: LineState, outputs: Tensor) -> RegionBatch:
        """Of a network that jumps: a wall has the last vertex of the region before it."""
        state, start = xp.as_tensors(line), xp.as_tensors(line.intervals)
        n, slice_id = len(start), state.slice_id[start]
        first = torch.ones(n, dtype=torch.bool, device=start.device)
        first[1:] = slice_id[1:] != slice_id[:-1]
        region = torch.arange(n, device=start.device)
        border = torch.stack([torch.full_like(region, -1), region], 1)[first]
        behind = torch.where(first.roll(-1), -1, region + 1)  # the first region of all is a first one, too
        vertices = torch.cat([start[first], start + 1])
        sides = torch.cat([border, torch.stack([region, behind], 1)])
        order = sides.amax(1).argsort(stable=True)
        layer = torch.where((sides >= 0).all(1), state.layer[vertices], -1)
        index = torch.arange(len(vertices) + 1, device=start.device)
        walls = Walls(vertices[order], index, sides[order], layer[order])
        corners, sizes = torch.stack([start, start + 1], 1).reshape(-1), state.coords[start + 1] - state.coords[start]
        offsets = 2 * torch.arange(n + 1, device=start.device)
        return RegionBatch(state.coords[:, None], outputs, state.slice_id, corners, offsets, sizes, walls)

    @staticmethod
    def of_mesh(finished: FinishedMesh, *, jumps: bool = False) -> RegionBatch:
        """jumps: whether the network jumps; then each region has vertices of its own."""
        mesh, coords, outputs = finished
        if jumps:
            split, corners = split_walls(mesh, coords), torch.arange(len(mesh.corners), device=coords.device)
            walls = Walls(split.ends.reshape(-1), 2 * torch.arange(len(split.cells) + 1, device=coords.device),
                          split.cells, split.layer)  # fmt: skip
            slice_id, sizes = mesh.slice_id[mesh.corner_cells()], areas(mesh, coords)
            return RegionBatch(
                coords[mesh.corners], outputs[mesh.corners], slice_id, corners, mesh.offsets, sizes, walls
            )
        arrays = xp.numpy_on_cpu(mesh)
        slice_id = xp.full(arrays.n_vertices, 0, arrays.corners)
        xp.put(slice_id, arrays.corners, xp.take(arrays.slice_id, arrays.corner_cells()))
        ends = 2 * xp.arange(len(arrays.edges) + 1, arrays.edges)
        walls = xp.as_tensors(Walls(arrays.edges.reshape(-1), ends, arrays.edge_cells(), arrays.layer))
        sizes = areas(arrays, coords)
        return RegionBatch(coords, outputs, xp.as_tensors(slice_id), mesh.corners, mesh.offsets, sizes, walls)

    @staticmethod
    def of_space(partitions: Sequence[SpacePartition | CellPartition], program: Program) -> RegionBatch:
        """The regions of partitions in three or more dimensions."""
        parts = [
            RegionBatch.of_cells(part.cells, part.coords, part.outputs, program)
            if isinstance(part, CellPartition)
            else RegionBatch._of_solids(part, program)
            for part in partitions
        ]
        return parts[0] if len(parts) == 1 else RegionBatch._concatenated(parts)

    @staticmethod
    def _of_solids(part: SpacePartition, program: Program) -> RegionBatch:
        solids, coords = part.solids, part.coords
        walls = Walls(solids.corners, solids.offsets, solids.cells, _layers(solids.wall, program))
        arrays = xp.numpy_on_cpu(solids)
        corners, offsets = arrays.cell_corners()
        slice_id = xp.full(arrays.n_vertices, 0, corners)
        xp.put(slice_id, corners, xp.take(arrays.slice_id, owners(offsets, len(corners))))
        sizes = arrays.volumes(xp.numpy_on_cpu(coords), xp.take(corners, offsets[:-1]))
        slice_id, corners, offsets, sizes = map(xp.as_tensors, (slice_id, corners, offsets, sizes))
        return RegionBatch(coords, part.outputs, slice_id, corners, offsets, sizes, walls, in_order=True)

    @staticmethod
    def of_cells(cells: Complex, coords: Tensor, outputs: Tensor, program: Program) -> RegionBatch:
        facets_of_cells = facets(cells)
        walls = Walls(
            facets_of_cells.corners,
            facets_of_cells.offsets,
            facets_of_cells.cells,
            _layers(facets_of_cells.wall, program),
        )
        sizes = volumes(cells, coords)
        return RegionBatch(coords, outputs, cells.vertex_slice_id, cells.corners, cells.offsets, sizes, walls)

    @staticmethod
    def _concatenated(parts: Sequence[RegionBatch]) -> RegionBatch:
        """All regions in the order of the parts, which share no vertex."""
        first_vertex = [0, *accumulate(len(part.coords) for part in parts)]
        first_region = [0, *accumulate(len(part.sizes) for part in parts)]
        walls = [part.walls for part in parts]
        return RegionBatch(
            torch.cat([part.coords for part in parts]),
            torch.cat([part.outputs for part in parts]),
            torch.cat([part.slice_id for part in parts]),
            torch.cat([part.corners + first for part, first in zip(parts, first_vertex, strict=False)]),
            offsets_of(torch.cat([part.offsets.diff() for part in parts])),
            torch.cat([part.sizes for part in parts]),
            Walls(
                torch.cat([wall.vertices + first for wall, first in zip(walls, first_vertex, strict=False)]),
                offsets_of(torch.cat([wall.offsets.diff() for wall in walls])),
                torch.cat([
                    torch.where(wall.regions < 0, -1, wall.regions + first)
                    for wall, first in zip(walls, first_region, strict=False)
                ]),
                torch.cat([wall.layer for wall in walls]),
            ),
        )  # fmt: skip

    def by_slice(self, n_slices: int) -> list[RegionBatch]:
        """One batch for each slice, in the same order, numbered from 0 in each. Cost: one pass."""
        if n_slices == 1:
            return [self]
        arrays = xp.numpy_on_cpu(self)
        walls = arrays.walls
        vertex = _Sorted.by(arrays.slice_id, n_slices)
        region = _Sorted.by(xp.take(arrays.slice_id, xp.take(arrays.corners, arrays.offsets[:-1])), n_slices)
        wall = _Sorted.by(xp.take(arrays.slice_id, xp.take(walls.vertices, walls.offsets[:-1])), n_slices)
        sides = xp.where(walls.regions < 0, -1, region.place[walls.regions])
        of_vertices = [vertex.split(rows) for rows in (arrays.coords, arrays.outputs, arrays.slice_id)]
        of_regions = [
            *region.split_rows(xp.take(vertex.place, arrays.corners), arrays.offsets),
            region.split(arrays.sizes),
        ]
        of_walls = [
            *wall.split_rows(xp.take(vertex.place, walls.vertices), walls.offsets),
            wall.split(sides),
            wall.split(walls.layer),
        ]
        return [
            RegionBatch(coords, outputs, slice_id, corners, offsets, sizes, Walls(*own_walls))
            for coords, outputs, slice_id, corners, offsets, sizes, *own_walls in zip(
                *of_vertices, *of_regions, *of_walls, strict=True
            )
        ]


def _layers(wall: Tensor, program: Program) -> Tensor:
    """The fold of each unit (counted over all of them), -1 for a negative number."""
    ends = torch.tensor([0, *[fold.n_units for fold in program.folds]], device="cpu").cumsum(0).to(wall.device)
    arrays = xp.numpy_on_cpu(wall)
    return xp.as_tensors(xp.where(arrays < 0, -1, xp.searchsorted(xp.numpy_on_cpu(ends), arrays, right=True) - 1))


@dataclass(frozen=True)
class _Sorted:
    """Things sorted by the slice that owns them.

    order: (n,) the things by slice. place: (n,) the place of each thing among those of its slice.
    bounds: where those of each slice start, and where the last ones end.
    """

    order: Tensor
    place: Tensor
    bounds: list[int]

    @staticmethod
    def by(slice_id: Tensor, n_slices: int) -> _Sorted:
        order, starts = xp.argsort(slice_id), offsets_of(xp.bincount(slice_id, n_slices))
        place = xp.empty(len(order), order)
        xp.put(place, order, xp.arange(len(order), order) - xp.take(starts, xp.take(slice_id, order)))
        return _Sorted(order, place, starts.tolist())

    def split(self, rows: Tensor) -> list[Tensor]:
        """The rows (n, ...) of each slice, in memory of their own."""
        return _pieces(xp.take(rows, self.order), self.bounds)

    def split_rows(self, values: Tensor, offsets: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """A ragged array of n rows: the values and the offsets of each slice."""
        index, ends = gather_rows(offsets, self.order)
        pieces = _pieces(xp.take(values, index), xp.take(ends, xp.array(self.bounds, ends)).tolist())
        return pieces, [xp.as_tensors(ends[start : end + 1] - ends[start]) for start, end in pairwise(self.bounds)]


def _pieces(rows: Tensor, bounds: list[int]) -> list[Tensor]:
    """Copies of the rows between bounds."""
    return [xp.as_tensors(xp.copied(rows[start:end])) for start, end in pairwise(bounds)]
