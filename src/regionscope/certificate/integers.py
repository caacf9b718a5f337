"""The steps of a network in integers, and what they say about one activation pattern on a slice.

On the region of a pattern every unit is an affine function of the slice coordinates, a row (a_1, ..., a_k, a_0) that
stands for a_1 c_1 + ... + a_k c_k + a_0. All constants are fractions, so a tensor is an integer matrix with one row for
each entry and a common denominator that does not depend on the pattern. Points are homogeneous: (c_1 w, ..., c_k w, w).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regionscope.certificate.matrices import LayerMatrix, Matrix
from regionscope.certificate.steps import AnyStep, FoldStep, Largest, PiecewiseStep, Steps
from regionscope.errors import MissingLibrary
from regionscope.extras import import_extra
from regionscope.geometry import Polygon, Slice
from regionscope.types import BoolArray, FloatArray

Integers = NDArray[Any]  # of Python integers
Pattern = NDArray[np.int16]
_LIMB, _MOST_LIMBS = 19, 12  # bits of a limb, and the largest number of limbs of a matrix
_WIDE, _WIDEST = 256, 1 << 15  # columns of a matrix that is cut into limbs
_TOGETHER = 1 << 14  # rows of constraints of the patterns that are computed in one call
Choose = Callable[[FoldStep, Integers], NDArray[np.int16]]


def as_integers(numbers: NDArray[np.float64]) -> tuple[Integers, int]:
    """The same numbers as integers over a common power of two."""
    mantissa, exponent = np.frexp(numbers)
    whole = np.asarray(mantissa * 2.0**53, dtype=np.int64)
    shifts = np.where(whole == 0, 0, exponent.astype(np.int64) - 53)
    trailing = np.zeros_like(whole)
    for bits in (32, 16, 8, 4, 2, 1):  # drop zeros at the end, which many weights have
        even = (whole != 0) & (whole % (1 << bits) == 0)
        whole = np.where(even, whole >> bits, whole)
        trailing += np.where(even, bits, 0)
    shifts = np.where(whole == 0, 0, shifts + trailing)
    lowest = min(0, int(shifts.min(initial=0)))
    powers = np.array([1 << int(s - lowest) for s in shifts.ravel()], dtype=object).reshape(whole.shape)
    return whole.astype(object) * powers, 1 << -lowest


@dataclass(frozen=True)
class PatternCell:
    """What integers say about one pattern: constraints (n, k + 1) that are >= 0 on its region, and the outputs there.

    degenerate: whether a unit is at its threshold, or two candidates are equal, on the whole region.
    """

    constraints: Integers
    outputs: Integers
    degenerate: bool


class _Product:
    """matrix @ columns in integers; by FLINT, if it is installed, where the matrix is dense."""

    def __init__(self, matrix: Matrix) -> None:
        try:
            flint = import_extra("flint", who="", library="", extra="")
        except MissingLibrary:
            flint = None
        sparse = matrix.sparse
        data, self.denominator = as_integers(sparse.data)
        self.data, self.shape = data, sparse.shape
        self.indices, self.pointers = sparse.indices, sparse.indptr
        self.flint, self.dense, self.unit = flint, None, bool((data == 1).all()) and self.denominator == 1
        self.as_dense = flint is not None and sparse.nnz > max(64, self.shape[0] * self.shape[1] // 8)

    def scaled(self, factor: int) -> None:
        """Multiply all entries by a whole number."""
        if factor != 1:
            self.data, self.unit = self.data * factor, False
        if self.as_dense:
            full = np.zeros(self.shape, dtype=object)
            full[np.repeat(np.arange(self.shape[0]), np.diff(self.pointers)), self.indices] = self.data
            self.dense = self.flint.fmpz_mat(full.tolist())

    def __call__(self, columns: Integers) -> Integers:
        if self.dense is not None:
            found = (self.dense * self.flint.fmpz_mat(columns.tolist())).tolist()
            return np.array([[int(x) for x in row] for row in found], dtype=object)
        if self.unit and len(self.indices) == self.shape[0] and (np.diff(self.pointers) == 1).all():
            moved: Integers = columns[self.indices]
            return moved
        out = np.zeros((self.shape[0], columns.shape[1]), dtype=object)
        full = np.flatnonzero(np.diff(self.pointers))
        if len(full):
            out[full] = np.add.reduceat(self.data[:, None] * columns[self.indices], self.pointers[full], axis=0)
        return out


class WideProduct:
    """matrix @ columns in integers for a matrix with long rows, by its limbs: floats that are whole numbers below 2^19.

    A sum of at most 2^15 products of two limbs is below 2^53, so BLAS adds it up without rounding.
    """

    def __init__(self, limbs: list[FloatArray], lowest: int) -> None:
        """limbs: the highest first. lowest: exponent of the last one, which is negative or 0."""
        self.limbs, self.denominator, self.factor = limbs[::-1], 1 << -lowest, 1

    @staticmethod
    def of(matrix: Matrix) -> WideProduct | None:
        """None if the matrix is another one, or its numbers differ too much in size."""
        if not isinstance(matrix, LayerMatrix) or len(matrix.shape) > 1 or not _WIDE <= matrix.shape[0] <= _WIDEST:
            return None
        rest = matrix.numbers
        limbs: list[FloatArray] = []
        low = int(np.frexp(np.abs(rest).max(initial=0.0))[1])
        while len(limbs) < _MOST_LIMBS and (rest.any() or low > 0):
            low -= _LIMB
            limbs.append(np.trunc(np.ldexp(rest, -low)))
            rest = rest - np.ldexp(limbs[-1], low)
        return None if rest.any() or low > 0 or not limbs else WideProduct(limbs, low)

    def scaled(self, factor: int) -> None:
        """Multiply all entries by a whole number."""
        self.factor *= factor

    def __call__(self, columns: Integers) -> Integers:
        product: Integers = np.zeros((len(self.limbs[0]), columns.shape[1]), dtype=object)
        negative, rest, place = columns < 0, np.abs(columns), 0
        while rest.any():
            digits = (rest & ((1 << _LIMB) - 1)).astype(np.float64)
            digits[negative] *= -1
            for i, limb in enumerate(self.limbs):
                product = product + ((limb @ digits).astype(np.int64).astype(object) << (place + i) * _LIMB)
            rest, place = rest >> _LIMB, place + 1
        return product * self.factor


@dataclass(frozen=True)
class _AffineStep:
    writes: str
    terms: list[tuple[str, _Product | WideProduct]]
    shift: Integers

    def run(self, values: dict[str, Integers], ones: Integers, choose: Choose) -> None:
        out: Integers = np.multiply.outer(self.shift, ones)
        for source, product in self.terms:
            columns = values[source].reshape(len(values[source]), ones.size)
            out = out + product(columns).reshape(out.shape)
        values[self.writes] = out


@dataclass(frozen=True)
class _PiecesStep:
    fold: PiecewiseStep
    slopes: Integers
    shifts: Integers

    def run(self, values: dict[str, Integers], ones: Integers, choose: Choose) -> None:
        rows = values[self.fold.source]
        piece = choose(self.fold, rows).T
        if self.fold.writes:
            index = np.arange(len(rows))[:, None]
            shifts = self.shifts[piece, index][:, :, None]
            values[self.fold.writes] = self.slopes[piece, index][:, :, None] * rows + shifts * ones


@dataclass(frozen=True)
class _LargestStep:
    fold: Largest

    def run(self, values: dict[str, Integers], ones: Integers, choose: Choose) -> None:
        rows = values[self.fold.source]
        piece = choose(self.fold, rows).T
        if self.fold.writes:
            largest = self.fold.groups[np.arange(len(piece))[:, None], piece]
            values[self.fold.writes] = rows[largest, np.arange(piece.shape[1])]


def border_of(slice: Slice) -> tuple[Integers, int]:
    """Rows (h, k + 1) of integers that are >= 0 inside the slice, for each of its half-spaces, over a denominator.

    The sides of a polygon pass through its corners exactly; their float64 normals are rounded.
    """
    if isinstance(slice, Polygon):
        corners, below = as_integers(slice.corners.cpu().numpy())
        (x, y), (next_x, next_y) = corners.T, np.roll(corners, -1, 0).T
        return np.stack([(y - next_y) * below, (next_x - x) * below, x * next_y - y * next_x], 1), below**2
    normals, bounds = (part.cpu().numpy() for part in slice.halfspaces)
    return as_integers(np.concatenate([-normals, bounds[:, None]], 1))  # b - A c >= 0


class IntegerNetwork:
    """The steps of a network on a slice, compiled to integers once."""

    def __init__(self, steps: Steps, slice: Slice) -> None:
        self.source, self.dim = steps, slice.dim
        flat = np.concatenate([slice.basis.flatten(1).cpu().numpy(), slice.origin.reshape(1, -1).cpu().numpy()])
        inputs, denominator = as_integers(flat.T)
        self.border, _ = border_of(slice)
        corners = slice.corners.cpu().numpy()
        self.corners = [homogeneous(corner) for corner in corners]
        self.denominators = {steps.input_name: denominator}
        self.thresholds: dict[int, list[tuple[int, int]]] = {}  # v > at: v * factor > level, by id of the step
        compiled = [self._compiled(step) for step in steps.steps]
        first = next((i for i, step in enumerate(compiled) if not isinstance(step, _AffineStep)), len(compiled))
        self.folded, read = compiled[first:], {steps.output_name}
        for step in self.folded:
            read |= {source for source, _ in step.terms} if isinstance(step, _AffineStep) else {step.fold.source}
        values, ones = {steps.input_name: inputs}, np.array([0] * slice.dim + [1], dtype=object)
        for step in compiled[:first]:
            step.run(values, ones, lambda fold, rows: np.zeros((0, 0), dtype=np.int16))
        self.before = {name: rows for name, rows in values.items() if name in read}  # the first fold

    def _compiled(self, step: AnyStep) -> Any:
        known = self.denominators
        if isinstance(step, Largest):
            if step.writes:
                known[step.writes] = known[step.source]
            return _LargestStep(step)
        if isinstance(step, PiecewiseStep):
            return self._pieces(step)
        products = [(source, WideProduct.of(matrix) or _Product(matrix)) for source, matrix in step.terms]
        shift, below = as_integers(step.shift)
        out = math.lcm(below, *(product.denominator * known[source] for source, product in products))
        for source, product in products:
            product.scaled(out // (product.denominator * known[source]))
        known[step.writes] = out
        return _AffineStep(step.writes, products, shift * (out // below))

    def _pieces(self, step: PiecewiseStep) -> _PiecesStep:
        below = self.denominators[step.source]
        numbers, of_at = as_integers(np.array(step.at))
        at = [(of_at, int(number) * below) for number in numbers]
        slopes, of_slopes = as_integers(step.slopes)
        shifts, of_shifts = as_integers(step.shifts)
        of_slopes, of_shifts = of_slopes * step.divisor, of_shifts * step.divisor
        out = math.lcm(below * of_slopes, of_shifts)
        if step.writes:
            self.denominators[step.writes] = out
        self.thresholds[id(step)] = at
        return _PiecesStep(step, slopes * (out // (below * of_slopes)), shifts * (out // of_shifts))

    def _run(self, values: dict[str, Integers], ones: Integers, choose: Choose) -> Integers:
        for step in self.folded:
            step.run(values, ones, choose)
        return values[self.source.output_name]

    @property
    def together(self) -> int:
        """Number of patterns to compute in one call: a few thousand rows of integers keep the calls of NumPy few."""
        return max(1, _TOGETHER // (1 + self.source.n_rows))

    def cell(self, pattern: Pattern) -> PatternCell:
        """Constraints and outputs of a pattern; see ``cells``."""
        return self.cells(pattern[None])[0]

    def cells(self, patterns: Pattern) -> list[PatternCell]:
        """Constraints and outputs of each of the patterns (b, units), as functions of the slice coordinates.

        Constraints are those of the border, then for each fold those of its units in order: for each threshold, or for
        each candidate of a group.
        """
        ones, start = np.array([[0] * self.dim + [1]] * len(patterns), dtype=object), 0
        rows = [np.broadcast_to(self.border, (len(patterns), *self.border.shape))]
        degenerate = np.zeros(len(patterns), dtype=bool)

        def choose(fold: FoldStep, values: Integers) -> Pattern:
            nonlocal start
            pieces = patterns[:, start : start + fold.n_units]
            start += fold.n_units
            constraints = self._constraints(fold, values, pieces, ones)
            rows.append(constraints)
            nothing = ~(constraints != 0).any(2)
            if isinstance(fold, Largest):
                winners = fold.groups[np.arange(fold.n_units), pieces]
                nothing &= (fold.groups != winners[:, :, None]).reshape(len(patterns), -1)
            np.logical_or(degenerate, nothing.any(1), out=degenerate)
            return pieces

        shared = {name: np.repeat(rows[:, None], len(patterns), 1) for name, rows in self.before.items()}
        outputs, constraints = self._run(shared, ones, choose), np.concatenate(rows, 1)
        return [PatternCell(constraints[i], outputs[:, i], bool(degenerate[i])) for i in range(len(patterns))]

    def flipped(self, pattern: Pattern, row: int) -> Pattern:
        """The pattern behind a facet on which only this constraint is zero."""
        behind, first, start = pattern.copy(), len(self.border), 0
        for fold in self.source.folds:
            stride = fold.rows_per_unit
            if row < first + stride * fold.n_units:
                unit, which = divmod(row - first, stride)
                if isinstance(fold, Largest):
                    behind[start + unit] = which
                else:
                    behind[start + unit] = which if behind[start + unit] > which else which + 1
                return behind
            first, start = first + stride * fold.n_units, start + fold.n_units
        raise IndexError(f"Expected a constraint of a unit, got row {row}. Please report this fault of regionscope.")

    def _constraints(self, fold: FoldStep, values: Integers, pieces: Pattern, ones: Integers) -> Integers:
        """(b, rows, k + 1)"""
        b, columns = ones.shape
        if isinstance(fold, Largest):
            members = values[fold.groups]  # (w, m, b, k + 1)
            winner = members[np.arange(fold.n_units)[:, None], pieces.T, np.arange(b)][:, None]
            return np.moveaxis(winner - members, 2, 0).reshape(b, -1, columns)
        by_threshold = []
        for t, (factor, level) in enumerate(self.thresholds[id(fold)]):
            above = values * factor - level * ones
            by_threshold.append(np.where((pieces > t).T[:, :, None], above, -above))
        return np.moveaxis(np.stack(by_threshold, 1), 2, 0).reshape(b, -1, columns)

    def pattern(self, point: Sequence[int], direction: Sequence[int] | None = None) -> Pattern:
        """The pattern just beside a homogeneous point, a step of infinitesimal length along ``direction`` from it.

        A unit at its threshold in both the point and the direction is on the lower piece; of tied candidates the first
        is the largest. Without a direction: the pattern at the point itself.
        """
        beside: Pattern = self.patterns([point], None if direction is None else [direction])[0]
        return beside

    def patterns(self, points: Sequence[Sequence[int]], directions: Sequence[Sequence[int]] | None) -> Pattern:
        """The pattern (b, units) beside each of several points; see ``pattern``."""
        steps = None if directions is None else [[*direction, 0] for direction in directions]
        at_points = np.stack([np.array(rows, dtype=object) for rows in (points, steps) if rows is not None], 1)
        ones, by_fold = at_points[:, :, -1], list[Pattern]()

        def choose(fold: FoldStep, values: Integers) -> Pattern:
            if isinstance(fold, Largest):
                best, largest = np.zeros((fold.n_units, len(points)), dtype=np.int16), values[fold.groups[:, 0]]
                for j in range(1, fold.rows_per_unit):
                    candidate = values[fold.groups[:, j]]
                    larger = _is_positive(candidate - largest)
                    best[larger], largest = j, np.where(larger[:, :, None], candidate, largest)
            else:
                best = np.zeros(values.shape[:2], dtype=np.int16)
                for factor, level in self.thresholds[id(fold)]:
                    best += _is_positive(values * factor - level * ones)
            by_fold.append(best.T)
            return by_fold[-1]

        flat = at_points.reshape(-1, at_points.shape[2]).T
        values = {name: rows.dot(flat).reshape(len(rows), *ones.shape) for name, rows in self.before.items()}
        self._run(values, ones, choose)
        return np.concatenate(by_fold, 1)


def _is_positive(numbers: Integers) -> BoolArray:
    """Whether the first of the numbers (n, b, m) that is not zero is positive (n, b)."""
    positive, zero = np.zeros(numbers.shape[:2], dtype=bool), np.ones(numbers.shape[:2], dtype=bool)
    for i in range(numbers.shape[2]):
        positive |= zero & (numbers[:, :, i] > 0).astype(bool)
        zero &= (numbers[:, :, i] == 0).astype(bool)
    return positive


def homogeneous(point: NDArray[np.float64]) -> tuple[int, ...]:
    numbers, below = as_integers(point)
    return (*numbers.tolist(), below)
