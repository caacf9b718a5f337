"""Chords of thin cells in which rounding left wrong signs, repaired one cell at a time.

In exact arithmetic a line through a convex cell meets its border in two points. When a cell is so thin that several of
its corners cannot be told from the line, the signs around it may show none, one or more than two; here the two ends
are chosen so that the strongest positive run of corners is cut off.
"""

from __future__ import annotations

import math
from itertools import groupby

from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.crossing import Crossings, SignTable
from regionscope.geometry.planar.arrangement import Evaluate
from regionscope.geometry.planar.mesh import Mesh


def repair_ends(mesh: Mesh, groups: Tensor, table: SignTable, crossings: Crossings, evaluate: Evaluate) -> Tensor:
    """Ends (p, q, group) of a chord for each irregular group = cell * n_units + unit; none where no cut is needed."""
    first_point = len(table.words)
    found = []
    for group in groups.tolist():
        cell, unit = divmod(group, table.n_units)
        start = int(mesh.offsets[cell])
        vertices = mesh.corners[start : int(mesh.offsets[cell + 1])]
        units = xp.full(len(vertices), unit, vertices)
        values = evaluate(vertices, units).tolist()
        near = evaluate.tolerance_at(vertices, units).tolist()
        on_line = set((crossings.point[crossings.unit == unit] + first_point).tolist())
        signs = [
            0.0 if vertex in on_line or abs(value) <= tolerance else math.copysign(1.0, value)
            for vertex, value, tolerance in zip(vertices.tolist(), values, near, strict=True)
        ]
        old = xp.nonzero(vertices < first_point)
        for i, code in zip(old.tolist(), table.codes[vertices[old], unit].tolist(), strict=True):
            signs[i] = (0.0, 1.0, -1.0)[code]
        ends = _cut_off_strongest(signs, values)
        if ends is not None:
            found.append((start + ends[0], start + ends[1], group))
    return xp.array(found, mesh.corners).reshape(-1, 3)


def _cut_off_strongest(signs: list[float], values: list[float]) -> tuple[int, int] | None:
    """Positions just outside the strongest positive run of a cyclic sign sequence, or None if one sign is missing.

    >>> _cut_off_strongest([1, 0, 0, -1, -1, 0], [5, 0, 0, -2, -2, 0])
    (5, 1)
    """
    if 1 not in signs or -1 not in signs:
        return None
    n = len(signs)
    start = signs.index(-1)
    turned = [(start + i) % n for i in range(n)]
    runs = [list(run) for sign, run in groupby(turned, key=lambda i: signs[i]) if sign == 1]
    best = max(runs, key=lambda run: max(values[i] for i in run))
    return (best[0] - 1) % n, (best[-1] + 1) % n
