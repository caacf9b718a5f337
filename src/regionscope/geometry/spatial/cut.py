"""Cutting the cells of ``Solids`` along the zero sets of all units of a layer at once.

Vertices, edges, faces and cells are cut in this order, each once for all cells around it, so neighbours agree:

    +------a------b------+     1. Edges. Units a and b change sign along an edge: a new point for each.
    |      |     /       |     2. Faces (``faces``). In a face, each unit vanishes along a chord between two points
    |      |    /        |        on its border; chords cross in new vertices x (see ``planar.arrangement``).
    |      |   /         |     3. Sections (``sections``). In a cell, unit a vanishes on a convex polygon, the section
    |      |  /          |        of a. Its border is made of the chords of a on the faces of the cell. Unit b meets it
    |      | /           |        in a line from x to the other crossing of a and b on the border of the cell, a chord
    |      x             |        of both sections. Three units meet in a point, a crossing of two chords in all three.
    |     /|             |     4. Cells. The pieces of faces and sections on whose inner side all units
    +----b-a-------------+        have the same signs bound one new cell.

Signs at vertices decide everything; floating point numbers only order points along an edge and crossings along a line.
Where two of these cannot be told apart, the later unit is left out of the cells in question (*deferred*), and these are
cut again in another round, in which the new vertices have signs of their own. Cells whose new signs do not fit are cut
by their first unit alone in a round. Where the signs of a unit do not fit a flat cut of a cell, vertices near its zero
set, which count as on it, take the sign of their value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.crossing import SignTable, Units, codes_of
from regionscope.geometry.polytope.cut import NewVertices
from regionscope.geometry.ragged import offsets_of, runs
from regionscope.geometry.spatial.faces import FaceCut, Unresolved, cut_faces, loosen
from regionscope.geometry.spatial.sections import Sections, find_sections
from regionscope.geometry.spatial.solids import Solids

_ROUNDS = 64  # far more than any cut is known to need
_BOTH = 3  # the code of a unit that is positive at one end and negative at the other, see ``SignTable``

Extend = Callable[[Sequence[NewVertices]], Units]


def cut_solids(
    solids: Solids, units: Units, extend: Extend, *, label: int = 0, count_zeros: bool = True
) -> tuple[Solids, Tensor]:
    """Cut all cells, and return the vertices at which a sign could not be told from zero, once for each time.

    count_zeros: whether units that vanish at old vertices also count. ``extend`` takes batches of new vertices, each
    built on the vertices before it, and returns the units with their values at these as well. New faces carry
    ``label`` + unit. Raises ``Unresolved`` where rounding leaves signs that fit no cut. Cost: a scan of the signs
    (edges x units bytes), plus work in proportion to the number of new cells.
    """
    solids, units = xp.numpy_on_cpu(solids), xp.numpy_on_cpu(units)
    table = SignTable.of(units)
    snapped, faces = [table.snapped(units.tolerance)] if count_zeros else [], None
    for _ in range(_ROUNDS):
        cut, sections, table, (solids, old_cell) = _round(solids, units, table, faces, label)
        units = xp.numpy_on_cpu(extend([xp.as_tensors(new) for new in (*cut.new, sections.new)]))
        snapped.append(cut.snapped)
        if len(sections.deferred) == 0:
            return xp.as_tensors(solids), xp.as_tensors(xp.cat(snapped))
        waiting = xp.mask(cut.solids.n_cells, False, old_cell)
        waiting[sections.deferred // table.n_units] = True
        waiting = xp.cat([xp.take(waiting, old_cell), xp.mask(1, False, old_cell)])
        faces = xp.nonzero(waiting[solids.cells].any(1))
    raise Unresolved(sections.deferred)


def _round(
    solids: Solids, units: Units, table: SignTable, faces: Tensor | None, label: int
) -> tuple[FaceCut, Sections, SignTable, tuple[Solids, Tensor]]:
    """One round: faces, sections, the signs at all vertices, and the new cells with the old cell of each."""
    cut, n = cut_faces(solids, units, table, faces), table.n_units
    deferred = cut.deferred
    while True:
        sections = None
        try:
            sections = find_sections(cut, n, deferred)
            grown = _with_new_vertices(table, cut, sections)
            return cut, sections, grown, assemble(cut, sections, grown, label)
        except Unresolved as failed:
            keys = failed.where
        if sections is not None:  # the keys are cells
            failing = xp.isin(sections.cell, keys)
            keys = sections.cell[failing] * n + sections.unit[failing]
            later = xp.mask(len(keys), False, keys)
            later[1:] = xp.differences(keys // n) == 0
            if bool(later.any()):
                deferred = xp.unique(xp.cat([sections.deferred, keys[later]]))
                continue
        loosen(*solids.cell_corners(), keys, units, table)
        cut = cut_faces(solids, units, table)
        deferred = cut.deferred


def _with_new_vertices(table: SignTable, cut: FaceCut, sections: Sections) -> SignTable:
    """The signs at all vertices. A new one has the sign that its two ends share, 0 for a unit that made it.

    Its value tells the sign only of units that change sign between the ends. That of another unit may be wrong by
    rounding, and then it would fit no cut.
    """
    n = len(table.words)
    words = xp.empty((cut.solids.n_vertices + len(sections.new), table.words.shape[1]), table.words)
    words[:n] = table.words
    grown = SignTable(words, table.n_units)
    crossing = cut.first_crossing + xp.arange(len(cut.crossing_units), words)
    triple = cut.solids.n_vertices + xp.arange(len(sections.new_units), words)
    points = xp.cat([cut.zeros, cut.point_zeros])
    made_by = (
        (points[:, 0], points[:, 1]),
        (crossing[:, None], cut.crossing_units),
        (triple[:, None], sections.new_units),
    )
    values_at = cut.evaluate.on_points.units, cut.evaluate.on_points, cut.evaluate
    for new, zeros, evaluate in zip((*cut.new, sections.new), made_by, values_at, strict=True):
        words[n : n + len(new)] = xp.take(words, new.a) | xp.take(words, new.b)
        row, unit = _both_signs(grown.codes[n : n + len(new)])
        a, b, t = (xp.take(part, row) for part in (new.a, new.b, new.t))
        value = xp.lerp(evaluate(a, unit), evaluate(b, unit), t)
        # crossings on an edge that are too close share a point, so there every sign counts
        close = 0 if new is cut.new[0] else evaluate.tolerance_at(a, unit)
        grown.codes[row + n, unit] = codes_of(value, close)
        grown.codes[zeros] = 0
        n += len(new)
    return grown


def _both_signs(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of the codes of both signs."""
    if isinstance(codes, np.ndarray):
        return xp.quotients(xp.numpy.flatnonzero(codes == _BOTH), codes.shape[1])
    row, unit = (codes == _BOTH).nonzero(as_tuple=True)
    return row, unit


# The end of a cut in space: which pieces of faces and sections bound which new cell, by the signs of the units.

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
    close = touched[faces.cells]
    touching = xp.nonzero(close[:, 0] | close[:, 1])
    sides = [xp.nonzero(xp.take(close, touching)[:, side]) for side in range(2)]  # rows of ``touching``
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
    unions = [xp.take(values, vertex[0]) for values in sets]
    for values, into in zip(sets, unions, strict=True):
        into |= xp.take(values, vertex[1])
        into |= xp.take(values, vertex[2])
    row, step = xp.nonzero(left > 3), 3
    while len(row):
        next_corner = xp.take(faces.corners, xp.take(corner, row) + step)
        for values, into in zip(sets, unions, strict=True):
            xp.put(into, row, xp.take(into, row) | xp.take(values, next_corner))
        step += 1
        row = row[xp.take(left, row) > step]
    return unions
