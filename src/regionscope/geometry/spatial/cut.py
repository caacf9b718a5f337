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
cut again in another round, in which the new vertices have signs of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regionscope.geometry.crossing import SignTable
from regionscope.geometry.planar.split import Units
from regionscope.geometry.polytope.split import NewVertices
from regionscope.geometry.spatial.assemble import assemble
from regionscope.geometry.spatial.faces import FaceCut, Unresolved, cut_faces
from regionscope.geometry.spatial.sections import Sections, find_sections
from regionscope.geometry.spatial.solids import Solids

__all__ = ["cut_solids"]

_ROUNDS = 64  # far more than any cut is known to need

Extend = Callable[[Sequence[NewVertices]], Units]


def cut_solids(solids: Solids, units: Units, extend: Extend, *, label: int = 0) -> tuple[Solids, Tensor]:
    """Cut all cells, and return the vertices at which a sign could not be told from zero, once for each time.

    ``extend`` takes batches of new vertices, each built on the vertices before it, and returns the units with their
    values at these, too. New faces carry ``label`` + unit. Raises ``Unresolved`` where rounding leaves signs that fit
    no cut. Cost: a scan of the signs (edges x units bytes), plus work in proportion to the number of new cells.
    """
    table = SignTable.of(units.values, units.at, units.tolerance)
    snapped, faces = [], None
    for _ in range(_ROUNDS):
        cut = cut_faces(solids, units, table, faces)
        found = find_sections(cut, table.n_units)
        units = extend([*cut.new, found.new])
        table = _grown(table, units, cut, found)
        solids, old_cell = assemble(cut, found, table, label)
        snapped.append(cut.snapped)
        if len(found.deferred) == 0:
            return solids, torch.cat(snapped)
        waiting = torch.zeros(cut.solids.n_cells, dtype=torch.bool, device=old_cell.device)
        waiting[found.deferred // table.n_units] = True
        waiting = torch.cat([waiting[old_cell], waiting.new_zeros(1)])
        faces = waiting[solids.cells].any(1).nonzero()[:, 0]
    raise Unresolved


def _grown(table: SignTable, units: Units, cut: FaceCut, found: Sections) -> SignTable:
    """The signs at all vertices; new ones lie on the zero sets of the units that made them."""
    old = len(table.words)
    new = SignTable.of(units.values[old:], units.at, units.tolerance[old:])
    table = SignTable(torch.cat([table.words, new.words]), table.n_units)
    crossing = cut.first_crossing + torch.arange(len(cut.crossing_units), device=table.words.device)
    triple = cut.solids.n_vertices + torch.arange(len(found.new_units), device=table.words.device)
    for pairs in (cut.zeros, cut.point_zeros):
        table.codes[pairs[:, 0], pairs[:, 1]] = 0
    table.codes[crossing[:, None], cut.crossing_units] = 0
    table.codes[triple[:, None], found.new_units] = 0
    return table
