"""Affine bounds of every entry on every cell, from below and from above, layer by layer.

On a cell, each entry z of a state lies between two affine functions of the coordinates. A hinge that keeps one side of
its threshold on the cell stays affine; one that does not is enclosed between its chord and one of its two lines:

    upper: the chord    /          lower: one of the lines   /
                    . '/                                    /
                .  '  /                                ____/

Where no hinge changes sides the two bounds are one function, and the value is exact. The input has few dimensions, so a
bound is k + 1 numbers and this forward pass costs a few evaluations of the network.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from regionscope.exact.bounding.hinge_network import HingeNetwork
from regionscope.exact.bounding.merge import AnyMatrix, HingeLayer, Indices
from regionscope.tolerance import UNIT
from regionscope.types import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class HingeCrossings:
    """The hinges of one layer that change sides on a cell, and the steepness (H, b) of all hinges.

    hinge, cell: which. gap: how much the enclosure leaves open. exact: whether ``line``, z - t as an affine function
    (c, k + 1), is exact, so that the cell can be cut along it.
    """

    hinge: Indices
    cell: Indices
    gap: FloatArray
    exact: BoolArray
    line: FloatArray
    slope: FloatArray


@dataclass(frozen=True, eq=False)
class Bounds:
    """Lower and upper affine functions (n, b, k + 1) of the last state, and the crossings of each layer."""

    low: FloatArray
    high: FloatArray
    crossings: tuple[HingeCrossings, ...]


def on_vertices(functions: FloatArray, points: FloatArray) -> FloatArray:
    """Values (n, b, v) of affine functions (n, b, k + 1) at the vertices (b, v, k + 1) of their cells."""
    values: FloatArray = functions[:, :, None, 0] + functions[:, :, None, 1] * points[None, :, :, 1]
    for i in range(2, points.shape[2]):
        values += functions[:, :, None, i] * points[None, :, :, i]
    return values


def bound_cells(hinges: HingeNetwork, points: FloatArray, hinge_tolerances: list[FloatArray]) -> Bounds:
    """Bounds of the last state on cells with vertices ``points`` (b, v, k + 1), padded by repeating one of them.

    hinge_tolerances: for each layer, how near to its threshold (H,) a hinge counts as being on it; see ``rounding_of``.
    """
    low = high = np.repeat(hinges.first[:, None, :], len(points), axis=1)
    crossings = []
    for layer, tolerance in zip(hinges.layers, hinge_tolerances, strict=True):
        enclosures, bounds = _hinges(layer, low, high, points, tolerance)
        crossings.append(bounds)
        if high is low and len(bounds.hinge) == 0:
            low = high = _times(layer.matrix, np.concatenate([low, enclosures[0]]))
        else:
            lower, upper = np.concatenate([low, enclosures[0]]), np.concatenate([high, enclosures[1]])
            middle = _times(layer.matrix, (lower + upper) / 2)
            reach = _times(abs(layer.matrix), (upper - lower) / 2)
            low, high = middle - reach, middle + reach
            high[:, :, 0] += layer.offset[:, None]
        low[:, :, 0] += layer.offset[:, None]
    return Bounds(low, high, tuple(crossings))


def _times(matrix: AnyMatrix, state: FloatArray) -> FloatArray:
    n, b, k = state.shape
    return np.asarray(matrix @ state.reshape(n, b * k)).reshape(-1, b, k)


def _hinges(
    layer: HingeLayer, low: FloatArray, high: FloatArray, points: FloatArray, tolerance: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], HingeCrossings]:
    """Lower and upper affine functions (H, b, k + 1) of the hinges."""
    below = low[layer.units]
    below[:, :, 0] -= layer.at[:, None]
    above = below
    if high is not low:
        above = high[layer.units]
        above[:, :, 0] -= layer.at[:, None]
    values = on_vertices(below, points)
    lowest = values.min(2)
    highest = (values if above is below else on_vertices(above, points)).max(2)
    active = lowest >= -tolerance[:, None]
    hinge, cell = np.nonzero(~active & (highest > tolerance[:, None]))
    slope = active - layer.tilt[:, None]
    one_line = above is below and len(hinge) == 0
    lower = _sided(slope, below, above)
    line = below[hinge, cell]
    a, b, tilt = lowest[hinge, cell], highest[hinge, cell], layer.tilt[hinge]
    chord = ((1 - tilt) * b + tilt * a) / (b - a)
    if len(hinge):
        rising = (b > -a)[:, None]
        lower[hinge, cell] = np.where(rising, (1 - tilt)[:, None] * line, -tilt[:, None] * above[hinge, cell])
    slope[hinge, cell] = chord
    upper = lower if one_line else _sided(slope, above, below)
    upper[hinge, cell, 0] -= (chord + tilt) * a
    exact = np.ones(len(hinge), bool) if above is below else (above[hinge, cell] == line).all(1)
    return (lower, upper), HingeCrossings(hinge, cell, -a * b / (b - a), exact, line, np.abs(slope))


def _sided(slope: FloatArray, near_side: FloatArray, far_side: FloatArray) -> FloatArray:
    """slope * z for z between two affine functions: ``near_side`` where the slope is positive, else ``far_side``."""
    if near_side is far_side:
        return slope[:, :, None] * near_side
    return slope[:, :, None] * np.where((slope >= 0)[:, :, None], near_side, far_side)


def with_ones(coords: FloatArray) -> FloatArray:
    """Points (p, k + 1) = (1, coordinates)."""
    return np.concatenate([np.ones((len(coords), 1)), coords], 1)


def padded_points(corners: Tensor, offsets: Tensor, coords: Tensor) -> FloatArray:
    """(b, v, k + 1) vertices of each cell, from ragged ``corners``; shorter ones repeat their first vertex."""
    sizes, start = offsets.diff().cpu().numpy(), offsets[:-1].cpu().numpy()
    places = np.arange(sizes.max(initial=0))[None, :]
    index = start[:, None] + np.where(places < sizes[:, None], places, 0)
    points_with_ones: FloatArray = with_ones(coords.cpu().numpy())[corners.cpu().numpy()[index]]
    return points_with_ones


def rounding_of(hinges: HingeNetwork, corners: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """How near to its threshold counts as on it, (n,) for each layer, and a bound of the error of each slack.

    A running error bound: the error of every sum is at most its number of terms times the unit of rounding times the
    sum of its absolute terms, and errors grow through the absolute weights. ``size`` bounds the absolute terms of every
    entry at all points of the slice, for the values themselves and for all affine functions that enclose them: a hinge
    and its chord have at most twice the terms of their entry. ``error`` covers the arithmetic on the matrices of
    ``hinges``, and ``reading`` their distance from the network, whose weights may cancel where units were merged.
    corners: (m, k + 1).
    """
    size = np.abs(hinges.first) @ np.abs(corners).max(0)
    error, reading = 16 * UNIT * size, 4 * UNIT * size
    tolerances = []
    for layer in hinges.layers:
        terms = size[layer.units] + np.abs(layer.at)
        tolerances.append(128 * UNIT * terms)
        wider = np.concatenate([error, error[layer.units] + tolerances[-1]])  # a hinge is at most as steep as 1
        rounded = layer.roundings * UNIT * np.concatenate([size, terms, [1.0]])
        reading = layer.absolute @ (np.concatenate([reading, reading[layer.units], [0.0]]) + rounded)
        weights = abs(layer.matrix)
        width = int(np.max((layer.matrix != 0).sum(1), initial=0))
        size = weights @ np.concatenate([size, 2 * terms]) + np.abs(layer.offset)
        error = weights @ wider + (width + 8) * 2 * UNIT * size
    return tolerances, error + reading
