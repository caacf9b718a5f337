"""Convex cells in space that share vertices, edges and faces by index: the data, and questions about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.arrays import rows_at_a_time
from regionscope.geometry.bitsets import pack
from regionscope.geometry.planar.mesh import Mesh
from regionscope.geometry.polytope.complex import NO_WALL, Complex, Domain
from regionscope.geometry.ragged import gather_rows, offsets_of, owners, ranges

_ENTRIES = 1 << 16  # corners of cells that are sorted at a time
_FACE_BYTES = 256  # of the numbers about a face while its area is computed


class NotPolytopes(ArithmeticError):
    """Rounding left a cell that is no polytope."""


@dataclass(frozen=True)
class Solids:
    """Convex cells in space; coordinates are kept elsewhere, vertices are only numbers here.

    n_vertices: v
    edges: (e, 2) ends of each edge.
    corners: (c,) vertices around each face, rows given by ``offsets`` (f + 1,).
    sides: (c,) the edge from this corner to the next.
    cells: (f, 2) the cells on both sides of each face; the second is -1 where there is none.
    wall: (f,) the unit that vanishes on the face, or -1 - h for halfspace h of the slice.
    slice_id: (r,) the slice of each cell.
    """

    n_vertices: int
    edges: Tensor
    corners: Tensor
    sides: Tensor
    offsets: Tensor
    cells: Tensor
    wall: Tensor
    slice_id: Tensor

    @staticmethod
    def of_domains(domains: Sequence[Domain]) -> tuple[Solids, Tensor]:
        """One cell for each bounded domain {c : A c <= b} in space, and the coordinates (v, 3) of all corners."""
        whole, coords = Complex.of_domains(domains)
        device = coords.device
        loops: list[Tensor] = []
        wall, cells, start = [], [], 0
        for i, (corners, a, b) in enumerate(domains):
            on = whole.tight[start : start + len(corners), 0]
            for h in range(len(b)):
                members = ((on >> h) & 1).nonzero()[:, 0]
                loops.append(members[_around(corners[members], a[h])] + start)
                wall.append(-1 - h)
                cells.append([i, -1])
            start += len(corners)
        none = torch.zeros(0, dtype=torch.int64, device=device)
        offsets = offsets_of(torch.tensor([len(loop) for loop in loops], device=device))
        spare = torch.zeros(int(offsets[-1]), dtype=torch.int64, device=device)
        mesh = Mesh.of_loops(len(coords), torch.cat(loops), offsets, none, spare, spare)
        return Solids(
            len(coords), mesh.edges, mesh.corners, mesh.sides, offsets, torch.tensor(cells, device=device),
            torch.tensor(wall, device=device), whole.slice_id,
        ), coords  # fmt: skip

    @property
    def n_cells(self) -> int:
        return len(self.slice_id)

    @property
    def n_faces(self) -> int:
        return len(self.wall)

    @property
    def face_of_corner(self) -> Tensor:
        """(c,) the face of each entry of ``corners``."""
        return owners(self.offsets, len(self.corners))

    @property
    def loops(self) -> Mesh:
        """The faces as cells of a mesh, in which more than two of them may share an edge."""
        none = self.wall[:0]
        return Mesh(self.n_vertices, self.edges, none, none, self.corners, self.sides, self.offsets, none)

    def half_faces(self) -> tuple[Tensor, Tensor]:
        """The faces of each cell, those with more corners later, as a ragged array: faces and offsets (r + 1,)."""
        inner = xp.nonzero(self.cells[:, 1] >= 0)
        cell = xp.cat([self.cells[:, 0], xp.take(self.cells[:, 1], inner)])
        size = xp.minimum(xp.differences(self.offsets), xp.full(1, 63, cell))
        order = xp.sort((cell << 6) + xp.cat([size, xp.take(size, inner)]))[1]
        face = xp.take(xp.cat([xp.arange(self.n_faces, cell), inner]), order)
        return face, offsets_of(xp.bincount(cell, self.n_cells))

    def cell_corners(self) -> tuple[Tensor, Tensor]:
        """The vertices of each cell, ascending, as a ragged array: vertices and offsets (r + 1,).

        A vertex of a cell lies on at least three of its faces, so two of them, the largest, are not looked at.
        """
        faces, face_offsets = self.half_faces()
        fewer = offsets_of(xp.differences(face_offsets) - 2)
        faces = xp.take(faces, ranges(face_offsets[:-1], xp.differences(fewer)))
        index, ends = gather_rows(self.offsets, faces)
        ends = xp.take(ends, fewer)
        keys = (owners(ends, len(index)) << 32) | xp.take(self.corners, index)
        if isinstance(keys, np.ndarray):
            for start in range(0, self.n_cells, step := max(1, _ENTRIES * self.n_cells // max(1, len(keys)))):
                keys[ends[start] : ends[min(start + step, self.n_cells)]].sort()
        else:
            keys = keys.sort().values
        new = xp.mask(len(keys), True, keys)
        new[1:] = xp.differences(keys) != 0
        keys = xp.take(keys, xp.nonzero(new))
        return keys & 0xFFFFFFFF, offsets_of(xp.bincount(keys >> 32, self.n_cells))

    def face_areas(self, coords: Tensor) -> list[Tensor]:
        """The area of each face times a unit normal, by coordinates: three arrays (f,)."""
        axes, sums = _columns(coords), []
        step = rows_at_a_time(_FACE_BYTES, coords.device)
        for first in range(0, self.n_faces, step):
            offsets = self.offsets[first : first + step + 1]
            corners, start = self.corners[offsets[0] : offsets[-1]], offsets[:-1] - offsets[0]
            face = owners(offsets - offsets[0], len(corners))
            # from the first corner of the face, so pairs of corners of two faces add nothing
            along = [edge - xp.take(xp.take(edge, start), face) for edge in (xp.take(axis, corners) for axis in axes)]
            (a, b, c), (x, y, z) = ([column[side] for column in along] for side in (slice(None, -1), slice(1, None)))
            doubled = b * z - c * y, c * x - a * z, a * y - b * x
            sums.append([xp.sums(face[1:], column, len(start)) / 2 for column in doubled])
        return [xp.cat(column) for column in zip(*sums, strict=True)]

    def volumes(self, coords: Tensor, inside: Tensor) -> Tensor:
        """(r,) the volume of each cell, from coordinates (v, 3) and the number (r,) of a vertex of each cell.

        A cone from that vertex over a face counts as negative where rounding has bent the face so that it lies on the
        same side of both its cells, for the one with the smaller cone; so volumes add up to that of all cells.
        """
        area, first = self.face_areas(coords), xp.take(self.corners, self.offsets[:-1])
        axes = _columns(coords)

        def cones(face: Tensor, cell: Tensor) -> Tensor:
            a, b = xp.take(first, face), xp.take(inside, cell)
            height = xp.double(xp.full(len(cell), 0, coords))
            for axis, part in zip(axes, area, strict=True):
                height += (xp.take(axis, a) - xp.take(axis, b)) * xp.take(part, face)
            return height

        inner = self.cells[:, 1] >= 0
        border, inner = xp.nonzero(~inner), xp.nonzero(inner)
        outer, one, two = (
            xp.take(self.cells[:, 0], border),
            xp.take(self.cells[:, 0], inner),
            xp.take(self.cells[:, 1], inner),
        )
        cone, other_cone = cones(inner, one), cones(inner, two)
        outwards = 1 - 2 * xp.double(cone < other_cone)  # the two have opposite signs
        both = xp.cat([abs(cones(border, outer)), cone * outwards, other_cone * -outwards])
        return xp.sums(xp.cat([outer, one, two]), both, self.n_cells) / 3

    def take(self, chosen: Tensor) -> tuple[Solids, Tensor]:
        """The cells of a mask (r,) alone, and the old number of each vertex that is left."""
        number = xp.cat([xp.where(chosen, chosen.cumsum(0) - 1, -1), xp.full(1, -1, self.wall)])
        first, second = number[self.cells[:, 0]], number[self.cells[:, 1]]
        faces = xp.nonzero((first >= 0) | (second >= 0))
        first, second = xp.take(first, faces), xp.take(second, faces)
        loops, kept = self.loops_of(faces)
        return replace(
            self, n_vertices=len(kept), edges=loops.edges, corners=loops.corners, sides=loops.sides,
            offsets=loops.offsets, wall=xp.take(self.wall, faces), slice_id=self.slice_id[chosen],
            cells=xp.stack(xp.where(first >= 0, first, second), xp.where(first >= 0, second, first)),
        ), kept  # fmt: skip

    def loops_of(self, faces: Tensor) -> tuple[Mesh, Tensor]:
        """These faces alone as ``loops``, and the old number of each vertex that is left."""
        none = self.wall
        mesh = Mesh(self.n_vertices, self.edges, self.edges[:, 0], self.edges[:, 0], self.corners, self.sides,
                    self.offsets, none)  # fmt: skip
        return mesh.extract(faces)

    def as_complex(self) -> Complex:
        """The same cells as polytopes of any dimension, with the same vertices.

        Raises ``NotPolytopes`` where rounding left a vertex on two faces of a cell only, which share both its edges.
        """
        faces, face_offsets = self.half_faces()
        corners, offsets = self.cell_corners()
        number = torch.arange(len(faces), device=faces.device)
        cell = owners(face_offsets, len(faces))
        local = number - face_offsets[cell]
        width = int(face_offsets.diff().max())
        walls = torch.full((self.n_cells, width), NO_WALL, device=faces.device)
        walls[cell, local] = self.wall[faces]
        index, ends = gather_rows(self.offsets, faces)
        of = owners(ends, len(index))
        known = owners(offsets, len(corners)) * self.n_vertices + corners
        wanted = cell[of] * self.n_vertices + self.corners[index]
        place = torch.searchsorted(known, wanted).clamp(max=len(known) - 1)
        if not torch.equal(known[place], wanted):
            raise NotPolytopes
        bits = torch.zeros(len(corners), width, dtype=torch.bool, device=faces.device)
        bits[place, local[of]] = True
        return Complex(3, corners, offsets, pack(bits), walls, self.slice_id, self.n_vertices)


def _columns(coords: Tensor) -> list[Tensor]:
    """Each coordinate (v,) in memory of its own."""
    if isinstance(coords, np.ndarray):
        return [xp.numpy.ascontiguousarray(axis) for axis in coords.T]
    return [axis.contiguous() for axis in coords.unbind(1)]


def _around(points: Tensor, normal: Tensor) -> Tensor:
    """The order of the corners (m, 3) of a convex polygon around it."""
    offset = points - points.mean(0)
    first = offset[0] / offset[0].norm()
    second = torch.linalg.cross(normal / normal.norm(), first)
    return torch.atan2(offset @ second, offset @ first).argsort()
