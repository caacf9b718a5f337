"""Exact regions along segments: breakpoints in order, carried through the network part by part, depth first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.errors import SliceError
from regionscope.exact.budget import ON_LINES, Budget, Record, bytes_of, corner_inputs
from regionscope.exact.carry import Parts, State, Walk
from regionscope.exact.magnitudes import LineProbes
from regionscope.exact.zero_tolerance import at_vertices, snapped_signs
from regionscope.geometry import Slice
from regionscope.geometry import arrays as xp
from regionscope.geometry.arrays import rows_at_a_time
from regionscope.geometry.crossing import Points, place_points
from regionscope.geometry.interpolation import OnEdges
from regionscope.geometry.maxima import Candidates, breaks_along, leaders
from regionscope.network import Fold, Largest, Maxima, Program, Thresholds
from regionscope.tolerance import SMALLEST_TOLERANCE


@dataclass(frozen=True)
class LineState(State["FinishedLine"]):
    """Vertices in order along their segments.

    coords: (v,) position, ascending on each segment; slice_id: (v,) the segment; layer: (v,) the fold that
    made the breakpoint, -1 for the ends. Neighbouring vertices of one segment bound a region. is_cut: whether the fold
    that comes next has cut it.
    run: for a network that jumps, (v,) ascending: then neighbouring vertices of one run bound a region. Regions of
        different runs do not share their values.
    """

    coords: Tensor
    slice_id: Tensor
    layer: Tensor
    values: dict[str, Tensor]
    is_cut: bool = False
    run: Tensor | None = None

    @property
    def intervals(self) -> Tensor:
        """Indices of the vertices at which a region starts (it ends at the next vertex)."""
        run = self.slice_id if self.run is None else self.run
        return xp.nonzero(run[1:] == run[:-1])

    def cut(self, walk: Walk[FinishedLine], layer: int, share: float) -> LineState | Parts[FinishedLine]:
        """With the new breakpoints, or runs of them; neighbouring runs share a vertex."""
        if self.is_cut:
            return self
        fold = walk.program.folds[layer]
        points, hidden = cut_line(fold.compared(self.values), self, walk.zero_tolerances[layer], walk.extent)
        walk.record.snap(xp.take(self.slice_id, hidden))
        rows = max(2, walk.budget.rows(fold, walk.held, walk.program.device, ON_LINES))
        if len(self.coords) + len(points) <= rows:
            return _Refined.by(self, points, layer).state(slice(None)) if len(points) else self
        refined = _Refined.by(self, points, layer)
        starts = range(0, len(refined.a) - 1, rows - 1)
        runs = ((refined.state(slice(start, start + rows)), 1 / len(starts)) for start in starts)
        return Parts(runs, bytes_of(self.values), _joined)

    def behind(self, values: dict[str, Tensor]) -> LineState:
        return LineState(self.coords, self.slice_id, self.layer, values, run=self.run)

    def advanced(self, walk: Walk[FinishedLine], fold: Fold) -> LineState:
        """Behind a fold that jumps, each region is a run: it has the piece of its middle, and values of its own."""
        if fold.chosen is None:
            return self.behind(fold.advance(self.values, consume=True))
        start = self.intervals
        ends = xp.stack(start, start + 1).reshape(-1)
        values = {name: value[xp.as_tensors(ends)] for name, value in self.values.items()}
        pieces = fold.pattern({name: (value[0::2] + value[1::2]) / 2 for name, value in values.items()})
        values = fold.advance(values, consume=True, pieces=pieces.repeat_interleave(2, 0))
        coords, slice_id, layer = (xp.take(column, ends) for column in (self.coords, self.slice_id, self.layer))
        return LineState(coords, slice_id, layer, values, run=xp.arange(len(ends), ends) // 2)

    def region_slices(self, single: bool) -> Tensor:
        """(r,); with a single segment every vertex but the first ends a region, if there are no runs."""
        return self.slice_id[1:] if single and self.run is None else xp.take(self.slice_id, self.intervals)

    def cell_corners(self) -> tuple[Tensor, Tensor]:
        start = xp.as_tensors(self.intervals)
        corners = torch.stack([start, start + 1], 1).flatten()
        return corners, 2 * torch.arange(len(start) + 1, device=start.device)

    def take(self, mask: Tensor) -> LineState:
        """Refused: neighbouring vertices always bound a region."""
        raise SliceError("Expected a slice of dimension 2 or more to leave out regions, got a segment. Keep them all.")

    def finish(self, outputs: Tensor) -> FinishedLine:
        return xp.as_tensors(self), outputs


FinishedLine = tuple[LineState, Tensor]
"""All vertices, and the outputs of the network there (v, c)."""


def _joined(parts: list[FinishedLine]) -> FinishedLine:
    """Put together: the last vertex of a part is the first of the next one, with values of its own where it jumps."""
    runs = parts[0][0].run is not None
    kept = [len(outputs) - (not runs) for _, outputs in parts[:-1]] + [len(parts[-1][1])]
    coords, slice_id, layer = (
        xp.cat([getattr(line, name)[:n] for (line, _), n in zip(parts, kept, strict=True)])
        for name in ("coords", "slice_id", "layer")
    )
    outputs = torch.cat([outputs[:n] for (_, outputs), n in zip(parts, kept, strict=True)])
    return LineState(coords, slice_id, layer, {}, run=_joined_runs(parts) if runs else None), outputs


def _joined_runs(parts: list[FinishedLine]) -> Tensor:
    """The runs of all parts, which share none."""
    runs: list[Tensor] = []
    for line, _ in parts:
        assert line.run is not None
        runs.append(line.run - line.run[0] + (int(runs[-1][-1]) + 1 if runs else 0))
    return torch.cat(runs)


def partition_lines(
    program: Program, slices: Sequence[Slice], zero_tolerances: Sequence[Tensor], budget: Budget, record: Record, *,
    consume: Callable[[FinishedLine], object] | None = None, probes: LineProbes | None = None,
) -> FinishedLine:  # fmt: skip
    """The exact partition of all segments, and the outputs of the network at the vertices (v, c).

    consume: called with each finished part, which is then forgotten; the result is the last part.
    probes: for a single segment, what is known about it; its values may be overwritten.
    """
    corners = [slice.corners.to(program.device, torch.float64) for slice in slices]
    coords = xp.numpy_on_cpu(torch.cat(corners)[:, 0])
    slice_id = xp.arange(len(coords), coords) // 2
    if probes is None:
        n_straight, values = 0, program.begin(corner_inputs(program, slices, corners))
    else:
        n_straight, values = probes.n_straight, probes.corner_values
    for i in range(n_straight):
        record.add(i, slice_id[1:], budget.max_regions)
    layer = xp.full(len(slice_id), -1, slice_id)
    run = slice_id if program.jumps else None
    walk = Walk.of(program, zero_tolerances, budget, record, corners, consume=consume)
    return walk.carry(LineState(coords, slice_id, layer, values, run=run), n_straight)


def cut_line(
    compared: Thresholds | Maxima, state: LineState, zero_tolerance: Tensor, extent: float
) -> tuple[Points, Tensor]:
    """New breakpoints, sorted; and an old vertex for each sign, place or order of folds that rounding hides.

    zero_tolerance: of this fold, from ``zero_tolerances_of``. extent: of the walk.
    """
    pair = None
    if isinstance(compared, Thresholds):
        zero_tolerance = xp.numpy_on_cpu(zero_tolerance)
        values = xp.numpy_on_cpu(compared.values)
        changes, snapped = sign_changes(values, compared.at, state.slice_id, zero_tolerance, state.run)
    elif isinstance(compared, Largest):
        edge, unit, ua, ub, within = map(xp.numpy_on_cpu, _changes_of_largest(compared, state, zero_tolerance))
        changes = edge, unit, ua, ub, within
        snapped = state.slice_id[:0]
    else:
        start, tolerance = xp.as_tensors(state.intervals), at_vertices(zero_tolerance, state.slice_id)
        candidates = Candidates(compared.values, compared.groups, tolerance)
        breaks = breaks_along(candidates, leaders(candidates), start, start + 1)
        pair, breaks = xp.numpy_on_cpu(candidates.columns_of(breaks)), xp.numpy_on_cpu(breaks)
        edge = xp.take(xp.numpy_on_cpu(start), breaks.row)
        changes = edge, breaks.group, breaks.ua, breaks.ub, xp.take(xp.numpy_on_cpu(tolerance), edge)
        snapped = xp.numpy_on_cpu(snapped_signs(compared, tolerance))

    def length(edges: Tensor) -> Tensor:
        return (xp.take(state.coords, edges + 1) - xp.take(state.coords, edges)) / extent

    points, crossings = place_points(*changes, length, pair)
    return points, xp.cat([snapped, crossings.hidden])


def _changes_of_largest(compared: Largest, state: LineState, zero_tolerance: Tensor) -> tuple[Tensor, ...]:
    """Where another candidate comes among the k largest, as arguments of ``place_points``.

    Walks along each interval from one change to the next: a kept candidate whose difference to another one falls to
    zero first. Cost: k times the number of candidates, for each change.
    """
    start = xp.as_tensors(state.intervals)
    tolerances = at_vertices(zero_tolerance, state.slice_id)
    found: list[tuple[int, int, float, float, float]] = []
    for edge in start.tolist():
        tolerance = float(tolerances[edge])
        for g, group in enumerate(compared.groups):
            a, b = compared.values[edge : edge + 2, group].double().unbind(0)
            slope, t = b - a, 0.0
            kept = _kept_after(a, slope, compared.k, tolerance)
            while True:
                inside, outside = kept.nonzero()[:, 0], (~kept).nonzero()[:, 0]
                gap, closing = a[inside, None] - a[outside], slope[outside] - slope[inside, None]
                ends = b[inside, None] - b[outside]
                when = torch.where((closing > 0) & (ends < -tolerance), gap / closing, math.inf).clamp(min=t)
                soonest = int(when.argmin())
                t = float(when.view(-1)[soonest])
                if not t < 1:
                    break
                i, j = inside[soonest // len(outside)], outside[soonest % len(outside)]
                kept[i], kept[j] = False, True
                ua, ub = float(a[i] - a[j]), float(b[i] - b[j])
                if ua > tolerance:
                    found.append((edge, g, ua, ub, tolerance))
    columns = torch.tensor(found, dtype=torch.float64, device=start.device).reshape(-1, 5).unbind(1)
    return columns[0].long(), columns[1].long(), *columns[2:]


def _kept_after(a: Tensor, slope: Tensor, k: int, tolerance: float) -> Tensor:
    """The k largest of the values just behind a: of those that are tied there, the ones that grow most."""
    level = a.topk(k).values[-1]
    order = torch.where((a - level).abs() <= tolerance, slope, (a - level).sign() * math.inf)
    kept = torch.zeros(len(a), dtype=torch.bool, device=a.device)
    kept[order.topk(k).indices] = True
    return kept


def sign_changes(
    values: Tensor, at: tuple[float, ...], slice_id: Tensor, zero_tolerance: Tensor, run: Tensor | None = None
) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Where ``values`` (v, n) pass a threshold between a vertex and the next one of its slice, as arguments of
    ``place_points``; and the vertex of each value that counts as zero. Some rows at a time.
    """
    n, several = values.shape[1], len(zero_tolerance) > 1
    most = xp.largest(zero_tolerance, 0) if several else zero_tolerance[0]
    crossings: list[tuple[Tensor, ...]] = []
    snapped = [slice_id[:0]]
    step = rows_at_a_time(8 * n, values.device)
    for start in range(0, len(values), step):
        block, of = (x[start : start + step + 1] for x in (values, slice_id))  # with the first row of the next block
        for threshold in at:
            below, above = block < threshold - most, block > threshold + most
            told = below | above
            if bool(told.all()):
                change = above[1:] != above[:-1]
            else:
                tolerance = most
                if several:
                    tolerance = xp.take(zero_tolerance, of)
                    below, above = block < threshold - tolerance, block > threshold + tolerance
                    told = below | above
                change = (below[1:] & above[:-1]) | (above[1:] & below[:-1])
                hidden = xp.nonzero((~told & (tolerance > SMALLEST_TOLERANCE))[:step].reshape(-1))
                snapped.append(hidden // n + start)
            if several:
                change &= (of[1:] == of[:-1])[:, None]
            if run is not None:
                mine = run[start : start + step + 1]
                change &= (mine[1:] == mine[:-1])[:, None]
            key = xp.nonzero(change.reshape(-1))
            row = key // n
            unit = key - row * n
            within = zero_tolerance[xp.take(of, row), unit] if several else xp.take(most, unit)
            crossings.append(
                (row + start, unit, block[row, unit] - threshold, block[row + 1, unit] - threshold, within)
            )
    edge, unit, ua, ub, within = crossings[0] if len(crossings) == 1 else map(xp.cat, zip(*crossings, strict=True))
    if len(at) > 1:
        order = xp.argsort(edge)
        edge, unit, ua, ub, within = (xp.take(x, order) for x in (edge, unit, ua, ub, within))
    return (edge, unit, xp.double(ua), xp.double(ub), within), xp.cat(snapped)


@dataclass(frozen=True)
class _Refined:
    """Old and new vertices in order: i is ``(1 - t[i]) * a[i] + t[i] * (a[i] + 1)`` of the old ones, made by
    ``layer[i]``.
    """

    before: LineState
    a: Tensor
    t: Tensor
    layer: Tensor

    @staticmethod
    def by(state: LineState, points: Points, layer: int) -> _Refined:
        n, p = len(state.coords), len(points)
        a = xp.repeat(xp.arange(n, points.edge), xp.bincount(points.edge, n) + 1, n + p)
        new = points.edge + 1 + xp.arange(p, points.edge)
        t, made = xp.double(xp.full(n + p, 0, a)), xp.take(state.layer, a)
        xp.put(t, new, points.t)
        xp.put(made, new, xp.full(p, layer, a))
        return _Refined(state, a, t, made)

    def state(self, rows: slice) -> LineState:
        """These vertices, and the values there."""
        before, a, t = self.before, self.a[rows], self.t[rows]
        n = len(before.coords)
        on_edges = OnEdges(a, xp.minimum(a + 1, xp.full(1, n - 1, a)), t, n)
        values = {name: on_edges.apply(old) for name, old in before.values.items()}
        coords = xp.take(before.coords, a) * (1 - t) + xp.take(before.coords, on_edges.b) * t
        run = None if before.run is None else xp.take(before.run, a)
        return LineState(coords, xp.take(before.slice_id, a), self.layer[rows], values, is_cut=True, run=run)
