"""Which cells a level set can still meet, from bounds of the layers that are left.

The layers that are left run at the vertices of the cells, as if they folded nothing inside a cell. Interpolating these
values over a cell is wrong by at most the gap between a hinge and its chord, for every unit that changes sides there:

      interpolated      . '/           the largest gap of max(r, 0) for r between -a and b
                    .  '  /            is a b / (a + b), where r = 0
              ____.'_____/

The gaps are added up through the weights of later layers: first forwards through the absolute weights, which tells the
hinges that keep one side, then backwards from the output, where signed weights cancel and only hinges that change sides
leave a range. A vertex belongs to many cells and runs once, so bounds cost about as much as a forward pass over the
vertices, and they become exact where no unit is left to change sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regionscope.exact.bounding.bounds import rounding_of, with_ones
from regionscope.exact.bounding.merge import Matrix, Stage
from regionscope.exact.bounding.stages import NotSingleEntries, Staged, read_matrices
from regionscope.geometry import Slice
from regionscope.network import Program, Values

__all__ = ["Levels", "Pruning"]

_MOST_UNITS = 4096  # of a layer: for larger ones the matrices cost more than they save
_BYTES = 1 << 28  # of the values at the vertices of cells that are worked on at a time
_BLOCK = 1 << 22  # of these, how much is gathered at a time: stays in the caches


@dataclass(frozen=True, eq=False)
class Levels:
    """The set where the largest of the first n rows ``factors @ outputs + shifts`` is 0, and no later one is negative.

    factors: (q, c). shifts: (q,).
    """

    factors: Tensor
    shifts: Tensor
    n: int

    def met(self, low: Tensor, high: Tensor, tolerance: float) -> Tensor:
        """Whether the set may meet cells on which the rows lie between ``low`` and ``high`` (r, q)."""
        found = (low[:, : self.n].amax(1) <= tolerance) & (high[:, : self.n].amax(1) >= -tolerance)
        return found & (high[:, self.n :] >= -tolerance).all(1)


class Pruning:
    """A mask of the cells that the set may meet, after each nonlinearity."""

    def __init__(self, program: Program, where: Slice, levels: Levels, zero_tolerance: float) -> None:
        self.program, self.levels, self.zero_tolerance = program, levels, 2 * zero_tolerance
        self.steps: list[_Step] = []
        if max((kink.n_units for kink in program.kinks), default=0) > _MOST_UNITS:
            return
        try:
            first, stages, self.names = read_matrices(program, where.embed, where.dim)
        except NotSingleEntries:
            return  # a maximum of several values: only the outputs tell
        if not stages or self.names[-1] != (program.output_name,):
            return
        error = rounding_of(Staged(first, tuple(stages)), with_ones(where.corners.cpu().numpy()))[1]
        self.tolerance = self.zero_tolerance + float((levels.factors.abs().cpu() @ torch.from_numpy(error)).max())
        self.steps = [_Step.of(stage, program.device) for stage in stages]

    def __call__(self, layer: int, corners: Tensor, offsets: Tensor, coords: Tensor, values: Values) -> Tensor:
        """Which cells to keep behind nonlinearity ``layer``; at least one."""
        mask = torch.ones(len(offsets) - 1, dtype=torch.bool, device=corners.device)
        last = len(self.program.kinks) - 1
        if layer == last:
            rows = self.program.outputs(values).double() @ self.levels.factors.T + self.levels.shifts
            for cells, at in _padded(corners, offsets):
                found = rows[at]
                mask[cells] = self.levels.met(found.amin(1), found.amax(1), self.zero_tolerance)
        elif layer < last and self.steps:
            rows = torch.cat([values[name].reshape(len(values[name]), -1) for name in self.names[layer + 1]], 1)
            wide = sum(step.width for step in self.steps[layer + 1 :])
            many = max(1, _BYTES * len(mask) // (8 * wide * len(corners)))
            for start in range(0, len(mask), many):
                part = offsets[start : start + many + 1]
                mask[start : start + many] = self._met(rows, corners[part[0] : part[-1]], part - part[0], layer + 1)
        if not bool(mask.any()):
            mask[0] = True
        return mask

    def _met(self, rows: Tensor, corners: Tensor, offsets: Tensor, layer: int) -> Tensor:
        """Whether the set may meet the cells, from the state (v, n) at their vertices before stage ``layer``."""
        vertices, corners = torch.unique(corners, return_inverse=True)
        state, steps, folds = rows[vertices], self.steps[layer:], []
        for step in steps:
            folds.append(step.fold(state))
            state = step.run(state, folds[-1])
        ends = state @ self.levels.factors.T + self.levels.shifts
        met = torch.ones(len(offsets) - 1, dtype=torch.bool, device=rows.device)
        most = max(1, _BLOCK // (8 * max(step.width for step in steps)))
        for cells, at in _padded(corners, offsets, most=most):
            low, high = ends[at].amin(1), ends[at].amax(1)
            if high.shape[1] == 1:  # cells with values on both sides meet the set
                unclear = ((low > 0) | (high < 0))[:, 0].nonzero()[:, 0]
                cells, at, low, high = cells[unclear], at[unclear], low[unclear], high[unclear]
            met[cells] = self._near(steps, folds, at, low, high)
        return met

    def _near(self, steps: list[_Step], folds: list[Tensor], at: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Whether the set may meet the cells (b,) with vertices ``at`` (b, m).

        folds: (v, H) of each step at the vertices. low, high: (b, q) least and largest values of the rows there.
        """
        above = below = low.new_zeros(len(at), steps[0].before)
        hinges = []
        for step, fold in zip(steps, folds, strict=True):
            own = fold.index_select(0, at.flatten()).view(*at.shape, fold.shape[1])
            below, above, found = step.spread(own, below, above)
            hinges.append(found)
        less, more = _through(self.levels.factors, below, above)
        met = self.levels.met(low - less, high + more, self.tolerance)
        left = met.nonzero()[:, 0]
        middle = self.levels.factors.expand(len(left), -1, -1)
        reach, less, more = torch.zeros_like(middle), low.new_zeros(len(left), 1), low.new_zeros(len(left), 1)
        for step, found in zip(reversed(steps), reversed(hinges), strict=True):
            own_hinges = _Hinges(*(each.index_select(0, left) for each in found))
            middle, reach, fewer, further = step.back(middle, reach, own_hinges)
            less, more = less + fewer, more + further
        met[left] = self.levels.met(low[left] - less, high[left] + more, self.tolerance)
        return met


class _Hinges(NamedTuple):
    """Hinges (b, H) in cells: the gap to their chord, whether they have slope 1 or slope 0 (not ``on``) throughout."""

    gap: Tensor
    steep: Tensor
    on: Tensor


@dataclass(frozen=True, eq=False)
class _Step:
    """State z to ``straight @ z + bent @ max(z[units] - at, 0) + offset``; None: no such part."""

    units: Tensor
    at: Tensor
    straight: Tensor | None
    bent: Tensor
    offset: Tensor
    before: int  # entries of z
    all_fold: bool  # whether the units are all entries in order

    @staticmethod
    def of(stage: Stage, device: torch.device) -> _Step:
        def dense(matrix: Matrix) -> Tensor:
            array = matrix if not hasattr(matrix, "toarray") else matrix.toarray()
            return torch.from_numpy(array).to(device)

        whole = dense(stage.matrix)
        straight = whole[:, : stage.n]
        units, at = (torch.from_numpy(each).to(device) for each in (stage.units, stage.at))
        offset = torch.from_numpy(stage.offset).to(device)
        return _Step(units, at, straight if bool(straight.any()) else None, whole[:, stage.n :], offset, stage.n,
                     all_fold=stage.units.tolist() == list(range(stage.n)))  # fmt: skip

    @property
    def width(self) -> int:
        return len(self.units) + len(self.offset)

    def of_units(self, entries: Tensor) -> Tensor:
        """The units (b, H) of the entries (b, n) of z."""
        return entries if self.all_fold else entries.index_select(1, self.units)

    def fold(self, state: Tensor) -> Tensor:
        """``z[units] - at``, (v, H)."""
        return self.of_units(state) - self.at

    def run(self, state: Tensor, fold: Tensor) -> Tensor:
        """The next state (v, n) at the vertices. fold: (v, H) ``state[:, units] - at``."""
        found = fold.clamp(min=0) @ self.bent.T + self.offset
        return found if self.straight is None else found + state @ self.straight.T

    def spread(self, fold: Tensor, below: Tensor, above: Tensor) -> tuple[Tensor, Tensor, _Hinges]:
        """By how much less or more the next state may be in cells (b, n) than interpolated from their vertices.

        fold: (b, m, H) at the vertices of each cell. below, above: the same for the state before.
        """
        least, most = fold.amin(1), fold.amax(1)
        below_r, above_r = self.of_units(below), self.of_units(above)
        top = most.clamp(min=0)
        gap = least.clamp(max=0).mul_(top).div_((least - most).clamp_(max=-torch.finfo(least.dtype).tiny))
        on = most + above_r > 0
        # a hinge is at least 0, so it is less than interpolated by at most the largest value at a vertex
        found = _through(self.bent, torch.minimum(gap + below_r, top).mul_(on), above_r * on)
        if self.straight is not None:
            more = _through(self.straight, below, above)
            found = found[0] + more[0], found[1] + more[1]
        return *found, _Hinges(gap, least >= below_r, on)

    def back(self, middle: Tensor, reach: Tensor, hinges: _Hinges) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Factors (b, q, n) of the state before, and how much less or more (b, q) the hinges make the rows.

        middle, reach: factors of the state behind, by which errors of its entries grow, between middle - reach and
        middle + reach. An error passes a hinge by a factor between 0 and 1.
        """
        at_hinge, width = middle @ self.bent, reach @ self.bent.abs()
        low, high = at_hinge - width, at_hinge + width
        gap, steep, on = (each[:, None] for each in hinges)
        less, more = (high.clamp(min=0) * gap).sum(2), (-low.clamp(max=0) * gap).sum(2)
        low, high = (torch.where(steep, low, low.clamp(max=0)) * on, torch.where(steep, high, high.clamp(min=0)) * on)
        parts = [(high + low) / 2, (high - low) / 2]
        if not self.all_fold:
            parts = [low.new_zeros(*low.shape[:2], self.before).index_add_(2, self.units, part) for part in parts]
        if self.straight is not None:
            parts = [parts[0] + middle @ self.straight, parts[1] + reach @ self.straight.abs()]
        return parts[0], parts[1], less, more


def _through(matrix: Tensor, below: Tensor, above: Tensor) -> tuple[Tensor, Tensor]:
    """By how much less or more ``matrix @ x`` may be, where x may be less by ``below`` or more by ``above`` (b, n)."""
    size, middle = matrix.abs().T, matrix.T
    reach, shift = (above + below) @ size, (above - below) @ middle
    return (reach - shift) / 2, (reach + shift) / 2


def _padded(corners: Tensor, offsets: Tensor, most: int = 1 << 20) -> list[tuple[Tensor, Tensor]]:
    """Cells in groups of similar size, each with a table (b, m) of their vertices; shorter rows repeat the first."""
    sizes = offsets.diff()
    order = sizes.argsort()
    bounds = torch.searchsorted(sizes[order], torch.tensor([0, 5, 7, 9, 11, 13, 17, 23], device=sizes.device)).tolist()
    groups = [order[a:b] for a, b in zip(bounds, [*bounds[1:], len(order)], strict=True) if b > a]
    found = []
    for group in groups:
        width = int(sizes[group[-1]])
        for cells in group.split(max(1, most // width)):
            place = torch.arange(width, device=sizes.device)
            place = torch.where(place < sizes[cells, None], place, 0)
            found.append((cells, corners[offsets[cells, None] + place]))
    return found
