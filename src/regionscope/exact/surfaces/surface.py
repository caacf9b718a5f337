"""The result of ``level_set``: curves on a plane or a polygon mesh in three dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regionscope.checks import read_path
from regionscope.errors import CheckFailed, InputError
from regionscope.exact.region_batch import Walls
from regionscope.exact.surfaces.files import write_mesh
from regionscope.extras import data_frame
from regionscope.formatting import size_name
from regionscope.geometry import Slice
from regionscope.geometry import arrays as xp
from regionscope.geometry.ragged import gather_rows, next_in_row, offsets_of, owners, ranges
from regionscope.geometry.slices import isometry
from regionscope.types import Reading, Stats


class Faces(NamedTuple):
    """Ragged faces: face i has the vertices ``corners[offsets[i]:offsets[i + 1]]``."""

    corners: Tensor
    offsets: Tensor

    def __repr__(self) -> str:
        return f"Faces(n={len(self.offsets) - 1}, corners={len(self.corners)})"


class _Edges(NamedTuple):
    """ends (e, k - 1): vertices of each edge. of (n,): the edge of each corner. faces (e,): number of its faces."""

    ends: Tensor
    of: Tensor
    faces: Tensor


@dataclass(frozen=True, eq=False)
class LevelSet:
    """The boundary of {f < value} on a slice: line segments (k = 2) or convex polygons (k = 3) that share vertices.

    slice: the slice. vertices: (v, k) float64 slice coordinates, each point once; ``points`` are the inputs.
    corners, offsets: the vertices of face i are ``corners[offsets[i]:offsets[i + 1]]``. In 3-D they run
        counter-clockwise seen from the side of larger f; in 2-D {f < value} lies to the left of each segment.
    normals: (f, k) unit vectors in slice coordinates that point to larger f.
    flat: (m, k) a point inside each region on which f equals the value everywhere; flat_size: their total size.
    value, classes: the arguments of ``level_set``; one of them is None.
    n_regions: number of regions left after the last layer.
    """

    slice: Slice
    vertices: Tensor
    corners: Tensor
    offsets: Tensor
    normals: Tensor
    flat: Tensor
    flat_size: float
    value: float | None
    classes: tuple[int, ...] | None
    n_regions: int
    stats: Stats = field(default_factory=Stats)

    def readings(self) -> tuple[Reading, ...]:
        """The number of faces, the area, the Euler characteristic, and the numbers of components and border edges."""
        return (
            ("", len(self), None),
            ("area", self.area, None),
            ("euler", self.euler, None),
            ("components", self.n_components, None),
            ("boundary_edges", len(self.boundary_edges), None),
            ("nonmanifold", self.n_nonmanifold, None),
        )

    def __repr__(self) -> str:
        what = f"value={self.value:g}" if self.classes is None else f"classes={self.classes}"
        faces = f"{'segments' if self.dim == 2 else 'faces'}={len(self)}, {size_name(self.dim - 1)}={self.area:.6g}"
        return f"LevelSet(dim={self.dim}, {what}, {faces}, euler={self.euler})"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def dim(self) -> int:
        """Dimension k of the slice."""
        return self.slice.dim

    @property
    def faces(self) -> Faces:
        """Corners and offsets of the faces."""
        return Faces(self.corners, self.offsets)

    @property
    def points(self) -> Tensor:
        """The vertices as inputs (v, *input_shape)."""
        return self.slice.embed(self.vertices)

    @cached_property
    def areas(self) -> Tensor:
        """Area of each polygon, or length of each segment, in input space (f,)."""
        frame = isometry(self.slice).to(self.vertices)
        if self.dim == 2:
            along = self.vertices[self.corners[self.offsets[1:] - 1]] - self.vertices[self.corners[self.offsets[:-1]]]
            length: Tensor = torch.linalg.vector_norm(along @ frame, dim=1)
            return length
        normals = normals_of(self.vertices, self.corners, self.offsets)
        # a x b = n in coordinates; in input space (a F) x (b F) = n C with the cofactors C of F
        cofactors = torch.linalg.cross(frame.roll(-1, 0), frame.roll(-2, 0), dim=1)
        area: Tensor = torch.linalg.vector_norm(normals @ cofactors, dim=1) / 2
        return area

    @property
    def area(self) -> float:
        """Area of the surface in input space; on a plane, the length of the curves."""
        return float(self.areas.sum())

    @cached_property
    def _edges(self) -> _Edges:
        """Edges of polygons; the ends of segments on a plane."""
        if self.dim == 2:
            ends, of, count = torch.unique(self.corners, return_inverse=True, return_counts=True)
            return _Edges(ends[:, None], of, count)
        following = self.corners[next_in_row(self.offsets)]
        low, high = torch.minimum(self.corners, following), torch.maximum(self.corners, following)
        n = len(self.vertices)
        keys, of, count = torch.unique(low * n + high, return_inverse=True, return_counts=True)
        return _Edges(torch.stack([keys // max(n, 1), keys % max(n, 1)], 1), of, count)

    @property
    def edges(self) -> Tensor:
        """(e, k - 1) vertices of the edges of all faces, each once; on a plane the ends of segments."""
        return self._edges.ends

    @property
    def euler(self) -> int:
        """Euler characteristic: vertices - edges + faces; on a plane vertices - segments."""
        return (
            len(self.vertices) - len(self) if self.dim == 2 else len(self.vertices) - len(self._edges.ends) + len(self)
        )

    @property
    def boundary_edges(self) -> Tensor:
        """(e, k - 1) vertices of the edges with one face, which lie on the border of the slice.

        On a plane, these are the ends of open curves; between two classes, also the points where a third class takes
        over.
        """
        return self._edges.ends[self._edges.faces == 1]

    @cached_property
    def n_nonmanifold(self) -> int:
        """Number of edges with more than two faces and of vertices at which several sheets touch; 0 for a manifold."""
        crowded = int((self._edges.faces > 2).sum())
        if self.dim == 2:
            return crowded
        following = next_in_row(self.offsets)
        order = self._edges.of.argsort(stable=True)
        twice = (self._edges.faces == 2).nonzero()[:, 0]
        first = torch.cumsum(self._edges.faces, 0)[twice] - 2
        a, b = order[first], order[first + 1]  # the two corners from which this edge starts
        same = self.corners[a] == self.corners[b]
        pairs = torch.cat(
            [torch.stack([a, torch.where(same, b, following[b])], 1),
             torch.stack([following[a], torch.where(same, following[b], b)], 1)]
        )  # fmt: skip
        fan = xp.components(len(self.corners), pairs)
        sheets = torch.unique(self.corners * (len(self.corners) + 1) + fan) // (len(self.corners) + 1)
        return crowded + int((torch.bincount(sheets) > 1).sum()) if len(sheets) else crowded

    @cached_property
    def n_components(self) -> int:
        """Number of connected pieces of the surface; pieces that share a vertex count as one."""
        if not len(self):
            return 0
        face = owners(self.offsets, len(self.corners)) + len(self.vertices)
        pieces = xp.components(len(self.vertices) + len(self), torch.stack([self.corners, face], 1))
        return int(pieces.max()) + 1

    def triangles(self) -> Tensor:
        """(t, 3) vertices of triangles that fill the polygons, each as a fan around its first corner; same order."""
        if self.dim != 3:
            raise InputError(f"Expected a slice of dimension 3, got {self.dim}. Use vertices[corners], its segments.")
        counts = self.offsets.diff() - 2
        start = self.offsets[:-1].repeat_interleave(counts)
        second = ranges(self.offsets[:-1] + 1, counts)
        return self.corners[torch.stack([start, second, second + 1], 1)]

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row for each face: area, number of corners, and the normal."""
        columns = {"area": self.areas, "corners": self.offsets.diff()}
        columns |= {f"normal_{i + 1}": self.normals[:, i] for i in range(self.dim)}
        return data_frame({name: column.cpu().numpy() for name, column in columns.items()})

    def save(self, path: str | Path, *, inputs: bool = False, triangles: bool = False) -> Path:
        """Write the mesh to a .ply or .stl file; curves are written with a third coordinate 0.

        inputs: whether to write inputs instead of slice coordinates; an input must have as many numbers as the slice
            has dimensions. triangles: whether to cut the polygons into triangles.
        An .stl file always holds triangles, in float32, and no curves. The other files hold float64.
        """
        path, points = read_path(path), self.vertices
        if inputs:
            points = self.points.flatten(1)
            if points.shape[1] != self.dim:
                raise InputError(
                    f"Expected inputs of {self.dim} numbers, got {points.shape[1]}. Write slice coordinates instead."
                )
        corners, offsets = self.corners, self.offsets
        if triangles or (path.suffix == ".stl" and self.dim == 3):
            corners = self.triangles().flatten()
            offsets = 3 * torch.arange(len(corners) // 3 + 1, device=corners.device)
        return write_mesh(path, *(array.cpu().numpy() for array in (points, corners, offsets)))

    def to(self, device: torch.device | str) -> LevelSet:
        """The same surface with its tensors on ``device``."""
        slice = self.slice.to(device)
        return replace(self, slice=slice, **{name: getattr(self, name).to(device) for name in _ARRAYS})


_ARRAYS = ("vertices", "corners", "offsets", "normals", "flat")


# The corners of convex polygons in order, from the facets of the cells that they bound.
#
# Nothing is compared by angle or distance, so polygons that rounding has flattened keep a boundary that their
# neighbours share.


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
    facets = facet[start[place] + torch.arange(len(place), device=place.device) - offsets_of(counts)[place]]
    different = facets != chosen[face[place]]
    return place[different], facets[different]


def _walk(neighbours: Tensor, offsets: Tensor) -> Tensor:
    """Places of all corners along their polygons, from the two neighbours (n, 2) of each."""
    sizes = offsets.diff()
    places = torch.empty(len(neighbours), dtype=torch.int64, device=neighbours.device)
    current = offsets[:-1].clone()
    before = torch.full_like(current, -1)
    for step in range(int(sizes.max()) if len(sizes) else 0):
        going = (step < sizes).nonzero()[:, 0]
        places[offsets[going] + step] = current[going]
        both = neighbours[current[going]]
        following = torch.where(both[:, 0] == before[going], both[:, 1], both[:, 0])
        before[going] = current[going]
        current[going] = following
    return places


def normals_of(points: Tensor, corners: Tensor, offsets: Tensor) -> Tensor:
    """(f, 3) normal vectors as long as twice the areas; the corners run counter-clockwise around them."""
    face = owners(offsets, len(corners))
    arms = points[corners] - points[corners[offsets[:-1]]][face]
    next_arms = arms.roll(-1, 0)
    next_arms[offsets[1:] - 1] = 0  # the last corner is followed by the first, which lies at the origin
    return points.new_zeros(len(offsets) - 1, 3).index_add_(0, face, torch.linalg.cross(arms, next_arms))
