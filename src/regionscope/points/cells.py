"""On which piece of every fold a point lies, also where rounding hides it: the cell of a point.

A point may lie on folds: pixels that are 0 put many units exactly there. Then its cell is the one that a small step
from the point along a given direction enters. So at each fold two numbers are compared with zero: the value minus the
threshold (or minus the winning candidate), and its derivative along the direction.

    value    derivative
    far      any          the piece of the value
    zero     not zero     the point lies on this fold; the piece that the step enters
    zero     zero         no fold, since the value is zero on the whole cell; the lower piece, the first candidate
    far      zero         the piece of the value, which is constant on the whole cell: the fold is out of reach

A number counts as zero if it is at most ``Tolerance.zero`` times the size of the terms that it adds up. As in
``exact.magnitudes``, that size is estimated by perturbing all values a little: a sum moves in proportion to its terms,
whether they cancel or not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from regionscope.inputs import Examples
from regionscope.network import Maxima, Program, Thresholds, Values
from regionscope.points.tangents import LinearFold, Live, Tangents, run
from regionscope.tolerance import Tolerance

TILT = 1e-3  # of the generic direction, added to the normal of a fold that is crossed
_PERTURBED = 4  # perturbed copies of each point


@dataclass(frozen=True, eq=False)
class FoldSide:
    """Where p points lie at one fold.

    pieces: (p, units), as in ``Fold.pattern``. chosen: what ``LinearFold.run`` takes. gap: (p, terms) the distance of
    the value to the threshold, or of a candidate to the winner. in_reach: (p, terms) whether the value varies on the
    cell. on_fold: (p, terms) whether it is zero at the point, but not on the cell. Terms: the units of thresholds, or
    the candidates of all groups (w * m).
    """

    pieces: Tensor
    chosen: tuple[Tensor, ...]
    gap: Tensor
    in_reach: Tensor
    on_fold: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> FoldSide:
        """With ``change`` applied to each tensor."""
        chosen = tuple(map(change, self.chosen))
        return FoldSide(change(self.pieces), chosen, *map(change, (self.gap, self.in_reach, self.on_fold)))


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of p points: a ``FoldSide`` for each fold, and the outputs (p, c)."""

    sides: tuple[FoldSide, ...]
    outputs: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> Cells:
        """With ``change`` applied to each tensor, such as ``lambda x: x[:3]`` for the first three points."""
        return Cells(tuple(side.map(change) for side in self.sides), change(self.outputs))

    def through(self, tangents: Tangents, live: Live) -> Tensor:
        """(p, n, c): the tangents of the outputs, from those before the first fold."""
        for k, side in enumerate(self.sides):
            live = tangents.advance(live, k, side.chosen)
        return live[tangents.program.output_name].flatten(2)

    def patterns(self, n_folds: int) -> Tensor:
        """(p, units) int16: the pieces at the first folds side by side."""
        columns = [side.pieces.to(torch.int16) for side in self.sides[:n_folds]]
        if columns:
            return torch.cat(columns, 1)
        return torch.zeros((len(self.outputs), 0), dtype=torch.int16, device=self.outputs.device)


def generic_direction(program: Program) -> Tensor:
    """(*input_shape,): a direction of length 1 that is parallel to no fold, the same one for all calls."""
    shape = program.input_shape
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=program.dtype, device="cpu")
    unit: torch.Tensor = drawn / drawn.norm()
    return unit.to(program.device)


def cells_at(tangents: Tangents, points: Tensor, directions: Tensor) -> Cells:
    """The cells that small steps from ``points`` (p, *input_shape) along ``directions`` (p or 1, ...) enter.

    Cost: five forward passes and five passes of tangents for each point.
    """
    program, zero = tangents.program, Tolerance.of(tangents.program.dtype).zero
    changes = _Changes(program)
    copies = 1 + _PERTURBED
    p = len(points)
    points = points.to(program.device, program.dtype)
    values: Values = {program.input_name: points.repeat(copies, *[1] * (points.ndim - 1))}
    live: Live = {program.input_name: directions.expand_as(points)[:, None].expand(-1, copies, *points.shape[1:])}
    changes.apply(values, live, p)
    for instruction in program.instructions:
        instruction.run(values, consume=False, n_perturbed=_PERTURBED * p)
    live = run(tangents.first, live)
    sides = []
    for fold, linear_fold, steps in zip(program.folds, tangents.folds, tangents.stretches, strict=True):
        compared = fold.compared(values)
        size, moved = _with_size(compared.values.reshape(copies, p, -1))
        slope, slope_size = _with_size(linear_fold.compared(live).transpose(0, 1))
        if isinstance(compared, Thresholds):
            side = _at_thresholds(linear_fold, compared.at, (size, moved), (slope, slope_size), zero)
        else:
            side = _at_maximum(compared, (size, moved), (slope, slope_size), zero)
        sides.append(side)
        linear_fold.run_values(values, copies, side.pieces, side.chosen)
        linear_fold.run(live, side.chosen)
        changes.apply(values, live, p)
        for instruction in fold.instructions[1:]:
            instruction.run(values, consume=False, n_perturbed=_PERTURBED * p)
        live = run(steps, live)
    return Cells(tuple(sides), program.outputs(values)[:p])


def _with_size(copies: Tensor) -> tuple[Tensor, Tensor]:
    """The values (p, n) of the first copy, and the size of their terms, from the others (copies, p, n)."""
    values = copies[0]
    return values, (copies[1:] - values).abs().amax(0) / torch.finfo(values.dtype).eps ** 0.5


def _at_thresholds(
    fold: LinearFold, at: Sequence[float], value: tuple[Tensor, Tensor], slope: tuple[Tensor, Tensor], zero: float
) -> FoldSide:
    (values, size), (slopes, slope_size) = value, slope
    still = slopes.abs() <= zero * slope_size
    pieces, gaps, on_fold = [], [], []
    for threshold in at:
        gap = values - threshold
        hidden = gap.abs() <= zero * torch.clamp_min(size, abs(threshold))
        pieces.append(torch.where(hidden, (slopes > 0) & ~still, gap > 0))
        gaps.append(gap.abs())
        on_fold.append(hidden & ~still)
    bits = torch.cat(pieces, 1).to(torch.int8)
    chosen = fold.factors(bits) if fold.changes_values else ()
    in_reach = torch.cat([~still] * len(at), 1)
    return FoldSide(bits, chosen, torch.cat(gaps, 1), in_reach, torch.cat(on_fold, 1))


def _at_maximum(compared: Maxima, value: tuple[Tensor, Tensor], slope: tuple[Tensor, Tensor], zero: float) -> FoldSide:
    """Of the candidates that lead within rounding, the steepest one along the direction wins, the first one on ties."""
    (values, size), (slopes, slope_size) = ((a[:, compared.groups], b[:, compared.groups]) for a, b in (value, slope))
    top = values.argmax(2, keepdim=True)
    hidden = values.gather(2, top) - values <= zero * (size + size.gather(2, top))
    steepest = torch.where(hidden, slopes, -torch.inf).argmax(2, keepdim=True)
    lag = slopes.gather(2, steepest) - slopes
    ties = hidden & (lag <= zero * (slope_size + slope_size.gather(2, steepest)))
    winner = ties.to(torch.int8).argmax(2, keepdim=True)
    difference = (slopes.gather(2, winner) - slopes).abs()
    varies = difference > zero * (slope_size + slope_size.gather(2, winner))
    gap = (values.gather(2, winner) - values).abs()
    columns = compared.groups.expand(len(values), -1, -1).gather(2, winner)[:, :, 0]
    pieces = winner[:, :, 0].to(torch.int16)
    return FoldSide(pieces, (columns,), gap.flatten(1), varies.flatten(1), (hidden & varies).flatten(1))


class _Changes:
    """Perturbs values and tangents by about the square root of the rounding unit, the same way in each call."""

    def __init__(self, program: Program) -> None:
        self.size = float(torch.finfo(program.dtype).eps) ** 0.5
        self.drawn = _numbers(self.size, program.dtype, program.device)
        self.start = 0

    def apply(self, values: Values, live: Live, p: int) -> None:
        """Change the last copies of all values, and all but the first of the tangents (p, copies, ...)."""
        for name, rows in values.items():
            factor = self._draw(rows[0].numel()).reshape(_PERTURBED, 1, *rows.shape[1:])
            kept, moved = rows[:p], rows[p:].reshape(_PERTURBED, p, *rows.shape[1:])
            values[name] = torch.cat([kept, (moved * factor).flatten(0, 1)])
        for name, rows in live.items():
            factor = self._draw(rows[0, 0].numel()).reshape(1, _PERTURBED, *rows.shape[2:])
            live[name] = torch.cat([rows[:, :1], rows[:, 1:] * factor], 1)

    def _draw(self, n: int) -> Tensor:
        n *= _PERTURBED
        index = torch.arange(self.start, self.start + n, device=self.drawn.device) % len(self.drawn)
        self.start += n
        return self.drawn[index]


@cache
def _numbers(size: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """1 plus or minus 0.5 to 1.5 times ``size``; not to be written to. Their number is a prime, unlike row lengths."""
    drawn = torch.empty(1_000_003, dtype=dtype, device="cpu")
    drawn.uniform_(-1, 1, generator=torch.Generator().manual_seed(0))
    return drawn.add_(drawn.sign(), alpha=0.5).mul_(size).add_(1).to(device)


@dataclass(frozen=True, eq=False)
class Source:
    """The network and the inputs of a result, from which it answers further questions.

    tangents: of the network with its decision as the last fold. norm: of distances.
    numbers: the id of each pattern, by its key.
    """

    tangents: Tangents
    examples: Examples
    norm: float
    numbers: dict[bytes, int] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        """The network with its decision as the last fold."""
        return self.tangents.program

    def points(self, which: Sequence[int]) -> Tensor:
        """(p, *input_shape) of the program's dtype and on its device."""
        rows = self.examples.take(torch.tensor(which, device="cpu"))
        return rows.to(self.program.device, self.program.dtype)

    def cells(self, points: Tensor) -> Cells:
        """The cells of points, on the side of the generic direction where a point lies on a fold."""
        return cells_at(self.tangents, points, generic_direction(self.program)[None])

    def keys(self, cells: Cells) -> list[bytes]:
        """A hash of 128 bits of the pattern of each of these cells."""
        rows = cells.patterns(len(self.tangents.folds) - 1).cpu().contiguous().numpy()
        return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
