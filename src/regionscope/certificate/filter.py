"""The units of a network as affine functions on each region, in float64 with a bound of the error.

Each region has a frame of its own, q = (c - reference) / scale, in which its corners lie in [-1, 1]^k. A unit is
a_0 + a_1 q_1 + ... + a_k q_k, and ``error`` bounds the difference to the true function on [-2, 2]^k. A sum of n terms
that are rounded in any order differs from the true one by less than n u sum |terms| / (1 - n u), with u = 2^-53; all
bounds here use twice that, which pays for the rounding of the bound itself. A bound of 0 means that nothing was
rounded: a unit that reads units that are off is exactly zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regionscope.certificate.integers import Pattern
from regionscope.certificate.steps import Affine, Fold, Largest, Numbers, Pieces, Steps
from regionscope.geometry import Slice

__all__ = ["UNIT", "Frames", "Near", "Screened", "fold_rows", "frames_of", "screen"]

UNIT = 2.0**-52  # twice the unit of rounding
_LEAST = 2.0**-700  # added to bounds that are not 0, in place of what underflows
_REACH = 1.01  # corners lie this far from the reference, after they have been corrected
_BYTES = 1 << 27


@dataclass(frozen=True)
class Frames:
    """reference: (r, k) a point inside each region; scale: (r, k) powers of two."""

    reference: Numbers
    scale: Numbers


@dataclass(frozen=True)
class Near:
    """Constraints that are not positive on the whole box around a region, sorted by ``key``.

    key: region * n_rows + number of the constraint as in ``IntegerNetwork.cell``. rows: (n, k + 1) constant first.
    error: (n,).
    """

    key: NDArray[np.int64]
    rows: Numbers
    error: Numbers


@dataclass(frozen=True)
class Screened:
    """What floats prove about all regions.

    patterns: (r, units) of the reference points. sure: (r,) whether all of it is proved.
    slopes, slope_error: (r, c, k) of the outputs, by slice coordinate.
    """

    patterns: Pattern
    sure: NDArray[np.bool_]
    near: Near
    slopes: Numbers
    slope_error: Numbers


def frames_of(vertices: Numbers, corners: NDArray[np.int64], offsets: NDArray[np.int64]) -> Frames:
    """The mean of the corners of each region, and the reach of its corners rounded up to a power of two."""
    lengths = np.diff(offsets)
    points = vertices[corners]
    reference = np.add.reduceat(points, offsets[:-1], axis=0) / lengths[:, None]
    reach = np.maximum.reduceat(np.abs(points - np.repeat(reference, lengths, 0)), offsets[:-1], axis=0)
    return Frames(reference, 2.0 ** np.ceil(np.log2(np.maximum(reach, 2.0**-200)) + 1e-9))


def fold_rows(fold: Fold) -> int:
    """Number of constraints of each unit of a fold."""
    return fold.groups.shape[1] if isinstance(fold, Largest) else len(fold.at)


def screen(steps: Steps, slice: Slice, frames: Frames) -> Screened:
    """Patterns, near constraints and slopes of all regions. Cost: k + 2 forward passes for each region."""
    n, k = frames.reference.shape
    widest = max([len(step.shift) for step in steps.steps if isinstance(step, Affine)], default=1)
    rows = max(1, _BYTES // (8 * (k + 2) * max(1, widest)))
    blocks = [
        _Block(slice, Frames(frames.reference[i : i + rows], frames.scale[i : i + rows]), i, steps).run()
        for i in range(0, n, rows)
    ]
    near = Near(*(np.concatenate(parts) for parts in zip(*(block.near for block in blocks), strict=True)))
    order = near.key.argsort(kind="stable")
    return Screened(
        np.concatenate([block.pattern for block in blocks]),
        np.concatenate([block.sure for block in blocks]),
        Near(near.key[order], near.rows[order], near.error[order]),
        np.concatenate([block.slopes for block in blocks]),
        np.concatenate([block.slope_error for block in blocks]),
    )


def size(columns: Numbers) -> Numbers:
    """|a_0| + 2 (|a_1| + ... + |a_k|) of columns (k + 1, ...), the largest absolute value on [-2, 2]^k."""
    found: Numbers = np.abs(columns[0]) + 2 * _spread(columns)
    return found


def _spread(columns: Numbers) -> Numbers:
    """|a_1| + ... + |a_k|."""
    total: Numbers = np.abs(columns[1])
    for column in columns[2:]:
        total += np.abs(column)
    return total


def _padded(bound: Numbers) -> Numbers:
    return np.where(bound > 0, bound + _LEAST, bound)


class _Block:
    """Some regions on their way through the network: values (k + 1, entries, regions), errors (entries, regions)."""

    def __init__(self, slice: Slice, frames: Frames, first: int, steps: Steps) -> None:
        self.steps, self.frames, self.first = steps, frames, first
        self.count, self.k = frames.reference.shape
        self.border = slice.halfspaces
        self.n_rows = len(self.border[0]) + sum(fold.n_units * fold_rows(fold) for fold in steps.folds)
        self.found: list[tuple[NDArray[np.int64], Numbers, Numbers]] = []
        self.patterns: list[Pattern] = []
        self.sure = np.ones(self.count, dtype=bool)
        self.base = 0
        origin, basis = slice.origin.reshape(-1).cpu().numpy(), slice.basis.flatten(1).cpu().numpy()
        value = origin[:, None] + basis.T @ frames.reference.T  # (d, regions)
        slopes = [row[:, None] * scale for row, scale in zip(basis, frames.scale.T, strict=True)]
        terms = np.abs(origin)[:, None] + np.abs(basis).T @ np.abs(frames.reference).T
        self.values = {steps.input_name: np.stack([value, *slopes])}
        self.errors = {steps.input_name: _padded((self.k + 8) * UNIT * terms)}

    def run(self) -> _Block:
        """Carry the regions through all steps."""
        self._borders()
        last = {name: i for i, step in enumerate(self.steps.steps) for name in _reads(step)}
        for i, step in enumerate(self.steps.steps):
            if isinstance(step, Affine):
                self._affine(step)
            elif isinstance(step, Pieces):
                self._pieces(step)
            else:
                self._largest(step)
            for name in {*_reads(step)} - {self.steps.output_name}:
                if last[name] == i:
                    del self.values[name], self.errors[name]
        pattern = np.concatenate(self.patterns) if self.patterns else np.zeros((0, self.count), dtype=np.int16)
        self.pattern = np.ascontiguousarray(pattern.T)
        outputs, error = self.values[self.steps.output_name], self.errors[self.steps.output_name]
        scale = self.frames.scale[:, None]
        self.slopes = outputs[1:].transpose(2, 1, 0) / scale
        self.slope_error = error.T[..., None] / scale
        self.near = tuple(np.concatenate(parts) for parts in zip(*self.found, strict=True))
        return self

    def _borders(self) -> None:
        normals, bounds = (part.cpu().numpy() for part in self.border)
        reference, scale = self.frames.reference, self.frames.scale
        value = bounds[:, None] - normals @ reference.T
        rows = np.stack([value, *(-normals[:, i, None] * scale[:, i] for i in range(self.k))])
        error = (self.k + 8) * UNIT * (np.abs(bounds)[:, None] + np.abs(normals) @ np.abs(reference).T)
        unit, region = self._near(value, _spread(rows), error, np.zeros(value.shape, dtype=bool))
        self._keep(unit, region, rows[:, unit, region], error[unit, region])
        self.base += len(normals)

    def _near(
        self, margin: Numbers, spread: Numbers, error: Numbers, nothing: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Entry and region of the constraints that may fail near their region, unless they are ``nothing``."""
        bound = (_REACH + 16 * UNIT) * spread + (error + 8 * UNIT * np.abs(margin))
        unit, region = np.nonzero(~((margin > bound) | nothing))
        return unit.astype(np.int64), region.astype(np.int64)

    def _keep(self, number: NDArray[np.int64], region: NDArray[np.int64], rows: Numbers, error: Numbers) -> None:
        """Constraints rows (k + 1, n) with these numbers, counted from ``base``."""
        key = (self.first + region) * self.n_rows + self.base + number
        self.found.append((key.astype(np.int64), np.ascontiguousarray(rows.T), error))

    def _affine(self, step: Affine) -> None:
        if len(step.terms) == 1 and not step.shift.any():
            source, matrix = step.terms[0]
            if (matrix.terms == 1).all() and (matrix.sparse.data == 1).all():  # it only moves entries
                moved = matrix.sparse.indices
                same = len(moved) == matrix.sparse.shape[1] and (moved == np.arange(len(moved))).all()
                here, error = self.values[source], self.errors[source]
                self.values[step.writes] = here if same else here[:, moved]
                self.errors[step.writes] = error if same else error[moved]
                return
        n_terms = 1 + sum(int(matrix.terms.max(initial=0)) for _, matrix in step.terms)
        share = (n_terms + 8) * UNIT
        out = np.zeros((self.k + 1, len(step.shift), self.count))
        bound = np.zeros((len(step.shift), self.count))
        for source, matrix in step.terms:
            here = self.values[source]
            for i, column in enumerate(here):
                out[i] += matrix @ column
            bound += matrix.magnitudes @ (self.errors[source] + share * size(here))
        out[0] += step.shift[:, None]
        bound *= 1 + share
        bound += np.where(bound > 0, share * np.abs(step.shift)[:, None], 0)  # a shift alone is not rounded
        self.values[step.writes], self.errors[step.writes] = out, _padded(bound)

    def _pieces(self, fold: Pieces) -> None:
        here, error = self.values[fold.source], self.errors[fold.source]
        spread = _spread(here)
        exact = (error == 0) & (spread == 0)  # a constant that is known
        piece = np.zeros(error.shape, dtype=np.int16)
        for t, at in enumerate(fold.at):
            value = here[0] - at if at else here[0]
            above = value > 0
            bound = error + 2 * UNIT * (np.abs(here[0]) + abs(at)) if at else error
            unit, region = self._near(np.abs(value), spread, bound, exact)
            sign = np.where(above[unit, region], 1.0, -1.0)
            rows = here[:, unit, region]
            rows[0] = value[unit, region]
            own = bound[unit, region]
            self.sure[region[~(np.abs(rows[0]) > own)]] = False
            self._keep(unit * len(fold.at) + t, region, sign * rows, own)
            piece += above
        self.base += fold.n_units * len(fold.at)
        self.patterns.append(piece)
        if fold.writes:
            self._through(fold, here, error, piece)

    def _through(self, fold: Pieces, here: Numbers, error: Numbers, piece: Pattern) -> None:
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
            bound += np.where(rounded, 8 * UNIT * (size(here) * np.abs(slope) + np.abs(shift)), 0)
            bound = _padded(bound)
        self.values[fold.writes], self.errors[fold.writes] = out, bound

    def _largest(self, fold: Largest) -> None:
        here, error = self.values[fold.source], self.errors[fold.source]
        groups = fold.groups
        winner = here[0][groups].argmax(1)  # (w, regions), the first of equal ones
        chosen = groups[np.arange(len(groups))[:, None], winner]
        region_of = np.arange(self.count)
        best, best_error = here[:, chosen, region_of], error[chosen, region_of]
        for j in range(groups.shape[1]):
            other, other_error = here[:, groups[:, j]], error[groups[:, j]]
            same = (chosen == groups[:, j, None]) | ((best == other).all(0) & (best_error + other_error == 0))
            rows = best - other
            bound = best_error + other_error + 2 * UNIT * (size(best) + size(other))
            unit, region = self._near(rows[0], _spread(rows), bound, same)
            kept, own = rows[:, unit, region], bound[unit, region]
            self.sure[region[~(kept[0] > own)]] = False
            self._keep(unit * groups.shape[1] + j, region, kept, own)
        self.base += groups.size
        self.patterns.append(winner.astype(np.int16))
        if fold.writes:
            self.values[fold.writes], self.errors[fold.writes] = best, best_error


def _reads(step: Affine | Fold) -> Iterator[str]:
    if isinstance(step, Affine):
        yield from (name for name, _ in step.terms)
    else:
        yield step.source
