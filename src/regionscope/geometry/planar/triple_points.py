r"""The upper envelope of several affine functions on one convex cell where three or more of them lead.

This happens in few cells (a triple point of a pooling window or of three classes), so each is worked out by itself.

Which candidates tie inside the cell, and how the pieces are joined up, follows from values and from the order of the
border alone. Coordinates would not do: where functions are steep, the rounding of a coordinate moves values by more
than a tie allows, and a whole piece may be thinner than it.

    +--- a ---+--- b ---+      The piece of b runs along the border to the tie with c, from there to the triple point
    |   a      \   b    |      (a, b, c), which has c in common with that tie, and back to the tie with a.
    |           *-------+
    |    a     /   c    |
    +--- a ---+--- c ---+
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from regionscope.tolerance import UNIT
from regionscope.types import BoolArray, FloatArray, IntArray

_CROSS_ERROR = 8 * UNIT  # of a * d - b * c with differences a, b, c, d, relative to |a * d| + |b * c|


@dataclass(frozen=True)
class TriplePoint:
    """A point inside a cell where three or more candidates tie for the lead.

    corners: three corners of the cell. weights: on these, of the point. tied: all candidates that tie there.
    """

    corners: list[int]
    weights: list[float]
    tied: frozenset[int]


@dataclass(frozen=True)
class CellEnvelope:
    """loops: for each leading candidate the corners of its piece, counter-clockwise; numbers below that of the border
    points are border points of the cell, the others are triple points.
    doubtful: whether rounding may hide a piece or a triple point, or join two of these.
    """

    loops: list[list[int]]
    points: list[TriplePoint]
    doubtful: bool


def envelope_on_cell(points: FloatArray, values: FloatArray, tolerance: float, corners: Sequence[int]) -> CellEnvelope:
    """Divide a convex cell into one piece for each candidate that leads.

    points (m, 2), values (m, c): all points on the border where a leader changes, and the corners of the cell,
    counter-clockwise. Ties are up to ``tolerance``. corners: which of the points the values of others come from.
    """
    leads = values >= values.max(1, keepdims=True) - tolerance
    alive = _alive(values, tolerance)
    triple, doubtful = _triple_points(values, leads, alive, tolerance, corners)
    border = [frozenset(c for c in alive if row[c]) for row in leads]
    loops: list[list[int]] = []
    for candidate in alive:
        loop = _around(candidate, border, triple)
        if loop is None:  # all its ties lie inside, or rounding has torn its border
            loop = _by_angle(candidate, border, triple, points)
        if len(loop) > 2:
            loops.append(loop)
    return CellEnvelope(loops, triple, doubtful or not _tiles(loops, len(values)))


def _alive(values: FloatArray, tolerance: float) -> list[int]:
    """Candidates that no other one equals or exceeds on the whole cell; of equal ones the first."""
    at_least = (values[:, :, None] >= values[:, None, :] - tolerance).all(0)  # [j, k]: j is never below k
    index = np.arange(values.shape[1])
    beaten = at_least & (~at_least.T | (index[:, None] < index[None, :])) & (index[:, None] != index[None, :])
    return [int(k) for k in np.flatnonzero(~beaten.any(0))]


def _triple_points(
    values: FloatArray, leads: BoolArray, alive: list[int], tolerance: float, corners: Sequence[int]
) -> tuple[list[TriplePoint], bool]:
    """The points inside the cell at which three or more candidates tie for the lead; and whether one is doubtful.

    As functions x and y of the point, the differences of one candidate to two others map the cell to a convex polygon.
    The three tie inside the cell if the origin lies inside that polygon: on the same side of all its edges.
    """
    triples = np.array(list(combinations(alive, 3)), dtype=np.int64).reshape(-1, 3)
    triples = triples[~leads[:, triples].all(2).any(0)]  # they tie on the border, so nowhere else
    at_corners = values[list(corners)]
    differences = at_corners[:, triples[:, :1]] - at_corners[:, triples[:, 1:]]  # (corners, triples, 2)
    largest = np.abs(differences).max(0, initial=0.0)
    x, y = np.moveaxis(np.ldexp(differences, -np.frexp(largest)[1]), 2, 0)
    turn, error = _cross(x, y, np.roll(x, -1, 0), np.roll(y, -1, 0))
    left, right = (turn > error).any(0), (turn < -error).any(0)
    found: list[TriplePoint] = []
    doubtful = False
    for n in np.flatnonzero(left != right).tolist():
        three, weights = tie_weights(x[:, n], y[:, n])
        at_tie = weights @ at_corners[three]
        if at_tie[triples[n]].min() < at_tie.max() - tolerance:
            continue
        tied = frozenset(c for c in alive if at_tie[c] >= at_tie.max() - tolerance)
        doubtful |= len(tied) > 3
        twin = next((i for i, other in enumerate(found) if len(other.tied & tied) > 2), None)
        if twin is None:
            found.append(TriplePoint([int(corners[i]) for i in three], weights.tolist(), tied))
        else:
            found[twin] = TriplePoint(found[twin].corners, found[twin].weights, found[twin].tied | tied)
    return found, doubtful


def _cross(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a * d - b * c, with a bound of its error."""
    return a * d - b * c, _CROSS_ERROR * (np.abs(a * d) + np.abs(b * c))


def tie_weights(x: FloatArray, y: FloatArray) -> tuple[IntArray, FloatArray]:
    """Three corners of a convex polygon, and the weights on them of the point inside it where two affine functions are
    zero, from their values x and y (n,) at the corners.
    """
    following = np.arange(1, len(x) - 1)
    ends = np.stack([np.zeros_like(following), following, following + 1], 1)  # triangles that cover the polygon
    a, b = x[ends], y[ends]
    areas = np.roll(a, -1, 1) * np.roll(b, 1, 1) - np.roll(a, 1, 1) * np.roll(b, -1, 1)  # opposite each corner
    total = areas.sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(total[:, None] != 0, areas / total[:, None], -np.inf)
    best = int(weights.min(1).argmax())
    return ends[best], weights[best]


def _around(candidate: int, border: list[frozenset[int]], triple: list[TriplePoint]) -> list[int] | None:
    """The corners of the piece of a candidate in order: runs of border points at which it leads, joined by chains of
    triple points. None if a chain is not complete, or it leads nowhere on the border.
    """
    m = len(border)
    leads = [candidate in leaders for leaders in border]
    if all(leads):
        return list(range(m))
    starts = [i for i in range(m) if leads[i] and not leads[i - 1]]
    loop, unused = [], {i for i, point in enumerate(triple) if candidate in point.tied}
    for start, following in zip(starts, [*starts[1:], *starts[:1]], strict=True):
        end = start
        loop.append(start)
        while leads[(end + 1) % m]:
            end = (end + 1) % m
            loop.append(end)
        rivals = border[end] & border[(end + 1) % m]
        goal = border[following] & border[following - 1]
        chain = _chain(rivals, goal, candidate, unused, triple, leave=end == following)
        if chain is None:
            return None
        unused -= set(chain)
        loop += [m + i for i in chain]
    return None if unused or not loop else loop


def _chain(
    rivals: frozenset[int], goal: frozenset[int], candidate: int, unused: set[int], triple: list[TriplePoint], *,
    leave: bool = False,
) -> list[int] | None:  # fmt: skip
    """Triple points along the border of the piece of ``candidate``, from a tie with one of the ``rivals`` to one with
    one of ``goal``. Neighbours have a rival in common. leave: whether both are the same point.
    """
    if rivals & goal and not leave:
        return []
    for i in sorted(unused):
        tied = triple[i].tied
        if rivals & tied:
            rest = _chain(tied - rivals - {candidate}, goal, candidate, unused - {i}, triple)
            if rest is not None:
                return [i, *rest]
    return None


def _by_angle(candidate: int, border: list[frozenset[int]], triple: list[TriplePoint], points: FloatArray) -> list[int]:
    """The corners of the piece of a candidate in the order of their angles around their middle."""
    members = [i for i, leaders in enumerate(border) if candidate in leaders]
    inside = [i for i, point in enumerate(triple) if candidate in point.tied]
    if len(members) + len(inside) < 3:
        return []
    place = np.array([points[i] for i in members] + [triple[i].weights @ points[triple[i].corners] for i in inside])
    offset = place - place.mean(0)
    spread = np.abs(offset).max(0)
    offset /= np.where(spread > 0, spread, 1.0)
    names = [*members, *(len(border) + i for i in inside)]
    return [names[i] for i in np.argsort(np.arctan2(offset[:, 1], offset[:, 0]), kind="stable")]


def _tiles(loops: list[list[int]], m: int) -> bool:
    """Whether the loops fill the cell: each side of its border is in one loop, every other side in two, once in each
    direction.
    """
    sides = Counter((a, b) for loop in loops for a, b in zip(loop, loop[1:] + loop[:1], strict=True))
    border = {(i, (i + 1) % m) for i in range(m)}
    return max(sides.values(), default=0) == 1 and all(
        (side in border) != ((side[1], side[0]) in sides) for side in sides
    ) and border <= sides.keys()  # fmt: skip
