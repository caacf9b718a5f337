"""The end of a cut in space: which pieces of faces and sections bound which new cell, by the signs of the units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.crossing import SignTable
from regionscope.geometry.ragged import offsets_of, runs
from regionscope.geometry.spatial.faces import FaceCut, Unresolved
from regionscope.geometry.spatial.sections import Sections
from regionscope.geometry.spatial.solids import Solids

_ONES = 0x0101010101010101  # the lowest bit of each byte
_GATHER = 0x0102040810204080  # times a word: brings the lowest bits of its bytes together in the highest byte
_MIX = 0x2545F4914F6CDD1D  # times a word: spreads its bits


def assemble(cut: FaceCut, sections: Sections, table: SignTable, label: int) -> tuple[Solids, Tensor]:
    """The new cells, and the old cell (r,) that each comes from. ``table``: signs at all vertices, new ones too.

    Two pieces bound the same new cell iff they bound the same old cell and all units that cut it have the same sign on
    both. Sections carry ``label`` + unit. Raises ``Unresolved`` with the cells whose signs do not fit.
    """
    whole = cut.solids
    of_piece = xp.take(sections.cell, sections.of_piece)
    faces = replace(
        whole,
        n_vertices=len(table.words),
        edges=xp.cat([whole.edges, sections.edges]),
        corners=xp.cat([whole.corners, sections.corners]),
        sides=xp.cat([whole.sides, sections.sides]),
        offsets=xp.cat([whole.offsets[:-1], sections.offsets + len(whole.corners)]),
        cells=xp.cat([whole.cells, xp.stack(of_piece, of_piece)]),
        wall=xp.cat([whole.wall, xp.take(sections.unit, sections.of_piece) + label]),
    )
    n = whole.n_cells
    expected = 1 + xp.bincount(xp.repeat(sections.cell, 1 + sections.n_lines + sections.n_points), n)
    old_cell = xp.repeat(xp.arange(n, expected), expected)
    if len(sections.cell) == 0:
        return faces, old_cell
    half = _half_faces(faces, sections, table)
    key = half.keys()
    order = xp.argsort(key, stable=False)
    first, counts = runs(xp.take(key, order))
    old = xp.take(half.parent, xp.take(order, first))
    children = xp.bincount(old, n)
    wrong = xp.maximum(children, xp.full(1, 1, children)) != expected
    if bool(wrong.any()) or bool((counts < 4).any()):  # no cell has 3 faces
        raise Unresolved(xp.unique(xp.cat([xp.nonzero(wrong), old[counts < 4]])))
    start = offsets_of(expected)
    number = xp.take(start, old) + xp.arange(len(old), old) - xp.take(offsets_of(children), old)
    outside = xp.cat([start[:-1], xp.full(1, -1, start)])  # -1 stands for the last entry
    cells = outside[faces.cells]
    xp.put(cells.reshape(-1), xp.take(half.place, order), xp.repeat(number, counts, len(order)))
    return replace(faces, cells=cells, slice_id=xp.take(whole.slice_id, old_cell)), old_cell


@dataclass(frozen=True)
class _HalfFaces:
    """Faces, seen from the cells on both sides: place (h,) in ``Solids.cells``, flat; the old cell, ``parent`` (h,);
    bit sets ``words``, each (h,), of the units that cut the parent and are positive on this side of the face.
    """

    place: Tensor
    parent: Tensor
    words: list[Tensor]

    def keys(self) -> Tensor:
        """(h,) one number for each pair of a parent and a set, ascending with the parent."""
        room = 62 - int(self.parent.max()).bit_length()
        mixed = 0 * self.parent
        for word in self.words:
            mixed ^= word
            for _ in range(2):  # after one product, the highest bits of a word would only meet a few of the next one
                mixed = (mixed ^ ((mixed >> 32) & ((1 << 32) - 1))) * _MIX
        return (self.parent << room) | ((mixed >> (64 - room)) & ((1 << room) - 1))


def _half_faces(faces: Solids, sections: Sections, table: SignTable) -> _HalfFaces:
    """The faces of the cells that are cut. All units that cut a cell must have one sign on each of its faces."""
    touched = xp.mask(faces.n_cells + 1, False, sections.cell)
    touched[sections.cell] = True  # the last entry is the outside, -1
    near = touched[faces.cells]
    touching = xp.nonzero(near[:, 0] | near[:, 1])
    sides = [xp.nonzero(xp.take(near, touching)[:, side]) for side in range(2)]  # rows of ``touching``
    parents = [xp.take(faces.cells[:, side], xp.take(touching, row)) for side, row in enumerate(sides)]
    somewhere = _somewhere(faces, touching, [*_bits(table.words), *_bits(table.words >> 1)])
    above, below = somewhere[: len(somewhere) // 2], somewhere[len(somewhere) // 2 :]
    unit = xp.full(len(touching), -1, touching)
    unit[-len(sections.of_piece) :] = xp.take(
        sections.unit, sections.of_piece
    )  # the last faces are the sections, and all of them touch
    words = []
    for i, (up, down) in enumerate(zip(above, below, strict=True)):
        cutting = _sets(sections.cell, _bit(sections.unit, i), faces.n_cells)
        unit_bit, one_sign = _bit(unit, i), up ^ down
        parts = []
        for side, (face, parent) in enumerate(zip(sides, parents, strict=True)):
            cuts, of_face = xp.take(cutting, parent), xp.take(unit_bit, face)
            wrong = cuts & ~of_face & ~xp.take(one_sign, face)
            if bool(wrong.any()):
                raise Unresolved(xp.unique(parent[wrong != 0]))
            word = xp.take(up, face) & cuts
            parts.append(word | of_face if side else word)
        words.append(xp.cat(parts))
    place = xp.cat([2 * xp.take(touching, row) + side for side, row in enumerate(sides)])
    return _HalfFaces(place, xp.cat(parents), words)


def _sets(cell: Tensor, bits: Tensor, n: int) -> Tensor:
    """(n,) the bits of each cell together; those of a cell are distinct."""
    sets = xp.full(n, 0, bits)
    if isinstance(sets, np.ndarray):
        xp.numpy.add.at(sets, cell, bits)
        return sets
    return sets.index_add_(0, cell, bits)


def _bit(unit: Tensor, word: int) -> Tensor:
    """The set that holds the unit alone, as word number ``word``."""
    return xp.where(unit >> 6 == word, xp.full(1, 1, unit) << (unit & 63), 0)


def _bits(codes: Tensor) -> list[Tensor]:
    """The lowest bit of each byte of ``codes`` (v, w), as sets of units (v,) of 64 each."""
    n = -(-codes.shape[1] // 8)
    sets = xp.full((len(codes), n), 0, codes)
    if isinstance(sets, np.ndarray):
        sets.view(np.uint8)[:, : codes.shape[1]] = ((codes & _ONES) * _GATHER >> 56) & 0xFF
        return [xp.numpy.ascontiguousarray(sets[:, i]) for i in range(n)]
    sets.view(torch.uint8)[:, : codes.shape[1]] = ((codes & _ONES) * _GATHER >> 56) & 0xFF
    return [word.contiguous() for word in sets.unbind(1)]


def _somewhere(faces: Solids, rows: Tensor, sets: list[Tensor]) -> list[Tensor]:
    """The union of the sets of a face's corners, for each of the faces ``rows``."""
    corner = xp.take(faces.offsets, rows)
    left = xp.take(faces.offsets, rows + 1) - corner
    vertex = [xp.take(faces.corners, corner + step) for step in range(3)]
    unions = [xp.take(each, vertex[0]) for each in sets]
    for each, into in zip(sets, unions, strict=True):
        into |= xp.take(each, vertex[1])
        into |= xp.take(each, vertex[2])
    row, step = xp.nonzero(left > 3), 3
    while len(row):
        here = xp.take(faces.corners, xp.take(corner, row) + step)
        for each, into in zip(sets, unions, strict=True):
            xp.put(into, row, xp.take(into, row) | xp.take(each, here))
        step += 1
        row = row[xp.take(left, row) > step]
    return unions
