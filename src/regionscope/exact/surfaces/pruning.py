"""Which cells a level set can still meet, from bounds of the layers that are left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regionscope.errors import NotPiecewiseAffine
from regionscope.exact.bounding.bounds import bound_cells, on_vertices, padded_points, rounding_of, with_ones
from regionscope.exact.bounding.merge import Array
from regionscope.exact.bounding.stages import Staged, read_stages, with_slacks
from regionscope.exact.decision import extremes_at_corners
from regionscope.geometry import Slice
from regionscope.network import Program, Values

__all__ = ["Levels", "Pruning"]

_ENTRIES = 3e6  # numbers that the bounds of one batch of cells hold


@dataclass(frozen=True, eq=False)
class Levels:
    """The set where the largest of the rows ``between`` is 0 and no row ``needed`` is negative.

    factors: (q, c). shifts: (q,). Row i is ``factors[i] @ outputs + shifts[i]``.
    """

    factors: Tensor
    shifts: Tensor
    between: tuple[int, ...]
    needed: tuple[int, ...] = ()

    def met(self, low: Tensor, high: Tensor, tolerance: float) -> Tensor:
        """Whether the set may meet cells on which the rows lie between ``low`` and ``high`` (q, r)."""
        between, needed = list(self.between), list(self.needed)
        found = (low[between].amax(0) <= tolerance) & (high[between].amax(0) >= -tolerance)
        return found & (high[needed] >= -tolerance).all(0)


class Pruning:
    """A mask of the cells that the set may meet, after each nonlinearity."""

    def __init__(self, program: Program, where: Slice, levels: Levels, near: float) -> None:
        self.program, self.levels = program, levels
        self.last = len(program.kinks) - 1
        self.tolerance = 2 * near
        self.staged: Staged | None = None
        try:
            staged = read_stages(program, lambda coords: where.embed(coords).to(program.device), where.dim)
        except NotPiecewiseAffine:
            return  # a maximum of several values: only the outputs tell
        self.staged = with_slacks(staged, -levels.factors.cpu().numpy(), levels.shifts.cpu().numpy())
        self.near, error = rounding_of(self.staged, with_ones(where.corners.cpu().numpy()))
        self.tolerance += float(error.max())

    def __call__(self, k: int, corners: Tensor, offsets: Tensor, coords: Tensor, values: Values) -> Tensor:
        """Which cells to keep behind nonlinearity ``k``; at least one."""
        if k == self.last:
            rows = self.program.outputs(values).double() @ self.levels.factors.T + self.levels.shifts
            ends = [extremes_at_corners(row, corners, offsets) for row in rows.unbind(1)]
            low, high = (torch.stack(end) for end in zip(*ends, strict=True))
        elif k > self.last or self.staged is None:
            return torch.ones(len(offsets) - 1, dtype=torch.bool, device=corners.device)
        else:
            low, high = self._bounds(padded_points(corners, offsets, coords))
        mask = self.levels.met(low, high, self.tolerance).to(corners.device)
        if not bool(mask.any()):
            mask[0] = True
        return mask

    def _bounds(self, points: Array) -> tuple[Tensor, Tensor]:
        assert self.staged is not None
        widest = max([1, len(self.staged.first), *(stage.matrix.shape[1] for stage in self.staged.stages)])
        step = int(max(4, _ENTRIES / (widest * 8)))
        ends = []
        for start in range(0, len(points), step):
            part = points[start : start + step]
            found = bound_cells(self.staged, part, self.near)
            ends.append((on_vertices(found.low, part).min(2), on_vertices(found.high, part).max(2)))
        low, high = (torch.from_numpy(np.concatenate(end, 1)) for end in zip(*ends, strict=True))
        return low, high
