r"""Meshes of functions that jump: cells on both sides of a jump share neither vertices nor edges.

    before             split                        cut, each side by itself       walls
    +-----+-----+      +-----+        +-----+       +-----+        +-----+         +-----+-----+
    |     |     |      |     |        |     |       |     |        +-----+         |     1-----+
    |  P  e  Q  |  ->  |  P  e        e' Q  |  ->   |     |        |     |    ->   |     2     |
    |     |     |      |     |        |     |       +-----+        |     |         +-----3     |
    +-----+-----+      +-----+        +-----+       +-----+        +-----+         +-----+-----+

The edge e becomes two edges with one tag, which their parts keep. Behind the jump the function differs on both sides,
so that each side is cut at other points. In the end the points of both sides, in order, are the ends of the walls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope.errors import CheckFailed
from regionscope.geometry import arrays as xp
from regionscope.geometry.planar.mesh import Mesh
from regionscope.geometry.ragged import next_in_row, offsets_of, sort_by

_SAME_POINT = 1e-9  # of the extent of the mesh: points of both sides of a jump that are nearer than this are one


def split_edges(mesh: Mesh, apart: Tensor, first_tag: int) -> tuple[Mesh, Tensor]:
    """Give both cells of each edge of the mask ``apart`` (e,) an edge of their own, with a tag from ``first_tag`` on.

    Returns the mesh and the old vertex of each of its vertices. Corners of cells that meet around a vertex stay one
    vertex as long as one can go from cell to cell across edges that are not split.
    """
    following, (forwards, backwards) = next_in_row(mesh.offsets), mesh.edge_corners.unbind(1)
    joined = ((forwards >= 0) & (backwards >= 0) & ~apart).nonzero()[:, 0]
    left, right = forwards[joined], backwards[joined]
    pairs = torch.cat([torch.stack([left, following[right]], 1), torch.stack([following[left], right], 1)])
    corners = xp.components(len(mesh.corners), pairs)
    origin = torch.empty(int(corners.max()) + 1, dtype=torch.int64, device=corners.device)
    origin[corners] = mesh.corners

    def ends_of(left: Tensor, right: Tensor) -> Tensor:
        """Ends of edges from their half-edges forwards, or backwards where there are none."""
        on_left = left >= 0
        first, second = torch.where(on_left, left, following[right]), torch.where(on_left, following[left], right)
        return torch.stack([corners[first], corners[second]], 1)

    divided = apart.nonzero()[:, 0]
    n, none = len(mesh.edges), torch.full_like(divided, -1)
    edges = torch.cat([ends_of(forwards, backwards), ends_of(none, backwards[divided])])
    sides = mesh.sides.clone()
    sides[backwards[divided]] = n + torch.arange(len(divided), device=divided.device)
    tags = mesh.tags.clone()
    tags[divided] = first_tag + torch.arange(len(divided), device=divided.device)
    return replace(
        mesh, n_vertices=len(origin), edges=edges, layer=torch.cat([mesh.layer, mesh.layer[divided]]),
        tags=torch.cat([tags, tags[divided]]), corners=corners, sides=sides,
    ), origin  # fmt: skip


def side_by_side(parts: list[tuple[Mesh, Tensor, Tensor]]) -> tuple[Mesh, Tensor, Tensor]:
    """One mesh of several that share no vertices, with their coordinates and outputs one after another."""
    meshes = [mesh for mesh, _, _ in parts]
    vertex, edge, corner = (
        offsets_of(torch.tensor([size(mesh) for mesh in meshes], device="cpu")).tolist()
        for size in (lambda mesh: mesh.n_vertices, lambda mesh: len(mesh.edges), lambda mesh: len(mesh.corners))
    )
    mesh = Mesh(
        vertex[-1],
        torch.cat([mesh.edges + first for mesh, first in zip(meshes, vertex, strict=False)]),
        torch.cat([mesh.layer for mesh in meshes]),
        torch.cat([mesh.tags for mesh in meshes]),
        torch.cat([mesh.corners + first for mesh, first in zip(meshes, vertex, strict=False)]),
        torch.cat([mesh.sides + first for mesh, first in zip(meshes, edge, strict=False)]),
        torch.cat(
            [meshes[0].offsets[:1]] + [mesh.offsets[1:] + first for mesh, first in zip(meshes, corner, strict=False)]
        ),
        torch.cat([mesh.slice_id for mesh in meshes]),
    )
    return mesh, torch.cat([coords for _, coords, _ in parts]), torch.cat([outputs for _, _, outputs in parts])


@dataclass(frozen=True)
class SplitWalls:
    """Walls between the cells of a split mesh.

    ends: (w, 2) corners (places in ``Mesh.corners``) at the ends of each wall, of one cell or of both. cells: (w, 2)
    to the left and to the right; -1 outside. layer: (w,) that of the edge.
    """

    ends: Tensor
    cells: Tensor
    layer: Tensor


def split_walls(mesh: Mesh, coords: Tensor) -> SplitWalls:
    """The walls, also between cells that share no edge because a jump lies between them."""
    following, (forwards, backwards) = next_in_row(mesh.offsets), mesh.edge_corners.unbind(1)
    cells, on_left = mesh.edge_cells(), forwards >= 0
    first, second = (
        torch.where(on_left, forwards, following[backwards]),
        torch.where(on_left, following[forwards], backwards),
    )
    ends, plain = torch.stack([first, second], 1), mesh.tags < 0
    walls = SplitWalls(ends[plain], cells[plain], mesh.layer[plain])
    if bool(plain.all()):
        return walls
    pieces = (~plain & (cells >= 0).any(1)).nonzero()[:, 0]
    tag = mesh.tags[pieces].unique(return_inverse=True)[1]
    chains = _Chains.of(tag, ends[pieces], coords[mesh.corners[ends[pieces]]])
    sides = [chains.covering((on_left[pieces] == left).nonzero()[:, 0]) for left in (True, False)]
    between = torch.stack([pieces[side] for side in sides], 1)
    return SplitWalls(
        torch.cat([walls.ends, chains.ends()]),
        torch.cat([walls.cells, torch.stack([cells[between[:, 0], 0], cells[between[:, 1], 1]], 1)]),
        torch.cat([walls.layer, mesh.layer[between[:, 0]]]),
    )


@dataclass(frozen=True)
class _Chains:
    """The pieces of all split edges, from both sides, and the points at which they end, in order along each edge.

    first, last: (n,) the points at which each piece starts and ends. corner: (p,) a corner at each point.
    wall: (w,) the points after which a wall starts; it ends at the next one.
    """

    first: Tensor
    last: Tensor
    corner: Tensor
    wall: Tensor

    @staticmethod
    def of(tag: Tensor, ends: Tensor, places: Tensor) -> _Chains:
        """tag: (n,) of each piece, from 0. ends: (n, 2) corners. places: (n, 2, 2) coordinates."""
        steps = places[:, 1] - places[:, 0]
        order = sort_by(tag, (steps * steps).sum(1))
        last_of_tag = torch.ones(len(tag), dtype=torch.bool, device=tag.device)
        last_of_tag[:-1] = tag[order][1:] != tag[order][:-1]
        longest = order[last_of_tag]
        length = steps[longest].norm(dim=1)
        along = steps[longest] / length[:, None]
        distance = ((places - places[longest, :1][tag]) * along[tag][:, None]).sum(2).flatten()  # (2 n,)
        of = tag.repeat_interleave(2)
        order = sort_by(of, distance)
        of, distance = of[order], distance[order]
        extent = float((places.flatten(0, 1).amax(0) - places.flatten(0, 1).amin(0)).max())
        new = torch.ones(len(of), dtype=torch.bool, device=tag.device)
        new[1:] = (of[1:] != of[:-1]) | (distance[1:] - distance[:-1] > _SAME_POINT * extent)
        point = torch.empty_like(order)
        point[order] = new.cumsum(0) - 1
        starts = new.nonzero()[:, 0]
        wall = (of[starts][1:] == of[starts][:-1]).nonzero()[:, 0]
        return _Chains(point[0::2], point[1::2], ends.flatten()[order][starts], wall)

    def covering(self, side: Tensor) -> Tensor:
        """Of the pieces of one side, the one along each wall."""
        side = side[self.last[side] > self.first[side]]
        side = side[self.first[side].argsort()]
        place = torch.searchsorted(self.first[side], self.wall, right=True) - 1
        chosen = side[place.clamp(min=0)]
        if not bool(((place >= 0) & (self.last[chosen] > self.wall)).all()):
            raise CheckFailed(
                "Expected cells on both sides of a jump, got a gap. This is a fault of regionscope, not of the "
                "network. Move the slice a little, and report the case."
            )
        return chosen

    def ends(self) -> Tensor:
        """(w, 2) the corners at the ends of each wall."""
        return torch.stack([self.corner[self.wall], self.corner[self.wall + 1]], 1)
