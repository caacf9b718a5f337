"""Which cells a level set can still meet, from bounds of the layers that are left.

The layers that are left run at the vertices of the cells, as if they folded nothing inside a cell. Interpolating these
values over a cell is wrong by at most the gap between a hinge and its chord, for every unit that changes sides there:

      interpolated      . '/           the largest gap of max(r, 0) for r between -a and b
                    .  '  /            is a b / (a + b), where r = 0
              ____.'_____/

The gaps are added up through the weights of later layers, as intervals. A hinge that keeps one side of its threshold
adds nothing, so the bounds become exact where no unit is left to change sides. A vertex belongs to many cells and runs
once, so bounds cost a few forward passes over the vertices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regionscope.exact.bounding.bounds import rounding_of, with_ones
from regionscope.exact.bounding.hinge_network import HingeNetwork, NotSingleEntries, read_matrices
from regionscope.exact.bounding.merge import HingeLayer
from regionscope.geometry import Slice
from regionscope.geometry.arrays import rows_at_a_time
from regionscope.geometry.interpolation import skip_csr_warning
from regionscope.geometry.ragged import gather_rows
from regionscope.network import Program, Values
from regionscope.tolerance import FITS

_MOST_UNITS = 4096  # of a layer: for larger ones the matrices cost more than they save
_BYTES = 1 << 28  # of the values at the vertices of cells that are worked on at a time
_WIDER = 2.0**-12  # by which sums of positive numbers in float32 are enlarged: far more than their rounding
_CORNERS = 16  # of a cell, seldom more: on a GPU, the rows of all of them are gathered
_TINY = 2.0**-100  # keeps 0 / 0 out of the gaps, and numbers so small that processors are slow with them


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
        met = (low[:, : self.n].amax(1) <= tolerance) & (high[:, : self.n].amax(1) >= -tolerance)
        return met & (high[:, self.n :] >= -tolerance).all(1)


class Pruning:
    """A mask of the cells that the set may meet, after each fold."""

    def __init__(self, program: Program, slice: Slice, levels: Levels, zero_tolerance: float) -> None:
        self.program, self.levels, self.zero_tolerance = program, levels, 2 * zero_tolerance
        self.steps: list[_Step] = []
        self.dtype = torch.float64
        if max((fold.n_units for fold in program.folds), default=0) > _MOST_UNITS:
            return
        try:
            first, hinge_layers, self.names = read_matrices(program, slice.embed, slice.dim)
        except NotSingleEntries:
            return  # a maximum of several values: only the outputs tell
        if not hinge_layers or self.names[-1] != (program.output_name,):
            return
        units, error = rounding_of(HingeNetwork(first, tuple(hinge_layers)), with_ones(slice.corners.cpu().numpy()))
        self.tolerance = self.zero_tolerance + float((levels.factors.abs().cpu() @ torch.from_numpy(error)).max())
        sizes = [weights.max(initial=0.0) for weights in units]
        if FITS[0] < min(sizes) and max(sizes) < FITS[1]:
            self.dtype = torch.float32
        self.steps = [_Step.of(hinge_layer, program.device, self.dtype) for hinge_layer in hinge_layers]

    def __call__(
        self, layer: int, cells: Callable[[], tuple[Tensor, Tensor]], coords: Tensor, values: Values
    ) -> Tensor | None:
        """Which cells to keep behind fold ``layer``, at least one; None for all of them."""
        last = len(self.program.folds) - 1
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
        kept, many = [], -(-len(offsets) // parts)
        for start in range(0, len(offsets) - 1, many):
            part = offsets[start : start + many + 1]
            vertices, local = torch.unique(corners[part[0] : part[-1]], return_inverse=True)
            kept.append(self._met(rows[vertices], local, part - part[0], layer))
        return torch.cat(kept)

    def _met(self, rows: Tensor, corners: Tensor, offsets: Tensor, layer: int | None) -> Tensor:
        """Whether the set may meet the cells, from the state (v, n) at their vertices before the hinge layer ``layer``.

        layer: None where none is left and the rows are those of ``levels``.
        """
        steps = [] if layer is None else self.steps[layer:]
        folds, ends = (rows, rows) if layer is None else self._run(steps, rows)
        at_corners = ends.index_select(0, corners)
        low, high = (torch.segment_reduce(at_corners, way, offsets=offsets) for way in ("min", "max"))
        if layer is None:
            return self.levels.met(low, high, self.zero_tolerance)
        met = torch.ones(len(offsets) - 1, dtype=torch.bool, device=rows.device)
        left = torch.arange(len(met), device=rows.device)
        if ends.shape[1] == 1:  # cells with values on both sides meet the set
            left = ((low > 0) | (high < 0))[:, 0].nonzero()[:, 0]
        at_once = rows_at_a_time(folds[:1].nbytes * (1 if rows.is_cpu else _CORNERS), rows.device)
        for cells in left.split(at_once):
            index, local = gather_rows(offsets, cells)
            least, most = _extremes(folds, corners.index_select(0, index), local)
            met[cells] = self._near(steps, least, most, low[cells], high[cells])
        return met

    def _run(self, steps: list[_Step], rows: Tensor) -> tuple[Tensor, Tensor]:
        """The folds (v, H) of all steps, and the rows of ``levels`` (v, q), at vertices with this state (v, n)."""
        widths = [len(step.units) for step in steps]
        folds = rows.new_empty(len(rows), sum(widths), dtype=self.dtype)
        ends = rows.new_empty(len(rows), len(self.levels.shifts), dtype=torch.float64)
        block = rows_at_a_time(8 * sum(widths), rows.device)
        for start in range(0, len(rows), block):
            part = slice(start, start + block)
            state = rows[part]
            for step, into in zip(steps, folds[part].split(widths, 1), strict=True):
                fold = step.fold(state)
                into.copy_(fold)
                state = step.run(state, fold)
            ends[part] = state @ self.levels.factors.T + self.levels.shifts
        return folds, ends

    def _near(self, steps: list[_Step], least: Tensor, most: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Whether the set may meet cells (b,).

        least, most: (b, H) extremes of the folds of all steps at the vertices. low, high: (b, q) those of the rows.
        """
        below, above = least.clamp_(max=-_TINY), most.clamp(min=0)
        gap = (below * above).div_(below.sub_(above))
        widths = [len(step.units) for step in steps]
        less = more = least.new_zeros(len(least), steps[0].before)
        for step, *own in zip(steps, *(part.split(widths, 1) for part in (most, above, gap)), strict=True):
            less, more = step.spread(less, more, *own)
        up, down = _signed(self.levels.factors.T)
        less, more = less.double(), more.double()
        less, more = (part.nan_to_num(torch.inf) for part in (less @ up + more @ down, less @ down + more @ up))
        return self.levels.met(low - less, high + more, self.tolerance)


@dataclass(frozen=True, eq=False)
class _Step:
    """State z to ``straight @ z + bent @ max(z[units] - at, 0) + offset``; ``straight`` is None where it is 0.

    bent_signed, straight_signed: see ``_signed``; transposed, a little larger, in the precision of the extremes.
    """

    units: Tensor
    at: Tensor
    straight: Tensor | None
    bent: Tensor
    offset: Tensor
    straight_signed: tuple[Tensor, Tensor] | None
    bent_signed: tuple[Tensor, Tensor]
    before: int  # entries of z
    all_fold: bool  # whether the units are all entries in order
    shifted: bool  # whether a threshold is not 0

    @staticmethod
    def of(layer: HingeLayer, device: torch.device, dtype: torch.dtype) -> _Step:
        def wider(matrix: Tensor) -> tuple[Tensor, Tensor]:
            up, down = _signed(matrix.T.contiguous() * (1 + _WIDER))
            return up.to(dtype), down.to(dtype)

        matrix = layer.matrix if isinstance(layer.matrix, np.ndarray) else layer.matrix.toarray()
        whole = torch.from_numpy(matrix).to(device)
        straight, bent = whole[:, : layer.n].contiguous(), whole[:, layer.n :].contiguous()
        units, at, offset = (torch.from_numpy(array).to(device) for array in (layer.units, layer.at, layer.offset))
        goes_on = bool(straight.any())
        return _Step(
            units=units, at=at, bent=bent, offset=offset, straight=straight if goes_on else None,
            bent_signed=wider(bent), straight_signed=wider(straight) if goes_on else None,
            before=layer.n, all_fold=layer.units.tolist() == list(range(layer.n)), shifted=bool(at.any()),
        )  # fmt: skip

    def fold(self, state: Tensor) -> Tensor:
        """``z[units] - at``, (v, H)."""
        entries = self.of_units(state)
        return torch.sub(entries, self.at) if self.shifted else entries

    def run(self, state: Tensor, fold: Tensor) -> Tensor:
        """The next state (v, n) at the vertices. fold: (v, H) ``state[:, units] - at``."""
        values = torch.addmm(self.offset, fold.clamp(min=0), self.bent.T)
        return values if self.straight is None else values.addmm_(state, self.straight.T)

    def of_units(self, entries: Tensor) -> Tensor:
        """Of the entries of z (b, n), those (b, H) of the units."""
        return entries if self.all_fold else entries.index_select(1, self.units)

    def spread(self, less: Tensor, more: Tensor, most: Tensor, above: Tensor, gap: Tensor) -> tuple[Tensor, Tensor]:
        """By how much less, and by how much more the next state may be in cells (b, m) than interpolated.

        less, more: (b, n) the same for the state. most: (b, H) largest folds at the vertices. above: those of the
        hinges. gap: (b, H) between hinge and chord.
        """
        own_less, own_more = self.of_units(less), self.of_units(more)
        # a hinge is at least 0, so it is less than interpolated by at most its largest value at a vertex
        fewer = torch.minimum(gap + own_less, above)
        further = torch.minimum((most + own_more).clamp_(min=0), own_more)
        up, down = self.bent_signed
        bounds = torch.mm(fewer, up).addmm_(further, down), torch.mm(fewer, down).addmm_(further, up)
        if self.straight_signed is not None:
            up, down = self.straight_signed
            bounds[0].addmm_(less, up).addmm_(more, down)
            bounds[1].addmm_(less, down).addmm_(more, up)
        return bounds


def _signed(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The positive and the negative part of a matrix, which is the first minus the second."""
    return matrix.clamp(min=0), (-matrix).clamp(min=0)


def _extremes(rows: Tensor, corners: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Least and largest (b, n) of the rows (v, n) at the corners of each cell."""
    if not rows.is_cpu:
        at_corners = rows.index_select(0, corners)
        least, most = (torch.segment_reduce(at_corners, way, offsets=offsets) for way in ("min", "max"))
        return least, most
    skip_csr_warning()
    matrix = torch.sparse_csr_tensor(
        offsets, corners, rows.new_ones(len(corners)), (len(offsets) - 1, len(rows)), check_invariants=False
    )
    return torch.sparse.mm(matrix, rows, "amin"), torch.sparse.mm(matrix, rows, "amax")
