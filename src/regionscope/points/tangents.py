"""The linear part of a program on the cells of given points: how a small move of the input moves every value.

On its cell each point sees one affine map. Its linear part is that of the affine operations, and at each fold the slope
of the piece on which a unit lies, or the candidate that wins. ``Tangents`` applies it to many directions at once: no
value is run again, biases are left out, and the operations before the first fold run once for all points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from regionscope.network import Compared, Fold, Maxima, Program, Thresholds, Values
from regionscope.network.operations import Pieces
from regionscope.network.program import Instruction

Live = dict[str, Tensor]
"""Tangents of live values by name: (p, n, *shape) for n directions at p points; p is 1 where all points agree."""

Linear = Callable[..., Tensor]


@dataclass(frozen=True, eq=False)
class Step:
    """An affine instruction without its constant part, on rows."""

    function: Linear
    reads: tuple[str, ...]
    writes: str
    frees: tuple[str, ...]

    def run(self, live: Live) -> None:
        """Replace what it reads by what it writes."""
        inputs = _of_equal_points([live[name] for name in self.reads])
        for name in self.frees:
            del live[name]
        p, n = inputs[0].shape[:2]
        rows = self.function(*(x.reshape(p * n, *x.shape[2:]) for x in inputs))
        live[self.writes] = rows.reshape(p, n, *rows.shape[1:])


@dataclass(frozen=True, eq=False)
class LinearFold:
    """A fold without the choice of its piece.

    at: thresholds, () for a maximum. slopes: for each operand (pieces, *shape), its slope on each piece; empty for a
    maximum. shifts: (pieces, *shape), the value of each piece where all operands are 0, None if it is 0 everywhere.
    groups: (w, m) of a maximum. shape: of a row of the result. changes_values: False for the decision.
    """

    fold: Fold
    reads: tuple[str, ...]
    constants: tuple[Tensor, ...]
    at: tuple[float, ...]
    slopes: tuple[Tensor, ...]
    shifts: Tensor | None
    groups: Tensor | None
    shape: tuple[int, ...]
    changes_values: bool

    @property
    def n_norms(self) -> int:
        """Number of gradients of a point: of units, or of the candidates of all groups."""
        return math.prod(self.shape) if self.groups is None else self.groups.numel()

    @property
    def n_terms(self) -> int:
        """Number of comparisons of a point: of units with each threshold, or of candidates with the winner."""
        return max(1, len(self.at)) * self.n_norms

    def compared(self, live: Live) -> Tensor:
        """(p, n, values): the tangents of the values that are compared, with thresholds or with each other."""
        inputs = _of_equal_points([live[name] for name in self.reads])
        p, n = inputs[0].shape[:2]
        rows = self.fold.compare(*(x.reshape(p * n, *x.shape[2:]) for x in inputs), *self.constants).values
        return rows.reshape(p, n, rows.shape[1])

    def factors(self, pieces: Tensor) -> tuple[Tensor, ...]:
        """For each operand (p, *shape): the slope of the piece of each unit, from ``pieces`` (p, thresholds * n)."""
        return tuple(self._on(pieces, slope) for slope in self.slopes)

    def _on(self, pieces: Tensor, table: Tensor) -> Tensor:
        """(p, *shape): the entries of ``table`` (pieces, *shape) on these pieces."""
        above = pieces.reshape(len(pieces), len(self.at), *self.shape)
        if len(self.at) == 1:
            return torch.where(above[:, 0] > 0, table[1], table[0])
        return table.expand(len(table), *self.shape).gather(0, above.sum(1, dtype=torch.int64))

    def run(self, live: Live, chosen: tuple[Tensor, ...], *, overwrite: bool = False) -> None:
        """Replace the operands by the result. chosen: the ``factors``, or (p, w) the column of each winner.

        overwrite: whether the tangents of the first operand may be written to, where nothing else reads them.
        """
        if not self.changes_values:
            return
        first = self.fold.instructions[0]
        inputs = [live[name] for name in self.reads]
        for name in first.frees:
            del live[name]
        if self.groups is None:
            if overwrite and first.overwrite != "never" and len(inputs) == 1 and len(inputs[0]) == len(chosen[0]):
                live[first.writes] = inputs[0].mul_(chosen[0][:, None])
                return
            products = [x * factor[:, None] for x, factor in zip(inputs, chosen, strict=True)]
            live[first.writes] = products[0] if len(products) == 1 else products[0] + products[1]
            return
        (winner,) = chosen
        flat = inputs[0].flatten(2).expand(len(winner), *inputs[0].shape[1:2], -1)
        taken = flat.gather(2, winner[:, None].expand(-1, flat.shape[1], -1))
        live[first.writes] = taken.reshape(*taken.shape[:2], *self.shape)

    def run_values(self, values: Values, copies: int, pieces: Tensor, chosen: tuple[Tensor, ...]) -> None:
        """``run`` for values (copies * p, *shape): all copies of a point are mapped by the piece of that point."""
        first = self.fold.instructions[0]
        if not self.changes_values:
            first.run(values, consume=False, pure=True)
            return
        rows = {name: values[name].unflatten(0, (copies, -1)).transpose(0, 1) for name in first.reads}
        for name in first.frees:
            del values[name]
        self.run(rows, chosen)
        result = rows[first.writes]
        if self.shifts is not None:
            result = result + self._on(pieces, self.shifts)[:, None]
        values[first.writes] = result.transpose(0, 1).flatten(0, 1)


class Tangents:
    """The linear steps of a program; see the module. Cost of making them: a few forward passes of one row."""

    def __init__(self, program: Program) -> None:
        self.program = program
        values = {program.input_name: _zeros(program, program.input_shape)}
        self.first = _steps(program.instructions, values)
        self.live_shapes = {name: tuple(x.shape[1:]) for name, x in values.items()}
        self.folds: list[LinearFold] = []
        self.stretches: list[list[Step]] = []
        for fold in program.folds:
            self.folds.append(_linear_fold(fold, values))
            fold.instructions[0].run(values, consume=False, pure=True)
            self.stretches.append(_steps(fold.instructions[1:], values))

    def begin(self, directions: Tensor) -> Live:
        """The tangents before the first fold for directions (p, n, *input_shape)."""
        live = {self.program.input_name: directions}
        return run(self.first, live)

    def advance(self, live: Live, index: int, chosen: tuple[Tensor, ...], *, overwrite: bool = False) -> Live:
        """Go through fold ``index`` and the affine steps behind it. overwrite: see ``LinearFold.run``."""
        self.folds[index].run(live, chosen, overwrite=overwrite)
        return run(self.stretches[index], live)

    def gradients(self, numbers: Callable[[Live], Tensor], n: int, rows: int) -> Tensor:
        """(n, d): the gradients of n numbers with respect to the input, some rows at a time.

        numbers: from the tangents (1, rows, *shape) before the first fold, (1, rows, n). Cost: a backward pass of each.
        """
        program, parts = self.program, []
        for start in range(0, n, rows):
            size = min(rows, n - start)
            leaf = _zeros(program, (size, *program.input_shape)).requires_grad_()
            with torch.enable_grad():
                wanted = numbers(self.begin(leaf))[0, :, start : start + size].diagonal()
                parts.append(torch.autograd.grad(wanted.sum() + 0 * leaf.sum(), leaf)[0][0].flatten(1))
        return torch.cat(parts)


def run(steps: Sequence[Step], live: Live) -> Live:
    """The tangents behind all steps."""
    for step in steps:
        step.run(live)
    return live


def _of_equal_points(inputs: Sequence[Tensor]) -> list[Tensor]:
    """The same tangents, all for the same number of points."""
    p = max(len(x) for x in inputs)
    return [x if len(x) == p else x.expand(p, *x.shape[1:]) for x in inputs]


def _zeros(program: Program, shape: tuple[int, ...]) -> Tensor:
    return torch.zeros((1, *shape), dtype=program.dtype, device=program.device)


def _steps(instructions: Sequence[Instruction], values: Live) -> list[Step]:
    """The linear parts of the instructions; ``values``, one row of each live value, goes through them."""
    steps = []
    for instruction in instructions:
        inputs = [torch.zeros_like(values[name]) for name in instruction.reads]
        steps.append(Step(_linear_part(instruction, inputs), instruction.reads, instruction.writes, instruction.frees))
        instruction.run(values, consume=False, pure=True)
    return steps


def _linear_part(instruction: Instruction, zeros: Sequence[Tensor]) -> Linear:
    """``function(x, *constants) - function(0, *constants)``, as one call wherever a constant alone makes the shift."""
    function, constants = instruction.function, instruction.constants
    shift = function(*zeros, *constants)
    if not bool(shift.any()):
        return partial(_called, function=function, constants=constants)
    probes = [torch.linspace(-1.0, 1.5, x.numel(), dtype=x.dtype, device=x.device).reshape(x.shape) for x in zeros]
    for i in reversed(range(len(constants))):
        if not constants[i].is_floating_point():
            continue
        without = (*constants[:i], _nothing_for(function, i, zeros, constants), *constants[i + 1 :])
        if bool(function(*zeros, *without).any()):
            continue
        linear = function(*probes, *without)
        difference = linear - (function(*probes, *constants) - shift)
        if bool((difference.abs() <= 1e-9 * (linear.abs().max() + shift.abs())).all()):
            return partial(_called, function=function, constants=without)
    return partial(_derivative, function=function, constants=constants)


def _nothing_for(function: Linear, i: int, zeros: Sequence[Tensor], constants: tuple[Tensor, ...]) -> Tensor | None:
    """What takes the place of constant ``i``: None where the function accepts that, such as for a bias, else zeros."""
    try:
        function(*zeros, *constants[:i], None, *constants[i + 1 :])
    except (TypeError, AttributeError, RuntimeError):
        return torch.zeros_like(constants[i])
    return None


def _called(*rows: Tensor, function: Linear, constants: tuple[Tensor | None, ...]) -> Tensor:
    return function(*rows, *constants)


def _derivative(*rows: Tensor, function: Linear, constants: tuple[Tensor, ...]) -> Tensor:
    """By forward-mode differentiation at 0, for shifts that are no tensor, such as the value of a padding."""
    zeros = tuple(torch.zeros_like(x) for x in rows)
    out: Tensor = torch.func.jvp(lambda *x: function(*x, *constants), zeros, rows)[1]
    return out


def _linear_fold(fold: Fold, values: Live) -> LinearFold:
    first = fold.instructions[0]
    zeros = [torch.zeros_like(values[name]) for name in first.reads]
    compared: Compared = fold.compare(*zeros, *first.constants)
    row = first.function(*zeros, *first.constants)
    shape = tuple(row.shape[1:])
    without = tuple(torch.zeros_like(x) if x.is_floating_point() else x for x in first.constants)
    changes = not fold.decides
    if isinstance(compared, Maxima):
        return LinearFold(fold, first.reads, without, (), (), None, compared.groups, shape, changes)
    slopes = fold.slopes_of_operands(row) if changes else ()
    shifts = _shifts(fold, compared, row) if changes else None
    return LinearFold(fold, first.reads, without, compared.at, slopes, shifts, None, shape, changes)


def _shifts(fold: Fold, compared: Thresholds, row: Tensor) -> Tensor | None:
    """The value of each piece where all operands are 0, (pieces, *shape), or None if it is 0 everywhere.

    compared, row: what the fold compares there, and its result (1, *shape).
    """
    assert isinstance(fold.pieces, Pieces)
    slopes, shifts = (x.to(row.device, row.dtype) for x in fold.lines())
    values = ((slopes * compared.values + shifts) / fold.pieces.divisor).reshape(-1, *row.shape[1:])
    piece = torch.stack([compared.values > t for t in compared.at]).sum(0).reshape(row.shape)
    values = values + (row - values.gather(0, piece))  # a constant second operand
    return values if bool(values.any()) else None
