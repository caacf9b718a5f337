"""One maximum in the plane: cut every cell where the largest of several affine functions changes.

Only true folds are drawn: where two candidates tie below a third, nothing happens.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regionscope.geometry.bitsets import holds, lowest, popcount
from regionscope.geometry.crossing import Points, place_points
from regionscope.geometry.interpolation import Interpolation
from regionscope.geometry.maxima import Candidates, breaks_along, cell_leaders, leaders
from regionscope.geometry.planar.arrangement import Chords, Meetings, cut, meetings
from regionscope.geometry.planar.mesh import Mesh, Subdivided, replace_cells, subdivide
from regionscope.geometry.planar.split import OnPoints, PlanarSplit
from regionscope.geometry.planar.triple_points import envelope_on_cell, fan_weights
from regionscope.geometry.ragged import gather_rows, next_in_row, owners

__all__ = ["split_maxima"]


def split_maxima(
    mesh: Mesh, candidates: Candidates, coords: Tensor, *, layer: int, cells: Tensor | None = None
) -> PlanarSplit:
    """Cut the cells (all, or the listed ones) into the pieces where one candidate of each group leads.

    ``coords`` (v, 2) of the vertices place the points where three candidates tie.
    """
    leading = leaders(candidates)
    points, break_key, break_pair, break_point, merged = _edge_points(mesh, candidates, leading, cells)
    divided = subdivide(mesh, points)
    evaluate = OnPoints.of(mesh, points, candidates)
    common = cell_leaders(leading, mesh.corners, mesh.offsets, cells)
    row, group = (common == 0).all(-1).nonzero(as_tuple=True)
    cell = row if cells is None else cells[row]
    i, j = _two_leaders(mesh, leading, cell, group)
    two = j >= 0
    chords, two_ok = _chords(
        divided, candidates, leading, cell[two], group[two], i[two], j[two], break_key, break_pair, break_point
    )
    two[two.nonzero()[:, 0]] = two_ok
    triple_cells, triple_groups = _first_of_each(cell[~two], group[~two])
    chords = chords.keep(~torch.isin(chords.cell, triple_cells))
    chords, met, unsettled = meetings(divided.mesh, chords, evaluate)
    interpolation = _interpolation(mesh, divided.mesh, points, chords, met)
    result, old_cell = cut(divided.mesh, chords, met, layer)
    if len(triple_cells):
        unsettled = torch.cat([unsettled, triple_cells])
        result, old_cell, interpolation = _cut_triple_cells(
            result, old_cell, interpolation, divided.mesh, triple_cells, triple_groups, evaluate, coords, layer
        )
    still = torch.zeros(mesh.n_cells, dtype=torch.bool, device=old_cell.device)
    still[unsettled] = True
    no_zeros = mesh.edges.new_empty((0, 2))
    return PlanarSplit(
        result, old_cell, interpolation, no_zeros, still[old_cell].nonzero()[:, 0], mesh.edges[merged, 0]
    )


def _edge_points(
    mesh: Mesh, candidates: Candidates, leading: Tensor, cells: Tensor | None
) -> tuple[Points, Tensor, Tensor, Tensor, Tensor]:
    """New points where a leader changes along an edge; (edge, group) keys, pairs and points of the breaks, by key."""
    if cells is None:
        scanned = torch.arange(len(mesh.edges), device=mesh.edges.device)
    else:
        scanned = mesh.sides[gather_rows(mesh.offsets, cells)[0]].unique()
    breaks = breaks_along(candidates, leading, mesh.edges[scanned, 0], mesh.edges[scanned, 1])
    edge = scanned[breaks.row]
    number = torch.arange(len(edge), device=edge.device)
    near = candidates.tolerance[mesh.edges[edge, 0]]
    points, crossings = place_points(edge, number, breaks.ua, breaks.ub, near)
    key = (edge * candidates.n_groups + breaks.group)[crossings.unit]
    low, high = torch.minimum(breaks.before, breaks.after), torch.maximum(breaks.before, breaks.after)
    pair = candidates.pair(breaks.group, low, high)[crossings.unit]
    key, order = key.sort(stable=True)
    return points, key, pair[order], crossings.point[order], crossings.merged


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


def _chords(
    divided: Subdivided, candidates: Candidates, leading: Tensor, cell: Tensor, group: Tensor, i: Tensor, j: Tensor,
    break_key: Tensor, break_pair: Tensor, break_point: Tensor,
) -> tuple[Chords, Tensor]:  # fmt: skip
    """The chord between the pieces of i and of j in each cell; and where there is exactly one such chord (x,) bool."""
    index, offsets = gather_rows(divided.before.offsets, cell)
    of = owners(offsets, len(index))
    after = next_in_row(offsets)
    before = torch.empty_like(after)
    before[after] = torch.arange(len(after), device=after.device)
    vertex, side = divided.before.corners[index], divided.before.sides[index]
    pair = candidates.pair(group, torch.minimum(i, j), torch.maximum(i, j))
    u = candidates(vertex, pair[of])
    sign = torch.where(u.abs() <= candidates.tolerance[vertex], 0.0, u.sign())

    key = side * candidates.n_groups + group[of]
    low, high = torch.searchsorted(break_key, key), torch.searchsorted(break_key, key, right=True)
    crossed = sign * sign[after] < 0
    first = low.clamp(max=max(0, len(break_key) - 1))
    expected = (high - low == crossed.long()) & (~crossed | _equal_at(break_pair, first, pair[of]))
    ok = torch.ones(len(cell), dtype=torch.bool, device=cell.device)
    ok[of[~expected]] = False

    through = (sign == 0) & (sign[before] * sign[after] < 0)
    backwards = (vertex != divided.before.edges[side, 0]).long()
    on_side = (crossed & expected).nonzero()[:, 0]
    slot = torch.cat(
        [divided.point_slots[break_point[first[on_side]], backwards[on_side]], divided.corner_slots[index[through]]]
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


def _first_of_each(cell: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """One group for each cell listed."""
    cells, inverse = torch.unique(cell, return_inverse=True)
    chosen = torch.empty_like(cells)
    chosen[inverse.flip(0)] = group.flip(0)
    return cells, chosen


def _interpolation(mesh: Mesh, divided: Mesh, points: Points, chords: Chords, met: Meetings) -> Interpolation:
    ends = mesh.edges[points.edge]
    c, d = divided.corners[chords.p[met.i]], divided.corners[chords.q[met.i]]
    simple = Interpolation.of_points(mesh.n_vertices, ends[:, 0], ends[:, 1], points.t)
    return replace(simple, c=c, d=d, s=met.t_i)


def _cut_triple_cells(
    mesh: Mesh, old_cell: Tensor, interpolation: Interpolation, divided: Mesh, cells: Tensor, groups: Tensor,
    evaluate: OnPoints, coords: Tensor, layer: int,
) -> tuple[Mesh, Tensor, Interpolation]:  # fmt: skip
    """Divide the listed cells (of ``divided``) by the envelope of one group each, cell by cell."""
    place = interpolation.apply(coords)
    pieces: list[list[int]] = []
    parents: list[int] = []
    triple_points: list[list[int]] = []
    weights: list[list[float]] = []
    for cell, group in zip(cells.tolist(), groups.tolist(), strict=True):
        loop = divided.corners[int(divided.offsets[cell]) : int(divided.offsets[cell + 1])]
        values = evaluate.of_group(loop, torch.full_like(loop, group))
        near = float(evaluate.tolerance(loop[:1]))
        found = envelope_on_cell(place[loop].cpu().numpy(), values.cpu().numpy(), near)
        names = [
            *loop.tolist(),
            *range(
                mesh.n_vertices + len(triple_points), mesh.n_vertices + len(triple_points) + len(found.triple_points)
            ),
        ]
        old = loop[loop < interpolation.n_old]
        for point in found.triple_points:
            three, weight = fan_weights(coords[old].cpu().numpy(), point)
            triple_points.append(old[three].tolist())
            weights.append(weight)
        pieces += [[names[k] for k in piece] for piece in found.loops]
        parents += [cell] * len(found.loops)
    parent = torch.tensor(parents, dtype=torch.int64, device=old_cell.device)
    whole = torch.isin(old_cell, cells)
    result, order = replace_cells(mesh, whole.nonzero()[:, 0], pieces, parent, old_cell, len(triple_points), layer)
    new_interpolation = replace(
        interpolation,
        triple_points=torch.tensor(triple_points, dtype=torch.int64, device=coords.device).view(-1, 3),
        weights=torch.tensor(weights, dtype=torch.float64, device=coords.device).view(-1, 3),
    )
    return result, order, new_interpolation
