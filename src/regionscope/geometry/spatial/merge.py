"""Joining cells of ``Solids`` across faces, which undoes cuts that turn out to part nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.planar.mesh import Mesh
from regionscope.geometry.ragged import gather_rows, offsets_of, owners
from regionscope.geometry.spatial.faces import Curves, Unresolved
from regionscope.geometry.spatial.sections import linked
from regionscope.geometry.spatial.solids import Solids


def merge_cells(solids: Solids, open_faces: Tensor) -> tuple[Solids, Tensor]:
    """Join the cells on both sides of the faces of a mask (f,), where their union is convex.

    Faces between the same two cells become one, and vertices between two parts of one edge disappear. Also returns the
    old number of each vertex that is left. Raises ``Unresolved`` with old cells where the union is no polytope.
    """
    number = xp.components(solids.n_cells, solids.cells[open_faces])
    n = int(number.max()) + 1
    faces = (~open_faces).nonzero()[:, 0]
    cells = solids.cells[faces]
    wall = solids.wall[faces]  # of a unit too, where the cell behind the face was left out
    one, two = number[cells[:, 0]], torch.where(cells[:, 1] < 0, n + wall - wall.min(), number[cells[:, 1]])
    if bool((one == two).any()):
        raise Unresolved(cells[one == two, 0])
    # two convex cells share one face, and a cell has one face on each wall behind which there is no cell
    wide = 1 + int(two.max().clamp(min=n))
    key, group, counts = torch.unique(
        torch.minimum(one, two) * wide + torch.maximum(one, two), return_inverse=True, return_counts=True
    )
    corners, sides, offsets = _joined_loops(solids, faces, group, counts)
    first = torch.empty_like(key).scatter_(0, group, faces)  # any of the faces
    corners, offsets, kept = _without_inner_points(solids, corners, sides, offsets)
    spare = torch.zeros_like(corners)
    mesh = Mesh.of_loops(len(kept), corners, offsets, spare[:0], spare, spare)
    low, high = key // wide, key % wide
    slice_id = solids.slice_id.new_empty(n).scatter_(0, number, solids.slice_id)
    merged = Solids(
        len(kept), mesh.edges, corners, mesh.sides, offsets, torch.stack([low, torch.where(high < n, high, -1)], 1),
        solids.wall[first], slice_id,
    )  # fmt: skip
    return merged, kept


def _joined_loops(solids: Solids, faces: Tensor, group: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Corners, sides and offsets of the union of the faces of each group, in the order of the groups."""
    index, ends = gather_rows(solids.offsets, faces)
    n_edges = len(solids.edges)
    along, often = torch.unique(group[owners(ends, len(index))] * n_edges + solids.sides[index], return_counts=True)
    along = along[often == 1]
    curves = Curves(along // n_edges, torch.zeros_like(along), along % n_edges)
    try:
        mesh = linked(curves, solids.edges, solids.n_vertices, 1).mesh
    except Unresolved as failed:
        bad = solids.cells[faces[torch.isin(group, failed.where)]]
        raise Unresolved(bad[bad >= 0]) from None
    if len(mesh.offsets) != len(counts) + 1:
        raise Unresolved(solids.cells[faces, 0])
    return mesh.corners, mesh.sides, mesh.offsets


def _without_inner_points(
    solids: Solids, corners: Tensor, sides: Tensor, offsets: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Corners and offsets without the vertices in which only two edges meet, and the old number of those left."""
    edges = torch.zeros(len(solids.edges), dtype=torch.bool, device=sides.device)
    edges[sides] = True
    meeting = torch.bincount(solids.edges[edges].flatten(), minlength=solids.n_vertices)
    stays = meeting[corners] > 2
    sizes = torch.bincount(owners(offsets, len(corners))[stays], minlength=len(offsets) - 1)
    if bool((sizes < 3).any()):
        raise Unresolved(solids.cells[:, 0])
    kept, corners = torch.unique(corners[stays], return_inverse=True)
    return corners, offsets_of(sizes), kept
