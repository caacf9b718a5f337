"""The units of a network as affine functions on groups of regions, in float64 with a bound of the error.

Regions with one pattern so far form a group; it has a frame q = (c - reference) / scale in which their corners lie in
[-1, 1]^k. A unit is a_0 + a_1 q_1 + ... + a_k q_k there, and ``error`` bounds the difference to the true function on
[-3, 3]^k. A unit that keeps its sign on the box of a group is done; else it is looked at in the frame of each region.
At a fold the groups divide, and all functions move to the new frames.

``rounding_bounds`` says how sums are bounded. A bound of 0 means that nothing was rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regionscope.certificate.bits import Bits, PackedBits
from regionscope.certificate.frames import EPS, Frames
from regionscope.certificate.rounding_bounds import Value, first_steps, padded, reads
from regionscope.certificate.steps import AffineStep, FoldStep, Largest, PiecewiseStep, Steps
from regionscope.geometry import Slice
from regionscope.types import Array, BoolArray, FloatArray, IntArray

_CORNER_REACH = 1.01  # corners lie this far from the reference, after they have been corrected
_BLOCK_BYTES = 1 << 28


@dataclass(frozen=True)
class Near:
    """Constraints that are not positive on the whole box around a region, sorted by ``key``.

    key: region * n_rows + number of the constraint as in ``IntegerNetwork.cell``. rows: (n, k + 1) constant first.
    error: (n,).
    """

    key: IntArray
    rows: FloatArray
    error: FloatArray


@dataclass(frozen=True)
class Screened:
    """What floats prove about all regions.

    bits: (r, bytes) patterns of the regions. sure: (r,) whether all of it is proved.
    slopes, slope_error: (r, c, k) of the outputs, by slice coordinate.
    """

    bits: PackedBits
    sure: BoolArray
    near: Near
    slopes: FloatArray
    slope_error: FloatArray


def screen(steps: Steps, slice: Slice, frames: Frames, bits: Bits) -> Screened:
    """Patterns, near constraints and slopes of all regions. Cost: at most k + 2 forward passes for each region."""
    n, k = frames.reference.shape
    widest = max([len(step.shift) for step in steps.steps if isinstance(step, AffineStep)], default=1)
    rows = max(1, _BLOCK_BYTES // (8 * (k + 2) * max(1, widest)))
    low, high = frames.low.min(0), frames.high.max(0)
    reach = np.maximum(np.abs(low), np.abs(high)) + 4 * (high - low) + 2.0**-190  # of [-3, 3]^k in all frames
    start, first = first_steps(steps, slice, reach)
    blocks = [
        _FilterBlock(slice, frames.part(i, i + rows), i, steps, start, bits).run(first) for i in range(0, n, rows)
    ]
    near = Near(*(np.concatenate(parts) for parts in zip(*(block.near for block in blocks), strict=True)))
    order = near.key.argsort(kind="stable")
    return Screened(
        np.concatenate([bits.encode(block.pattern) for block in blocks]),
        np.concatenate([block.sure for block in blocks]),
        Near(near.key[order], near.rows[order], near.error[order]),
        np.concatenate([block.slopes for block in blocks]),
        np.concatenate([block.slope_error for block in blocks]),
    )


def size(columns: FloatArray) -> FloatArray:
    """|a_0| + 3 (|a_1| + ... + |a_k|) of columns (k + 1, ...), the largest absolute value on [-3, 3]^k."""
    found: FloatArray = np.abs(columns[0]) + 3 * _spread(columns)
    return found


def _spread(columns: FloatArray) -> FloatArray:
    """|a_1| + ... + |a_k|."""
    total: FloatArray = np.abs(columns[1])
    for column in columns[2:]:
        total += np.abs(column)
    return total


def _fails(margin: FloatArray, spread: FloatArray, error: FloatArray) -> BoolArray:
    """Whether a constraint with this value at the reference may be zero or negative somewhere in the box."""
    bound = (_CORNER_REACH + 16 * EPS) * spread + (error + 8 * EPS * np.abs(margin))
    return ~(margin > bound)


@dataclass(frozen=True)
class _AtRegions:
    """Functions of groups, each at all regions of its group.

    place, cell: (n,) which function and which region. value, bound: (n,) the value at the region's reference point, and
    a bound of its error. near: which of the n may be zero in the box of the region; rows: (k + 1, near) in its frame.
    """

    place: IntArray
    cell: IntArray
    value: FloatArray
    bound: FloatArray
    near: IntArray
    rows: FloatArray


class _FilterBlock:
    """Some regions on their way through the network: values (k + 1, entries, groups), errors (entries, groups)."""

    def __init__(
        self, slice: Slice, cells: Frames, first: int, steps: Steps, start: dict[str, Value], code: Bits
    ) -> None:
        self.steps, self.cells, self.first, self.code = steps, cells, first, code
        self.count, self.k = cells.reference.shape
        self.border = tuple(part.cpu().numpy() for part in slice.halfspaces)
        self.n_rows = len(self.border[0]) + steps.n_rows
        self.near_parts: list[tuple[IntArray, FloatArray, FloatArray]] = []
        self.pattern = np.zeros((self.count, steps.n_units), dtype=np.int16)
        self.sure = np.ones(self.count, dtype=bool)
        self.base, self.column = 0, 0
        self.random = np.random.default_rng(0)
        self.group = np.zeros(self.count, dtype=np.int64)
        self.frames = cells.together(self.group, 1)
        self.values, self.errors = {}, {}
        for name, columns in start.items():
            here = columns.at(self.frames.reference)
            slopes = columns.numbers[:, 1:] * self.frames.scale  # one group: (entries, k)
            self.values[name] = np.stack([here.numbers, *slopes.T[..., None]])
            self.errors[name] = here.error[:, None]

    def run(self, first: int) -> _FilterBlock:
        """Carry the regions through the steps from ``first`` on."""
        self._borders()
        last = {name: i for i, step in enumerate(self.steps.steps) for name in reads(step)}
        for i, step in enumerate(self.steps.steps[first:], first):
            if isinstance(step, AffineStep):
                self._affine(step)
            elif isinstance(step, PiecewiseStep):
                self._pieces(step)
            else:
                self._largest(step)
            for name in {*reads(step)} - {self.steps.output_name}:
                if last[name] == i:
                    del self.values[name], self.errors[name]
        outputs, error = self.values[self.steps.output_name], self.errors[self.steps.output_name]
        scale = self.frames.scale[:, None]
        self.slopes = (outputs[1:].transpose(2, 1, 0) / scale)[self.group]
        self.slope_error = (error.T[..., None] / scale)[self.group]
        self.near = tuple(np.concatenate(parts) for parts in zip(*self.near_parts, strict=True))
        return self

    def _borders(self) -> None:
        normals, bounds = self.border
        reference, scale = self.cells.reference, self.cells.scale
        value = bounds[:, None] - normals @ reference.T
        rows = np.stack([value, *(-normals[:, i, None] * scale[:, i] for i in range(self.k))])
        error = (self.k + 8) * EPS * (np.abs(bounds)[:, None] + np.abs(normals) @ np.abs(reference).T)
        unit, cell = np.nonzero(_fails(value, _spread(rows), error))
        self._keep(unit, cell, rows[:, unit, cell], error[unit, cell])
        self.base += len(normals)

    def _keep(self, number: Array, cell: Array, rows: FloatArray, error: FloatArray) -> None:
        """Constraints rows (k + 1, n) with these numbers, counted from ``base``, in the frames of regions."""
        key = (self.first + cell) * self.n_rows + self.base + number
        self.near_parts.append((key.astype(np.int64), np.ascontiguousarray(rows.T), error))

    def _regions_of(self, group: Array) -> tuple[IntArray, IntArray]:
        """All regions of some groups, one group after another: the place in ``group``, and the region."""
        order = self.group.argsort(kind="stable")
        counts = np.bincount(self.group, minlength=len(self.frames.scale))
        starts, many = np.cumsum(counts) - counts, counts[group]
        place = np.repeat(np.arange(len(group)), many)
        within = np.arange(len(place)) - np.repeat(np.cumsum(many) - many, many)
        return place, order[starts[group][place] + within]

    def _moved(
        self, rows: FloatArray, error: FloatArray, old: Frames, of: Array, new: Frames, to: Array
    ) -> tuple[FloatArray, FloatArray]:
        """Functions (k + 1, ..., n) of the frames ``old[of]`` in the frames ``new[to]``, and their errors (..., n).

        With d = new reference and s = new scale in the old frame, an error |e_0| + 3 sum |e_i| becomes at most
        |e_0| + sum (|d_i| + 3 s_i) |e_i|.
        """
        shift, ratio, grown = old.change(of, new, to)
        out = rows.copy()
        for i in range(self.k):
            out[0] += rows[1 + i] * shift[:, i]
            out[1 + i] *= ratio[:, i]
        return out, padded(grown * (error + (2 * self.k + 8) * EPS * size(rows)))

    def _affine(self, step: AffineStep) -> None:
        if (moved := step.moved) is not None:
            ((source, _),) = step.terms
            here, error = self.values[source], self.errors[source]
            same = len(moved) == len(error) and (moved == np.arange(len(moved))).all()
            self.values[step.writes] = here if same else here[:, moved]
            self.errors[step.writes] = error if same else error[moved]
            return
        n_terms = 1 + sum(int(matrix.terms.max(initial=0)) for _, matrix in step.terms)
        share, groups = (n_terms + 8) * EPS, len(self.frames.scale)
        out = np.zeros((self.k + 1, len(step.shift), groups))
        bound = np.zeros((len(step.shift), groups))
        for source, matrix in step.terms:
            here = self.values[source]
            for i, column in enumerate(here):
                out[i] += matrix @ column
            bound += matrix.magnitudes @ (self.errors[source] + share * size(here))
        out[0] += step.shift[:, None]
        bound *= 1 + share
        bound += np.where(bound > 0, share * np.abs(step.shift)[:, None], 0)  # a shift alone is not rounded
        self.values[step.writes], self.errors[step.writes] = out, padded(bound)

    def _pieces(self, fold: PiecewiseStep) -> None:
        here, error = self.values[fold.source], self.errors[fold.source]
        spread = _spread(here)
        exact = (error == 0) & (spread == 0)  # a constant that is known
        piece = np.zeros(error.shape, dtype=np.int16)
        by_threshold = []
        for t, at in enumerate(fold.at):
            value = here[0] - at if at else here[0]
            bound = error + 2 * EPS * (np.abs(here[0]) + abs(at)) if at else error
            piece += value > 0
            unit, group = np.nonzero(_fails(np.abs(value), spread, bound) & ~exact)
            rows = here[:, unit, group]
            rows[0] = value[unit, group]
            by_threshold.append((t, unit, self._at_regions(rows, bound[unit, group], group)))
        pattern = self.pattern[:, self.column : self.column + fold.n_units]
        pattern[:] = piece.T[self.group]
        changed: list[tuple[Array, Array]] = []
        for t, unit, seen in by_threshold:
            above, column, cell = seen.value > 0, unit[seen.place], seen.cell
            default = piece[column, self.group[cell]] > t
            pattern[cell, column] += above.astype(np.int16) - default.astype(np.int16)
            changed.append((cell, column))
            self.sure[cell[~(np.abs(seen.value) > seen.bound)]] = False
            sign, near = np.where(above[seen.near], 1.0, -1.0), seen.near
            self._keep(column[near] * len(fold.at) + t, cell[near], sign * seen.rows, seen.bound[near])
        self.base += fold.n_units * len(fold.at)
        self._divide(fold, changed)
        if fold.writes:
            self._through(fold)

    def _at_regions(self, rows: FloatArray, error: FloatArray, group: Array) -> _AtRegions:
        """Functions (k + 1, n) of groups in the frames of all their regions."""
        place, cell = self._regions_of(group)
        shift, ratio, grown = self.frames.change(self.group, self.cells, np.arange(self.count))
        bound = padded((error + (2 * self.k + 8) * EPS * size(rows))[place] * grown[cell])
        value, spread, sizes = rows[0][place], np.zeros(len(place)), np.abs(rows)
        for i in range(self.k):
            value += rows[1 + i][place] * shift[cell, i]
            spread += sizes[1 + i][place] * ratio[cell, i]
        near = np.flatnonzero(_fails(np.abs(value), spread, bound))
        slopes = [rows[1 + i][place[near]] * ratio[cell[near], i] for i in range(self.k)]
        return _AtRegions(place, cell, value, bound, near, np.stack([value[near], *slopes]))

    def _divide(self, fold: FoldStep, changed: list[tuple[Array, Array]]) -> None:
        """New groups: regions of one group that are on the same pieces of this fold. All live functions move there."""
        pattern = self.pattern[:, self.column : self.column + fold.n_units]
        self.column += fold.n_units
        weights = self.random.integers(1, 2**62, fold.n_units).astype(np.uint64)
        mark = np.zeros(self.count, dtype=np.uint64)
        for cell, column in changed:
            np.add.at(mark, cell, weights[column] * (pattern[cell, column] + 1).astype(np.uint64))
        order = np.lexsort((mark, self.group))
        starts = np.ones(self.count, dtype=bool)
        starts[1:] = (np.diff(self.group[order]) != 0) | (mark[order][1:] != mark[order][:-1])
        starts[1:] |= (pattern[order[1:]] != pattern[order[:-1]]).any(1)  # two patterns with one mark, if that happens
        new = np.empty(self.count, dtype=np.int64)
        new[order] = np.cumsum(starts) - 1
        first = order[starts]
        parent, old = self.group[first], self.frames
        self.group, self.member = new, first
        self.frames = self.cells.together(new, len(first))
        if len(first) == len(old.scale):  # nothing was divided, and the boxes are the same
            self.frames = Frames(*(each[parent] for each in (old.reference, old.scale, old.low, old.high)))
        to = np.arange(len(first))
        for name in self.values:
            rows, error = self.values[name][..., parent], self.errors[name][..., parent]
            if len(first) != len(old.scale):
                rows, error = self._moved(rows, error, old, parent, self.frames, to)
            self.values[name], self.errors[name] = rows, error

    def _through(self, fold: PiecewiseStep) -> None:
        here, error = self.values[fold.source], self.errors[fold.source]
        piece = self.pattern[self.member, self.column - fold.n_units : self.column].T
        index = np.arange(len(error))[:, None]
        alike = (fold.slopes == fold.slopes[:, :1]).all()
        slope = (fold.slopes[:, 0][piece] if alike else fold.slopes[piece, index]) / fold.divisor
        out, bound = here * slope, error * np.abs(slope)
        plain = np.isin(fold.slopes, (-1.0, 0.0, 1.0)).all() and not fold.shifts.any() and fold.divisor == 1
        if not plain:
            shift = fold.shifts[piece, index] / fold.divisor
            out[0] += shift
            rounded = np.isin(slope, (-1.0, 0.0, 1.0), invert=True) | ((shift != 0) & (slope != 0))
            rounded |= (shift != 0) & (fold.divisor != 1)
            bound += np.where(rounded, 8 * EPS * (size(here) * np.abs(slope) + np.abs(shift)), 0)
            bound = padded(bound)
        self.values[fold.writes], self.errors[fold.writes] = out, bound

    def _largest(self, fold: Largest) -> None:
        here, error, groups = self.values[fold.source], self.errors[fold.source], fold.groups
        winner = here[0][groups].argmax(1)  # (w, groups of regions), the first of equal ones
        open_ = np.zeros(winner.shape, dtype=bool)
        for j in range(groups.shape[1]):
            open_ |= self._compared(fold, here, error, winner, j)
        pattern = self.pattern[:, self.column : self.column + fold.n_units]
        pattern[:] = winner.T[self.group]
        unit, group = np.nonzero(open_)
        place, cell = self._regions_of(group)
        unit, group = unit[place], group[place]
        members = groups[unit]  # (n, m)
        rows, bounds = self._moved(
            here[:, members.T, group], error[members.T, group], self.frames, group, self.cells, cell
        )  # (k + 1, m, n)
        best = rows[0].argmax(0)
        pattern[cell, unit] = best
        index, on = np.arange(len(cell)), np.ones(members.shape, dtype=bool)
        if (switch := self.code.switches.get(fold.layer)) is not None:
            switch_of = switch.reshape(groups.shape)[unit]
            on = (switch_of < 0) | (self.pattern[cell[:, None], self.code.unit[switch_of]] > 0)
        top, top_error, best_entry = rows[:, best, index], bounds[best, index], members[index, best]
        exact = (here[:, members.T, group] == here[:, best_entry, group][:, None]).all(0)
        exact &= error[members.T, group] + error[best_entry, group] == 0
        kept = []
        for j in range(groups.shape[1]):
            gap = top - rows[:, j]
            bound = top_error + bounds[j] + 2 * EPS * (size(top) + size(rows[:, j]))
            same = (members[:, j] == best_entry) | (exact[j] & (best <= j)) | (on[index, best] & ~on[:, j])
            self.sure[cell[~((gap[0] > bound) | same)]] = False
            near = np.flatnonzero(_fails(gap[0], _spread(gap), bound) & ~same)
            number = unit[near] * groups.shape[1] + j
            kept.append((cell[near], best_entry[near], members[near, j], number, bound[near], gap[:, near]))
        *pair, number, bound, gap = (np.concatenate(each, -1) for each in zip(*kept, strict=True))
        order = number.argsort()
        first = order[np.unique(np.array(pair)[:, order], axis=1, return_index=True)[1]]  # of groups that overlap
        self._keep(number[first], pair[0][first], gap[:, first], bound[first])
        self.base += groups.size
        self._divide(fold, [(cell, unit)])
        if fold.writes:
            best_entry = groups[np.arange(len(groups))[:, None], pattern[self.member].T]
            index = np.arange(len(self.frames.scale))
            here, error = self.values[fold.source], self.errors[fold.source]
            self.values[fold.writes], self.errors[fold.writes] = here[:, best_entry, index], error[best_entry, index]

    def _compared(self, fold: Largest, here: FloatArray, error: FloatArray, winner: Array, j: int) -> BoolArray:
        """Whether candidate j may be as large as the winner somewhere in the box of a group."""
        best_entry = fold.groups[np.arange(len(winner))[:, None], winner]
        index = np.arange(winner.shape[1])
        best, best_error = here[:, best_entry, index], error[best_entry, index]
        other, other_error = here[:, fold.groups[:, j]], error[fold.groups[:, j]]
        gap = best - other
        bound = best_error + other_error + 2 * EPS * (size(best) + size(other))
        same = (best_entry == fold.groups[:, j, None]) | ((gap == 0).all(0) & (best_error + other_error == 0))
        near: BoolArray = _fails(gap[0], _spread(gap), bound) & ~same
        return near
