"""Exact regions along segments: breakpoints in order, carried through the network part by part, depth first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.exact.budget import Budget, Record, bytes_of, corner_inputs
from regionscope.exact.zero_tolerance import at_vertices, snapped_signs
from regionscope.geometry import Slice
from regionscope.geometry.arrays import (
    arange,
    as_tensors,
    bincount,
    cat,
    double,
    full,
    minimum,
    nonzero,
    numpy_on_cpu,
    put,
    repeat,
    take,
)
from regionscope.geometry.crossing import Points, SignTable, place_points
from regionscope.geometry.interpolation import OnEdges
from regionscope.geometry.maxima import Candidates, breaks_along, leaders
from regionscope.geometry.planar.split import Units
from regionscope.network import Maxima, Program, Thresholds


@dataclass(frozen=True)
class LineState:
    """Vertices in order along their segments.

    coords: (v,) position, ascending on each segment; slice_id: (v,) the segment; layer: (v,) the nonlinearity that
    made the breakpoint, -1 for the ends. Neighbouring vertices of one segment bound a region.
    """

    coords: Tensor
    slice_id: Tensor
    layer: Tensor
    values: dict[str, Tensor]

    @property
    def intervals(self) -> Tensor:
        """Indices of the vertices at which a region starts (it ends at the next vertex)."""
        return nonzero(self.slice_id[1:] == self.slice_id[:-1])


def partition_lines(
    program: Program, slices: Sequence[Slice], zero_tolerances: Sequence[Tensor], budget: Budget, record: Record,
    consume: Callable[[LineState, Tensor], None] | None = None,
) -> tuple[LineState, Tensor]:  # fmt: skip
    """The exact partition of all segments, and the outputs of the network at the vertices (v, c).

    consume: called with each finished part, which is then forgotten; the result is the last part.
    """
    coords = torch.cat([slice.corners.to(program.device, torch.float64) for slice in slices])
    slice_id = numpy_on_cpu(torch.arange(len(slices), device=program.device).repeat_interleave(2))
    values = program.begin(corner_inputs(program, slices))
    layer = full(len(slice_id), -1, slice_id)
    lengths = (coords[1::2, 0] - coords[0::2, 0]).sum()
    cutter = _LineCutter(program, zero_tolerances, budget, record, float(lengths), consume)
    state, outputs = cutter.finish(0, LineState(numpy_on_cpu(coords[:, 0]), slice_id, layer, values))
    return as_tensors(state), outputs


def cut_line(cuts: Thresholds | Maxima, state: LineState, zero_tolerance: Tensor) -> tuple[Points, Tensor]:
    """New breakpoints, sorted; and an old vertex for each sign, or pair of folds, that could not be told."""
    start = state.intervals
    if isinstance(cuts, Thresholds):
        units = Units(numpy_on_cpu(cuts.values), cuts.at, numpy_on_cpu(zero_tolerance))
        table = SignTable.of(units.values, units.at, units.tolerance)
        row, unit = table.sign_changes(start, start + 1)
        edge = take(start, row)
        ua, ub, tolerance = units(edge, unit), units(edge + 1, unit), units.tolerance_at(edge, unit)
        snapped = table.snapped(units.tolerance)
    else:
        candidates = Candidates(cuts.values, cuts.groups, zero_tolerance)
        a = as_tensors(start)
        breaks = numpy_on_cpu(breaks_along(candidates, leaders(candidates), a, a + 1))
        ua, ub, unit, edge = breaks.ua, breaks.ub, breaks.group, take(start, breaks.row)
        tolerance = take(numpy_on_cpu(zero_tolerance), edge)
        snapped = numpy_on_cpu(snapped_signs(cuts, zero_tolerance))
    points, crossings = place_points(edge, unit, ua, ub, tolerance)
    return points, cat([snapped, crossings.merged])


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
        a = repeat(arange(n, points.edge), bincount(points.edge, n) + 1, n + p)
        new = points.edge + 1 + arange(p, points.edge)
        t, made = double(full(n + p, 0, a)), take(state.layer, a)
        put(t, new, points.t)
        put(made, new, full(p, layer, a))
        return _Refined(state, a, t, made)

    def state(self, rows: slice) -> LineState:
        """These vertices, and the values there."""
        before, a, t = self.before, self.a[rows], self.t[rows]
        n = len(before.coords)
        on_edges = OnEdges(a, minimum(a + 1, full(1, n - 1, a)), t, n)
        values = {name: on_edges.apply(old) for name, old in before.values.items()}
        coords = take(before.coords, a) * (1 - t) + take(before.coords, on_edges.b) * t
        return LineState(coords, take(before.slice_id, a), self.layer[rows], values)


@dataclass
class _LineCutter:
    program: Program
    zero_tolerances: Sequence[Tensor]
    budget: Budget
    record: Record
    total_length: float
    consume: Callable[[LineState, Tensor], None] | None = None
    held: int = 0  # bytes of values that wait for their turn

    def finish(self, layer: int, state: LineState) -> tuple[LineState, Tensor]:
        """Carry breakpoints through nonlinearity ``layer`` and all later ones."""
        kinks = self.program.kinks
        while layer < len(kinks):
            cuts = kinks[layer].cuts(state.values)
            zero_tolerance = at_vertices(self.zero_tolerances[layer], state.slice_id)
            points, snapped = cut_line(cuts, state, zero_tolerance)
            self.record.snap(take(state.slice_id, snapped))
            rows = max(2, self.budget.rows(kinks[layer], self.held, self.program.device))
            if len(state.coords) + len(points) > rows:
                return self._in_parts(layer, _Refined.by(state, points, layer), rows)
            state = _Refined.by(state, points, layer).state(slice(None)) if len(points) else state
            state = self._advance(layer, state)
            layer += 1
        start = state.intervals
        self.record.finish(float((take(state.coords, start + 1) - take(state.coords, start)).sum()) / self.total_length)
        outputs = self.program.outputs(state.values)
        if self.consume is not None:
            self.consume(as_tensors(state), outputs)
        return state, outputs

    def _in_parts(self, layer: int, refined: _Refined, rows: int) -> tuple[LineState, Tensor]:
        """Work through runs of vertices one after another; neighbouring runs share a vertex."""
        parts: list[tuple[LineState, Tensor]] = []
        waiting = bytes_of(refined.before.values)
        self.held += waiting
        for start in range(0, len(refined.a) - 1, rows - 1):
            done = self.finish(layer + 1, self._advance(layer, refined.state(slice(start, start + rows))))
            parts = [*parts, done] if self.consume is None else [done]
        self.held -= waiting
        if self.consume is not None:
            return parts[0]
        kept = [len(outputs) - 1 for _, outputs in parts[:-1]] + [
            len(parts[-1][1])
        ]  # the last vertex is the next one's
        joined = LineState(
            cat([part.coords[:n] for (part, _), n in zip(parts, kept, strict=True)]),
            cat([part.slice_id[:n] for (part, _), n in zip(parts, kept, strict=True)]),
            cat([part.layer[:n] for (part, _), n in zip(parts, kept, strict=True)]),
            {},
        )
        return joined, torch.cat([outputs[:n] for (_, outputs), n in zip(parts, kept, strict=True)])

    def _advance(self, layer: int, state: LineState) -> LineState:
        self.record.add(layer, take(state.slice_id, state.intervals), self.budget.max_regions)
        values = self.program.kinks[layer].advance(state.values, consume=True)
        return LineState(state.coords, state.slice_id, state.layer, values)
