"""Tensors with bounds of their errors, and the steps before the first fold, where they are affine functions.

A sum of n terms that are rounded in any order differs from the true one by less than n u sum |terms| / (1 - n u), with
u = 2^-53. ``affine`` uses (n + 9) u, and multiplies its bound by 1 + 4 (n + 9) u, which pays for the rounding of the
bound itself; other bounds here use twice n u.

The first matrix meets the slice's origin and directions, which are exact numbers. With hundreds of inputs its rounding
would be most of the error at the end. So both are split into a part with the leading bits, so few that sums of their
products are exact, a part with the next bits, and a small rest: only the rest is rounded, and the sum of the parts.

A bound of 0 means that nothing was rounded: a unit that reads units that are off is exactly its bias.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from regionscope.certificate.frames import EPS
from regionscope.certificate.steps import AffineStep, FoldStep, Steps
from regionscope.geometry import Slice
from regionscope.types import FloatArray

_MOST_UNDERFLOW = 2.0**-700  # added to bounds in place of what underflows


class Value(NamedTuple):
    """Entries of a tensor: numbers (entries, points), or (entries, 1 + k) as affine functions of the slice coordinates;
    bounds (entries,) of their errors, and of their absolute values."""

    numbers: FloatArray
    error: FloatArray
    size: FloatArray

    def at(self, points: FloatArray) -> Value:
        """Affine functions at points (n, k) of the slice."""
        k = points.shape[1]
        numbers = self.numbers @ np.concatenate([np.ones((1, len(points))), points.T])
        slopes = np.abs(self.numbers[:, 1:]).sum(1)
        return Value(numbers, padded(self.error + np.where(slopes > 0, (k + 8) * EPS * self.size, 0)), self.size)


def padded(bound: FloatArray) -> FloatArray:
    """Bounds of errors, larger by what may have underflowed; 0 stays 0."""
    return np.where(bound > 0, bound + _MOST_UNDERFLOW, bound)


def reads(step: AffineStep | FoldStep) -> Iterator[str]:
    """The names of the tensors that a step reads."""
    if isinstance(step, AffineStep):
        yield from (name for name, _ in step.terms)
    else:
        yield step.source


def first_steps(steps: Steps, slice: Slice, reach: FloatArray) -> tuple[dict[str, Value], int]:
    """The tensors before the first fold that are read behind it, and the index of that step.

    reach: (k,) largest absolute value of each coordinate.
    """
    weights = (1 + 8 * EPS) * np.array([1.0, *reach])
    inputs = np.stack([slice.origin.reshape(-1).cpu().numpy(), *slice.basis.flatten(1).cpu().numpy()], 1)
    values = {steps.input_name: Value(inputs, np.zeros(len(inputs)), np.abs(inputs) @ weights)}
    first = next((i for i, step in enumerate(steps.steps) if not isinstance(step, AffineStep)), len(steps.steps))
    for step in steps.steps[:first]:
        assert isinstance(step, AffineStep)
        if step.moved is not None:
            values[step.writes] = Value(*(each[step.moved] for each in values[step.terms[0][0]]))
            continue
        if len(step.terms) == 1 and not (source := values[step.terms[0][0]]).error.any():
            numbers, error = _sharp(step, source.numbers, weights)
        else:
            numbers, error = affine(step, values, 1)
        values[step.writes] = Value(numbers, error, np.abs(numbers) @ weights)
    read = {steps.output_name, *(name for step in steps.steps[first:] for name in reads(step))}
    return {name: value for name, value in values.items() if name in read}, first


def affine(step: AffineStep, values: dict[str, Value], shifted: int | None) -> tuple[FloatArray, FloatArray]:
    """The result of an affine step and its errors. shifted: number of columns to which the shift is added."""
    share = (9 + sum(int(matrix.terms.max(initial=0)) for _, matrix in step.terms)) * EPS / 2
    numbers, bound = np.zeros((len(step.shift), 1)), np.zeros(len(step.shift))
    for i, (source, matrix) in enumerate(step.terms):
        here = values[source]
        product = matrix @ here.numbers
        numbers = numbers + product if i else product
        bound += matrix.magnitudes @ (here.error + share * here.size)
    if step.shift.any():
        numbers[:, :shifted] += step.shift[:, None]
    shift = np.where(bound > 0, share * np.abs(step.shift), 0)  # alone it is not rounded
    return numbers, padded((1 + 4 * share) * (bound + shift))


def _sharp(step: AffineStep, columns: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same for exact columns (n, 1 + k), where most of the product is exact."""
    matrix, n = step.terms[0][1], max(1, len(columns))
    bits = (52 - n.bit_length()) // 2
    lead, following, rest = (matrix.with_numbers(part) for part in _split(matrix.numbers, bits))
    leads, nexts, rests = _split(columns, bits)
    parts = [lead @ leads, lead @ nexts, following @ leads, following @ nexts]
    parts += [rest @ (leads + nexts), matrix @ rests]
    sizes = np.sum(np.abs(parts), axis=0)
    rounded = rest.magnitudes @ np.abs(columns) + matrix.magnitudes @ np.abs(rests)
    numbers = np.sum(parts[::-1], axis=0)
    numbers[:, 0] += step.shift
    sizes[:, 0] += np.where(sizes[:, 0] > 0, np.abs(step.shift), 0)
    return numbers, padded((16 * EPS * sizes + (n + 8) * EPS * rounded) @ weights)


def _split(numbers: FloatArray, bits: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Three parts that add up to the numbers: the first two are multiples of a number, at most 2^bits times it."""
    unit = 2.0 ** (np.frexp(np.abs(numbers).max(initial=0.0))[1] - bits)
    lead = np.rint(numbers / unit) * unit
    following = np.rint((numbers - lead) / unit * 2.0**bits) * unit * 2.0**-bits
    return lead, following, numbers - lead - following
