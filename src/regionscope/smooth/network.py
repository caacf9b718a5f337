"""A network as steps on affine forms: affine steps, functions of one number, products and maxima."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regionscope.geometry import Slice
from regionscope.network import Fold, Maxima, Program
from regionscope.network.curves import Curve, Product
from regionscope.network.operations import Fixed
from regionscope.network.program import Instruction
from regionscope.network.rules.activations import without_groups
from regionscope.smooth.forms import NEGATIVE, Cluster, Form
from regionscope.smooth.operators import AffineStep, read_step
from regionscope.tolerance import UNIT

MOST_ERRORS = 1100
"""A nonlinearity with more units bounds its errors without signs."""
_BEND_WORK = 400  # multiplications that take as long as the bound of a function
_STEP_WORK = 1e6  # multiplications that take as long as the calls of a step
_FEWEST_ROWS, _MOST_ROWS = 16, 512  # of a cluster

Apply = partial[Form]
"""A function of a cluster and the forms that a step reads."""


@dataclass(frozen=True, eq=False)
class Step:
    """One operation on forms with the names it reads and writes, and those that are dead once it has run."""

    apply: Apply
    reads: tuple[str, ...]
    writes: str
    frees: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class SmoothNetwork:
    """The steps of a program of ``trace_smooth``.

    row_numbers, all_numbers: numbers that are live at most for one row, and those behind all steps. shared_work,
        cell_work: multiplications for the effects of a cluster and its calls, and for each of its cells.
    """

    program: Program
    steps: tuple[Step, ...]
    row_numbers: int
    all_numbers: int
    shared_work: float
    cell_work: float

    @staticmethod
    def of(program: Program, k: int) -> SmoothNetwork:
        """Read the program, for slices of dimension k. Cost: a copy of the weights."""
        row = torch.zeros((1, *program.input_shape), dtype=torch.float64, device=program.device)
        values = {program.input_name: row}
        folds: dict[int, Fold] = {id(fold.instructions[0]): fold for fold in program.folds}
        instructions = [*program.instructions, *(step for fold in program.folds for step in fold.instructions)]
        steps, most = [], row.numel()
        sources, total, shared, cell = 0, row.numel(), 0.0, 0.0
        for instruction in instructions:
            inputs = [values[name] for name in instruction.reads]
            apply = _apply(instruction, folds.get(id(instruction)), inputs)
            steps.append(Step(apply, instruction.reads, instruction.writes, instruction.frees))
            instruction.run(values, False, pure=True)
            n = values[instruction.writes].numel()
            total += n
            values[instruction.writes] = torch.zeros_like(values[instruction.writes])
            most = max(most, sum(x.numel() for x in values.values()))
            step = apply.keywords.get("step")
            if step is not None:
                shared += sources * n * step.terms
                cell += (k + 4) * n * step.terms
            else:
                cell += n * (sources + _BEND_WORK)
                sources += n if n <= MOST_ERRORS else 0
            shared += _STEP_WORK
        return SmoothNetwork(program, tuple(steps), most, total, shared, cell)

    def rows(self, k: int, memory: int) -> int:
        """Number of cells of a cluster for which the shared work is as much as that for the cells, within memory."""
        held = 8 * ((k + 8) * self.row_numbers + 3 * self.all_numbers)
        return max(
            1, min(_MOST_ROWS, max(_FEWEST_ROWS, round(self.shared_work / self.cell_work)), memory // (2 * held))
        )

    def run(self, first: Form, cluster: Cluster) -> Form:
        """The form of the outputs (c,) from that of the inputs."""
        forms = {self.program.input_name: first}
        for step in self.steps:
            out = step.apply(cluster, [forms[name] for name in step.reads])
            for name in step.frees:
                del forms[name]
            forms[step.writes] = out
        out = forms[self.program.output_name]
        return cluster.affine(_FLATTEN, [out])


def input_form(cluster: Cluster, slice: Slice, center: Tensor, frame: Tensor, channels: int) -> Form:
    """The inputs of cells with these centers (b, k) and directions (b, k, k), in coordinates of the slice.

    The remainder pays for the rounding of ``slice.embed``, by which a forward pass gets its inputs.
    """
    k = slice.dim
    basis, origin = slice.basis.reshape(k, -1), slice.origin.reshape(-1)
    middle = origin + center @ basis
    lines = torch.einsum("bij,jd->ibd", frame, basis)
    reach = center.abs() + frame.abs().sum(1)
    rest = center.new_zeros(channels, len(center), origin.numel())
    rest[0] = (6 * k + 12) * UNIT * (origin.abs() + reach @ basis.abs())
    shape = slice.input_shape
    all_lines = torch.cat([middle[None], lines])
    return cluster.start(all_lines.reshape(1 + k, -1, *shape), rest.reshape(channels, -1, *shape))


_FLATTEN = AffineStep(partial(torch.flatten, start_dim=1), partial(torch.flatten, start_dim=1), None, 0)


def _apply(instruction: Instruction, fold: Fold | None, inputs: list[Tensor]) -> Apply:
    function: Any = instruction.function
    if isinstance(function, Curve):
        return partial(_bend, curve=function)
    if isinstance(function, Product):
        return partial(_multiply, function=function.function)
    if fold is not None:
        return _fold(instruction, fold, inputs)
    return partial(_affine, step=read_step(instruction, inputs))


def _bend(cluster: Cluster, forms: list[Form], *, curve: Curve) -> Form:
    return cluster.bend(curve, forms[0])


def _multiply(cluster: Cluster, forms: list[Form], *, function: Callable[[Tensor, Tensor], Tensor]) -> Form:
    return cluster.product(function, *forms)


def _affine(cluster: Cluster, forms: list[Form], *, step: AffineStep) -> Form:
    return cluster.affine(step, forms)


# folds


def _fold(instruction: Instruction, fold: Fold, inputs: list[Tensor]) -> Apply:
    function: Any = instruction.function
    shape = tuple(instruction.function(*inputs, *instruction.constants).shape[1:])
    compared = fold.compared(dict(zip(instruction.reads, inputs, strict=True)))
    if isinstance(compared, Maxima):
        assert isinstance(function, partial)
        assert function.func is without_groups
        inner = function.keywords["function"]
        smallest = isinstance(inner, Fixed) and inner.function is torch.amin
        return partial(_largest, groups=compared.groups, shape=shape, smallest=smallest)
    if function in (torch.maximum, torch.minimum):
        constant = instruction.constants[0] if instruction.constants else None
        return partial(_larger, constant=constant, smallest=function is torch.minimum)
    if function is torch.prelu:
        weight = instruction.constants[0]
        ones = (-1,) + (1,) * (len(shape) - 1)
        return partial(_leaky, weight=weight.reshape(ones if weight.numel() > 1 else ()))
    return partial(_bend, curve=_piecewise(fold.kind, instruction.function, compared.at))


def _piecewise(name: str, function: Callable[[Tensor], Tensor], knots: tuple[float, ...]) -> Curve:
    """The record of a piecewise-linear function of one number."""
    inside = [(a + b) / 2 for a, b in itertools.pairwise(knots)]
    with torch.inference_mode(False), torch.enable_grad():
        points = torch.tensor([knots[0] - 1, *inside, knots[-1] + 1], dtype=torch.float64, device="cpu")
        points.requires_grad_()
        (slopes,) = torch.autograd.grad(function(points).sum(), points)
    slope = partial(_slope, knots=knots, slopes=tuple(slopes.tolist()))
    return Curve(name=name, value=function, slope=slope, knots=knots, rounding=(0.0, 4.0, 4.0))


def _slope(x: Tensor, knots: tuple[float, ...], slopes: tuple[float, ...]) -> Tensor:
    slope = torch.full_like(x, slopes[0])
    for knot, following in zip(knots, slopes[1:], strict=True):
        slope = torch.where(x > knot, following, slope)
    return slope


RELU = _piecewise("ReLU", torch.relu, (0.0,))


def _leaky(cluster: Cluster, forms: list[Form], *, weight: Tensor) -> Form:
    """weight * x + (1 - weight) * max(x, 0)"""
    positive = cluster.bend(RELU, forms[0])
    linear = partial(_weighted_sum, first=weight, second=1 - weight)
    absolute = partial(_weighted_sum, first=weight.abs(), second=(1 - weight).abs())
    return cluster.affine(AffineStep(linear, absolute, None, 4), [forms[0], positive])


def _weighted_sum(a: Tensor, b: Tensor, *, first: Tensor, second: Tensor) -> Tensor:
    return a * first + b * second


def _larger(cluster: Cluster, forms: list[Form], *, constant: Tensor | None, smallest: bool) -> Form:
    a = forms[0]
    if constant is None:
        b = forms[1]
    else:
        shape = torch.broadcast_shapes(a.shape, tuple(constant.shape[1:]))
        lines = a.lines.new_zeros((*a.lines.shape[:2], *shape))
        lines[0] = constant.to(lines)
        b = Form(lines, a.lines.new_zeros((*a.rest.shape[:2], *shape)))
    if not smallest:
        return cluster.larger(a, b, RELU)
    a, b = (cluster.affine(NEGATIVE, [form]) for form in (a, b))
    return cluster.affine(NEGATIVE, [cluster.larger(a, b, RELU)])


def _largest(cluster: Cluster, forms: list[Form], *, groups: Tensor, shape: tuple[int, ...], smallest: bool) -> Form:
    whole = forms[0]
    sign = -1.0 if smallest else 1.0
    takes = [partial(_taken, columns=groups[:, j], sign=sign) for j in range(groups.shape[1])]
    parts = [cluster.affine(AffineStep(take, partial(_taken, columns=take.keywords["columns"], sign=1.0), None, 0),
                            [whole]) for take in takes]  # fmt: skip
    while len(parts) > 1:
        pairs = [cluster.larger(a, b, RELU) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    back = partial(_shaped, shape=shape, sign=sign)
    return cluster.affine(AffineStep(back, partial(_shaped, shape=shape, sign=1.0), None, 0), parts)


def _taken(x: Tensor, *, columns: Tensor, sign: float) -> Tensor:
    return sign * x.flatten(1)[:, columns]


def _shaped(x: Tensor, *, shape: tuple[int, ...], sign: float) -> Tensor:
    return sign * x.reshape(len(x), *shape)
