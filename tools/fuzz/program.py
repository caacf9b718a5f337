"""A network as a list of steps on integers.

Every weight is a binary fraction, so on a cell of the slice each unit is an affine function with coefficients of the
form integer / 2^e. All units of one tensor share ``e``, which does not depend on the cell. A tensor is an array of
Python integers of shape (units, k + 1); the last column is the constant.

Layers are written as in known_answers.json: ``[type, *arguments]`` with the names of torch.nn. In addition:
``["Residual", layers]`` is x + layers(x), ``["Concat", layers]`` joins x and layers(x), ``["Maximum", layers]`` is the
larger of x and layers(x) for each unit, ``["Maxout", n]`` takes the largest of each n consecutive units, ``["Abs"]``
the absolute value, and ``["Again", i]`` calls the i-th layer of the same list once more. The layers of the family of
operators are in ``OPERATORS``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Layer = Sequence[Any]
Weights = Mapping[str, NDArray[np.float64]]
Integers = NDArray[np.object_]

LIMB, WIDE, WIDEST = 19, 256, 1 << 15  # bits of a limb; numbers of columns of a ``WideMatrix``


@dataclass(frozen=True)
class WideMatrix:
    """A matrix of floats (m, n) with long rows, times 2^exponent, cut into limbs of ``LIMB`` bits.

    limbs: (l, m, n) floats, whole numbers with the sign of their entry. A sum of n products of two limbs is less than
    2^53, so that BLAS adds it up exactly.
    """

    limbs: NDArray[np.float64]

    @staticmethod
    def of(numbers: NDArray[np.float64], exponent: int) -> WideMatrix:
        mantissas, powers = np.frexp(numbers)
        whole, shifts = np.abs(mantissas * 2.0**53).astype(np.int64), powers - 53 + exponent
        bits = int((shifts + 53)[whole != 0].max(initial=1))
        limbs = []
        for low in range(0, bits, LIMB):
            left, right = np.clip(shifts - low, 0, LIMB), np.clip(low - shifts, 0, 63)
            part = (whole & ((1 << (LIMB - left)) - 1)) << left
            limbs.append(np.sign(numbers) * np.where(right > 0, (whole >> right) & (2**LIMB - 1), part))
        return WideMatrix(np.array(limbs))

    def dot(self, columns: Integers) -> Integers:
        """The exact product with columns (n, k) of integers."""
        signs, rest = np.where(columns < 0, -1, 1), np.abs(columns)
        total: Integers = np.zeros((self.limbs.shape[1], columns.shape[1]), dtype=object)
        low = 0
        while rest.any():
            part = ((rest & (2**LIMB - 1)) * signs).astype(np.float64)
            for i, limb in enumerate(self.limbs):
                total += (limb @ part).astype(np.int64).astype(object) << (low + i * LIMB)
            rest, low = rest >> LIMB, low + LIMB
        return total


@dataclass(frozen=True)
class Affine:
    """matrix @ tensor, plus bias in the last column."""

    source: int
    matrix: Integers | WideMatrix
    bias: Integers


@dataclass(frozen=True)
class Piecewise:
    """Each unit u is slopes[j] * u + constants[j] on its j-th piece; pieces are separated by the thresholds."""

    source: int
    thresholds: tuple[int, ...]
    slopes: tuple[int, ...]
    constants: tuple[int, ...]


@dataclass(frozen=True)
class Largest:
    """The largest unit of each group."""

    source: int
    groups: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Ranked:
    """The units of these ranks in each group, from the smallest, 0."""

    source: int
    groups: tuple[tuple[int, ...], ...]
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Join:
    """Tensors below each other, each shifted left to the common exponent; with ``add``, their sum."""

    sources: tuple[int, int]
    shifts: tuple[int, int]
    add: bool


Step = Affine | Piecewise | Largest | Ranked | Join


@dataclass
class Program:
    """Steps; step i makes tensor i + 1 from earlier ones. exponents, shapes: of each tensor, the input first."""

    steps: list[Step] = field(default_factory=list)
    exponents: list[int] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)

    def append(self, step: Step, exponent: int, shape: tuple[int, ...]) -> None:
        self.steps.append(step)
        self.exponents.append(exponent)
        self.shapes.append(shape)


def integers(numbers: Any) -> tuple[Integers, int]:
    """Integers n and an exponent e with numbers = n / 2^e."""
    given = np.asarray(numbers, dtype=np.float64)
    whole, powers, exponent = _mantissas(given)
    shifts = (powers + exponent).astype(object)  # negative ones only drop zeros at the end
    found: Integers = (whole.astype(object) << np.maximum(shifts, 0)) >> np.maximum(-shifts, 0)
    return np.asarray(found, dtype=object).reshape(given.shape), exponent


def _mantissas(numbers: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Integers n and p with numbers = n * 2^p, and the smallest exponent e for which numbers * 2^e are integers."""
    mantissas, powers = np.frexp(numbers)
    whole = (mantissas * 2.0**53).astype(np.int64)
    powers = np.where(whole == 0, 0, powers - 53)
    odd = np.where(whole == 0, 1, whole & -whole)  # the largest power of two that divides a number
    return whole, powers, max(int((-powers - np.log2(odd).astype(int)).max(initial=0)), 0)


def compiled(layers: Sequence[Layer], weights: Weights, shape: tuple[int, ...], exponent: int) -> Program:
    """The steps of a network whose input has this shape and exponent."""
    program = Program(exponents=[exponent], shapes=[shape])
    _append(program, layers, weights, "")
    return program


def _append(program: Program, layers: Sequence[Layer], weights: Weights, prefix: str) -> None:
    for i, (kind, *arguments) in enumerate(layers):
        while kind == "Again":
            i = arguments[0]
            kind, *arguments = layers[i]
        if kind in ("Residual", "Concat", "Maximum"):
            source = len(program.steps)
            _append(program, arguments[0], weights, f"{prefix}{i}.body.")
            append_pair(program, kind, source)
        elif kind in OPERATORS:
            OPERATORS[kind](program, *arguments, *([weights, f"{prefix}{i}."] if kind == "RNN" else []))
        elif kind in ("Linear", "Conv2d", "AvgPool2d"):
            _append_affine(program, kind, arguments, weights, f"{prefix}{i}.")
        elif kind in ("MaxPool2d", "Maxout"):
            _append_largest(program, kind, arguments)
        elif kind == "Flatten":
            program.shapes[-1] = (int(np.prod(program.shapes[-1])),)
        else:
            _append_piecewise(program, kind, arguments)


def append_pair(program: Program, kind: str, source: int) -> None:
    """What becomes of x (tensor ``source``) and body(x) (the last tensor)."""
    last = len(program.steps)
    common = max(program.exponents[source], program.exponents[last])
    shifts = (common - program.exponents[source], common - program.exponents[last])
    n, more = (int(np.prod(program.shapes[i])) for i in (source, last))
    if kind == "Residual":
        program.append(Join((source, last), shifts, add=True), common, program.shapes[last])
        return
    program.append(Join((source, last), shifts, add=False), common, (n + more,))
    if kind == "Maximum":
        program.append(Largest(last + 1, tuple((i, n + i) for i in range(n))), common, program.shapes[last])


def _append_affine(program: Program, kind: str, arguments: list[Any], weights: Weights, name: str) -> None:
    shape = program.shapes[-1]
    if kind == "AvgPool2d":
        channels, side = shape[0], arguments[0]
        weight = np.zeros((channels, channels, side, side))
        weight[np.arange(channels), np.arange(channels)] = 1 / side**2
        matrix, after = _convolution(weight, shape, stride=side, padding=0)
        bias = np.zeros(len(matrix))
    elif kind == "Conv2d":
        weight = weights[name + "weight"]
        stride = arguments[3] if len(arguments) > 3 else 1
        padding = arguments[4] if len(arguments) > 4 else 0
        matrix, after = _convolution(weight, shape, stride, padding)
        bias = np.repeat(weights[name + "bias"], len(matrix) // len(weight))
    else:
        matrix = weights[name + "weight"]
        bias, after = weights.get(name + "bias", np.zeros(len(matrix))), (len(matrix),)
    append_matrix(program, matrix, bias, after)


def append_matrix(
    program: Program, matrix: NDArray[np.float64], bias: NDArray[np.float64] | None = None, after: tuple[int, ...] = ()
) -> None:
    """matrix @ the last tensor + bias, of shape ``after``."""
    before = program.exponents[-1]
    bias, after = np.zeros(len(matrix)) if bias is None else bias, after or (len(matrix),)
    constant, of_bias = integers(bias)
    exponent = max(_mantissas(matrix)[2], of_bias - before)
    shifted = constant << (exponent + before - of_bias)
    whole: Integers | WideMatrix
    if WIDE <= matrix.shape[1] <= WIDEST:
        whole = WideMatrix.of(matrix, exponent)
    else:
        numbers, own = integers(matrix)
        whole = numbers << (exponent - own)
    program.append(Affine(len(program.steps), whole, shifted), exponent + before, after)


def _convolution(
    weight: NDArray[np.float64], shape: tuple[int, ...], stride: int, padding: int
) -> tuple[NDArray[np.float64], tuple[int, ...]]:
    """A convolution as a matrix, and the shape that it returns."""
    channels, height, width = shape
    after = tuple((n + 2 * padding - m) // stride + 1 for n, m in zip(shape[1:], weight.shape[2:], strict=True))
    matrix = np.zeros((len(weight), *after, *shape))
    for o, i, y, x in itertools.product(range(len(weight)), range(channels), range(after[0]), range(after[1])):
        for dy, dx in itertools.product(range(weight.shape[2]), range(weight.shape[3])):
            row, column = y * stride + dy - padding, x * stride + dx - padding
            if 0 <= row < height and 0 <= column < width:
                matrix[o, y, x, i, row, column] += weight[o, i, dy, dx]
    return matrix.reshape(-1, channels * height * width), (len(weight), *after)


def _append_largest(program: Program, kind: str, arguments: list[Any]) -> None:
    shape, side = program.shapes[-1], arguments[0]
    if kind == "Maxout":
        groups, after = np.arange(shape[0]).reshape(-1, side), (shape[0] // side,)
    else:
        stride = arguments[1] if len(arguments) > 1 else side
        index = np.arange(int(np.prod(shape))).reshape(shape)
        windows = np.lib.stride_tricks.sliding_window_view(index, (side, side), axis=(1, 2))[:, ::stride, ::stride]
        groups, after = windows.reshape(-1, side * side), windows.shape[:3]
    found = tuple(tuple(group) for group in groups.tolist())
    program.append(Largest(len(program.steps), found), program.exponents[-1], after)


def _append_piecewise(program: Program, kind: str, arguments: list[Any]) -> None:
    if kind in ("Hardtanh", "ReLU6"):
        low, high = (0.0, 6.0) if kind == "ReLU6" else (*arguments, -1.0, 1.0)[:2]
        at, slopes, constants = [low, high], [0.0, 1.0, 0.0], [low, 0.0, high]
    else:
        left = {"ReLU": 0.0, "Abs": -1.0}[kind] if kind != "LeakyReLU" else (*arguments, 0.01)[0]
        at, slopes, constants = [0.0], [left, 1.0], [0.0, 0.0]
    append_pieces(program, at, slopes, constants)


def append_pieces(program: Program, at: Sequence[float], slopes: Sequence[float], constants: Sequence[float]) -> None:
    """Each unit of the last tensor on its piece: slope * unit + constant."""
    before = program.exponents[-1]
    whole, own = integers(slopes)
    extra = max(0, integers(at)[1] - before)
    thresholds = tuple(int(Fraction(t) * 2 ** (before + extra)) for t in at)
    exponent = before + own + extra
    if extra:  # the thresholds are finer than the tensor
        n = int(np.prod(program.shapes[-1]))
        shift = Affine(len(program.steps), np.diag([2**extra] * n).astype(object), np.array([0] * n, dtype=object))
        program.append(shift, before + extra, program.shapes[-1])
    fixed = tuple(int(Fraction(c) * 2**exponent) for c in constants)
    program.append(
        Piecewise(len(program.steps), thresholds, tuple(whole.tolist()), fixed), exponent, program.shapes[-1]
    )


# The family of operators, on tensors of one dimension; ``modules.FUNCTIONS`` has them in torch.


def _append_groups(program: Program, groups: Sequence[Sequence[int]]) -> None:
    program.append(Largest(len(program.steps), tuple(map(tuple, groups))), program.exponents[-1], (len(groups),))


def _append_ranked(program: Program, size: int, ranks: Sequence[int]) -> None:
    groups = np.arange(program.shapes[-1][0]).reshape(-1, size or program.shapes[-1][0])
    step = Ranked(len(program.steps), tuple(map(tuple, groups.tolist())), tuple(ranks))
    program.append(step, program.exponents[-1], (len(groups) * len(ranks),))


def _append_shrink(program: Program, bound: float) -> None:
    append_pieces(program, (-bound, bound), (1.0, 0.0, 1.0), (bound, 0.0, -bound))


def _append_absolute(program: Program) -> None:
    append_pieces(program, (0.0,), (-1.0, 1.0), (0.0, 0.0))


def _append_norm(program: Program, size: int, order: str) -> None:
    _append_absolute(program)
    groups = np.arange(program.shapes[-1][0]).reshape(-1, size)
    if order == "inf":
        _append_groups(program, groups.tolist())
    else:
        append_matrix(program, np.kron(np.eye(len(groups)), np.ones((1, size))))


def _append_distances(program: Program, points: list[list[float]]) -> None:
    m, n = np.shape(points)
    append_matrix(program, np.tile(np.eye(n), (m, 1)), -np.ravel(points))
    _append_norm(program, n, "1")


def _append_mixture(program: Program, kind: str, weights: Sequence[float]) -> None:
    """x + w (relu(x) - x), or x + w |x|."""
    source, w = len(program.steps), np.diag(weights)
    append_pieces(program, (0.0,), (0.0, 1.0) if kind == "Lerp" else (-1.0, 1.0), (0.0, 0.0))
    append_pair(program, "Concat", source)
    append_matrix(program, np.concatenate([np.eye(len(w)) - w * (kind == "Lerp"), w], 1))


def _append_messages(program: Program, reduce: str, edges: list[list[int]]) -> None:
    """Node i receives the values of its sources; with none, it keeps its own."""
    if reduce == "sum":
        matrix = np.eye(len(edges))
        for i, sources in enumerate(edges):
            np.add.at(matrix[i], sources, 1.0)
        append_matrix(program, matrix)
        return
    sign = 1.0 if reduce == "amax" else -1.0
    append_matrix(program, sign * np.eye(len(edges)))
    _append_groups(program, [sources or [i] for i, sources in enumerate(edges)])
    append_matrix(program, sign * np.eye(len(edges)))


def _append_prefixes(program: Program, sign: float) -> None:
    n = program.shapes[-1][0]
    append_matrix(program, sign * np.eye(n))
    _append_groups(program, [range(i + 1) for i in range(n)])
    append_matrix(program, sign * np.eye(n))


def _append_both_ends(program: Program) -> None:
    n = program.shapes[-1][0]
    append_matrix(program, np.concatenate([-np.eye(n), np.eye(n)]))
    _append_groups(program, [range(n), range(n, 2 * n)])
    append_matrix(program, np.diag([-1.0, 1.0]))


def _append_spectrum(program: Program) -> None:
    """Real and imaginary parts of the transform of each four units."""
    parts = np.array([[1, 1, 1, 1], [1, 0, -1, 0], [1, -1, 1, -1], [0, 0, 0, 0], [0, -1, 0, 1], [0, 0, 0, 0]])
    groups = np.kron(np.eye(program.shapes[-1][0] // 4), parts)
    append_matrix(program, groups)


def _append_rnn(program: Program, size: int, hidden: int, weights: Weights, name: str) -> None:
    """The last state of a recurrent layer of ReLU."""
    source, n = len(program.steps), program.shapes[-1][0]
    w_x, w_h, b_x, b_h = (weights[f"{name}rnn.{part}_l0"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    append_matrix(program, np.zeros((hidden, n)))
    for t in range(n // size):
        append_pair(program, "Concat", source)
        columns = np.zeros((hidden, n))
        columns[:, t * size : (t + 1) * size] = w_x
        append_matrix(program, np.concatenate([columns, w_h], 1), b_x)
        append_matrix(program, np.eye(hidden), b_h)
        append_pieces(program, (0.0,), (0.0, 1.0), (0.0, 0.0))


OPERATORS: dict[str, Callable[..., None]] = {
    "Where": lambda program, slope: append_pieces(program, (0.0,), (slope, 1.0), (0.0, 0.0)),
    "Gate": lambda program: append_pieces(program, (0.0,), (0.0, 1.0), (0.0, 0.0)),
    "Fill": lambda program, low, high: append_pieces(program, (low, high), (0.0, 1.0, 0.0), (low, 0.0, high)),
    "Shrink": _append_shrink,
    "Sort": lambda program, size: _append_ranked(program, size, range(size)),
    "TopK": lambda program, k: _append_ranked(program, 0, [program.shapes[-1][0] - 1 - i for i in range(k)]),
    "KthValue": lambda program, k: _append_ranked(program, 0, [k - 1]),
    "Median": lambda program: _append_ranked(program, 0, [(program.shapes[-1][0] - 1) // 2]),
    "CumMax": lambda program: _append_prefixes(program, 1.0),
    "CumMin": lambda program: _append_prefixes(program, -1.0),
    "AMinMax": _append_both_ends,
    "Norm": _append_norm,
    "CDist": _append_distances,
    "Lerp": lambda program, weights: _append_mixture(program, "Lerp", weights),
    "Addcmul": lambda program, weights: _append_mixture(program, "Addcmul", weights),
    "Messages": _append_messages,
    "Diff": lambda program: append_matrix(program, np.diff(np.eye(program.shapes[-1][0]), axis=0)),
    "RFFT": _append_spectrum,
    "RNN": _append_rnn,
}
