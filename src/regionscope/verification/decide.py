"""``verify``: whether a network has a counterexample to a property, on boxes with few free inputs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.checks import check_instance, read_number
from regionscope.errors import InputError, SliceError
from regionscope.exact.bounding.stages import NotSingleEntries, read_stages, with_slacks
from regionscope.exact.budget import Budget
from regionscope.exact.slope_jumps import output_rounding
from regionscope.exact.zero_tolerance import zero_tolerances_of
from regionscope.geometry import Box
from regionscope.network import Program, select_output, trace
from regionscope.network.onnx import OnnxNetwork, reference_outputs
from regionscope.network.output import Arguments, Output
from regionscope.tolerance import UNIT, Tolerance
from regionscope.types import FloatArray, Reading, repr_of
from regionscope.verification.by_partition import margin_by_partition
from regionscope.verification.input_rounding import output_error, output_shift
from regionscope.verification.property import Case, Constraint, Property
from regionscope.verification.search import Found, largest_margin

MOST_FREE = 3
_MOST_CELLS = 2_000_000
_SHORT = 2.0**-20  # of the largest input: the length of a line on which all outputs are those at its end, or nearly
_OPEN = Found(-math.inf, np.zeros(0), math.inf, 0.0, 0, False)
"""A case that nothing is known about."""


@dataclass(frozen=True, eq=False)
class Verification:
    """Result of ``verify``.

    Attributes:
        verdict: "unsat": no input satisfies the property, for the network in real arithmetic and closed constraints.
            "sat": ``witness`` satisfies it, confirmed in float32. "unknown": the margin or a box is within rounding, or
            the witness was not confirmed. "timeout": a limit was reached first.
        margin: largest margin found, by which all constraints of one alternative hold. If it is negative, at least one
            of them fails by that much.
        bound: no input has a margin above ``bound + rounding``; equal to ``margin`` up to ``rounding`` unless a limit
            was reached.
        rounding: bound of the rounding error of the margin, for the network as it was read in float64: see "Rounding"
            in the documentation. For networks with a maximum it is an estimate, and ``reason`` says so.
        witness: (*input_shape,) float32 input with that margin, and its ``outputs`` (c,) in float32; None unless "sat".
        n_regions: number of cells that were built.
        reason: explanation of the verdict.
    """

    verdict: Literal["sat", "unsat", "unknown", "timeout"]
    margin: float
    bound: float
    rounding: float
    witness: Tensor | None
    outputs: Tensor | None
    n_regions: int
    seconds: float
    reason: str

    def __repr__(self) -> str:
        return repr_of(self, verdict=self.verdict)

    def readings(self) -> tuple[Reading, ...]:
        """The margin, its proven bound, and the number of cells."""
        return ("", self.margin, None), ("bound", self.bound, None), ("regions", self.n_regions, None)


def verify(
    model: nn.Module, property: Property, *, timeout: float | None = None, max_regions: int = _MOST_CELLS,
    output: Output | None = None, args: Arguments = (),
) -> Verification:  # fmt: skip
    """Decide a property by the exact largest margin over its boxes, which may have at most three free inputs.

    The boxes are cut only where the answer is undecided: after every layer, each cell has affine bounds on all later
    values, and a cell whose bound is below the best margin is dropped. This applies to networks of ReLU and other
    elementwise functions. Networks with max-pooling or a maximum are decided from their linear regions.

    model: a network from ``read_onnx``, or any piecewise-affine ``nn.Module``.
    timeout: seconds after which the search stops. A network with maxima checks the time after each
        of its nonlinearities.
    max_regions: number of cells after which the search stops.
    output, args: for a model that returns several tensors or takes further arguments, as in ``linear_regions``.

    Raises ``InputError`` if more than three inputs are free: fix some of them with ``property.fixed`` to verify slices.
    Cost: one pass through the network for each cell; close verdicts need more cells.
    """
    start = time.monotonic()
    deadline = math.inf if timeout is None else start + read_number("timeout", timeout)
    check_instance("property", property, Property, advice="Read it from a file with read_vnnlib(path)")
    shape = _input_shape(model, property)
    model = select_output(model, output, args)
    for case in property.cases:
        if len(case.free) > MOST_FREE:
            raise InputError(
                f"Expected at most {MOST_FREE} free inputs, got {len(case.free)} ({_named(case.free)}). Exact "
                "verification cuts the whole box; fix all but two inputs with property.fixed({i: value}) to "
                "verify slices of it."
            )
    program = trace(model, shape, device="cpu", points=lambda: _corners(property, shape))
    if program.n_outputs != property.n_outputs:
        raise InputError(
            f"Expected a network with {property.n_outputs} outputs, got {program.n_outputs}. "
            "Pass the property that belongs to this network."
        )
    found: list[tuple[Case, Found]] = []
    for case in property.cases:
        late = bool(found) and time.monotonic() > deadline
        found.append((case, _OPEN if late else _margin(program, case, deadline, max_regions)))
    verdict, reason, witness, outputs = _verdict(model, program, found)
    best = max((each for _, each in found), key=lambda each: each.margin, default=None)
    bound = max((each.bound for _, each in found), default=-math.inf)
    return Verification(
        verdict=verdict, reason=reason, witness=witness, outputs=outputs,
        margin=-math.inf if best is None else best.margin, bound=bound,
        rounding=max((each.rounding for _, each in found), default=0.0),
        n_regions=sum(each.cells for _, each in found), seconds=time.monotonic() - start,
    )  # fmt: skip


def _input_shape(model: nn.Module, property: Property) -> tuple[int, ...]:
    if isinstance(model, OnnxNetwork):
        shape = model.input_shape
    elif property.input_shape is not None and len(property.input_shape) > 1:
        shape = property.input_shape[1:]
    else:
        shape = (property.n_inputs,)
    if math.prod(shape) != property.n_inputs:
        raise InputError(
            f"Expected a network with {property.n_inputs} inputs, got one with inputs of shape {shape}. "
            "Pass the property that belongs to this network."
        )
    return shape


def _corners(property: Property, shape: tuple[int, ...]) -> Tensor:
    """(2 n, *shape): the lowest and the highest inputs of each of n cases."""
    ends = [[float(x) for x in end] for case in property.cases for end in (case.low, case.high)]
    return torch.tensor(ends, dtype=torch.float64).reshape(-1, *shape)


def _named(places: tuple[int, ...]) -> str:
    names = [f"X_{i}" for i in places[:6]]
    return ", ".join(names) + (", ..." if len(places) > 6 else "")


def _margin(program: Program, case: Case, deadline: float, max_regions: int) -> Found:
    """The largest margin on the box of a case."""
    alternatives: list[list[int]] = []
    rows: list[Constraint] = []
    for constraints in case.alternatives:
        if not constraints:
            return Found(math.inf, np.zeros(len(case.free)), math.inf, 0.0, 1, True)
        alternatives.append(list(range(len(rows), len(rows) + len(constraints))))
        rows.extend(constraints)
    factors, bounds = np.zeros((len(rows), program.n_outputs)), np.array([float(row.bound) for row in rows])
    for row, constraint in zip(factors, rows, strict=True):
        for i, factor in constraint.terms:
            row[i] = float(factor)
    try:
        slice = _box(program, case)
    except SliceError:  # its corners are one point, up to rounding
        return Found(-math.inf, np.zeros(len(case.free)), math.inf, 0.0, 0, True)
    if slice is None:
        point = _middle(program, case)
        with torch.no_grad():
            slacks = bounds - factors @ program(point[None])[0].double().numpy()
        margin = float(np.max([slacks[each].min() for each in alternatives]))
        error = _rounding_at(program, point) + output_shift(program, point, case)
        size = float(np.abs(factors).sum(1).max()) * error
        size += 8 * UNIT * float(np.abs(bounds).max())
        return Found(margin, np.zeros(0), margin, size, 1, True, estimated=True)
    try:
        staged = read_stages(program, slice.embed, slice.dim)
    except NotSingleEntries:
        found = margin_by_partition(
            program, slice, factors, bounds, alternatives, deadline=deadline, max_regions=max_regions
        )
        moved = output_shift(program, _point(program, case, found.point), case)
        return replace(found, rounding=found.rounding + float(np.abs(factors).sum(1).max()) * moved)
    error = output_error(program, staged, case, factors)
    slacks = with_slacks(staged, factors, bounds)
    found = largest_margin(slacks, alternatives, slice, deadline=deadline, max_cells=max_regions)
    return replace(found, rounding=found.rounding + error)


def _rounding_at(program: Program, point: Tensor) -> float:
    """How far rounding may move an output at an input, estimated on a short line from it."""
    towards = torch.zeros_like(point)
    towards.view(-1)[0] = _SHORT * max(1.0, float(point.abs().max()))
    line = Box(point, towards[None])
    tolerances = zero_tolerances_of(program, [line], Tolerance.of(torch.float64), Budget.of(program.device, None, None))
    return max(float(tolerances[-1].max()), output_rounding(program, line))


def _middle(program: Program, case: Case) -> Tensor:
    middle = [float((a + b) / 2) for a, b in zip(case.low, case.high, strict=True)]
    return torch.tensor(middle, dtype=torch.float64).reshape(program.input_shape)


def _box(program: Program, case: Case) -> Box | None:
    """The box of a case in coordinates from -1 to 1; None for a single point."""
    if not case.free:
        return None
    directions = torch.zeros(len(case.free), len(case.low), dtype=torch.float64)
    for row, i in zip(directions, case.free, strict=True):
        row[i] = float((case.high[i] - case.low[i]) / 2)
    return Box(_middle(program, case), directions.reshape(-1, *program.input_shape), 1.0)


_Outcome = tuple[Literal["sat", "unsat", "unknown", "timeout"], str, Tensor | None, Tensor | None]


def _verdict(model: nn.Module, program: Program, found: list[tuple[Case, Found]]) -> _Outcome:
    if not found:
        return "unsat", "The property allows no input: its conditions contradict each other.", None, None
    if all(each.bound < -each.rounding for _, each in found):
        by = "; the rounding error is an estimate" if any(each.estimated for _, each in found) else ""
        return "unsat", f"No input of the boxes fits the property{by}.", None, None
    positive = [(case, each) for case, each in found if each.margin > each.rounding]
    for case, each in sorted(positive, key=lambda pair: -pair[1].margin):
        witness = _in_float32(_point(program, case, each.point), case).reshape(program.input_shape)
        outputs = _confirmed(model, program, witness)
        numbers = [Fraction(float(x)) for x in witness.reshape(-1)]
        if case.holds(numbers, [Fraction(float(y)) for y in outputs], free_only=True):
            return "sat", "The witness fits the property in float32.", witness, outputs
    if positive:
        margin = max(each.margin for _, each in positive)
        reason = f"the margin {margin:.3g} is positive, but float32 does not confirm it"
        return "unknown", f"Not decided: {reason}.", None, None
    if any(each.margin == -math.inf and each.complete for _, each in found):
        return "unknown", "Not decided: a free input varies by no more than rounding.", None, None
    if all(each.complete for _, each in found):
        margin = max(each.margin for _, each in found)
        return "unknown", f"Not decided: the margin {margin:.3g} is within rounding.", None, None
    return "timeout", "The limit of time or regions was reached before all regions were settled.", None, None


def _point(program: Program, case: Case, coords: FloatArray) -> Tensor:
    slice = _box(program, case)
    return _middle(program, case) if slice is None else slice.embed(torch.from_numpy(coords)[None])[0]


def _in_float32(point: Tensor, case: Case) -> Tensor:
    """The nearest float32 input; a free one stays inside its bounds, a fixed one is rounded."""
    rounded = point.reshape(-1).numpy().astype(np.float32)
    for i in case.free:
        if Fraction(float(rounded[i])) < case.low[i]:
            rounded[i] = np.nextafter(rounded[i], np.float32(np.inf))
        elif Fraction(float(rounded[i])) > case.high[i]:
            rounded[i] = np.nextafter(rounded[i], np.float32(-np.inf))
    return torch.from_numpy(rounded)


def _confirmed(model: nn.Module, program: Program, witness: Tensor) -> Tensor:
    """Outputs in float32: of the reference evaluator for a file, of the network itself otherwise."""
    if isinstance(model, OnnxNetwork):
        return reference_outputs(model, witness[None])[0]
    with torch.no_grad():
        return trace(model, program.input_shape, dtype=torch.float32, device="cpu")(witness[None])[0]
