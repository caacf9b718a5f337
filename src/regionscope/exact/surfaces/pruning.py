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

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.exact.bounding.bounds import rounding_of, with_ones
from regionscope.exact.bounding.merge import AnyMatrix, Stage
from regionscope.exact.bounding.stages import NotSingleEntries, Staged, read_matrices
from regionscope.geometry import Slice
from regionscope.geometry import arrays as xp
from regionscope.geometry.block_size import rows_at_a_time
from regionscope.network import Program, Values
from regionscope.tolerance import FITS

_MOST_UNITS = 4096  # of a layer: for larger ones the matrices cost more than they save
_BYTES = 1 << 28  # of the values at the vertices of cells that are worked on at a time
_IN_CACHE = 16  # blocks of extremes are smaller than others by this factor
_WIDER = 2.0**-12  # by which sums of positive numbers in float32 are enlarged: far more than their rounding


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

    def __init__(self, program: Program, slice: Slice, levels: Levels, zero_tolerance: float) -> None:
        self.program, self.levels, self.zero_tolerance = program, levels, 2 * zero_tolerance
        self.steps: list[_Step] = []
        self.dtype = torch.float64
        if max((kink.n_units for kink in program.kinks), default=0) > _MOST_UNITS:
            return
        try:
            first, stages, self.names = read_matrices(program, slice.embed, slice.dim)
        except NotSingleEntries:
            return  # a maximum of several values: only the outputs tell
        if not stages or self.names[-1] != (program.output_name,):
            return
        units, error = rounding_of(Staged(first, tuple(stages)), with_ones(slice.corners.cpu().numpy()))
        self.tolerance = self.zero_tolerance + float((levels.factors.abs().cpu() @ torch.from_numpy(error)).max())
        sizes = [own.max(initial=0.0) for own in units]
        if FITS[0] < min(sizes) and max(sizes) < FITS[1]:
            self.dtype = torch.float32
        self.steps = [_Step.of(stage, program.device, self.dtype) for stage in stages]

    def __call__(
        self, layer: int, cells: Callable[[], tuple[Tensor, Tensor]], coords: Tensor, values: Values
    ) -> Tensor | None:
        """Which cells to keep behind nonlinearity ``layer``, at least one; None for all of them."""
        last = len(self.program.kinks) - 1
        if layer > last or (layer < last and not self.steps):
            return None
        corners, offsets = cells()
        if layer == last:
            rows = self.program.outputs(values).double() @ self.levels.factors.T + self.levels.shifts
            mask = self._met(rows, corners, offsets, None)
        else:
            entries = [values[name].reshape(len(values[name]), -1) for name in self.names[layer + 1]]
            rows = torch.cat(entries, 1) if len(entries) > 1 else entries[0]
            mask = self._in_parts(rows, corners, offsets, layer + 1)
        if not bool(mask.any()):
            mask[0] = True
        return mask

    def _in_parts(self, rows: Tensor, corners: Tensor, offsets: Tensor, layer: int) -> Tensor:
        """As ``_met``, for as many cells at a time as memory allows."""
        wide = sum(len(step.units) for step in self.steps[layer:])
        parts = -(-8 * wide * len(rows) // _BYTES)
        if parts <= 1:
            return self._met(rows, corners, offsets, layer)
        found, many = [], -(-len(offsets) // parts)
        for start in range(0, len(offsets) - 1, many):
            part = offsets[start : start + many + 1]
            vertices, own = torch.unique(corners[part[0] : part[-1]], return_inverse=True)
            found.append(self._met(rows[vertices], own, part - part[0], layer))
        return torch.cat(found)

    def _met(self, rows: Tensor, corners: Tensor, offsets: Tensor, layer: int | None) -> Tensor:
        """Whether the set may meet the cells, from the state (v, n) at their vertices before stage ``layer``.

        layer: None where no stage is left and the rows are those of ``levels``.
        """
        steps = [] if layer is None else self.steps[layer:]
        folds, ends = rows.new_empty(len(rows), sum(len(step.units) for step in steps), dtype=self.dtype), rows
        if layer is not None:
            block = rows_at_a_time(8 * folds.shape[1], rows.device)
            parts = zip(rows.split(block), folds.split(block), strict=True)
            ends = torch.cat([self._run(steps, state, fold) for state, fold in parts])
        met = torch.ones(len(offsets) - 1, dtype=torch.bool, device=rows.device)
        at_corners = ends.index_select(0, corners)
        low, high = (torch.segment_reduce(at_corners, way, offsets=offsets) for way in ("min", "max"))
        if layer is None:
            return self.levels.met(low, high, self.zero_tolerance)
        left = torch.arange(len(met), device=rows.device)
        if ends.shape[1] == 1:  # cells with values on both sides meet the set
            left = ((low > 0) | (high < 0))[:, 0].nonzero()[:, 0]
        for cells, columns in _columns(left, corners, offsets, folds):
            least, most = _extremes(folds, columns)
            met[cells] = self._near(steps, least, most, low[cells], high[cells])
        return met

    def _run(self, steps: list[_Step], state: Tensor, folds: Tensor) -> Tensor:
        """Rows of ``levels`` (v, q) at vertices with this state (v, n) before the steps; writes the folds (v, H)."""
        for step, part in zip(steps, folds.split([len(step.units) for step in steps], 1), strict=True):
            fold = step.fold(state)
            part.copy_(fold)
            state = step.run(state, fold)
        return state @ self.levels.factors.T + self.levels.shifts

    def _near(self, steps: list[_Step], least: Tensor, most: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Whether the set may meet cells (b,).

        least, most: (b, H) extremes of the hinges of all steps at the vertices. low, high: (b, q) those of the rows.
        """
        top = most.clamp(min=0)
        gap = least.clamp(max=0).mul_(top).div_((least - most).clamp_(max=-torch.finfo(least.dtype).tiny))
        widths = [len(step.units) for step in steps]
        spreads = [least.new_zeros(len(least), 2 * steps[0].before)]
        for step, *own in zip(steps, *(each.split(widths, 1) for each in (most, top, gap)), strict=True):
            spreads.append(step.spread(spreads[-1], *own))
        less, more = (spreads[-1].double() @ _paired(self.levels.factors).T).nan_to_num(torch.inf).chunk(2, 1)
        met = self.levels.met(low - less, high + more, self.tolerance)
        left = met.nonzero()[:, 0]
        if len(left) == 0:
            return met
        hinges = [each.index_select(0, left).double().split(widths, 1) for each in (least, most, gap)]
        reach = torch.cat([-self.levels.factors, self.levels.factors], 1).expand(len(left), -1, -1)
        less, more = low.new_zeros(2, len(left), 1)
        for i, step in reversed(list(enumerate(steps))):
            spread = spreads[i].index_select(0, left).double()
            reach, fewer, further = step.back(reach, spread, *(each[i] for each in hinges))
            less, more = less + fewer, more + further
        less, more = ((1 + _WIDER) * each.nan_to_num(torch.inf) for each in (less, more))
        met[left] = self.levels.met(low[left] - less, high[left] + more, self.tolerance)
        return met


@dataclass(frozen=True, eq=False)
class _Step:
    """State z to ``straight @ z + bent @ max(z[units] - at, 0) + offset``; None: no such part.

    straight_pair, bent_pair: see ``_paired``; ``wider``: a little larger, in the precision of the extremes.
    """

    units: Tensor
    at: Tensor
    straight: Tensor | None
    bent: Tensor
    offset: Tensor
    straight_pair: Tensor | None
    bent_pair: Tensor
    straight_wider: Tensor | None
    bent_wider: Tensor
    before: int  # entries of z
    all_fold: bool  # whether the units are all entries in order
    shifted: bool  # whether a threshold is not 0

    @staticmethod
    def of(stage: Stage, device: torch.device, dtype: torch.dtype) -> _Step:
        def dense(matrix: AnyMatrix) -> Tensor:
            array = matrix if not hasattr(matrix, "toarray") else matrix.toarray()
            return torch.from_numpy(array).to(device)

        whole = dense(stage.matrix)
        straight, bent = whole[:, : stage.n].contiguous(), whole[:, stage.n :].contiguous()
        units, at, offset = (torch.from_numpy(each).to(device) for each in (stage.units, stage.at, stage.offset))
        goes_on = bool(straight.any())
        return _Step(
            units=units, at=at, bent=bent, offset=offset, straight=straight if goes_on else None,
            bent_pair=_paired(bent), straight_pair=_paired(straight) if goes_on else None,
            bent_wider=_paired(bent).mul_(1 + _WIDER).to(dtype),
            straight_wider=_paired(straight).mul_(1 + _WIDER).to(dtype) if goes_on else None,
            before=stage.n, all_fold=stage.units.tolist() == list(range(stage.n)), shifted=bool(at.any()),
        )  # fmt: skip

    def fold(self, state: Tensor) -> Tensor:
        """``z[units] - at``, (v, H)."""
        entries = state if self.all_fold else state.index_select(1, self.units)
        return torch.sub(entries, self.at) if self.shifted else entries

    def run(self, state: Tensor, fold: Tensor) -> Tensor:
        """The next state (v, n) at the vertices. fold: (v, H) ``state[:, units] - at``."""
        found = torch.addmm(self.offset, fold.clamp(min=0), self.bent.T)
        return found if self.straight is None else found.addmm_(state, self.straight.T)

    def of_units(self, entries: Tensor) -> Tensor:
        """Of pairs (b, 2 n) of the entries of z, those (b, 2 H) of the units."""
        if self.all_fold:
            return entries
        return entries.view(len(entries), 2, -1).index_select(2, self.units).flatten(1)

    def spread(self, before: Tensor, most: Tensor, top: Tensor, gap: Tensor) -> Tensor:
        """By how much less, then by how much more the next state may be in cells (b, 2 n) than interpolated.

        before: the same for the state. most: (b, H) largest at the vertices. top: its positive part. gap: (b, H)
        between hinge and chord.
        """
        own, n = self.of_units(before), len(self.units)
        found = torch.empty_like(own)
        less, more = found[:, :n], found[:, n:]
        # a hinge is at least 0, so it is less than interpolated by at most the largest value at a vertex
        torch.minimum(torch.add(gap, own[:, :n], out=less), top, out=less)
        torch.minimum(torch.add(most, own[:, n:], out=more).clamp_(min=0), own[:, n:], out=more)
        found = torch.mm(found, self.bent_wider.T)
        return found if self.straight_wider is None else found.addmm_(before, self.straight_wider.T)

    def back(
        self, reach: Tensor, before: Tensor, least: Tensor, most: Tensor, gap: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Factors (b, q, 2 n) of the state before, and how much less or more (b, q) the hinges make the rows.

        reach: factors of the state behind, by which errors of its entries grow: the least times -1, then the largest.
        An error passes a hinge by a factor between 0 and 1. The rest is as in ``spread``.
        """
        below, above = self.of_units(before).chunk(2, 1)
        steep, on = least >= below, most + above > 0  # the hinge has slope 1, or not slope 0, throughout
        factors = (reach @ self.bent_pair).unflatten(2, (2, -1))
        rising = factors.clamp(min=0)
        more, less = (rising * gap[:, None, None]).sum(3).unbind(2)
        found = torch.where(steep[:, None, None], factors, rising).mul_(on[:, None, None])
        if not self.all_fold:
            found = found.new_zeros(*found.shape[:3], self.before).index_add_(3, self.units, found)
        found = found.flatten(2)
        return found if self.straight_pair is None else found + reach @ self.straight_pair, less, more


def _paired(matrix: Tensor) -> Tensor:
    """(2 m, 2 n) from (m, n): ``matrix`` on intervals that reach from -a to b, kept side by side as (a, b)."""
    up, down = matrix.clamp(min=0), (-matrix).clamp(min=0)
    return torch.cat([torch.cat([up, down], 1), torch.cat([down, up], 1)])


def _columns(cells: Tensor, corners: Tensor, offsets: Tensor, rows: Tensor) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """Groups of the cells, those with more vertices first, for extremes of ``rows`` (v, n) at their vertices.

    Column j holds vertex j of the first cells of the group, those with more than j vertices.
    """
    if len(cells) == 0:
        return
    sizes, order = (offsets[cells + 1] - offsets[cells]).sort(descending=True)
    most = rows_at_a_time(rows.element_size() * rows.shape[1], rows.device)
    for own, size in zip(cells[order].split(most), sizes.split(most), strict=True):
        first = offsets.index_select(0, own)
        counts = torch.searchsorted(-size, -torch.arange(int(size[0]), device=size.device)).tolist()
        yield own, [corners.index_select(0, first[:n] + j) for j, n in enumerate(counts)]


def _extremes(rows: Tensor, columns: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Least and largest (b, n) of the rows (v, n) at the vertices of each cell, block by block in the cache."""
    least, most = rows.new_empty(2, len(columns[0]), rows.shape[1])
    step = rows_at_a_time(_IN_CACHE * rows.element_size() * rows.shape[1], rows.device)
    low, high, rows, *columns = (xp.numpy_on_cpu(each) for each in (least, most, rows, *columns))
    for block in (slice(start, start + step) for start in range(0, len(least), step)):
        a, b = low[block], high[block]
        a[:] = b[:] = xp.take(rows, columns[0][block])
        for column in columns[1:]:
            own = xp.take(rows, column[block])
            n = len(own)
            if n == 0:
                break
            a[:n], b[:n] = xp.minimum(a[:n], own), xp.maximum(b[:n], own)
    return least, most
