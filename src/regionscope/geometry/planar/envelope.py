r"""One maximum in the plane: cut every cell where the largest of several affine functions changes.

The network takes the maximum of each *group* of candidates (a pooling window, or all logits), and a candidate *leads*
where it is that maximum. Only true folds are drawn: where two candidates tie below a third, nothing is cut.

    one leader              two leaders             three leaders
    +-------------+         +----o--------+         +-----o-------+      o  the leader changes along an edge
    |             |         |     \       |         |  1   \   2  |         (``_edge_breaks``)
    |      1      |         |  1   \  2   |         |       *-----o      *  triple point: three candidates tie inside
    |             |         |       \     |         |      /   3  |         the cell (below)
    +-------------+         +--------o----+         +-----o-------+
    no cut                  one chord               one piece for each leader

The chords of all groups go to ``arrangement.py`` together, which cuts along them at once. A cell with three leaders is
cut by one group alone; the other groups cut its pieces when the new vertices have their values (``unsettled``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from regionscope.geometry.bitsets import holds, lowest, popcount
from regionscope.geometry.crossing import Points, place_points
from regionscope.geometry.interpolation import Interpolation
from regionscope.geometry.maxima import Candidates, breaks_along, cell_leaders, leaders
from regionscope.geometry.planar.arrangement import Chords, cut, meetings
from regionscope.geometry.planar.cut import OnPoints, PlanarCut, interpolation_of, shares_of_slice
from regionscope.geometry.planar.mesh import EdgeCut, Mesh, NewCells, cut_edges, replace_cells
from regionscope.geometry.ragged import gather_rows, next_in_row, owners
from regionscope.tolerance import UNIT
from regionscope.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class _Breaks:
    """Where the leader of a group changes along an edge, sorted by key.

    points: the new points on the edges. hidden: edges on which rounding hides the order or the place of breaks.
    key: (x,) edge * n_groups + group. pair: (x,) the two candidates that tie there. point: (x,) index into ``points``.
    """

    points: Points
    hidden: Tensor
    key: Tensor
    pair: Tensor
    point: Tensor


@dataclass(frozen=True)
class _Contests:
    """Pairs of a cell and a group without a common leader at all corners; ``pair`` of the two candidates that share
    the lead, or -1 where there are no two such.
    """

    cell: Tensor
    group: Tensor
    pair: Tensor

    def keep(self, chosen: Tensor) -> _Contests:
        """The contests of a mask or an index."""
        return _Contests(self.cell[chosen], self.group[chosen], self.pair[chosen])


@dataclass(frozen=True)
class Leaders:
    """The candidates that lead somewhere in a cell, and the triples of them whose pieces meet in a point."""

    alive: list[int]
    triples: list[tuple[int, ...]]


Known = Mapping[tuple[int, int], Leaders]
"""What is known before about a cell and a group."""


def cut_maxima(
    mesh: Mesh, candidates: Candidates, coords: Tensor, *, layer: int, cells: Tensor | None = None,
    extent: float = math.inf, known: Known | None = None,
) -> PlanarCut:  # fmt: skip
    """Cut the cells (all, or the listed ones) into the pieces where one candidate of each group leads.

    ``coords`` (v, 2) of the vertices place the points where three candidates tie. extent: as in ``Units``. Without what
    is ``known``, the time of a cell grows with the third power of the number of its leaders.
    """
    leading = leaders(candidates)
    breaks = _edge_breaks(mesh, candidates, leading, cells, partial(shares_of_slice, mesh, coords, extent))
    edge_cut = cut_edges(mesh, breaks.points)
    evaluate = OnPoints.of(mesh, breaks.points, candidates)
    contests = _contests(mesh, candidates, leading, cells)
    two = contests.pair >= 0
    chords, one_chord = _chords(edge_cut, candidates, breaks, contests.keep(two))
    two[two.nonzero()[:, 0]] = one_chord
    triple = _first_of_each_cell(contests.keep(~two))
    chords = chords.keep(~torch.isin(chords.cell, triple.cell))
    chords, met, unsettled = meetings(edge_cut.mesh, chords, evaluate)
    result, old_cell = cut(edge_cut.mesh, chords, met, layer)
    interpolation = interpolation_of(mesh, edge_cut.mesh, breaks.points, chords, met)
    snapped = mesh.edges[breaks.hidden, 0]
    if len(triple.cell):
        unsettled = torch.cat([unsettled, triple.cell])
        new, interpolation, doubtful = _triple_cells(
            result.n_vertices, interpolation, edge_cut.mesh, triple, evaluate, coords, known or {}
        )
        result, old_cell = replace_cells(result, old_cell, new, layer)
        snapped = torch.cat([snapped, mesh.corners[mesh.offsets[doubtful]]])
    still = torch.zeros(mesh.n_cells, dtype=torch.bool, device=old_cell.device)
    still[unsettled] = True
    no_zeros = mesh.edges.new_empty((0, 2))
    return PlanarCut(result, old_cell, interpolation, no_zeros, still[old_cell].nonzero()[:, 0], snapped)


def _edge_breaks(
    mesh: Mesh, candidates: Candidates, leading: Tensor, cells: Tensor | None, length: Callable[[Tensor], Tensor]
) -> _Breaks:
    """New points where a leader changes along an edge of the cells. length: of edges, as a share of the slice."""
    if cells is None:
        scanned = torch.arange(len(mesh.edges), device=mesh.edges.device)
    else:
        scanned = mesh.sides[gather_rows(mesh.offsets, cells)[0]].unique()
    breaks = breaks_along(candidates, leading, mesh.edges[scanned, 0], mesh.edges[scanned, 1])
    edge = scanned[breaks.row]
    number = torch.arange(len(edge), device=edge.device)
    tolerance = candidates.tolerance[mesh.edges[edge, 0]]
    columns = candidates.columns_of(breaks)
    points, crossings = place_points(edge, number, breaks.ua, breaks.ub, tolerance, length, columns)
    key, order = (edge * candidates.n_groups + breaks.group)[crossings.unit].sort(stable=True)
    pair = candidates.pair(breaks.group, breaks.before, breaks.after)[crossings.unit]
    return _Breaks(points, crossings.hidden, key, pair[order], crossings.point[order])


def _contests(mesh: Mesh, candidates: Candidates, leading: Tensor, cells: Tensor | None) -> _Contests:
    """All pairs of a cell (any, or a listed one) and a group in which the lead changes."""
    common = cell_leaders(leading, mesh.corners, mesh.offsets, cells)
    row, group = (common == 0).all(-1).nonzero(as_tuple=True)
    cell = row if cells is None else cells[row]
    i, j = _two_leaders(mesh, leading, cell, group)
    return _Contests(cell, group, torch.where(j < 0, -1, candidates.pair(group, i, j)))


def _two_leaders(mesh: Mesh, leading: Tensor, cell: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """For each (cell, group) without a common leader two candidates i, j such that one of them leads at each corner.

    j is -1 where there are no two such.
    """
    index, offsets = gather_rows(mesh.offsets, cell)
    of = owners(offsets, len(index))
    bits = leading[mesh.corners[index], group[of]]
    number = popcount(bits)
    order = (of * 1024 + number.clamp(max=1023)).argsort(stable=True)
    i = lowest(bits[order[offsets[:-1]]])  # a leader at the corner with the fewest
    rest = torch.where(holds(bits, i[of])[:, None], -1, bits)
    return i, lowest(cell_leaders(rest, torch.arange(len(rest), device=of.device), offsets))


def _chords(edge_cut: EdgeCut, candidates: Candidates, breaks: _Breaks, contests: _Contests) -> tuple[Chords, Tensor]:
    """The chord between the two leaders of each contest; and whether there is exactly one such chord (x,) bool."""
    cell, group, pair = contests.cell, contests.group, contests.pair
    index, offsets = gather_rows(edge_cut.before.offsets, cell)
    of = owners(offsets, len(index))
    after = next_in_row(offsets)
    before = torch.empty_like(after)
    before[after] = torch.arange(len(after), device=after.device)
    vertex, side = edge_cut.before.corners[index], edge_cut.before.sides[index]
    u = candidates(vertex, pair[of])
    sign = torch.where(u.abs() <= candidates.tolerance[vertex], 0.0, u.sign())

    key = side * candidates.n_groups + group[of]
    low, high = torch.searchsorted(breaks.key, key), torch.searchsorted(breaks.key, key, right=True)
    crossed = sign * sign[after] < 0
    first = low.clamp(max=max(0, len(breaks.key) - 1))
    expected = (high - low == crossed.long()) & (~crossed | _equal_at(breaks.pair, first, pair[of]))
    ok = torch.ones(len(cell), dtype=torch.bool, device=cell.device)
    ok[of[~expected]] = False

    through = (sign == 0) & (sign[before] * sign[after] < 0)
    backwards = (vertex != edge_cut.before.edges[side, 0]).long()
    on_side = (crossed & expected).nonzero()[:, 0]
    slot = torch.cat(
        [edge_cut.point_slots[breaks.point[first[on_side]], backwards[on_side]], edge_cut.corner_slots[index[through]]]
    )
    end_of = torch.cat([of[on_side], of[through]])
    ok &= torch.bincount(end_of, minlength=len(cell)) == 2
    good = ok[end_of]
    slot, end_of = slot[good], end_of[good]
    ends = slot[end_of.argsort(stable=True)].view(-1, 2)
    chords, apart = Chords.between(edge_cut.mesh, cell[ok], ends[:, 0], ends[:, 1], pair[ok])
    ok[ok.nonzero()[:, 0][~apart]] = False
    return chords, ok


def _equal_at(values: Tensor, index: Tensor, wanted: Tensor) -> Tensor:
    if len(values) == 0:
        return torch.zeros(len(index), dtype=torch.bool, device=index.device)
    return values[index] == wanted


def _first_of_each_cell(contests: _Contests) -> _Contests:
    """One contest for each cell that has any, sorted by cell."""
    cells, inverse = torch.unique(contests.cell, return_inverse=True)
    chosen = torch.empty_like(cells)
    chosen[inverse.flip(0)] = torch.arange(len(inverse), device=cells.device).flip(0)
    return contests.keep(chosen)


def _triple_cells(
    n_vertices: int,
    interpolation: Interpolation,
    with_points: Mesh,
    triple: _Contests,
    evaluate: OnPoints,
    coords: Tensor,
    known: Known,
) -> tuple[NewCells, Interpolation, Tensor]:
    """Cut the cells of the contests (cells of ``with_points``) by the envelope of one group each, cell by cell.

    ``n_vertices``: number of vertices so far, after which the triple points are numbered. Also returns the
    interpolation with the triple points, and the cells in which rounding leaves the pieces doubtful.
    """
    place = interpolation.apply(coords)
    pieces: list[list[int]] = []
    old_cell: list[int] = []
    corners: list[list[int]] = []
    weights: list[list[float]] = []
    doubtful: list[int] = []
    for cell, group in zip(triple.cell.tolist(), triple.group.tolist(), strict=True):
        loop = with_points.corners[int(with_points.offsets[cell]) : int(with_points.offsets[cell + 1])]
        values = evaluate.of_group(loop, torch.full_like(loop, group)).cpu().numpy()
        tolerance = float(evaluate.tolerance_at(loop[:1], loop[:1]))
        first, names = n_vertices + len(corners), loop.tolist()
        old = [k for k, vertex in enumerate(names) if vertex < interpolation.n_old]
        leaders_of_cell = known.get((cell, group))
        envelope = envelope_on_cell(place[loop].cpu().numpy(), values, tolerance, old, leaders_of_cell)
        corners += [[names[k] for k in point.corners] for point in envelope.points]
        weights += [point.weights for point in envelope.points]
        names += range(first, first + len(envelope.points))
        pieces += [[names[k] for k in piece] for piece in envelope.loops]
        old_cell += [cell] * len(envelope.loops)
        doubtful += [cell] * envelope.doubtful
    with_triples = replace(
        interpolation,
        triple_points=torch.tensor(corners, dtype=torch.int64, device=coords.device).view(-1, 3),
        weights=torch.tensor(weights, dtype=torch.float64, device=coords.device).view(-1, 3),
    )
    new = NewCells(triple.cell, pieces, old_cell, len(corners))
    return new, with_triples, torch.tensor(doubtful, dtype=torch.int64, device=coords.device)


# The upper envelope of several affine functions on one convex cell where three or more of them lead.
#
# This happens in few cells (a triple point of a pooling window or of three classes), so each is worked out by itself.
#
# Which candidates tie inside the cell, and how the pieces are joined up, follows from values and from the order of the
# border alone. Coordinates would not do: where functions are steep, the rounding of a coordinate moves values by more
# than a tie allows, and a whole piece may be thinner than it.
#
#     +--- a ---+--- b ---+      The piece of b runs along the border to the tie with c, from there to the triple point
#     |   a      \   b    |      (a, b, c), which has c in common with that tie, and back to the tie with a.
#     |           *-------+
#     |    a     /   c    |
#     +--- a ---+--- c ---+

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


def envelope_on_cell(
    points: FloatArray, values: FloatArray, tolerance: float, corners: Sequence[int], known: Leaders | None = None
) -> CellEnvelope:
    """Cut a convex cell into one piece for each candidate that leads.

    points (m, 2), values (m, c): all points on the border where a leader changes, and the corners of the cell,
    counter-clockwise. Ties are up to ``tolerance``. corners: which of the points the values of others come from.
    """
    leads = values >= values.max(1, keepdims=True) - tolerance
    alive = _alive(values, tolerance) if known is None else known.alive
    triples = combinations(alive, 3) if known is None else known.triples
    triple, doubtful = _triple_points(values, leads, alive, list(triples), tolerance, corners)
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
    values: FloatArray,
    leads: BoolArray,
    alive: list[int],
    possible: list[tuple[int, ...]],
    tolerance: float,
    corners: Sequence[int],
) -> tuple[list[TriplePoint], bool]:
    """The points inside the cell at which three or more candidates tie for the lead; and whether one is doubtful.
    possible: the triples that may.

    As functions x and y of the point, the differences of one candidate to two others map the cell to a convex polygon.
    The three tie inside the cell if the origin lies inside that polygon: on the same side of all its edges.
    """
    triples = np.array(possible, dtype=np.int64).reshape(-1, 3)
    triples = triples[~leads[:, triples].all(2).any(0)]  # they tie on the border, so nowhere else
    at_corners = values[list(corners)]
    differences = at_corners[:, triples[:, :1]] - at_corners[:, triples[:, 1:]]  # (corners, triples, 2)
    largest = np.abs(differences).max(0, initial=0.0)
    x, y = np.moveaxis(np.ldexp(differences, -np.frexp(largest)[1]), 2, 0)
    turn, error = _cross(x, y, np.roll(x, -1, 0), np.roll(y, -1, 0))
    left, right = (turn > error).any(0), (turn < -error).any(0)
    triple_points: list[TriplePoint] = []
    doubtful = False
    for n in np.flatnonzero(left != right).tolist():
        three, weights = tie_weights(x[:, n], y[:, n])
        at_tie = weights @ at_corners[three]
        if at_tie[triples[n]].min() < at_tie.max() - tolerance:
            continue
        tied = frozenset(c for c in alive if at_tie[c] >= at_tie.max() - tolerance)
        doubtful |= len(tied) > 3
        twin = next((i for i, other in enumerate(triple_points) if len(other.tied & tied) > 2), None)
        if twin is None:
            triple_points.append(TriplePoint([int(corners[i]) for i in three], weights.tolist(), tied))
        else:
            triple_points[twin] = TriplePoint(
                triple_points[twin].corners, triple_points[twin].weights, triple_points[twin].tied | tied
            )
    return triple_points, doubtful


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
