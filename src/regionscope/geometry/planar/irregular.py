"""What rounding does to thin cells, put right one cell at a time.

In exact arithmetic a line through a convex cell meets its border in two points. When a cell is so thin that several of
its corners cannot be told from the line, the signs around it may show none, one or more than two; here the two ends
are chosen so that the strongest positive run of corners is cut off.
"""

from __future__ import annotations

from itertools import groupby

import torch
from torch import Tensor

from regionscope.geometry.crossing import Crossings, SignTable
from regionscope.geometry.planar.arrangement import Evaluate
from regionscope.geometry.planar.mesh import Mesh


def repair_ends(mesh: Mesh, groups: Tensor, table: SignTable, crossings: Crossings, evaluate: Evaluate) -> Tensor:
    """Ends (p, q, group) of a chord for each irregular group = cell * n_units + unit; none where no cut is needed."""
    first_point = table.words.shape[0]
    found = []
    for group in groups.tolist():
        cell, unit = divmod(group, table.n_units)
        slots = torch.arange(int(mesh.offsets[cell]), int(mesh.offsets[cell + 1]), device=mesh.corners.device)
        vertices = mesh.corners[slots]
        units = torch.full_like(vertices, unit)
        values = evaluate(vertices, units)
        signs = torch.where(values.abs() <= evaluate.tolerance_at(vertices, units), 0.0, values.sign())
        old = vertices < first_point
        codes = table.codes[vertices[old], unit]
        signs[old] = (codes == 1).to(signs.dtype) - (codes == 2).to(signs.dtype)
        on_line = crossings.point[crossings.unit == unit] + first_point
        signs[torch.isin(vertices, on_line)] = 0
        ends = _cut_off_strongest(signs.tolist(), values.tolist())
        if ends is not None:
            found.append((int(slots[ends[0]]), int(slots[ends[1]]), group))
    return torch.tensor(found, dtype=torch.int64, device=mesh.corners.device).view(-1, 3)


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
