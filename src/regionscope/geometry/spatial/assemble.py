"""The end of a cut in space: which pieces of faces and sections bound which new cell, by the signs of the units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope.geometry.crossing import SignTable
from regionscope.geometry.ragged import offsets_of
from regionscope.geometry.spatial.faces import FaceCut, Unresolved
from regionscope.geometry.spatial.sections import Sections
from regionscope.geometry.spatial.solids import Solids

_ONES = 0x0101010101010101  # the lowest bit of each byte
_GATHER = 0x0102040810204080  # times a word: brings the lowest bits of its bytes together in the highest byte
_MIX = 0x2545F4914F6CDD1D  # times a word: spreads its bits


def assemble(cut: FaceCut, found: Sections, table: SignTable, label: int) -> tuple[Solids, Tensor]:
    """The new cells, and the old cell (r,) that each comes from. ``table``: signs at all vertices, new ones too.

    Two pieces bound the same new cell iff they bound the same old cell and all units that cut it have the same sign on
    both. Sections carry ``label`` + unit. Raises ``Unresolved`` with the cells whose signs do not fit.
    """
    whole = cut.solids
    of_piece = found.cell.index_select(0, found.of_piece)
    faces = replace(
        whole,
        n_vertices=len(table.words),
        edges=torch.cat([whole.edges, found.edges]),
        corners=torch.cat([whole.corners, found.corners]),
        sides=torch.cat([whole.sides, found.sides]),
        offsets=torch.cat([whole.offsets[:-1], found.offsets + len(whole.corners)]),
        cells=torch.cat([whole.cells, torch.stack([of_piece, of_piece], 1)]),
        wall=torch.cat([whole.wall, found.unit.index_select(0, found.of_piece) + label]),
    )
    expected = torch.ones_like(whole.slice_id).index_add_(0, found.cell, 1 + found.n_lines + found.n_points)
    old_cell = torch.repeat_interleave(expected)
    if len(found.cell) == 0:
        return faces, old_cell
    half = _half_faces(faces, found, table)
    key, order = half.keys().sort()
    _, number, counts = torch.unique_consecutive(key, return_inverse=True, return_counts=True)
    old = half.parent[order[counts.cumsum(0) - counts]]
    children = torch.bincount(old, minlength=whole.n_cells)
    wrong = torch.cat([(children.clamp(min=1) != expected).nonzero()[:, 0], old[counts < 4]])  # no cell has 3 faces
    if len(wrong):
        raise Unresolved(wrong.unique())
    start = offsets_of(expected)
    place = torch.arange(len(old), device=old.device) - offsets_of(children)[old]
    outside = torch.cat([start[:-1], start.new_full((1,), -1)])  # -1 stands for the last entry
    cells = torch.stack([outside[side] for side in faces.cells.unbind(1)], 1)
    cells.view(-1).scatter_(0, half.place.index_select(0, order), (start[old] + place).index_select(0, number))
    return replace(faces, cells=cells, slice_id=whole.slice_id[old_cell]), old_cell


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
        mixed = torch.zeros_like(self.parent)
        for word in self.words:
            mixed ^= word
            for _ in range(2):  # after one product, the highest bits of a word would only meet a few of the next one
                mixed = (mixed ^ ((mixed >> 32) & ((1 << 32) - 1))) * _MIX
        return (self.parent << room) | ((mixed >> (64 - room)) & ((1 << room) - 1))


def _half_faces(faces: Solids, found: Sections, table: SignTable) -> _HalfFaces:
    """The faces of the cells that are cut. All units that cut a cell must have one sign on each of its faces."""
    touched = torch.zeros(faces.n_cells + 1, dtype=torch.bool, device=found.cell.device)
    touched[found.cell] = True  # the last entry is the outside, -1
    near = [touched[side] for side in faces.cells.unbind(1)]
    chosen = (near[0] | near[1]).nonzero()[:, 0]
    sides = [mask.index_select(0, chosen).nonzero()[:, 0] for mask in near]  # rows of ``chosen``
    parents = [
        side.index_select(0, chosen.index_select(0, row))
        for side, row in zip(faces.cells.unbind(1), sides, strict=True)
    ]
    above, below = (_somewhere(faces, chosen, _bits(words)) for words in (table.words, table.words >> 1))
    unit = torch.full_like(chosen, -1)
    unit[-len(found.of_piece) :] = found.unit.index_select(0, found.of_piece)  # all sections are chosen
    words = []
    for i, (up, down) in enumerate(zip(above, below, strict=True)):
        cutting = _bit(found.unit, i).new_zeros(faces.n_cells).index_add_(0, found.cell, _bit(found.unit, i))
        own, one_sign = _bit(unit, i), up ^ down
        parts = []
        for side, (face, parent) in enumerate(zip(sides, parents, strict=True)):
            cuts, mine = cutting.index_select(0, parent), own.index_select(0, face)
            wrong = cuts & ~mine & ~one_sign.index_select(0, face)
            if bool(wrong.any()):
                raise Unresolved(parent[wrong != 0].unique())
            word = up.index_select(0, face) & cuts
            parts.append(word | mine if side else word)
        words.append(torch.cat(parts))
    place = torch.cat([2 * chosen.index_select(0, row) + side for side, row in enumerate(sides)])
    return _HalfFaces(place, torch.cat(parents), words)


def _bit(unit: Tensor, word: int) -> Tensor:
    """The set that holds the unit alone, as word number ``word``."""
    return torch.where(unit >> 6 == word, torch.ones_like(unit) << (unit & 63), 0)


def _bits(codes: Tensor) -> list[Tensor]:
    """The lowest bit of each byte of ``codes`` (v, w), as sets of units (v,) of 64 each."""
    gathered = torch.zeros(len(codes), -(-codes.shape[1] // 8) * 8, dtype=torch.uint8, device=codes.device)
    gathered[:, : codes.shape[1]] = ((codes & _ONES) * _GATHER >> 56) & 0xFF
    return [word.contiguous() for word in gathered.view(torch.int64).unbind(1)]


def _somewhere(faces: Solids, chosen: Tensor, sets: list[Tensor]) -> list[Tensor]:
    """The union of the sets of a face's corners, for each of the chosen faces."""
    corner = faces.offsets.index_select(0, chosen)
    left = faces.offsets.index_select(0, chosen + 1) - corner
    vertex = [faces.corners.index_select(0, corner + step) for step in range(3)]
    found = [each.index_select(0, vertex[0]) for each in sets]
    for each, into in zip(sets, found, strict=True):
        into |= each.index_select(0, vertex[1])
        into |= each.index_select(0, vertex[2])
    row, step = (left > 3).nonzero()[:, 0], 3
    while len(row):
        here = faces.corners.index_select(0, corner.index_select(0, row) + step)
        for each, into in zip(sets, found, strict=True):
            into.scatter_(0, row, into.index_select(0, row) | each.index_select(0, here))
        step += 1
        row = row[left.index_select(0, row) > step]
    return found
