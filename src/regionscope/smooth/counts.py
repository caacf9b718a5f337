"""How many decision regions a slice has, from proven cells and from signs of derivatives in the others.

Lower bound: cells in which a label is possible, joined across the walls that they share, hold all regions of the label.
A component with a proven cell holds at least one region, and different components hold different ones.

Upper bound: take an open cell, a label i that is possible in it, and a direction along which the output i grows faster
than every other possible output. From a point of label i in the cell, follow the direction: the label stays i until the
way leaves the cell. If it can only leave it into a proven cell of label i, the point belongs to the region of that
cell. It may also leave it into an open cell for which the same is known. If that holds for every open cell and label,
each region has a proven cell. Proven cells of one label that share a vertex lie in one region, because the label holds
on both closed cells. So there are at most as many regions as components of these.

On a segment a way leaves a cell at one of its ends, and both bounds together say that the label changes once in each
gap between two proven cells of different labels. This replaces the test of Plantinga and Vegter 2004 (Burr and Byrd
2023 where three labels meet), which needs cells that are squares; here the derivatives have to have one sign along some
direction, not to vary by less than a right angle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from regionscope.geometry.ragged import gather_rows, next_in_row, owners
from regionscope.smooth.cells import Cells, Intervals, Polygons
from regionscope.smooth.verdicts import Judge
from regionscope.types import BoolArray, FloatArray, IntArray

_TILT = 1e-3  # ways along a side of a cell are tilted inwards by so much


@dataclass(frozen=True, eq=False)
class Count:
    """low <= number of regions <= high; high is None where it is not known.

    possible: (n, c) labels that may occur, without those that the derivatives rule out. unsettled: cells whose parts
    may settle the number.
    """

    low: int
    high: int | None
    possible: BoolArray
    unsettled: IntArray


@dataclass(eq=False)
class Derivatives:
    """Bounds of derivatives in cells with two possible labels i < j, of output i minus output j along the axes of a
    frame: frame (n, k, k), low and high (n, k), NaN where they are not computed yet.
    """

    frame: FloatArray
    low: FloatArray
    high: FloatArray

    @staticmethod
    def unknown(n: int, k: int) -> Derivatives:
        """Nothing computed yet for n cells."""
        return Derivatives(np.full((n, k, k), np.nan), np.full((n, k), np.nan), np.full((n, k), np.nan))

    def follow(self, old: IntArray) -> None:
        """Cells have been cut: cell i is a part of cell old[i]."""
        self.frame, self.low, self.high = self.frame[old], self.low[old], self.high[old]

    def forget(self, chosen: IntArray) -> None:
        """Compute those of these cells anew."""
        self.low[chosen] = np.nan

    def complete(self, judge: Judge, cells: Cells, possible: BoolArray) -> None:
        """Compute what is unknown. Cost: a pass of values and derivatives over these cells."""
        missing = np.flatnonzero((possible.sum(1) == 2) & np.isnan(self.low[:, 0]))
        for start in range(0, len(missing), judge.rows):
            some = missing[start : start + judge.rows]
            center, frame = cells.frames(some)
            first, last = _pair(possible[some])
            low, high = judge.slopes(center, frame, first, last)
            rows = np.arange(len(some))
            self.frame[some] = frame
            self.low[some] = np.nan_to_num(low[rows, :, last], nan=-np.inf)
            self.high[some] = np.nan_to_num(high[rows, :, last], nan=np.inf)


def count_regions(judge: Judge, cells: Cells, possible: BoolArray, derivatives: Derivatives) -> Count:
    """Bounds of the number of decision regions. Cost: a pass of the derivatives over the open cells without them."""
    derivatives.complete(judge, cells, possible)
    unsettled = np.flatnonzero(possible.sum(1) > 1)
    if isinstance(cells, Intervals | Polygons):
        possible, unsettled = _settled(judge, cells, possible, derivatives)
    proven = possible.sum(1) == 1
    pairs = cells.neighbours()
    sets = {int(i): _components(pairs, possible[:, i]) for i in np.flatnonzero(possible.any(0))}
    low = max(1, sum(len(np.unique(parts[proven & possible[:, label]])) for label, parts in sets.items()))
    if not isinstance(cells, Intervals | Polygons) or len(unsettled):
        return Count(low, None, possible, unsettled)
    certain = _components(_proven_pairs(cells, possible, proven), proven)
    high = int(certain.max(initial=-1)) + 1
    gaps = _gaps(cells, possible, certain, sets) if low < high else unsettled
    return Count(low, high, possible, gaps)


def _pair(possible: BoolArray) -> tuple[IntArray, IntArray]:
    """The first and the last possible label of each cell."""
    return possible.argmax(1), possible.shape[1] - 1 - possible[:, ::-1].argmax(1)


def _components(pairs: IntArray, members: BoolArray) -> IntArray:
    """Which component each member (n,) belongs to, if the pairs of members are joined; -1 for the others."""
    joined = (np.cumsum(members) - 1)[pairs[members[pairs].all(1)]]
    n = int(members.sum())
    graph = coo_array((np.ones(len(joined)), (joined[:, 0], joined[:, 1])), shape=(n, n))
    parts = np.full(len(members), -1)
    parts[members] = connected_components(graph, directed=False)[1] if n else 0
    return parts


def _gaps(cells: Intervals | Polygons, possible: BoolArray, certain: IntArray, sets: dict[int, IntArray]) -> IntArray:
    """Open cells that may join proven components of one label: those between two, else those around the smaller ones.

    certain: component of each proven cell. sets: for each label the component of each cell in which it is possible.
    """
    proven, gaps = certain >= 0, []
    for label, parts in sets.items():
        mine = np.where(possible[:, label] & proven, certain, -1)
        joins = np.unique(np.stack([parts, mine], 1)[mine >= 0], axis=0)
        several = np.flatnonzero(np.bincount(joins[:, 0]) > 1)
        among = np.flatnonzero(possible[:, label] & ~proven & np.isin(parts, several))
        if not len(among):
            continue
        of_vertex = np.full(cells.n_vertices, -1)
        members = np.flatnonzero(mine >= 0)
        of_vertex[cells.vertices(members)] = mine[members, None]
        touched = of_vertex[cells.vertices(among)]
        smallest = np.where(touched < 0, len(mine), touched).min(1)
        between = (touched.max(1) >= 0) & (smallest < touched.max(1))
        sizes = np.bincount(mine[members], minlength=int(mine.max()) + 1)
        largest = np.full(int(parts.max()) + 1, -1)
        order = np.argsort(sizes[joins[:, 1]], kind="stable")
        largest[joins[order, 0]] = joins[order, 1]
        around = (touched.max(1) >= 0) & (touched.max(1) != largest[parts[among]])
        lonely = ~np.isin(parts[among], parts[among[between]])
        gaps.append(among[between | (around & lonely)])
    return np.unique(np.concatenate(gaps)) if gaps else np.zeros(0, np.int64)


def _proven_pairs(cells: Intervals | Polygons, possible: BoolArray, proven: BoolArray) -> IntArray:
    """Pairs of proven cells of one label that share a vertex."""
    label = possible.argmax(1)
    if isinstance(cells, Intervals):
        pairs = cells.neighbours()
    else:
        cell = np.asarray(owners(cells.offsets))  # type: ignore[arg-type]
        kept = proven[cell]
        vertex, cell = cells.loops[kept], cell[kept]
        order = np.lexsort((cell, label[cell], vertex))
        vertex, cell = vertex[order], cell[order]
        same = (vertex[1:] == vertex[:-1]) & (label[cell[1:]] == label[cell[:-1]])
        pairs = np.stack([cell[:-1][same], cell[1:][same]], 1)
    kept = proven[pairs].all(1) & (label[pairs[:, 0]] == label[pairs[:, 1]])
    joined: IntArray = pairs[kept]
    return joined


def _settled(
    judge: Judge, cells: Intervals | Polygons, possible: BoolArray, derivatives: Derivatives
) -> tuple[BoolArray, IntArray]:
    """Possible labels, without those that cannot occur, and the cells with points that may lie in other regions than
    those of proven cells.
    """
    open_cells = np.flatnonzero(possible.sum(1) > 1)
    ways = [
        _ways_of_pairs(cells, possible, derivatives, open_cells),
        *_ways_of_many(judge, cells, possible, open_cells),
    ]
    cell, label = (np.concatenate([way[i] for way in ways]) for i in range(2))
    widest = max(way[2].shape[1] for way in ways)
    exits = np.concatenate(
        [np.pad(way[2], ((0, 0), (0, widest - way[2].shape[1])), constant_values=-2) for way in ways]
    )
    possible, known = _followed(possible, cell, label, exits)
    return possible, open_cells[~known[open_cells].all(1)]


def _followed(possible: BoolArray, cell: IntArray, label: IntArray, exits: IntArray) -> tuple[BoolArray, BoolArray]:
    """Possible labels (n, c), without those whose ways lead nowhere, and where all points of a label are known to
    belong to a region with a proven cell.

    Cost: each way is looked at again only when one of its exits has become known.
    """
    n_labels = possible.shape[1]
    possible = possible.copy()
    known = ~possible | (possible.sum(1) == 1)[:, None]
    flat_possible, flat_known = possible.reshape(-1), known.reshape(-1)
    usable = ~(exits == -1).any(1)
    start, label, exits = (cell * n_labels + label)[usable], label[usable], exits[usable]
    way, side = np.nonzero(exits >= 0)
    stop = exits[way, side] * n_labels + label[way]
    n_unknown, n_possible = (
        np.bincount(way[mask[stop]], minlength=len(start)) for mask in (~flat_known, flat_possible)
    )
    order = np.argsort(stop, kind="stable")
    way, offsets = way[order], np.searchsorted(stop[order], np.arange(len(flat_known) + 1))
    active = np.arange(len(start))
    while len(active):
        dropped = np.unique(start[active[n_possible[active] == 0]])
        dropped = dropped[flat_possible[dropped]]
        flat_possible[dropped] = False
        cells = dropped // n_labels
        single = cells[possible[cells].sum(1) == 1]
        new = np.concatenate([
            dropped, start[active[n_unknown[active] == 0]], (single[:, None] * n_labels + np.arange(n_labels)).ravel()
        ])  # fmt: skip
        new = np.unique(new[~flat_known[new]])
        flat_known[new] = True
        emptied, led = (way[np.asarray(gather_rows(offsets, keys)[0])] for keys in (dropped, new))  # type: ignore[arg-type]
        np.subtract.at(n_possible, emptied, 1)
        np.subtract.at(n_unknown, led, 1)
        active = np.unique(np.concatenate([emptied, led]))
    return possible, known


Ways = tuple[IntArray, IntArray, IntArray]
"""Ways out of cells along which a label wins over all others: cells and labels (x,), and exits (x, v): the cells behind
the sides that a way may cross, -1 for the border of the slice; -2 for other sides."""


def _ways_of_pairs(
    cells: Intervals | Polygons, possible: BoolArray, derivatives: Derivatives, open_cells: IntArray
) -> Ways:
    """Ways out of cells with two possible labels."""
    cell = open_cells[possible[open_cells].sum(1) == 2]
    first, last = _pair(possible[cell])
    frame, low, high = derivatives.frame[cell], derivatives.low[cell], derivatives.high[cell]
    with np.errstate(invalid="ignore"):
        steps, exits = _directions(cells, cell, frame, (low + high) / 2)
        bounds = steps * low[:, None], steps * high[:, None]
        least, most = np.minimum(*bounds).sum(2), np.maximum(*bounds).sum(2)
    up, down = np.nonzero(least > 0), np.nonzero(most < 0)
    rows = np.concatenate([up[0], down[0]])
    labels = np.concatenate([first[up[0]], last[down[0]]])
    return cell[rows], labels, np.concatenate([exits[up], exits[down]])


def _ways_of_many(
    judge: Judge, cells: Intervals | Polygons, possible: BoolArray, open_cells: IntArray
) -> Iterator[Ways]:
    """Ways out of cells with more than two possible labels, of which a map has few."""
    several = open_cells[possible[open_cells].sum(1) > 2]
    row, label = np.nonzero(possible[several])
    for start in range(0, len(row), judge.rows):
        cell, label_of_row = several[row[start : start + judge.rows]], label[start : start + judge.rows]
        center, frame = cells.frames(cell)
        low, high = judge.slopes(center, frame, label_of_row)
        rivals = possible[cell].copy()
        rivals[np.arange(len(cell)), label_of_row] = False
        with np.errstate(invalid="ignore"):
            middle = np.where(rivals[:, None], np.nan_to_num((low + high) / 2), 0.0)
            middle /= np.maximum(np.linalg.norm(middle, axis=1, keepdims=True), 1e-300)
            steps, exits = _directions(cells, cell, frame, middle.sum(2))
            bounds = steps[..., None] * low[:, None], steps[..., None] * high[:, None]
            wins = ((np.minimum(*bounds).sum(2) > 0) | ~rivals[:, None]).all(2)
        chosen = np.nonzero(wins)
        yield cell[chosen[0]], label_of_row[chosen[0]], exits[chosen]


def _directions(
    cells: Intervals | Polygons, cell: IntArray, frame: FloatArray, slopes: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Directions (b, d, k) to try, along the axes of the frame, and the exits (b, d, v) of each; see ``Ways``."""
    if isinstance(cells, Intervals):
        sides = np.stack([cell - 1, cell + 1], 1)
        sides[sides == len(cells)] = -1
        steps = np.broadcast_to(np.array([[-1.0], [1.0]]), (len(cell), 2, 1))
        return steps, np.where(np.eye(2, dtype=bool), sides[:, None], -2)
    directions, sides, leaves = _polygon_ways(cells, cell, frame, slopes)
    return directions @ np.linalg.inv(frame), np.where(leaves, sides[:, None], -2)


def _polygon_ways(
    cells: Polygons, cell: IntArray, frame: FloatArray, slopes: FloatArray
) -> tuple[FloatArray, IntArray, BoolArray]:
    """Directions (b, d, 2) to try, the cells (b, v) behind the sides, and whether a direction leaves by a side."""
    index, starts = (np.asarray(x) for x in gather_rows(cells.offsets, cell))  # type: ignore[arg-type]
    following = np.asarray(next_in_row(starts))  # type: ignore[arg-type]
    counts = np.diff(starts)
    loops, edge_sides = cells.loops[index], np.asarray(cells.mesh.sides)[index]
    point = cells.coords[loops]
    along = point[following] - point
    both = np.asarray(cells.mesh.edge_cells())[edge_sides]
    row = np.repeat(np.arange(len(cell)), counts)
    behind = np.where(both[:, 0] == cell[row], both[:, 1], both[:, 0])
    place = np.minimum(np.arange(counts.max(initial=1)), counts[:, None] - 1)
    slot = starts[:-1, None] + place
    along, sides = along[slot], behind[slot]
    length = np.linalg.norm(along, axis=2, keepdims=True)
    outwards = np.stack([along[..., 1], -along[..., 0]], 2) / np.maximum(length, 1e-300)
    unit = along / np.maximum(length, 1e-300)
    tilted = np.concatenate([unit - _TILT * outwards, -unit - _TILT * outwards], 1)
    steepest = np.einsum("bij,bj->bi", np.linalg.inv(frame), np.nan_to_num(slopes))[:, None]
    steepest /= np.maximum(np.linalg.norm(steepest, axis=2, keepdims=True), 1e-300)
    axes = frame / np.linalg.norm(frame, axis=2, keepdims=True)
    directions = np.concatenate([steepest, -steepest, axes, -axes, tilted], 1)
    leaves = np.einsum("bdi,bvi->bdv", directions, outwards) > -_TILT * 1e-3
    leaves &= (length[..., 0] > 0)[:, None]
    return directions, sides, leaves
