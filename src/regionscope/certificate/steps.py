"""A program as a list of explicit steps on flat rows: matrices, thresholds of single entries, maxima of groups.

``matrices`` reads the matrices from the program's own operations, one operation at a time. So the certified object is
fixed: an operation with one number for each pair of entries, a float64 number, which is a binary fraction. An average
over 9 entries, say, has the weight 1/9 rounded to float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy
import torch
from torch import Tensor

from regionscope.certificate.matrices import Matrix, Sparse, flat, terms_of, whole_layer
from regionscope.network import Fold, Groups, Maxima, Pieces, Program, full_precision
from regionscope.network.program import Instruction
from regionscope.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class AffineStep:
    """writes = sum of matrix @ source over the terms + shift."""

    writes: str
    terms: tuple[tuple[str, Matrix], ...]
    shift: FloatArray

    @cached_property
    def moved(self) -> IntArray | None:
        """Where each entry is copied from, if the step only moves entries."""
        if len(self.terms) != 1 or self.shift.any():
            return None
        matrix = self.terms[0][1]
        if not isinstance(matrix, Sparse) or not ((matrix.terms == 1).all() and (matrix.sparse.data == 1).all()):
            return None
        found: IntArray = matrix.sparse.indices.astype(np.int64)
        return found


@dataclass(frozen=True, eq=False)
class PiecewiseStep:
    """writes = (slopes[p] * source + shifts[p]) / divisor, entry by entry, where p counts the thresholds below it.

    at: thresholds, ascending. slopes, shifts: (pieces, n). layer: index of the fold. An empty ``writes`` only
    cuts: the sign of a single output.
    """

    writes: str
    source: str
    layer: int
    at: tuple[float, ...]
    slopes: FloatArray
    shifts: FloatArray
    divisor: int = 1

    @property
    def n_units(self) -> int:
        """Number of columns in a pattern."""
        return len(self.slopes[0])

    @property
    def rows_per_unit(self) -> int:
        """Number of constraints of each unit: one for each threshold."""
        return len(self.at)

    @property
    def is_relu(self) -> bool:
        """Whether every entry is max(source, 0)."""
        plain = self.at == (0.0,) and self.divisor == 1 and not self.shifts.any()
        return plain and bool((self.slopes == [[0.0], [1.0]]).all())


@dataclass(frozen=True, eq=False)
class Largest:
    """writes = the largest entry of source in each group (w, m); an empty ``writes`` only cuts, as the argmax does."""

    writes: str
    source: str
    layer: int
    groups: IntArray

    @property
    def n_units(self) -> int:
        """Number of columns in a pattern."""
        return len(self.groups)

    @property
    def rows_per_unit(self) -> int:
        """Number of constraints of each unit: one for each candidate."""
        return int(self.groups.shape[1])


FoldStep = PiecewiseStep | Largest
AnyStep = AffineStep | PiecewiseStep | Largest


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of a program in order, the names of its input and output, and the names of its folds."""

    steps: tuple[AnyStep, ...]
    input_name: str
    output_name: str
    layers: tuple[str, ...]
    has_decision: bool

    @property
    def folds(self) -> list[FoldStep]:
        """The steps that fold, in order; a pattern has their units one after another."""
        return [step for step in self.steps if not isinstance(step, AffineStep)]

    @property
    def n_units(self) -> int:
        """Number of columns in a pattern."""
        return sum(fold.n_units for fold in self.folds)

    @property
    def n_rows(self) -> int:
        """Number of constraints of a pattern, without those of the border."""
        return sum(fold.n_units * fold.rows_per_unit for fold in self.folds)


def read_steps(program: Program) -> Steps:
    """The steps of a float64 program. Cost: one row through each operation for each entry of its inputs."""
    with torch.no_grad(), full_precision():
        reader = _StepReader(program)
        steps: list[AnyStep] = [*reader.affine(program.instructions)]
        for layer, fold in enumerate(program.folds):
            steps += reader.fold(fold, layer)
            steps += reader.affine(fold.instructions[1:])
    has_decision = bool(program.folds) and program.folds[-1].decides
    names = tuple(fold.name for fold in program.folds)
    return Steps(tuple(steps), program.input_name, program.output_name, names, has_decision)


class _StepReader:
    """Follows a program with one row of zeros, to know the shapes, and reads each operation as it goes."""

    def __init__(self, program: Program) -> None:
        row = torch.zeros(1, *program.input_shape, dtype=torch.float64, device=program.device)
        self.values = {program.input_name: row}

    def affine(self, instructions: Sequence[Instruction]) -> Iterator[AffineStep]:
        for each in instructions:
            reads = [self.values[name] for name in each.reads]
            function = partial(_with_constants, each.function, each.constants)
            result = function(*reads)
            whole = whole_layer(each.function, each.constants, reads)
            terms = terms_of(function, each.reads, reads) if whole is None else [(each.reads[0], whole)]
            yield AffineStep(each.writes, tuple(terms), flat(result)[0])
            self.values[each.writes] = torch.zeros_like(result)

    def fold(self, fold: Fold, layer: int) -> list[AnyStep]:
        first = fold.instructions[0]
        reads = [self.values[name] for name in first.reads]
        compared = fold.compare(*reads, *first.constants)
        function = partial(_with_constants, first.function, first.constants)
        result = function(*reads)
        self.values[first.writes] = torch.zeros_like(result)
        before = f"{first.writes} before its fold"
        values = partial(_compared_values, fold, first.constants)
        inside = values(*reads)
        shift = flat(inside)[0]
        unchanged = inside.is_contiguous() and inside.shape.numel() == reads[0].shape.numel()
        if unchanged and inside.data_ptr() == reads[0].data_ptr():  # the numbers of its only input, in the same order
            steps: list[AnyStep] = [_sum_with(first.reads[0], before, len(shift), (), shift)]
        else:
            steps = [AffineStep(before, tuple(terms_of(values, first.reads, reads)), shift)]
        if fold.decides:
            if isinstance(compared, Maxima):
                return [*steps, Largest("", before, layer, compared.groups.cpu().numpy())]
            return [*steps, PiecewiseStep("", before, layer, (0.0,), np.zeros((2, 1)), np.zeros((2, 1)))]
        if isinstance(compared, Maxima):
            assert isinstance(fold.pieces, Groups)
            after, w = f"{first.writes} behind its fold", len(compared.groups)
            return [
                *steps,
                Largest(after, before, layer, compared.groups.cpu().numpy()),
                _sum_with(after, first.writes, w, (), np.zeros(w), fold.pieces.sign),
            ]
        assert isinstance(fold.pieces, Pieces)
        slopes, shifts = (numbers.cpu().numpy() for numbers in fold.lines())
        if fold.pieces.adds_second:
            return [*steps, *self._with_second(first, layer, before, slopes)]
        return [*steps, PiecewiseStep(first.writes, before, layer, fold.pieces.at, slopes, shifts, fold.pieces.divisor)]

    def _with_second(self, first: Instruction, layer: int, before: str, slopes: FloatArray) -> list[AnyStep]:
        """max(a, b) as b + max(a - b, 0), and min(a, b) as b + min(a - b, 0)."""
        part, shape = f"{first.writes} without its second input", self.values[first.writes].shape
        step, n = PiecewiseStep(part, before, layer, (0.0,), slopes, np.zeros_like(slopes)), slopes.shape[1]
        if len(first.reads) == 1:
            bound = flat(first.constants[0].expand(shape))[0]
            return [step, _sum_with(part, first.writes, n, (), bound)]
        reads = [self.values[name] for name in first.reads]
        terms = terms_of(partial(_second, shape=shape[1:]), first.reads, reads)
        return [step, _sum_with(part, first.writes, n, tuple(terms), np.zeros(n))]


def _with_constants(function: Callable[..., Tensor], constants: tuple[Tensor, ...], *inputs: Tensor) -> Tensor:
    return function(*inputs, *constants)


def _compared_values(fold: Fold, constants: tuple[Tensor, ...], *inputs: Tensor) -> Tensor:
    return fold.compare(*inputs, *constants).values


def _second(a: Tensor, b: Tensor, *, shape: torch.Size) -> Tensor:
    return b.expand(b.shape[0], *shape) + 0 * a.sum()


def _sum_with(
    source: str, writes: str, n: int, more: tuple[tuple[str, Matrix], ...], shift: FloatArray, factor: float = 1.0
) -> AffineStep:
    """writes = factor * source + the other terms + shift."""
    diagonal = np.arange(n)
    matrix = scipy.sparse.csr_array((np.full(n, factor), (diagonal, diagonal)), shape=(n, n))
    return AffineStep(writes, ((source, Sparse(matrix)), *more), shift)
