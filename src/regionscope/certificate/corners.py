"""Proof in float64, with bounds of all errors, that a region is the one that its pattern defines; in 1-D to 3-D.

A corner is the point where its k sides are zero. A Newton step corrects the stored corner, and a bound r says how far
the true one may be. Then every other constraint is evaluated at every corner. If all are positive, and the corners turn
left one after another on a plane, the region is the set where its pattern holds. In space this set P has each of these
corners as a simple one. An edge of P is where two sides are zero; if the edges at each corner end in another one of
them, these are all corners of P, because edges connect all corners of a polytope.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regionscope.certificate.claim import ClaimedPartition
from regionscope.certificate.frames import EPS, Local, inverse_of, product
from regionscope.certificate.unit_bounds import Near, size
from regionscope.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Proof:
    """proved: (r,) regions. undecided: (r,) number of signs that floats leave open. nearest: smallest distance of a
    corner to the zero set of another unit, in slice coordinates. moved: (r,) how far a stored corner may be from the
    true one; infinite where that is unknown."""

    proved: BoolArray
    undecided: IntArray
    nearest: float
    moved: FloatArray


def prove(
    claim: ClaimedPartition,
    frames: Local,
    near: Near,
    meeting: IntArray,
    n_rows: int,
    sure: BoolArray,
    *,
    reach: float,
    step: float,
) -> Proof:
    """Prove the regions whose signs floats decide.

    meeting: (corners, k) the constraints that are zero in each corner; -1 if unknown. sure: (r,) whether
    the pattern of a region is proved. The bounds hold on [-reach, reach]^k; step: largest change of a corner there, for
    which the constraints that are not near are positive.
    """
    owner, good, places = claim.owner, sure.copy(), []
    for rows in meeting.T:
        place = np.minimum(np.searchsorted(near.key, owner * n_rows + rows), max(0, len(near.key) - 1))
        known = (rows >= 0) & (near.key[place] == owner * n_rows + rows)
        good[owner[~known]] = False
        places.append(place)
    columns, start = (np.ascontiguousarray(each.T) for each in (near.rows, frames.start))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        point, radius = _corrected(start, [(np.take(columns, i, axis=1), near.error[i]) for i in places])
        change = np.abs(point - start) + (radius + frames.doubt)
        kept = (np.abs(point).max(0) + radius <= reach) & (change.max(0) <= step)
        shift = product(np.abs(frames.axes).swapaxes(1, 2), owner, change).max(0)
        turns = _turns(claim, point, radius) if claim.dim < 3 else _closed(claim, meeting, n_rows)
        undecided, nearest = _signs(
            claim, frames, near, columns, n_rows=n_rows, places=places, point=point, radius=radius
        )
    good[owner[~(kept & turns)]] = False
    moved = np.maximum.reduceat(np.where(np.isfinite(shift), shift, np.inf), claim.offsets[:-1])
    return Proof(good & (undecided == 0), undecided, nearest, moved)


def _corrected(start: FloatArray, lines: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """Where the lines are zero (k, n), and a bound of the error in every coordinate; infinite or NaN where it fails."""
    if len(lines) == 3:
        return _corrected_in_space(start, lines)
    point = start
    for _ in range(2):
        point = point - _solution([rows for rows, _ in lines], point)
    size_now = [np.abs(_value(rows, point)) + error + 8 * EPS * size(rows) for rows, error in lines]
    if len(lines) == 1:
        (rows, error), (gap,) = lines[0], size_now
        slope = np.abs(rows[1]) - error
        return point, np.where(slope > 0, (1 + 16 * EPS) * gap / slope, np.inf)
    (first, error), (second, other) = lines
    determinant = np.abs(first[1] * second[2] - first[2] * second[1])
    sums, others = np.abs(first[1:]).sum(0), np.abs(second[1:]).sum(0)
    least = determinant - sums * other - others * error - error * other - 8 * EPS * sums * others
    above = size_now[0] * (others + other) + size_now[1] * (sums + error)
    radius = np.where(least > 0, (1 + 32 * EPS) * above / least, np.inf)
    return point, radius


def _corrected_in_space(start: FloatArray, lines: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """The same for three planes with slopes A: with M near the inverse of A, and A + D the true slopes, the error is
    at most |M| |values| / (1 - |M (A + D) - 1|) in the largest coordinate."""
    slopes, error = np.stack([rows[1:].T for rows, _ in lines], 1), np.stack([error for _, error in lines], 1)
    inverse, point = inverse_of(slopes), start
    for _ in range(2):
        gaps = np.stack([_value(rows, point) for rows, _ in lines], 1)
        point = point - np.einsum("nij,nj->in", inverse, gaps)
    gaps = np.stack([np.abs(_value(rows, point)) + 8 * EPS * size(rows) for rows, _ in lines], 1) + error
    sizes = np.abs(inverse)
    off = (np.abs(inverse @ slopes - np.eye(3)) + 8 * EPS * (sizes @ np.abs(slopes))).sum(2)
    off = (1 + 16 * EPS) * (off + np.einsum("nij,nj->ni", sizes, error)).max(1)
    radius = (1 + 32 * EPS) * np.einsum("nij,nj->ni", sizes, gaps).max(1) / (1 - off)
    return point, np.where(off < 0.5, radius, np.inf)


def _closed(claim: ClaimedPartition, meeting: IntArray, n_rows: int) -> BoolArray:
    """Whether each of the three edges of a corner ends in one other corner, and no corner is there twice."""
    rows = np.sort(meeting, 1)
    edge = np.concatenate(
        [(claim.owner * n_rows + rows[:, i]) * n_rows + rows[:, j] for i, j in ((0, 1), (0, 2), (1, 2))]
    )
    third = np.concatenate([rows[:, 2], rows[:, 1], rows[:, 0]])
    order = np.lexsort((third, edge))
    alike = edge[order][1:] == edge[order][:-1]
    twice = alike & (third[order][1:] == third[order][:-1])
    _, place, count = np.unique(edge, return_inverse=True, return_counts=True)
    good = count[place] == 2
    good[order[1:][twice]] = good[order[:-1][twice]] = False
    closed: BoolArray = good.reshape(3, -1).all(0)
    return closed


def _value(rows: FloatArray, point: FloatArray) -> FloatArray:
    """Of functions (k + 1, n) at points (k, n)."""
    value: FloatArray = rows[0] + rows[1] * point[0]
    for i in range(1, len(point)):
        value += rows[1 + i] * point[i]
    return value


def _solution(lines: list[FloatArray], point: FloatArray) -> FloatArray:
    gaps = [_value(rows, point) for rows in lines]
    over, below = gaps, lines[0][1]
    if len(lines) == 2:
        a, b = lines
        over, below = [gaps[0] * b[2] - gaps[1] * a[2], gaps[1] * a[1] - gaps[0] * b[1]], a[1] * b[2] - a[2] * b[1]
    solution: FloatArray = np.stack(over) / below
    return solution


def _turns(claim: ClaimedPartition, point: FloatArray, radius: FloatArray) -> BoolArray:
    """Whether the corner is surely a left turn; on a line, whether it surely lies behind the other corner."""
    following = np.arange(1, point.shape[1] + 1)
    following[claim.offsets[1:] - 1] = claim.offsets[:-1]
    if claim.dim == 1:
        order = np.where(following > np.arange(len(following)), 1.0, -1.0)
        step = order * (point[0, following] - point[0])
        right: BoolArray = (step > (1 + 8 * EPS) * (radius + radius[following])) & (
            np.diff(claim.offsets)[claim.owner] == 2
        )
        return right
    first, off = np.take(point, following, axis=1) - point, radius + radius[following] + 8 * EPS
    second, then = np.take(first, following, axis=1), off[following]
    determinant = first[0] * second[1] - first[1] * second[0]
    length = np.abs(first).max(0)
    longest, other = length, length[following]
    bound = 2 * (off * other + then * longest + off * then) + 8 * EPS * longest * other
    left: BoolArray = determinant > bound
    return left & (np.diff(claim.offsets)[claim.owner] >= 3)


def _signs(
    claim: ClaimedPartition,
    frames: Local,
    near: Near,
    columns: FloatArray,
    *,
    n_rows: int,
    places: list[IntArray],
    point: FloatArray,
    radius: FloatArray,
) -> tuple[IntArray, float]:
    """How many constraints of each region are not surely positive at a corner that does not define them."""
    region, counts = near.key // n_rows, np.diff(claim.offsets)
    lengths = np.sqrt((product(frames.inverse, region, columns[1:]) ** 2).sum(0))
    slopes, least = np.abs(columns[1:]).sum(0), (1 + 8 * EPS) * near.error + 8 * EPS * size(columns)
    undecided, nearest = np.zeros(claim.n, dtype=np.int64), np.inf
    block = max(1, (1 << 18) // max(1, int(counts.max(initial=1))))
    for start in range(0, len(region), block):
        block_region = region[start : start + block]
        count = counts[block_region]
        entry = np.repeat(np.arange(start, start + len(block_region)), count)
        corner = np.arange(len(entry)) + np.repeat(claim.offsets[block_region] - np.cumsum(count) + count, count)
        other = np.ones(len(entry), dtype=bool)
        for place in places:
            other &= place[corner] != entry
        entry, corner = entry[other], corner[other]
        value = _value(np.take(columns, entry, axis=1), np.take(point, corner, axis=1))
        decided = value > least[entry] + (1 + 16 * EPS) * slopes[entry] * radius[corner]
        undecided += np.bincount(region[entry[~decided]], minlength=claim.n)
        nearest = min(nearest, float((value / lengths[entry])[decided].min(initial=np.inf)))
    return undecided, nearest
