"""Exact regions along segments: breakpoints in order, carried through the network part by part, depth first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.exact.budget import ON_LINES, Budget, Record, bytes_of, corner_inputs, shares_of_folds
from regionscope.exact.magnitudes import LineProbes
from regionscope.exact.zero_tolerance import at_vertices, snapped_signs
from regionscope.geometry import Slice
from regionscope.geometry import arrays as xp
from regionscope.geometry.arrays import rows_at_a_time
from regionscope.geometry.crossing import Points, place_points
from regionscope.geometry.interpolation import OnEdges
from regionscope.geometry.maxima import Candidates, breaks_along, leaders
from regionscope.network import Maxima, Program, Thresholds
from regionscope.tolerance import SMALLEST_TOLERANCE


@dataclass(frozen=True)
class LineState:
    """Vertices in order along their segments.

    coords: (v,) position, ascending on each segment; slice_id: (v,) the segment; layer: (v,) the fold that
    made the breakpoint, -1 for the ends. Neighbouring vertices of one segment bound a region.
    """

    coords: Tensor
    slice_id: Tensor
    layer: Tensor
    values: dict[str, Tensor]

    @property
    def intervals(self) -> Tensor:
        """Indices of the vertices at which a region starts (it ends at the next vertex)."""
        return xp.nonzero(self.slice_id[1:] == self.slice_id[:-1])


def partition_lines(
    program: Program, slices: Sequence[Slice], zero_tolerances: Sequence[Tensor], budget: Budget, record: Record, *,
    consume: Callable[[LineState, Tensor], None] | None = None, probes: LineProbes | None = None,
) -> tuple[LineState, Tensor]:  # fmt: skip
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
    cutter = _LineCutter(program, zero_tolerances, budget, record, shares_of_folds(program, 1), consume)
    state, outputs = cutter.carry(n_straight, LineState(coords, slice_id, layer, values), share=1.0)
    return xp.as_tensors(state), outputs


def cut_line(compared: Thresholds | Maxima, state: LineState, zero_tolerance: Tensor) -> tuple[Points, Tensor]:
    """New breakpoints, sorted; and an old vertex for each sign, or pair of folds, that rounding hides.

    zero_tolerance: of this fold, from ``zero_tolerances_of``.
    """
    if isinstance(compared, Thresholds):
        zero_tolerance = xp.numpy_on_cpu(zero_tolerance)
        changes, snapped = sign_changes(xp.numpy_on_cpu(compared.values), compared.at, state.slice_id, zero_tolerance)
    else:
        start, tolerance = xp.as_tensors(state.intervals), at_vertices(zero_tolerance, state.slice_id)
        candidates = Candidates(compared.values, compared.groups, tolerance)
        breaks = xp.numpy_on_cpu(breaks_along(candidates, leaders(candidates), start, start + 1))
        edge = xp.take(xp.numpy_on_cpu(start), breaks.row)
        changes = edge, breaks.group, breaks.ua, breaks.ub, xp.take(xp.numpy_on_cpu(tolerance), edge)
        snapped = xp.numpy_on_cpu(snapped_signs(compared, tolerance))
    points, crossings = place_points(*changes)
    return points, xp.cat([snapped, crossings.merged])


def sign_changes(
    values: Tensor, at: tuple[float, ...], slice_id: Tensor, zero_tolerance: Tensor
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
        return LineState(coords, xp.take(before.slice_id, a), self.layer[rows], values)


@dataclass
class _LineCutter:
    program: Program
    zero_tolerances: Sequence[Tensor]
    budget: Budget
    record: Record
    shares: Sequence[float]  # see ``shares_of_folds``
    consume: Callable[[LineState, Tensor], None] | None = None
    held: int = 0  # bytes of values that wait for their turn

    def carry(self, layer: int, state: LineState, *, share: float) -> tuple[LineState, Tensor]:
        """Carry breakpoints through fold ``layer`` and all later ones. share: of all the work."""
        folds = self.program.folds
        while layer < len(folds):
            compared = folds[layer].compared(state.values)
            points, snapped = cut_line(compared, state, self.zero_tolerances[layer])
            self.record.snap(xp.take(state.slice_id, snapped))
            rows = max(2, self.budget.rows(folds[layer], self.held, self.program.device, ON_LINES))
            if len(state.coords) + len(points) > rows:
                return self._in_parts(layer, _Refined.by(state, points, layer), rows, share)
            state = _Refined.by(state, points, layer).state(slice(None)) if len(points) else state
            state = self._advance(layer, state)
            layer_share = share * self.shares[layer]
            self.record.report_progress(layer_share)
            share -= layer_share
            layer += 1
        self.record.report_progress(share)
        outputs = self.program.outputs(state.values)
        if self.consume is not None:
            self.consume(xp.as_tensors(state), outputs)
        return state, outputs

    def _in_parts(self, layer: int, refined: _Refined, rows: int, share: float) -> tuple[LineState, Tensor]:
        """Work through runs of vertices one after another; neighbouring runs share a vertex."""
        parts: list[tuple[LineState, Tensor]] = []
        waiting = bytes_of(refined.before.values)
        self.held += waiting
        starts = range(0, len(refined.a) - 1, rows - 1)
        for start in starts:
            part = self._advance(layer, refined.state(slice(start, start + rows)))
            finished = self.carry(layer + 1, part, share=share / len(starts))
            parts = [*parts, finished] if self.consume is None else [finished]
        self.held -= waiting
        if self.consume is not None:
            return parts[0]
        # the last vertex of a part is the first of the next one
        kept = [len(outputs) - 1 for _, outputs in parts[:-1]] + [len(parts[-1][1])]
        joined = LineState(
            xp.cat([part.coords[:n] for (part, _), n in zip(parts, kept, strict=True)]),
            xp.cat([part.slice_id[:n] for (part, _), n in zip(parts, kept, strict=True)]),
            xp.cat([part.layer[:n] for (part, _), n in zip(parts, kept, strict=True)]),
            {},
        )
        return joined, torch.cat([outputs[:n] for (_, outputs), n in zip(parts, kept, strict=True)])

    def _advance(self, layer: int, state: LineState) -> LineState:
        single = self.record.counts.shape[1] == 1  # every vertex but the first ends a region
        regions = state.slice_id[1:] if single else xp.take(state.slice_id, state.intervals)
        self.record.add(layer, regions, self.budget.max_regions)
        values = self.program.folds[layer].advance(state.values, consume=True)
        return LineState(state.coords, state.slice_id, state.layer, values)
