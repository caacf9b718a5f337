"""``verify``: whether a network has a counterexample to a property, on boxes with few free inputs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
import scipy.optimize
import torch
from torch import Tensor, nn

from regionscope.checks import check_instance, read_number
from regionscope.errors import InputError, LimitReached, SliceError
from regionscope.exact import Partition
from regionscope.exact.bounding.hinge_network import HingeNetwork, NotSingleEntries, read_hinge_network, with_slacks
from regionscope.exact.budget import Budget
from regionscope.exact.linear import exact_regions
from regionscope.exact.slope_jumps import output_rounding
from regionscope.exact.zero_tolerance import zero_tolerances_of
from regionscope.geometry import Box, Slice
from regionscope.network import Program, select_output, trace
from regionscope.network.onnx import OnnxNetwork, reference_outputs
from regionscope.network.output import Arguments, Output
from regionscope.tolerance import UNIT, Tolerance
from regionscope.types import FloatArray, Reading, repr_of
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
        of its folds.
    max_regions: number of cells after which the search stops.
    output, args: for a model that returns several tensors or takes further arguments, as in ``linear_regions``.

    If all constraints compare two outputs, a last softmax, sigmoid, tanh or temperature is taken off, and ``reason``
    says so: the margin is that of the values before it.

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
    order_only = _orders_outputs(property)
    program = trace(model, shape, device="cpu", points=lambda: _corners(property, shape), order_only=order_only)
    if program.n_outputs != property.n_outputs:
        raise InputError(
            f"Expected a network with {property.n_outputs} outputs, got {program.n_outputs}. "
            "Pass the property that belongs to this network."
        )
    results: list[tuple[Case, Found]] = []
    for case in property.cases:
        late = bool(results) and time.monotonic() > deadline
        results.append((case, _OPEN if late else _margin(program, case, deadline, max_regions)))
    verdict, reason, witness, outputs = _verdict(model, program, results)
    best = max((result for _, result in results), key=lambda result: result.margin, default=None)
    bound = max((result.bound for _, result in results), default=-math.inf)
    return Verification(
        verdict=verdict, reason=f"{reason} {program.note}".rstrip(), witness=witness, outputs=outputs,
        margin=-math.inf if best is None else best.margin, bound=bound,
        rounding=max((result.rounding for _, result in results), default=0.0),
        n_regions=sum(result.cells for _, result in results), seconds=time.monotonic() - start,
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


def _orders_outputs(property: Property) -> bool:
    """Whether every constraint says that one output is at most another."""
    rows = [row for case in property.cases for constraints in case.alternatives for row in constraints]
    return all(row.bound == 0 and len(row.terms) == 2 and not sum(f for _, f in row.terms) for row in rows)


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
        margin = float(np.max([slacks[rows].min() for rows in alternatives]))
        error = _rounding_at(program, point) + output_shift(program, point, case)
        size = float(np.abs(factors).sum(1).max()) * error
        size += 8 * UNIT * float(np.abs(bounds).max())
        return Found(margin, np.zeros(0), margin, size, 1, True, estimated=True)
    try:
        hinges = read_hinge_network(program, slice.embed, slice.dim)
    except NotSingleEntries:
        result = margin_by_partition(
            program, slice, factors, bounds, alternatives, deadline=deadline, max_regions=max_regions
        )
        moved = output_shift(program, _point(program, case, result.point), case)
        return replace(result, rounding=result.rounding + float(np.abs(factors).sum(1).max()) * moved)
    error = output_error(program, hinges, case, factors)
    slacks = with_slacks(hinges, factors, bounds)
    result = largest_margin(slacks, alternatives, slice, deadline=deadline, max_cells=max_regions)
    return replace(result, rounding=result.rounding + error)


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


def _verdict(model: nn.Module, program: Program, results: list[tuple[Case, Found]]) -> _Outcome:
    if not results:
        return "unsat", "The property allows no input: its conditions contradict each other.", None, None
    if all(result.bound < -result.rounding for _, result in results):
        by = "; the rounding error is an estimate" if any(result.estimated for _, result in results) else ""
        return "unsat", f"No input of the boxes fits the property{by}.", None, None
    positive = [(case, result) for case, result in results if result.margin > result.rounding]
    for case, result in sorted(positive, key=lambda pair: -pair[1].margin):
        witness = _in_float32(_point(program, case, result.point), case).reshape(program.input_shape)
        outputs = _confirmed(model, program, witness)
        numbers = [Fraction(float(x)) for x in witness.reshape(-1)]
        if case.holds(numbers, [Fraction(float(y)) for y in outputs], free_only=True):
            return "sat", "The witness fits the property in float32.", witness, outputs
    if positive:
        margin = max(result.margin for _, result in positive)
        reason = f"the margin {margin:.3g} is positive, but float32 does not confirm it"
        return "unknown", f"Not decided: {reason}.", None, None
    if any(result.margin == -math.inf and result.complete for _, result in results):
        return "unknown", "Not decided: a free input varies by no more than rounding.", None, None
    if all(result.complete for _, result in results):
        margin = max(result.margin for _, result in results)
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
        order_only = bool(program.note)
        read = trace(model, program.input_shape, dtype=torch.float32, device="cpu", order_only=order_only)
        return read(witness[None])[0]


# The largest margin from the partition into all linear regions: for any fold, and the slow twin of the search.


def margin_by_partition(
    program: Program, slice: Slice, factors: FloatArray, bounds: FloatArray, alternatives: list[list[int]],
    *, deadline: float = math.inf, max_regions: int | None = None,
) -> Found:  # fmt: skip
    """Build all regions of a slice; in each, slacks are affine, so the best smallest slack is a linear program.

    At the deadline, or with more regions than ``max_regions``, what is known by then is returned. The deadline is
    looked at after each fold of a part of the slice, and between regions.
    """
    try:
        result = exact_regions(
            program, [slice], max_regions=max_regions, on_limit="raise", memory=None, tolerance=None, progress=None,
            deadline=deadline,
        )  # fmt: skip
    except LimitReached:
        with torch.no_grad():
            outputs = program(slice.embed(slice.corners))
        margins = _margins(bounds[:, None] - factors @ outputs.double().numpy().T, alternatives)
        best = int(margins.argmax())
        return Found(float(margins[best]), slice.corners[best].numpy(), math.inf, 0.0, 1, False, estimated=True)
    return _best_of(result.partitions()[0], factors, bounds, alternatives, deadline)


def _best_of(
    part: Partition, factors: FloatArray, bounds: FloatArray, alternatives: list[list[int]], deadline: float
) -> Found:
    slacks = bounds[:, None] - factors @ part.outputs.double().numpy().T
    corners = [part.corners[a:b].numpy() for a, b in zip(part.offsets[:-1], part.offsets[1:], strict=True)]
    at_vertices = _margins(slacks, alternatives)
    best = int(at_vertices.argmax())
    margin, point, left = float(at_vertices[best]), part.vertices[best].numpy(), -math.inf
    upper = [
        (slacks[np.ix_(np.array(rows), columns)].max(1).min(), i, rows)
        for i, columns in enumerate(corners)
        for rows in alternatives
    ]
    for bound, i, rows in sorted(upper, key=lambda corner: -corner[0]):
        if bound <= margin:
            break
        if time.monotonic() > deadline:
            left = float(bound)
            break
        value, weights = _best_mixture(slacks[np.ix_(np.array(rows), corners[i])])
        if value > margin:
            margin, point = value, weights @ part.vertices[corners[i]].numpy()
    size = float(np.abs(factors).sum(1).max()) * float(part.stats.rounding) + 8 * UNIT * float(np.abs(bounds).max())
    return Found(margin, point, max(margin, left), size, part.n_activation_regions, left == -math.inf, estimated=True)


def _margins(slacks: FloatArray, alternatives: list[list[int]]) -> FloatArray:
    """The margin (p,) at points with these slacks (constraints, p)."""
    margins: FloatArray = np.max([slacks[rows].min(0) for rows in alternatives], axis=0)
    return margins


def _best_mixture(slacks: FloatArray) -> tuple[float, FloatArray]:
    """The convex combination of corners (columns) whose smallest slack (rows) is largest."""
    rows, m = slacks.shape
    solution = scipy.optimize.linprog(
        np.concatenate([np.zeros(m), [-1.0]]),
        A_ub=np.concatenate([-slacks, np.ones((rows, 1))], axis=1), b_ub=np.zeros(rows),
        A_eq=np.concatenate([np.ones((1, m)), np.zeros((1, 1))], axis=1), b_eq=np.ones(1),
        bounds=[(0, 1)] * m + [(None, None)],
    )  # fmt: skip
    weights = np.clip(solution.x[:m], 0, None)
    weights /= weights.sum()
    return float((slacks @ weights).min()), weights


# How far rounding the box, and the affine layers before the first fold, may move an output.
#
# A decimal such as 0.1 is not a float64 number, and the terms of the first layer may cancel: 0.1 + 0.2 - 0.3 is 0, but
# 5.6e-17 in float64. The running error bound of the search starts from the values behind these layers.

_ROWS = 64  # inputs whose weights are read at once
_SCALE = 2.0**100  # of the inputs at which weights are read, so that an offset does not hide small ones
_MOVED = 16  # inputs around a point


def output_error(program: Program, hinges: HingeNetwork, case: Case, factors: FloatArray) -> float:
    """Bound of the error of the slacks ``bounds - factors @ outputs`` on the box of a case.

    hinges: the network up to its outputs. Each value before the first fold is a sum of n products, read at k + 1
    corners of the box whose entries are rounded too; its error grows through the absolute weights.
    Cost: the affine layers before the first fold, on as many rows as there are inputs.
    """
    sizes, terms = _first_sums(program, case)
    error = (1 + 2 * len(case.free)) * (terms + 8) * UNIT * sizes
    for layer in hinges.layers:
        error = abs(layer.matrix) @ np.concatenate([error, error[layer.units]])
    return float((np.abs(factors) @ error).max(initial=0.0))


def _first_sums(program: Program, case: Case) -> tuple[FloatArray, FloatArray]:
    """For each value before the first fold, the largest sum of its absolute terms on the box, and their number."""
    ends = [float(max(abs(a), abs(b))) for a, b in zip(case.low, case.high, strict=True)]
    largest = torch.tensor(ends, dtype=torch.float64)
    with torch.no_grad():
        offset = _packed(program, torch.zeros(1, len(largest), dtype=torch.float64))
        sizes, terms = offset[0].abs(), torch.ones(offset.shape[1], dtype=torch.float64)
        for start in range(0, len(largest), _ROWS):
            n = min(_ROWS, len(largest) - start)
            units = torch.zeros(n, len(largest), dtype=torch.float64)
            units.diagonal(start).fill_(_SCALE)
            weights = (_packed(program, units) - offset).abs() / _SCALE
            sizes = sizes + largest[start : start + n] @ weights
            terms = terms + (weights != 0).sum(0)
    return sizes.numpy(), terms.numpy()


def _packed(program: Program, rows: Tensor) -> Tensor:
    """All values before the first fold side by side, for flat inputs."""
    values = program.begin(rows.reshape(len(rows), *program.input_shape))
    return torch.cat([value.reshape(len(rows), -1) for value in values.values()], 1).double()


def output_shift(program: Program, point: Tensor, case: Case) -> float:
    """How far the outputs at a point move where fixed inputs that float64 rounds are moved by one unit: an estimate."""
    flat = point.reshape(-1).double()
    rounded = [i for i, value in enumerate(case.low) if i not in case.free and Fraction(float(flat[i])) != value]
    if not rounded:
        return 0.0
    signs = torch.randint(2, (_MOVED, len(rounded)), generator=torch.Generator().manual_seed(0)).double() * 2 - 1
    rows = flat.repeat(_MOVED + 1, 1)
    rows[1:, rounded] = torch.nextafter(rows[1:, rounded], signs * torch.inf)
    with torch.no_grad():
        outputs = program(rows.reshape(-1, *program.input_shape)).double()
    return 2 * float((outputs[1:] - outputs[0]).abs().max())
