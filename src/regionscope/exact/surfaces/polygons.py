"""The corners of convex polygons in order, from the facets of the cells that they bound.

Nothing is compared by angle or distance, so polygons that rounding has flattened keep a boundary that their neighbours
share.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regionscope.errors import CheckFailed
from regionscope.exact.walls import Walls
from regionscope.geometry.ragged import gather_rows, offsets_of, owners


def ordered_corners(walls: Walls, chosen: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
    """Corners and offsets of the walls ``chosen`` (f,) of 3-D cells, each in the order of its boundary.

    cells: (f,) a cell on one side of each. Two corners of a facet span an edge iff they share another facet of the
    cell.
    """
    index, offsets = gather_rows(walls.offsets, chosen)
    corners, face = walls.vertices[index], owners(offsets, len(index))
    place, other = _other_facets(walls, chosen, cells, corners, face)
    # entries (corner of a face, facet through it) by face and facet: two of one kind are the ends of an edge
    order = torch.argsort(face[place] * (len(walls.layer) + 1) + other, stable=True)
    place, other = place[order], other[order]
    pair = ((face[place[1:]] == face[place[:-1]]) & (other[1:] == other[:-1])).nonzero()[:, 0]
    ends = torch.cat([torch.stack([place[pair], place[pair + 1]], 1), torch.stack([place[pair + 1], place[pair]], 1)])
    ends = ends[ends[:, 0].argsort(stable=True)]
    if not torch.equal(ends[:, 0], torch.arange(len(corners), device=corners.device).repeat_interleave(2)):
        raise CheckFailed(
            "Expected faces whose edges form polygons, got some that rounding left open. Move the slice or the value a "
            "little."
        )
    return corners[_walk(ends[:, 1].view(-1, 2), offsets)], offsets


def _other_facets(walls: Walls, chosen: Tensor, cells: Tensor, corners: Tensor, face: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs (place in ``corners``, another facet of the face's cell through that corner)."""
    needed = torch.zeros(int(walls.regions.max()) + 2, dtype=torch.bool, device=cells.device)
    needed[cells] = True
    wall, side = needed[walls.regions].nonzero().unbind(1)  # region -1 reads the last entry, which is False
    index, around = gather_rows(walls.offsets, wall)
    row = owners(around, len(index))
    n = int(walls.vertices.max()) + 1
    table = walls.regions[wall, side][row] * n + walls.vertices[index]  # cell and vertex of each (facet, corner)
    order = table.argsort(stable=True)
    table, facet = table[order], wall[row[order]]
    wanted = cells[face] * n + corners
    start, stop = torch.searchsorted(table, wanted), torch.searchsorted(table, wanted, right=True)
    counts = stop - start
    place = torch.repeat_interleave(counts)
    found = facet[start[place] + torch.arange(len(place), device=place.device) - offsets_of(counts)[place]]
    different = found != chosen[face[place]]
    return place[different], found[different]


def _walk(neighbours: Tensor, offsets: Tensor) -> Tensor:
    """Places of all corners along their polygons, from the two neighbours (n, 2) of each."""
    sizes = offsets.diff()
    found = torch.empty(len(neighbours), dtype=torch.int64, device=neighbours.device)
    here = offsets[:-1].clone()
    before = torch.full_like(here, -1)
    for step in range(int(sizes.max()) if len(sizes) else 0):
        going = (step < sizes).nonzero()[:, 0]
        found[offsets[going] + step] = here[going]
        both = neighbours[here[going]]
        following = torch.where(both[:, 0] == before[going], both[:, 1], both[:, 0])
        before[going] = here[going]
        here[going] = following
    return found


def normals_of(points: Tensor, corners: Tensor, offsets: Tensor) -> Tensor:
    """(f, 3) normal vectors as long as twice the areas; the corners run counter-clockwise around them."""
    face = owners(offsets, len(corners))
    here = points[corners] - points[corners[offsets[:-1]]][face]
    there = here.roll(-1, 0)
    there[offsets[1:] - 1] = 0  # the last corner is followed by the first, which lies at the origin
    return points.new_zeros(len(offsets) - 1, 3).index_add_(0, face, torch.linalg.cross(here, there))
