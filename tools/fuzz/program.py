"""A network as a list of steps on integers.

Every weight is a binary fraction, so on a cell of the slice each unit is an affine function with coefficients of the
form integer / 2^e. All units of one tensor share ``e``, which does not depend on the cell. A tensor is an array of
Python integers of shape (units, k + 1); the last column is the constant.

Layers are written as in known_answers.json: ``[type, *arguments]`` with the names of torch.nn. In addition:
``["Residual", layers]`` is x + layers(x), ``["Concat", layers]`` joins x and layers(x), ``["Maximum", layers]`` is the
larger of x and layers(x) for each unit, ``["Maxout", n]`` takes the largest of each n consecutive units, ``["Abs"]``
the absolute value, and ``["Again", i]`` calls the i-th layer of the same list once more.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
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
class Join:
    """Tensors below each other, each shifted left to the common exponent; with ``add``, their sum."""

    sources: tuple[int, int]
    shifts: tuple[int, int]
    add: bool


Step = Affine | Piecewise | Largest | Join


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
            _append_pair(program, kind, source)
        elif kind in ("Linear", "Conv2d", "AvgPool2d"):
            _append_affine(program, kind, arguments, weights, f"{prefix}{i}.")
        elif kind in ("MaxPool2d", "Maxout"):
            _append_largest(program, kind, arguments)
        elif kind == "Flatten":
            program.shapes[-1] = (int(np.prod(program.shapes[-1])),)
        else:
            _append_piecewise(program, kind, arguments)


def _append_pair(program: Program, kind: str, source: int) -> None:
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
    before, shape = program.exponents[-1], program.shapes[-1]
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
    before = program.exponents[-1]
    if kind in ("Hardtanh", "ReLU6"):
        low, high = (0.0, 6.0) if kind == "ReLU6" else (*arguments, -1.0, 1.0)[:2]
        at, slopes, constants = [low, high], [0.0, 1.0, 0.0], [low, 0.0, high]
    else:
        left = {"ReLU": 0.0, "Abs": -1.0}[kind] if kind != "LeakyReLU" else (*arguments, 0.01)[0]
        at, slopes, constants = [0.0], [left, 1.0], [0.0, 0.0]
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
