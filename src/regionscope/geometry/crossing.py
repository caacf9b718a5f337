"""Where affine functions change sign along many edges at once, decided by signs alone.

A *unit* is a function that is affine on every cell. Its sign at a vertex is decided once, from its value and a
tolerance, and every later decision looks at signs only. A crossing is a convex combination of the two ends of its edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.arrays import rows_at_a_time
from regionscope.geometry.ragged import sort_within
from regionscope.tolerance import MOST_MOVED, SMALLEST_TOLERANCE

_ONES = 0x0101010101010101  # one bit a byte: eight sign codes are tested in one word


@dataclass(frozen=True)
class Units:
    """Functions that are affine on every cell: unit ``i * n + j`` is ``values[:, j] - at[i]`` at the vertices.

    values: (v, n); tolerance: (v,) or (v, n) how near to zero counts as zero at each vertex.
    coords: (v, k) of the vertices. extent: the largest side of the slice in these; infinite if no place is too rough.
    """

    values: Tensor
    at: tuple[float, ...]
    tolerance: Tensor
    coords: Tensor
    extent: float = math.inf

    def __call__(self, vertices: Tensor, units: Tensor) -> Tensor:
        n = self.values.shape[1]
        if self.at == (0.0,):
            return xp.double(self.values[vertices, units])
        value = xp.double(self.values[vertices, units % n])
        if isinstance(value, np.ndarray):
            return value - np.array(self.at)[units // n]
        return value - torch.tensor(self.at, dtype=torch.float64, device=value.device)[units // n]

    def tolerance_at(self, vertices: Tensor, units: Tensor) -> Tensor:
        """How near to zero counts as zero for these units at these vertices."""
        if self.tolerance.ndim == 1:
            return self.tolerance[vertices]
        return self.tolerance[vertices, units if len(self.at) == 1 else units % self.values.shape[1]]


@dataclass(frozen=True)
class SignTable:
    """Signs of all units at all vertices: one byte each, 1 = positive, 2 = negative, 0 = on the zero set.

    words: (v, w) int64, eight units a word. Padding units are positive everywhere.
    """

    words: Tensor
    n_units: int

    @staticmethod
    def of(units: Units) -> SignTable:
        """Signs of all units at all vertices, each decided once."""
        values, at, tolerance = units.values, units.at, units.tolerance
        v, n = values.shape
        n_units = n * len(at)
        words = xp.empty((v, -(-n_units // 8)), values)
        table = SignTable(words, n_units)
        less: Any = np.less if isinstance(words, np.ndarray) else torch.lt
        codes, flags = table.codes, words.view(bool if isinstance(words, np.ndarray) else torch.bool)
        codes[:, n_units:] = 1
        step = rows_at_a_time(8 * n, values.device)
        # of one slice: the same for all vertices
        one_row = v > 0 and bool(tolerance.ndim == 2) and _stride(tolerance) == 0
        for start in range(0, v, step):
            block = values[start : start + step]
            zero = tolerance[:1] if one_row else tolerance[start : start + step].reshape(len(block), -1)
            for i, threshold in enumerate(at):
                where = slice(start, start + step), slice(i * n, (i + 1) * n)
                less(block, threshold - zero, out=flags[where])
                block_codes = codes[where]
                block_codes *= 2
                block_codes += block > threshold + zero
        return table

    @property
    def codes(self) -> Tensor:
        """The codes byte by byte, (v, 8w) uint8."""
        return self.words.view(np.uint8 if isinstance(self.words, np.ndarray) else torch.uint8)

    def vertices_with_zero(self) -> Tensor:
        """Indices of the vertices that lie on the zero set of some unit."""
        blocks = []
        step = rows_at_a_time(self.words.shape[1] * 8, self.words.device)
        for start in range(0, len(self.words), step):
            block = self.words[start : start + step]
            signed = (block | (block >> 1)) & _ONES
            blocks.append(xp.nonzero((signed != _ONES).any(1)) + start)
        return xp.cat(blocks) if blocks else xp.empty(0, self.words)

    def snapped(self, tolerance: Tensor, marked: Tensor | None = None) -> Tensor:
        """The vertex of each sign that counts as zero, once for each unit, with the ``tolerance`` given to ``of``.

        A value may be zero after rounding alone, so zeros count too, but for units that are zero on all probe points.
        marked: ``vertices_with_zero``, where they are known.
        """
        rows = self.vertices_with_zero() if marked is None else marked
        if len(rows) == 0:
            return rows
        alive = xp.take(tolerance, rows).reshape(len(rows), 1, -1) > SMALLEST_TOLERANCE
        zero = xp.take(self.codes, rows)[:, : self.n_units].reshape(len(rows), -1, alive.shape[2]) == 0
        return xp.repeat(rows, (zero & alive).reshape(len(rows), -1).sum(1))

    def sign_changes(self, a: Tensor, b: Tensor, on: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Pairs (row, unit) where the unit is strictly positive at one of ``a[row], b[row]`` and negative at the other.

        With ``on``, only units whose zero set holds the vertex ``on[row]``.
        """
        rows, units = [], []
        step = rows_at_a_time(self.words.shape[1] * 8, self.words.device)
        for start in range(0, len(a), step):
            x = xp.take(self.words, a[start : start + step])
            x ^= xp.take(self.words, b[start : start + step])
            x &= x >> 1
            x &= _ONES
            if on is not None:
                y = xp.take(self.words, on[start : start + step])
                x &= ~(y | (y >> 1))
            row, unit = _lanes(x)
            rows.append(row + start)
            units.append(unit)
        if not rows:
            return xp.empty(0, a), xp.empty(0, a)
        return xp.cat(rows), xp.cat(units)


def codes_of(values: Tensor, tolerance: Tensor | int) -> Tensor:
    """Codes (x,) of the signs of values (x,), as in ``SignTable``."""
    byte: Any = np.uint8 if isinstance(values, np.ndarray) else torch.uint8
    return 2 * (values < -tolerance).view(byte) + (values > tolerance).view(byte)


def _stride(rows: Tensor) -> int:
    """How far the next row lies in memory."""
    return rows.strides[0] if isinstance(rows, np.ndarray) else rows.stride(0)


def _lanes(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and bytes of the words x (n, w) whose lowest bit is set; the other bits are not."""
    if isinstance(x, np.ndarray):  # NumPy finds places of truth values, and divides by a number, several times as fast
        words, width = x.reshape(-1), 8 * x.shape[1]
        place = xp.nonzero(words != 0)
        hit = xp.nonzero(words[place].view(bool))
        lane = 8 * place[hit >> 3] + (hit & 7)
        return xp.quotients(lane, width)
    row, word = x.nonzero(as_tuple=True)
    shifts = 8 * torch.arange(8, device=x.device)
    hit, lane = ((x[row, word][:, None] >> shifts) & 1).nonzero(as_tuple=True)
    return xp.take(row, hit), xp.take(word, hit) * 8 + lane


@dataclass(frozen=True)
class Points:
    """New points inside edges, sorted by edge and along it: point i is ``(1 - t) * a + t * b`` of the ends of
    ``edge``.
    """

    edge: Tensor
    t: Tensor

    def __len__(self) -> int:
        return len(self.edge)


@dataclass(frozen=True)
class Crossings:
    """Which units vanish at which new points; several units may share a point.

    hidden: edges on which two crossings could not be told apart, once for each such pair, and those on which rounding
    hides the place of a crossing.
    """

    unit: Tensor
    point: Tensor
    hidden: Tensor


@np.errstate(invalid="ignore")
def coincident(group: Tensor, t: Tensor, ua: Tensor, ub: Tensor, tolerance: Tensor) -> Tensor:
    """Whether row i + 1 falls on row i: same group, and the sign of one unit cannot be told at the other's crossing.

    Rows are crossings sorted along their edge (``group``) with parameter ``t``; the unit of a row takes the values
    ``ua`` and ``ub`` at the ends of the edge, and what is below its ``tolerance`` is zero. Returns (rows - 1,) bool.
    """
    later = ua[1:] + t[:-1] * (ub[1:] - ua[1:])
    earlier = ua[:-1] + t[1:] * (ub[:-1] - ua[:-1])
    close = (abs(later) <= tolerance[1:]) | (abs(earlier) <= tolerance[:-1])
    return close & (group[1:] == group[:-1])


def place_points(
    edge: Tensor, unit: Tensor, ua: Tensor, ub: Tensor, tolerance: Tensor, length: Callable[[Tensor], Tensor],
    pair: Tensor | None = None,
) -> tuple[Points, Crossings]:  # fmt: skip
    """Sort crossings along their edges and give each one a new point; crossings that cannot be told apart share one.

    A shared point stands where the steepest of its units vanishes; the others are zero there within their tolerance.
    ``edge`` (x,): ascending. ``ua``, ``ub`` (x,): the unit's value at the first and second end of the edge, of
    strictly opposite signs; ``tolerance`` (x,): how near to zero counts as zero there.
    ``length``: of edges, as a share of the slice. Rounding hides the place of a crossing that moves by more than
    ``MOST_MOVED`` of the slice when its unit changes by the tolerance. ``pair`` (x,): of values whose difference a unit
    is; two units of one pair have the same zero, whatever the rounding.
    """
    t = ua / (ua - ub)
    order = sort_within(edge, t)
    unit, t, ua, ub, tolerance = (xp.take(x, order) for x in (unit, t, ua, ub, tolerance))
    same, least = coincident(edge, t, ua, ub, tolerance), MOST_MOVED * abs(ua - ub)
    rough = tolerance > least
    if not bool(same.any() | rough.any()):  # one wait on a GPU, where each size below takes another one
        return Points(edge, t), Crossings(unit, xp.arange(len(edge), edge), edge[:0])
    rough = xp.nonzero(rough)
    rough = rough[xp.take(tolerance, rough) * length(xp.take(edge, rough)) > xp.take(least, rough)]
    first = xp.mask(len(edge), True, edge)
    first[1:] = ~same
    point, starts = first.cumsum(0) - 1, xp.nonzero(first)
    positions = xp.take(t, starts)
    while bool(same.any()):
        positions = xp.take(t, xp.take(sort_within(point, -abs(ua - ub) / tolerance), starts))
        t_of_point = xp.take(positions, point)
        off = (abs(ua + t_of_point * (ub - ua)) > tolerance) & (t != t_of_point)
        apart = same & (off[1:] != off[:-1])  # a flat unit is near two crossings that are not near each other
        if not bool(apart.any()):
            break
        same = same & ~apart
        first[1:] = ~same
        point, starts = first.cumsum(0) - 1, xp.nonzero(first)
        positions = xp.take(t, starts)
    points = Points(edge=xp.take(edge, starts), t=positions)
    if pair is not None:
        pair = xp.take(pair, order)
        same = same & (pair[1:] != pair[:-1])
    return points, Crossings(unit=unit, point=point, hidden=xp.cat([edge[1:][same], xp.take(edge, rough)]))
