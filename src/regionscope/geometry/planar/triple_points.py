"""The upper envelope of several affine functions on one convex cell where three or more of them lead.

This happens in few cells (a triple point of a pooling window or of three classes), so each is worked out by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from regionscope.tolerance import FLAT, SLIVER, TINY
from regionscope.types import FloatArray


@dataclass(frozen=True)
class CellEnvelope:
    """loops: for each leading candidate the corners of its piece, counter-clockwise; numbers below ``len(corners)`` are
    corners of the cell, the others are triple points, points inside the cell where three or more candidates tie.
    ties: three candidates that tie at each triple point, and nowhere else.
    """

    loops: list[list[int]]
    ties: list[list[int]]


def envelope_on_cell(corners: FloatArray, values: FloatArray, tolerance: float) -> CellEnvelope:
    """Divide a convex cell, given by all points on its border where a leader changes, into one piece per leader.

    ``corners`` (m, 2) counter-clockwise, ``values`` (m, c) of the candidates there; ties are up to ``tolerance``.
    """
    leads = values >= values.max(1, keepdims=True) - tolerance
    middle = corners.mean(0)
    spread = np.abs(corners - middle).max(0)
    spread[spread == 0] = 1.0
    local = (corners - middle) / spread
    design = np.c_[local, np.ones(len(local))]
    maps: FloatArray = np.asarray(
        np.linalg.lstsq(design, values, rcond=None)[0], dtype=np.float64
    )  # (3, c): two slopes and a constant
    points, ties, three = _triple_points(local, values, maps, tolerance)
    loops = []
    for candidate in _alive(values, tolerance):
        members = [i for i in range(len(corners)) if leads[i, candidate]]
        members += [len(corners) + h for h, tie in enumerate(ties) if candidate in tie]
        loop = _in_order(members, np.r_[local, points.reshape(-1, 2)])
        if loop:
            loops.append(loop)
    return CellEnvelope(loops, three)


def _triple_points(
    local: FloatArray, values: FloatArray, maps: FloatArray, tolerance: float
) -> tuple[FloatArray, list[set[int]], list[list[int]]]:
    """Points strictly inside the cell where at least three candidates tie for the lead, all that tie there, and three
    of them that tie nowhere else.
    """
    found: list[FloatArray] = []
    ties: list[set[int]] = []
    three: list[list[int]] = []
    alive = _alive(values, tolerance)
    for i, j, k in combinations(alive, 3):
        system = np.stack([maps[:2, i] - maps[:2, j], maps[:2, i] - maps[:2, k]])
        size = np.abs(system).max()
        if size == 0 or abs(np.linalg.det(system / size)) < FLAT:
            continue
        point = np.linalg.solve(system, -np.array([maps[2, i] - maps[2, j], maps[2, i] - maps[2, k]]))
        here = maps[:2].T @ point + maps[2]
        if here[i] < here.max() - tolerance or not _inside(local, point):
            continue
        tied = {c for c in alive if here[c] >= here.max() - tolerance}
        twin = next((h for h, other in enumerate(ties) if len(other & tied) >= 3), None)
        if twin is None:
            found.append(point)
            ties.append(tied)
            three.append([i, j, k])
        else:
            ties[twin] |= tied
    return np.array(found, dtype=np.float64).reshape(-1, 2), ties, three


def _alive(values: FloatArray, tolerance: float) -> list[int]:
    """Candidates that no other one equals or exceeds on the whole cell; of equal ones the first."""
    at_least = (values[:, :, None] >= values[:, None, :] - tolerance).all(0)  # [j, k]: j is never below k
    index = np.arange(values.shape[1])
    beaten = at_least & (~at_least.T | (index[:, None] < index[None, :])) & (index[:, None] != index[None, :])
    return [int(k) for k in np.flatnonzero(~beaten.any(0))]


def tie_weights(values: FloatArray) -> tuple[list[int], list[float]]:
    """Three corners of a convex polygon, and the weights on them of the point where three functions tie, from the
    values (m, 3) of these at the corners.

    Coordinates would not do: where functions are steep, the rounding of a coordinate moves values by more than a tie
    allows.
    """
    apart = values[:, 1:] - values[:, :1]
    apart /= np.abs(apart).max(0)
    best: tuple[float, list[int], list[float]] | None = None
    for i in range(1, len(values) - 1):
        system = np.r_[apart[[0, i, i + 1]].T, np.ones((1, 3))]
        if abs(np.linalg.det(system)) < TINY:
            continue
        weights = np.linalg.solve(system, np.array([0.0, 0.0, 1.0]))
        if best is None or weights.min() > best[0]:
            best = (float(weights.min()), [0, i, i + 1], [float(w) for w in weights])
    if best is None:
        raise ArithmeticError("A cell without area cannot hold a point. Please report this fault of regionscope.")
    return best[1], best[2]


def _inside(corners: FloatArray, point: FloatArray) -> bool:
    """Whether the point lies strictly inside the convex polygon (whose size is about one)."""
    sides = np.roll(corners, -1, 0) - corners
    offset = point - corners
    length = np.hypot(sides[:, 0], sides[:, 1])
    distance = (sides[:, 0] * offset[:, 1] - sides[:, 1] * offset[:, 0])[length > 0] / length[length > 0]
    return bool((distance > FLAT).all())


def _in_order(members: list[int], points: FloatArray) -> list[int]:
    """The members of a convex piece counter-clockwise; an empty list when the piece has no area."""
    if len(members) < 3:
        return []
    chosen = points[members]
    offset = chosen - chosen.mean(0)
    order = np.argsort(np.arctan2(offset[:, 1], offset[:, 0]), kind="stable")
    ring = chosen[order]
    following = np.roll(ring, -1, 0)
    area = 0.5 * np.sum(ring[:, 0] * following[:, 1] - ring[:, 1] * following[:, 0])
    return [members[i] for i in order] if area > SLIVER else []
