"""Where affine functions change sign along many edges at once, decided by signs alone.

A *unit* is a function that is affine on every cell; its sign at a vertex is told from its value and a tolerance once,
and every later decision looks at signs only. A crossing is a convex combination of the two ends of its edge.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.geometry.blocks import rows_at_a_time
from regionscope.geometry.ragged import sort_within

_ONES = 0x0101010101010101  # one bit a byte: eight sign codes are tested in one word


@dataclass(frozen=True)
class SignTable:
    """Signs of all units at all vertices: one byte each, 1 = positive, 2 = negative, 0 = on the zero set.

    words: (v, w) int64, eight units a word. Padding units are positive everywhere.
    """

    words: Tensor
    n_units: int

    @staticmethod
    def of(values: Tensor, at: tuple[float, ...], tolerance: Tensor) -> SignTable:
        """Signs of ``values (v, n) - at[i]`` for every threshold; unit ``i * n + j`` is column j against ``at[i]``.

        ``tolerance`` (v,) or (v, n): how near to zero counts as zero at each vertex.
        """
        v, n = values.shape
        n_units = n * len(at)
        codes = torch.empty((v, -(-n_units // 8) * 8), dtype=torch.uint8, device=values.device)
        codes[:, n_units:] = 1
        step = rows_at_a_time(n * values.element_size(), values.device)
        for start in range(0, v, step):
            block = values[start : start + step]
            own = tolerance[start : start + step].reshape(len(block), -1)
            for i, threshold in enumerate(at):
                part = codes[start : start + step, i * n : (i + 1) * n]
                torch.lt(block, threshold - own, out=part.view(torch.bool))
                part.mul_(2).add_(block > threshold + own)
        return SignTable(words=codes.view(torch.int64), n_units=n_units)

    @property
    def codes(self) -> Tensor:
        """The codes byte by byte, (v, 8w) uint8."""
        return self.words.view(torch.uint8)

    def vertices_with_zero(self) -> Tensor:
        """Indices of the vertices that lie on the zero set of some unit."""
        found = []
        step = rows_at_a_time(self.words.shape[1] * 8, self.words.device)
        for start in range(0, len(self.words), step):
            block = self.words[start : start + step]
            signed = (block | (block >> 1)) & _ONES
            found.append((signed != _ONES).any(1).nonzero()[:, 0] + start)
        return torch.cat(found) if found else torch.empty(0, dtype=torch.int64, device=self.words.device)

    def sign_changes(self, a: Tensor, b: Tensor, on: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Pairs (row, unit) where the unit is strictly positive at one of ``a[row], b[row]`` and negative at the other.

        With ``on``, only units whose zero set holds the vertex ``on[row]``.
        """
        rows, units = [], []
        step = rows_at_a_time(self.words.shape[1] * 8, self.words.device)
        lanes = torch.arange(8, device=a.device)
        for start in range(0, len(a), step):
            x = self.words[a[start : start + step]]
            x ^= self.words[b[start : start + step]]
            x &= x >> 1
            x &= _ONES
            if on is not None:
                y = self.words[on[start : start + step]]
                x &= ~(y | (y >> 1))
            row, word = x.nonzero(as_tuple=True)
            if len(row) == 0:
                continue
            hit, lane = ((x[row, word][:, None] >> (8 * lanes)) & 1).nonzero(as_tuple=True)
            rows.append(row[hit] + start)
            units.append(word[hit] * 8 + lane)
        if not rows:
            empty = torch.empty(0, dtype=torch.int64, device=a.device)
            return empty, empty
        return torch.cat(rows), torch.cat(units)


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

    merged: edges on which two crossings could not be told apart, once for each such pair.
    """

    unit: Tensor
    point: Tensor
    merged: Tensor


def coincident(group: Tensor, t: Tensor, ua: Tensor, ub: Tensor, tolerance: Tensor) -> Tensor:
    """Whether row i + 1 falls on row i: same group, and the sign of one unit cannot be told at the other's crossing.

    Rows are crossings sorted along their edge (``group``) with parameter ``t``; the unit of a row takes the values
    ``ua`` and ``ub`` at the ends of the edge, and what is below its ``tolerance`` is zero. Returns (rows - 1,) bool.
    """
    later = ua[1:] + t[:-1] * (ub[1:] - ua[1:])
    earlier = ua[:-1] + t[1:] * (ub[:-1] - ua[:-1])
    near = (later.abs() <= tolerance[1:]) | (earlier.abs() <= tolerance[:-1])
    return near & (group[1:] == group[:-1])


def place_points(edge: Tensor, unit: Tensor, ua: Tensor, ub: Tensor, tolerance: Tensor) -> tuple[Points, Crossings]:
    """Sort crossings along their edges and give each one a new point; crossings that cannot be told apart share one.

    A shared point stands where the steepest of its units vanishes; the others are zero there within their tolerance.
    ``edge`` (x,): ascending. ``ua``, ``ub`` (x,): the unit's value at the first and second end of the edge, of
    strictly opposite signs; ``tolerance`` (x,): how near to zero counts as zero there.
    """
    t = ua / (ua - ub)
    order = sort_within(edge, t)
    edge, unit, t, ua, ub, tolerance = edge[order], unit[order], t[order], ua[order], ub[order], tolerance[order]
    same = coincident(edge, t, ua, ub, tolerance)
    first = torch.ones(len(edge), dtype=torch.bool, device=edge.device)
    first[1:] = ~same
    point = first.cumsum(0) - 1
    where = t[first]
    while bool(same.any()):
        where = t[sort_within(point, -abs(ua - ub) / tolerance)[first]]
        off = (abs(ua + where[point] * (ub - ua)) > tolerance) & (t != where[point])
        apart = same & (off[1:] != off[:-1])  # a flat unit is near two crossings that are not near each other
        if not bool(apart.any()):
            break
        same = same & ~apart
        first[1:] = ~same
        point, where = first.cumsum(0) - 1, t[first]
    points = Points(edge=edge[first], t=where)
    return points, Crossings(unit=unit, point=point, merged=edge[1:][same])
