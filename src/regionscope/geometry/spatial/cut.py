"""Cutting the cells of ``Solids`` along the zero sets of all units of a layer at once.

Vertices, edges, faces and cells are cut in this order, each once for all cells around it, so neighbours agree:

    +------a------b------+     1. Edges. Units a and b change sign along an edge: a new point for each.
    |      |     /       |     2. Faces (``faces``). In a face, each unit vanishes along a chord between two points
    |      |    /        |        on its border; chords cross in new vertices x (see ``planar.arrangement``).
    |      |   /         |     3. Sections (``sections``). In a cell, unit a vanishes on a convex polygon, the section
    |      |  /          |        of a. Its border is made of the chords of a on the faces of the cell. Unit b meets it
    |      | /           |        in a line from x to the other crossing of a and b on the border of the cell, a chord
    |      x             |        of both sections. Three units meet in a point, a crossing of two chords in all three.
    |     /|             |     4. Cells (``assemble``). The pieces of faces and sections on whose inner side all units
    +----b-a-------------+        have the same signs bound one new cell.

Signs at vertices decide everything; floating point numbers only order points along an edge and crossings along a line.
Where two of these cannot be told apart, the later unit is left out of the cells in question (*deferred*), and these are
cut again in another round, in which the new vertices have signs of their own. Cells whose new signs do not fit are cut
by their first unit alone in a round. Where the signs of a unit do not fit a flat cut of a cell, vertices near its zero
set, which count as on it, take the sign of their value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.crossing import SignTable, Units, codes_of
from regionscope.geometry.polytope.split import NewVertices
from regionscope.geometry.spatial.assemble import assemble
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
    at = cut.evaluate.on_points.units, cut.evaluate.on_points, cut.evaluate
    for new, zeros, evaluate in zip((*cut.new, sections.new), made_by, at, strict=True):
        words[n : n + len(new)] = xp.take(words, new.a) | xp.take(words, new.b)
        row, unit = _both_signs(grown.codes[n : n + len(new)])
        a, b, t = (xp.take(each, row) for each in (new.a, new.b, new.t))
        value = xp.lerp(evaluate(a, unit), evaluate(b, unit), t)
        # crossings on an edge that are too close share a point, so there every sign counts
        near = 0 if new is cut.new[0] else evaluate.tolerance_at(a, unit)
        grown.codes[row + n, unit] = codes_of(value, near)
        grown.codes[zeros] = 0
        n += len(new)
    return grown


def _both_signs(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of the codes of both signs."""
    if isinstance(codes, np.ndarray):
        return xp.quotients(xp.numpy.flatnonzero(codes == _BOTH), codes.shape[1])
    row, unit = (codes == _BOTH).nonzero(as_tuple=True)
    return row, unit
