r"""One maximum in the plane: cut every cell where the largest of several affine functions changes.

The network takes the maximum of each *group* of candidates (a pooling window, or all logits), and a candidate *leads*
where it is that maximum. Only true folds are drawn: where two candidates tie below a third, nothing is cut.

    one leader              two leaders             three leaders
    +-------------+         +----o--------+         +-----o-------+      o  the leader changes along an edge
    |             |         |     \       |         |  1   \   2  |         (``_edge_breaks``)
    |      1      |         |  1   \  2   |         |       *-----o      *  triple point: three candidates tie inside
    |             |         |       \     |         |      /   3  |         the cell (``triple_points.py``)
    +-------------+         +--------o----+         +-----o-------+
    no cut                  one chord               one piece for each leader

The chords of all groups go to ``arrangement.py`` together, which cuts along them at once. A cell with three leaders is
divided by one group alone; the other groups cut its pieces when the new vertices have their values (``unsettled``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope.geometry.bitsets import holds, lowest, popcount
from regionscope.geometry.crossing import Points, place_points
from regionscope.geometry.interpolation import Interpolation
from regionscope.geometry.maxima import Candidates, breaks_along, cell_leaders, leaders
from regionscope.geometry.planar.arrangement import Chords, cut, meetings
from regionscope.geometry.planar.cut import OnPoints, PlanarSplit, interpolation_of
from regionscope.geometry.planar.mesh import Mesh, NewCells, Subdivided, replace_cells, subdivide
from regionscope.geometry.planar.triple_points import envelope_on_cell
from regionscope.geometry.ragged import gather_rows, next_in_row, owners


@dataclass(frozen=True)
class _Breaks:
    """Where the leader of a group changes along an edge, sorted by key.

    points: the new points on the edges. merged: edges on which two breaks could not be told apart.
    key: (x,) edge * n_groups + group. pair: (x,) the two candidates that tie there. point: (x,) index into ``points``.
    """

    points: Points
    merged: Tensor
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


def split_maxima(
    mesh: Mesh, candidates: Candidates, coords: Tensor, *, layer: int, cells: Tensor | None = None
) -> PlanarSplit:
    """Cut the cells (all, or the listed ones) into the pieces where one candidate of each group leads.

    ``coords`` (v, 2) of the vertices place the points where three candidates tie.
    """
    leading = leaders(candidates)
    breaks = _edge_breaks(mesh, candidates, leading, cells)
    divided = subdivide(mesh, breaks.points)
    evaluate = OnPoints.of(mesh, breaks.points, candidates)
    contests = _contests(mesh, candidates, leading, cells)
    two = contests.pair >= 0
    chords, one_chord = _chords(divided, candidates, breaks, contests.keep(two))
    two[two.nonzero()[:, 0]] = one_chord
    triple = _first_of_each_cell(contests.keep(~two))
    chords = chords.keep(~torch.isin(chords.cell, triple.cell))
    chords, met, unsettled = meetings(divided.mesh, chords, evaluate)
    result, old_cell = cut(divided.mesh, chords, met, layer)
    interpolation = interpolation_of(mesh, divided.mesh, breaks.points, chords, met)
    snapped = mesh.edges[breaks.merged, 0]
    if len(triple.cell):
        unsettled = torch.cat([unsettled, triple.cell])
        new, interpolation, doubtful = _triple_cells(
            result.n_vertices, interpolation, divided.mesh, triple, evaluate, coords
        )
        result, old_cell = replace_cells(result, old_cell, new, layer)
        snapped = torch.cat([snapped, mesh.corners[mesh.offsets[doubtful]]])
    still = torch.zeros(mesh.n_cells, dtype=torch.bool, device=old_cell.device)
    still[unsettled] = True
    no_zeros = mesh.edges.new_empty((0, 2))
    return PlanarSplit(result, old_cell, interpolation, no_zeros, still[old_cell].nonzero()[:, 0], snapped)


def _edge_breaks(mesh: Mesh, candidates: Candidates, leading: Tensor, cells: Tensor | None) -> _Breaks:
    """New points where a leader changes along an edge of the cells."""
    if cells is None:
        scanned = torch.arange(len(mesh.edges), device=mesh.edges.device)
    else:
        scanned = mesh.sides[gather_rows(mesh.offsets, cells)[0]].unique()
    breaks = breaks_along(candidates, leading, mesh.edges[scanned, 0], mesh.edges[scanned, 1])
    edge = scanned[breaks.row]
    number = torch.arange(len(edge), device=edge.device)
    tolerance = candidates.tolerance[mesh.edges[edge, 0]]
    points, crossings = place_points(edge, number, breaks.ua, breaks.ub, tolerance)
    key, order = (edge * candidates.n_groups + breaks.group)[crossings.unit].sort(stable=True)
    pair = candidates.pair(breaks.group, breaks.before, breaks.after)[crossings.unit]
    return _Breaks(points, crossings.merged, key, pair[order], crossings.point[order])


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


def _chords(divided: Subdivided, candidates: Candidates, breaks: _Breaks, contests: _Contests) -> tuple[Chords, Tensor]:
    """The chord between the two leaders of each contest; and whether there is exactly one such chord (x,) bool."""
    cell, group, pair = contests.cell, contests.group, contests.pair
    index, offsets = gather_rows(divided.before.offsets, cell)
    of = owners(offsets, len(index))
    after = next_in_row(offsets)
    before = torch.empty_like(after)
    before[after] = torch.arange(len(after), device=after.device)
    vertex, side = divided.before.corners[index], divided.before.sides[index]
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
    backwards = (vertex != divided.before.edges[side, 0]).long()
    on_side = (crossed & expected).nonzero()[:, 0]
    slot = torch.cat(
        [divided.point_slots[breaks.point[first[on_side]], backwards[on_side]], divided.corner_slots[index[through]]]
    )
    end_of = torch.cat([of[on_side], of[through]])
    ok &= torch.bincount(end_of, minlength=len(cell)) == 2
    good = ok[end_of]
    slot, end_of = slot[good], end_of[good]
    ends = slot[end_of.argsort(stable=True)].view(-1, 2)
    chords, apart = Chords.between(divided.mesh, cell[ok], ends[:, 0], ends[:, 1], pair[ok])
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
    n_vertices: int, interpolation: Interpolation, divided: Mesh, triple: _Contests, evaluate: OnPoints, coords: Tensor
) -> tuple[NewCells, Interpolation, Tensor]:
    """Divide the cells of the contests (cells of ``divided``) by the envelope of one group each, cell by cell.

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
        loop = divided.corners[int(divided.offsets[cell]) : int(divided.offsets[cell + 1])]
        values = evaluate.of_group(loop, torch.full_like(loop, group)).cpu().numpy()
        tolerance = float(evaluate.tolerance_at(loop[:1], loop[:1]))
        first, names = n_vertices + len(corners), loop.tolist()
        old = [k for k, vertex in enumerate(names) if vertex < interpolation.n_old]
        envelope = envelope_on_cell(place[loop].cpu().numpy(), values, tolerance, old)
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
