"""Convex cells in space that share vertices, edges and faces by index: the data, and questions about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regionscope.geometry.bitsets import pack
from regionscope.geometry.planar.mesh import Mesh
from regionscope.geometry.polytope.complex import NO_WALL, Complex, Domain
from regionscope.geometry.ragged import gather_rows, offsets_of, owners, ranges

_ENTRIES = 1 << 20  # of the table in which the corners of cells are compared


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
        first, second = self.cells.unbind(1)
        inner = (second >= 0).nonzero()[:, 0]
        cell = torch.cat([first, second.index_select(0, inner)])
        size = self.offsets.diff().clamp(max=63)
        order = ((cell << 6) + torch.cat([size, size.index_select(0, inner)])).argsort()
        face = torch.cat([torch.arange(self.n_faces, device=cell.device), inner]).index_select(0, order)
        return face, offsets_of(torch.bincount(cell, minlength=self.n_cells))

    def cell_corners(self) -> tuple[Tensor, Tensor]:
        """The vertices of each cell, ascending, as a ragged array: vertices and offsets (r + 1,).

        A vertex of a cell lies on at least three of its faces, so two of them, the largest, are not looked at.
        """
        faces, face_offsets = self.half_faces()
        fewer = offsets_of(face_offsets.diff() - 2)
        faces = faces.index_select(0, ranges(face_offsets[:-1], fewer.diff()))
        index, ends = gather_rows(self.offsets, faces)
        vertex, ends = self.corners.index_select(0, index).int(), ends.index_select(0, fewer)
        counts = ends.diff()
        by_size = counts.argsort()
        found, numbers, start = [vertex[:0]], [fewer[:0]], 0
        for width, repeat in zip(*(x.tolist() for x in counts.unique(return_counts=True)), strict=True):
            column = torch.arange(width, device=vertex.device)
            for rows in by_size[start : start + repeat].split(max(1, _ENTRIES // width)):
                place = ends.index_select(0, rows)[:, None] + column
                table = _sorted_rows(vertex.index_select(0, place.flatten()).view(-1, width))
                new = torch.ones_like(table, dtype=torch.bool)
                torch.ne(table[:, 1:], table[:, :-1], out=new[:, 1:])
                found.append(table.flatten().index_select(0, new.flatten().nonzero()[:, 0]))
                numbers.append(new.sum(1))
            start += repeat
        back = torch.empty_like(by_size).scatter_(0, by_size, torch.arange(len(by_size), device=vertex.device))
        index, offsets = gather_rows(offsets_of(torch.cat(numbers)), back)
        return torch.cat(found).index_select(0, index).long(), offsets

    def face_areas(self, coords: Tensor) -> Tensor:
        """(3, f) the area of each face times a unit normal."""
        counts, start = self.offsets.diff(), self.offsets[:-1]
        axes = [axis.contiguous() for axis in coords.unbind(1)]
        total = coords.new_zeros(3, self.n_faces)

        def side(corner: Tensor, step: int) -> list[Tensor]:
            """From the first corner of each face to another one."""
            vertex, first = self.corners.index_select(0, corner), self.corners.index_select(0, corner - step)
            return [axis.index_select(0, vertex) - axis.index_select(0, first) for axis in axes]

        row, step = torch.arange(self.n_faces, device=coords.device), 1
        before = side(start + 1, step)
        while True:
            step += 1
            left = (counts.index_select(0, row) > step).nonzero()[:, 0]
            if len(left) == 0:
                return total / 2
            if len(left) < len(row):
                row = row.index_select(0, left)
                before = [axis.index_select(0, left) for axis in before]
            here = side(start.index_select(0, row) + step, step)
            (a, b, c), (x, y, z) = before, here
            for axis, doubled in enumerate((b * z - c * y, c * x - a * z, a * y - b * x)):
                total[axis].index_add_(0, row, doubled)
            before = here

    def volumes(self, coords: Tensor, inside: Tensor) -> Tensor:
        """(r,) the volume of each cell, from coordinates (v, 3) and the number (r,) of a vertex of each cell.

        A cone from that vertex over a face counts as negative where rounding has bent the face so that it lies on the
        same side of both its cells, for the one with the smaller cone; so volumes add up to that of all cells.
        """
        area, first = self.face_areas(coords), self.corners.index_select(0, self.offsets[:-1])
        axes = [axis.contiguous() for axis in coords.unbind(1)]
        total = coords.new_zeros(self.n_cells)

        def cones(face: Tensor, cell: Tensor) -> Tensor:
            a, b = first.index_select(0, face), inside.index_select(0, cell)
            height = coords.new_zeros(len(cell))
            for axis, part in zip(axes, area.unbind(0), strict=True):
                height += (axis.index_select(0, a) - axis.index_select(0, b)) * part.index_select(0, face)
            return height

        inner = self.cells[:, 1] >= 0
        border, inner = (~inner).nonzero()[:, 0], inner.nonzero()[:, 0]
        outer, (one, two) = self.cells[:, 0].index_select(0, border), self.cells.index_select(0, inner).unbind(1)
        here, there = cones(inner, one), cones(inner, two)
        outwards = (here - there).sign()  # the two have opposite signs
        for cell, cone in ((outer, cones(border, outer).abs()), (one, here * outwards), (two, there * -outwards)):
            total.index_add_(0, cell, cone)
        return total / 3

    def take(self, chosen: Tensor) -> tuple[Solids, Tensor]:
        """The cells of a mask (r,) alone, and the old number of each vertex that is left."""
        number = torch.where(chosen, chosen.cumsum(0) - 1, -1)
        cells = torch.where(self.cells >= 0, number[self.cells], -1)
        cells = torch.where(cells[:, :1] >= 0, cells, cells.flip(1))
        faces = (cells[:, 0] >= 0).nonzero()[:, 0]
        loops, kept = self.loops_of(faces)
        return replace(
            self, n_vertices=len(kept), edges=loops.edges, corners=loops.corners, sides=loops.sides,
            offsets=loops.offsets, cells=cells[faces], wall=self.wall[faces], slice_id=self.slice_id[chosen],
        ), kept  # fmt: skip

    def loops_of(self, faces: Tensor) -> tuple[Mesh, Tensor]:
        """These faces alone as ``loops``, and the old number of each vertex that is left."""
        none = self.wall
        mesh = Mesh(self.n_vertices, self.edges, self.edges[:, 0], self.edges[:, 0], self.corners, self.sides,
                    self.offsets, none)  # fmt: skip
        return mesh.extract(faces)

    def as_complex(self) -> Complex:
        """The same cells as polytopes of any dimension, with the same vertices."""
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
        place = torch.searchsorted(
            owners(offsets, len(corners)) * self.n_vertices + corners, cell[of] * self.n_vertices + self.corners[index]
        )
        bits = torch.zeros(len(corners), width, dtype=torch.bool, device=faces.device)
        bits[place, local[of]] = True
        return Complex(3, corners, offsets, pack(bits), walls, self.slice_id, self.n_vertices)


def _sorted_rows(table: Tensor) -> Tensor:
    """Each row in ascending order; on a CPU by NumPy, which needs a sixth of the time for short rows of int32."""
    if table.device.type != "cpu":
        return table.sort(1).values
    return torch.from_numpy(np.sort(table.numpy(), axis=1))


def _around(points: Tensor, normal: Tensor) -> Tensor:
    """The order of the corners (m, 3) of a convex polygon around it."""
    offset = points - points.mean(0)
    first = offset[0] / offset[0].norm()
    second = torch.linalg.cross(normal / normal.norm(), first)
    return torch.atan2(offset @ second, offset @ first).argsort()
