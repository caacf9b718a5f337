"""A part of the plane cut into convex cells that share vertices and edges by index."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import torch
from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.crossing import Points
from regionscope.geometry.ragged import gather_rows, next_in_row, offsets_of, owners


@dataclass(frozen=True)
class Mesh:
    """Convex cells in the plane; coordinates are kept elsewhere, vertices are only numbers here.

    n_vertices: v
    edges: (e, 2) ends of each edge.
    layer: (e,) which fold drew the edge; -1 for the border of the slice.
    tags: (e,) marks carried to the parts of an edge when it is cut; -1 for none.
    corners: (c,) vertices of each cell, counter-clockwise; rows given by ``offsets`` (r + 1,).
    sides: (c,) the edge from this corner to the next.
    slice_id: (r,) which slice the cell belongs to.
    """

    n_vertices: int
    edges: Tensor
    layer: Tensor
    tags: Tensor
    corners: Tensor
    sides: Tensor
    offsets: Tensor
    slice_id: Tensor

    @property
    def n_cells(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def edge_corners(self) -> Tensor:
        """The corners from which half-edges run along each edge forwards and backwards (e, 2); -1 for none."""
        corners = xp.full(2 * len(self.edges), -1, self.edges)
        backwards = self.corners != xp.take(self.edges[:, 0], self.sides)
        xp.put(corners, 2 * self.sides + backwards, xp.arange(len(self.corners), self.edges))
        return corners.reshape(-1, 2)

    @staticmethod
    def of_loops(
        n_vertices: int, corners: Tensor, offsets: Tensor, slice_id: Tensor, layer: Tensor, tags: Tensor
    ) -> Mesh:
        """A mesh from vertex loops alone; ``layer`` and ``tags`` of a corner belong to the side that starts there."""
        following = corners[next_in_row(offsets)]
        low, high = torch.minimum(corners, following), torch.maximum(corners, following)
        key, sides = torch.unique(low * n_vertices + high, return_inverse=True)
        edges = torch.stack([key // n_vertices, key % n_vertices], 1)
        edge_layer = layer.new_empty(len(edges)).index_copy_(0, sides, layer)
        edge_tags = tags.new_empty(len(edges)).index_copy_(0, sides, tags)
        return Mesh(n_vertices, edges, edge_layer, edge_tags, corners, sides, offsets, slice_id)

    def cell_corners(self) -> tuple[Tensor, Tensor]:
        """The vertices of each cell, as a ragged array: vertices and offsets (r + 1,)."""
        return self.corners, self.offsets

    def corner_cells(self) -> Tensor:
        """The cell of every corner (c,)."""
        return owners(self.offsets, len(self.corners))

    def edge_cells(self) -> Tensor:
        """The cells on the left and right of every edge (e, 2); -1 outside."""
        cells = xp.cat([self.corner_cells(), xp.full(1, -1, self.offsets)])
        return cells[self.edge_corners]

    def extract(self, cells: Tensor) -> tuple[Mesh, Tensor]:
        """The mesh of these cells alone, and the (old) vertices that its vertices stand for."""
        index, offsets = gather_rows(self.offsets, cells)
        corners, sides = xp.take(self.corners, index), xp.take(self.sides, index)
        vertices, vertex_number = _used(corners, self.n_vertices)
        used, edge_number = _used(sides, len(self.edges))
        corners, sides = xp.take(vertex_number, corners), xp.take(edge_number, sides)
        edges = vertex_number[xp.take(self.edges, used)]
        layer, tags, slice_id = xp.take(self.layer, used), xp.take(self.tags, used), xp.take(self.slice_id, cells)
        mesh = Mesh(len(vertices), edges, layer, tags, corners, sides, offsets, slice_id)
        return mesh, vertices


def _used(numbers: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The distinct numbers below n, ascending, and for each of them its place among these."""
    among = xp.mask(n, False, numbers)
    among[numbers] = True
    used, place = xp.nonzero(among), xp.empty(n, numbers)
    xp.put(place, used, xp.arange(len(used), numbers))
    return used, place


def areas(mesh: Mesh, coords: Tensor) -> Tensor:
    """Area of every cell (r,) from the coordinates of the vertices (v, 2), relative to a corner of the cell."""
    mesh, coords = xp.numpy_on_cpu(mesh), xp.numpy_on_cpu(coords)
    x, y = (xp.take(coords[:, i], mesh.corners) for i in range(2))
    cell, after = mesh.corner_cells(), next_in_row(mesh.offsets)
    x, y = (coords - xp.take(xp.take(coords, mesh.offsets[:-1]), cell) for coords in (x, y))
    doubled = x * xp.take(y, after) - y * xp.take(x, after)
    return xp.as_tensors(0.5 * xp.sums(cell, doubled, mesh.n_cells))


@dataclass(frozen=True)
class EdgeCut:
    """A mesh with new vertices on its edges.

    before: the mesh as it was.
    corner_slots: (c,) where each old corner stands now.
    point_slots: (p, 2) the corner of every new point in the cell left of its edge and in the one right of it; -1 for
        none.
    """

    before: Mesh
    mesh: Mesh
    corner_slots: Tensor
    point_slots: Tensor


def cut_edges(mesh: Mesh, points: Points) -> EdgeCut:
    """Put new vertices into edges; both cells of an edge receive them. The cells stay the same sets.

    Vertex ``mesh.n_vertices + i`` is point i.
    """
    e, p, v = len(mesh.edges), len(points), mesh.n_vertices
    counts = xp.bincount(points.edge, e)
    first = xp.arange(e, counts) + offsets_of(counts)[:-1]  # first part of every edge
    index = xp.arange(p, counts)
    rank = index + points.edge - xp.take(first, points.edge)  # of the point along its edge
    edges = xp.empty((e + p, 2), counts)
    edges[first, 0] = mesh.edges[:, 0]
    edges[first + counts, 1] = mesh.edges[:, 1]
    edges[points.edge + index + 1, 0] = v + index
    edges[points.edge + index, 1] = v + index

    extra, first_of = xp.take(counts, mesh.sides), xp.take(first, mesh.sides)
    ends = offsets_of(extra)
    start = xp.arange(len(extra), counts) + ends[:-1]  # new index of every old corner
    total = len(extra) + int(ends[-1])
    backwards = mesh.corners != xp.take(mesh.edges[:, 0], mesh.sides)
    corners, sides = xp.empty(total, counts), xp.empty(total, counts)
    xp.put(corners, start, mesh.corners)
    xp.put(sides, start, first_of + extra * backwards)

    slots = xp.full((p, 2), -1, counts)
    for way in range(2):
        corner = xp.take(mesh.edge_corners[:, way], points.edge)
        entry = xp.nonzero(corner >= 0)
        edge, r = xp.take(points.edge, entry), xp.take(rank, entry)
        slot = xp.take(start, xp.take(corner, entry)) + (1 + r if way == 0 else xp.take(counts, edge) - r)
        slots[entry, way] = slot
        xp.put(corners, slot, v + entry)
        xp.put(sides, slot, xp.take(first, edge) + (r + 1 if way == 0 else r))
    repeats = counts + 1
    cut = Mesh(
        v + p,
        edges,
        xp.repeat(mesh.layer, repeats, len(edges)),
        xp.repeat(mesh.tags, repeats, len(edges)),
        corners,
        sides,
        xp.take(xp.cat([start, xp.full(1, total, start)]), mesh.offsets),
        mesh.slice_id,
    )
    return EdgeCut(mesh, cut, start, slots)


@dataclass(frozen=True)
class NewCells:
    """Cells, given by their vertices, that take the place of others.

    replaces: (n,) old cells that are replaced, with all that was cut from them.
    loops: vertices of each new cell, counter-clockwise. old_cell: the old cell from which each is cut.
    n_vertices: number of vertices that are new; their numbers follow those of the mesh.
    """

    replaces: Tensor
    loops: list[list[int]]
    old_cell: list[int]
    n_vertices: int


def replace_cells(mesh: Mesh, old_cell: Tensor, new: NewCells, layer: int) -> tuple[Mesh, Tensor]:
    """Put new cells in the place of those that come from ``new.replaces``; their new edges belong to ``layer``.

    ``old_cell`` (r,): the old cell of each cell of the mesh. Cells stay sorted by it; returned for the new mesh.
    """
    device, loops = mesh.edges.device, new.loops
    cells = torch.isin(old_cell, new.replaces).nonzero()[:, 0]
    index, _ = gather_rows(mesh.offsets, cells)
    known = {tuple(sorted(ends)): edge for ends, edge in zip(
        mesh.edges[mesh.sides[index]].tolist(), mesh.sides[index].tolist(), strict=True)}  # fmt: skip
    first_new = len(mesh.edges)
    added: list[tuple[int, ...]] = []
    sides = []
    for loop in loops:
        for a, b in zip(loop, loop[1:] + loop[:1], strict=True):
            ends = (min(a, b), max(a, b))
            if ends not in known:
                known[ends] = first_new + len(added)
                added.append(ends)
            sides.append(known[ends])
    kept = torch.ones(mesh.n_cells, dtype=torch.bool, device=device)
    kept[cells] = False
    kept_index, kept_offsets = gather_rows(mesh.offsets, kept.nonzero()[:, 0])
    lengths = torch.tensor([len(loop) for loop in loops], dtype=torch.int64, device=device)
    new_corners = torch.tensor(list(chain.from_iterable(loops)), dtype=torch.int64, device=device)
    corners = torch.cat([mesh.corners[kept_index], new_corners])
    all_sides = torch.cat([mesh.sides[kept_index], torch.tensor(sides, dtype=torch.int64, device=device)])
    offsets = torch.cat([kept_offsets, kept_offsets[-1] + lengths.cumsum(0)])
    origin = torch.cat([old_cell[kept], torch.tensor(new.old_cell, dtype=torch.int64, device=device)])
    slice_of = torch.empty(int(origin.max()) + 1, dtype=torch.int64, device=device)
    slice_of[old_cell] = mesh.slice_id
    order = origin.argsort(stable=True)
    index, offsets = gather_rows(offsets, order)
    result = Mesh(
        mesh.n_vertices + new.n_vertices,
        torch.cat([mesh.edges, torch.tensor(added, dtype=torch.int64, device=device).view(-1, 2)]),
        torch.cat([mesh.layer, mesh.layer.new_full((len(added),), layer)]),
        torch.cat([mesh.tags, mesh.tags.new_full((len(added),), -1)]),
        corners[index],
        all_sides[index],
        offsets,
        slice_of[origin[order]],
    )
    return result, origin[order]
