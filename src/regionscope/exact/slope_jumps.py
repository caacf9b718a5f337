"""Whether the affine maps on both sides of a wall are equal, from derivatives instead of differences of outputs.

Along a line that crosses a wall in the point p, the network has one slope before p and one behind it:

         f  |        /            slope before:  every unit is on the piece that it has in the region before p
            |   ____/             slope behind:  ... on the piece that it has in the region behind p
            |  /    p             jump:          slope behind - slope before; zero if both maps are equal
            +-----------------

The pieces are read in the middle of both regions. At p itself the units that change are zero, and rounding hides which
ones these are: a dot product of thousands of terms that cancel leaves more than any fixed share of its result.

The jump is carried through the network by itself. It starts as 0. Where a unit changes its piece on the wall, the
change of its slope times the derivative of the unit is added; later layers pass the sum on like any derivative. So a
small jump is lost neither in a large slope nor in a large constant of the outputs, and thin regions are as good as wide
ones.

Opposite units cancel only up to rounding. The rounding error of a jump is estimated by perturbing all derivatives by a
relative 2^-26 in every operation, a few times: a sum changes by that share of its terms, whether they cancel or not.

Derivatives are 2^160 times their true size. An affine function A has the derivative A(t) - A(0) along t, and next to a
t of this size the rounding of the constant A(0) is nothing.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regionscope.exact.affine_maps import AffineMaps, different_maps
from regionscope.exact.zero_tolerance import probe_points
from regionscope.geometry import Slice
from regionscope.network import Fold, Pieces, Program, Thresholds, Values, full_precision
from regionscope.network.program import Instruction

_SCALE = 2.0**160
_COPIES = 3
_PERTURBATION = 2.0**-26
_ROUNDING = 256.0  # units of rounding, relative to the terms of a sum, that count as zero
_BYTES = 1 << 26  # of live values at a time


def compare(program: Program, part: Any, maps: AffineMaps, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """For pairs of neighbours in a partition (w, 2): whether their maps are equal, and whether rounding leaves that
    undecided.

    maps: from the corners of the regions; they decide where they differ by more than rounding.
    """
    program = program.shortened(len(part.by_layer))  # without the comparison of its outputs
    rounding = max(part.stats.rounding, output_rounding(program, part.slice))
    undecided = ~different_maps(maps, pairs, rounding=rounding)
    same, chosen = torch.zeros_like(undecided), undecided.nonzero()[:, 0]
    if len(chosen):
        same[chosen], undecided[chosen] = slope_jumps(program, part.slice, part.interior[pairs[chosen]])
    return same, undecided


def slope_jumps(program: Program, slice: Slice, points: Tensor) -> tuple[Tensor, Tensor]:
    """For each wall (w,): whether the maps on both sides are equal, and whether rounding leaves that undecided.

    points: (w, 2, k) slice coordinates of a point inside the region before and behind each wall.

    A wall is undecided if no unit has another piece behind it than before.

    Cost: 2 forward passes for each wall and 2 for each axis of the slice, 8 more where the jump is not exactly zero;
    some 64 MiB of live values at a time.
    """
    n, device = len(points), points.device
    axes = slice.basis.reshape(slice.dim, *program.input_shape).to(program.device, program.dtype) * _SCALE
    same = torch.zeros(n, dtype=torch.bool, device=device)
    changes = torch.zeros(n, dtype=torch.int64, device=device)
    with torch.no_grad(), full_precision():
        folds = _folds(program)
        for copies in (0, _COPIES):  # most jumps that are zero are exactly zero, and need no estimate of rounding
            rows = max(1, _BYTES // max(1, program.row_bytes * (slice.dim * 2 * (1 + copies) + 2)))
            undecided = (~same).nonzero()[:, 0]
            for walls in undecided.split(rows) if len(undecided) else ():
                inputs = slice.embed(points[walls].transpose(0, 1).flatten(0, 1), dtype=program.dtype)
                equal, changed = _Walls(program, len(walls), axes, copies).cross(folds, inputs.to(program.device))
                same[walls], changes[walls] = equal.to(device), changed.to(device)
    return same & (changes > 0), changes == 0


def slopes_at(program: Program, part: Any, regions: Tensor) -> Tensor:
    """The slopes (n, k, c) of these regions of a partition, from the pieces that the units have in their middle.

    Cost: 2 forward passes for each region and axis of the slice, some 64 MiB of live values at a time.
    """
    program, slice = program.shortened(len(part.by_layer)), part.slice
    axes = slice.basis.reshape(slice.dim, *program.input_shape).to(program.device, program.dtype) * _SCALE
    slopes, rows = [], max(1, _BYTES // max(1, program.row_bytes * 2 * (slice.dim + 1)))
    with torch.no_grad(), full_precision():
        folds = _folds(program)
        for points in part.interior[regions].split(rows):
            inputs = slice.embed(points.repeat(2, 1), dtype=program.dtype).to(program.device)
            outputs = _Walls(program, len(points), axes, 0).outputs(folds, inputs)[0]
            slopes.append(outputs.reshape(slice.dim, len(points), -1).transpose(0, 1).to(points) / _SCALE)
    return torch.cat(slopes)


def output_rounding(program: Program, slice: Slice) -> float:
    """How far rounding may move an output on the slice, from all layers together, however their terms cancel.

    Estimated like the error of a jump: by perturbing the inputs, and all values at every fold. Cost: 4 forward
    passes over the probe points of the slice.
    """
    generator = torch.Generator().manual_seed(0)

    def perturbed(values: Values) -> Values:
        result = {}
        for name, value in values.items():
            shape = (1, *value.shape[1:])
            factor = 2 * torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu") - 1
            result[name] = value * (1 + size * factor).to(value.device, value.dtype)
        return result

    size = math.sqrt(torch.finfo(program.dtype).eps)
    with torch.no_grad(), full_precision():
        inputs = slice.embed(probe_points(slice.corners.cpu()), dtype=program.dtype).to(program.device)
        outputs, moved = program(inputs), 0.0
        for _ in range(_COPIES):
            values = perturbed(program.begin(perturbed({"": inputs})[""]))
            for fold in program.folds:
                values = perturbed(fold.advance(values, consume=True))
            moved = max(moved, float((program.outputs(values) - outputs).abs().max()))
    return _ROUNDING * moved * size


def _folds(program: Program) -> list[_SlopedFold]:
    values = program.begin(torch.zeros(1, *program.input_shape, dtype=program.dtype, device=program.device))
    folds = []
    for fold in program.folds:
        folds.append(_SlopedFold.of(fold, values))
        values = fold.advance(values, consume=True)
    return folds


def _linear(function: Callable[..., Tensor], tangents: Sequence[Tensor]) -> Tensor:
    """The derivative of an affine function along the scaled tangents."""
    constant = function(*(x.new_zeros(1, *x.shape[1:]) for x in tangents))
    return function(*tangents) - constant


@dataclass(frozen=True)
class _SlopedFold:
    """A fold, the slopes of its pieces for each operand (none for a maximum), and the shape of a row of its result."""

    fold: Fold
    first: Instruction
    slopes: tuple[Tensor, ...]
    shape: torch.Size

    @staticmethod
    def of(fold: Fold, values: Values) -> _SlopedFold:
        first = fold.instructions[0]
        row = first.function(*(torch.zeros_like(values[name][:1]) for name in first.reads), *first.constants)
        slopes = fold.slopes_of_operands(row) if isinstance(fold.pieces, Pieces) else ()
        return _SlopedFold(fold, first, slopes, row.shape[1:])


class _Walls:
    """Some walls on their way through the network: values on both sides, derivatives along the axes.

    Derivatives come in blocks of one row for each wall and axis: the slope before the wall, the jump, and perturbed
    copies of both.
    """

    def __init__(self, program: Program, walls: int, axes: Tensor, copies: int) -> None:
        self.program, self.walls, self.copies = program, walls, copies
        self.dim, self.n = len(axes), len(axes) * walls
        self.axes = axes.repeat_interleave(walls, 0)
        self.changes = torch.zeros(walls, dtype=torch.int64, device=axes.device)
        self.generator = torch.Generator().manual_seed(0)

    def cross(self, folds: Sequence[_SlopedFold], inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Whether the jump is zero at each wall, and how many units change their piece there. inputs: a point before
        each wall, then one behind each.
        """
        outputs = self.outputs(folds, inputs)
        jump, perturbed = outputs[1], outputs[-max(1, self.copies) :]  # without copies no error is allowed for
        units = float(torch.finfo(outputs.dtype).eps) * _ROUNDING / _PERTURBATION
        differs = (jump.abs() > (perturbed - jump).abs().amax(0) * units).any(1)
        return ~differs.reshape(self.dim, self.walls).any(0), self.changes

    def outputs(self, folds: Sequence[_SlopedFold], inputs: Tensor) -> Tensor:
        """All blocks of derivatives of the outputs (blocks, n, c)."""
        program, none = self.program, torch.zeros_like(self.axes)
        blocks = [self.axes, none, *[self.axes] * self.copies, *[none] * self.copies]
        tangents = self._affine(program.instructions, {program.input_name: torch.cat(blocks)})
        values = program.begin(inputs)
        for sloped in folds:
            tangents = self._through(sloped, values, tangents)
            values = sloped.fold.advance(values, consume=True)
        return program.outputs(tangents).reshape(2 * (1 + self.copies), self.n, -1)

    def _block(self, first: int, count: int = 1) -> builtins.slice:
        return builtins.slice(first * self.n, (first + count) * self.n)

    def _affine(self, instructions: Sequence[Instruction], tangents: Values) -> Values:
        """The derivatives behind affine instructions."""
        for instruction in instructions:
            inputs = [self._perturbed(tangents[name]) for name in instruction.reads]
            for name in instruction.frees:
                del tangents[name]
            tangents[instruction.writes] = _linear(_with_constants(instruction.function, instruction), inputs)
        return tangents

    def _perturbed(self, tangent: Tensor) -> Tensor:
        """The copies changed by a relative ``_PERTURBATION``, each entry by its own factor; the rest as it is.

        A slope and its jump are rounded apart, so they have different factors: units whose slope and jump cancel count.
        """
        if not self.copies:
            return tangent
        shape = (2, self.copies, 1, *tangent.shape[1:])
        factor = 1 + _PERTURBATION * (
            2 * torch.rand(shape, generator=self.generator, dtype=torch.float64, device="cpu") - 1
        )
        factor = factor.to(tangent.device, tangent.dtype)
        copies = tangent[2 * self.n :].reshape(2, self.copies, self.n, *tangent.shape[1:]) * factor
        return torch.cat([tangent[: 2 * self.n], copies.flatten(0, 2)])

    def _through(self, sloped: _SlopedFold, values: Values, tangents: Values) -> Values:
        """The derivatives behind a fold and the affine stretch that follows it."""
        first = sloped.first
        inputs = [self._perturbed(tangents[name]) for name in first.reads]
        for name in first.frees:
            del tangents[name]
        pieces = _pieces(sloped.fold, values)
        self.changes += (pieces[: self.walls] != pieces[self.walls :]).sum(1)
        before, behind = (half.repeat(self.dim, 1) for half in pieces.split(self.walls))
        out = self._apply(sloped, inputs, behind)
        for count, slope, jump in ((1, 0, 1), *([(self.copies, 2, 2 + self.copies)] if self.copies else [])):
            block = self._block(slope, count)
            before_output = self._apply(sloped, [x[block] for x in inputs], before)
            out[self._block(jump, count)] += out[block] - before_output
            out[block] = before_output
        return self._affine(sloped.fold.instructions[1:], {**tangents, first.writes: out})

    def _apply(self, sloped: _SlopedFold, tangents: Sequence[Tensor], piece: Tensor) -> Tensor:
        """The derivative of the output with every unit on its ``piece`` (for maxima: the column of the largest)."""
        blocks = len(tangents[0]) // self.n
        if sloped.fold.chosen is not None:
            on_pieces = partial(sloped.fold.chosen, pieces=piece.repeat(blocks, 1))
            zeros = [torch.zeros_like(tangent) for tangent in tangents]
            constants = sloped.first.constants
            return on_pieces(*tangents, *constants) - on_pieces(*zeros, *constants)
        if not sloped.slopes:
            chosen = tangents[0].flatten(1).gather(1, piece.repeat(blocks, 1))
            return chosen.reshape(-1, *sloped.shape)
        index = piece.reshape(1, self.n, -1)
        total = tangents[0].new_zeros(())
        for tangent, slopes in zip(tangents, sloped.slopes, strict=True):
            slope = slopes[..., None].flatten(1).gather(0, index[0]).reshape(1, self.n, *sloped.shape)
            total = total + tangent.reshape(blocks, self.n, *tangent.shape[1:]) * slope
        return total.flatten(0, 1)


def _pieces(fold: Fold, values: Values) -> Tensor:
    """The piece of every unit (rows, units), counted from the lowest threshold; or the column of the largest candidate
    of every group (rows, groups). Of a fold that jumps, those that it takes itself.
    """
    if fold.chosen is not None:
        return fold.pattern(values)
    compared = fold.compared(values)
    if isinstance(compared, Thresholds):
        return torch.stack([compared.values > threshold for threshold in compared.at]).sum(0)
    return compared.groups.expand(len(compared.values), -1, -1).gather(2, compared.pieces().long()[..., None])[..., 0]


def _with_constants(function: Callable[..., Tensor], instruction: Instruction) -> Callable[..., Tensor]:
    return lambda *inputs: function(*inputs, *instruction.constants)
