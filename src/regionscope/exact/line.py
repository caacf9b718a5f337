"""Exact regions along segments: breakpoints in order, carried through the network part by part, depth first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.exact.budget import Budget, Record, bytes_of, inputs_of
from regionscope.exact.zero_tolerance import at_vertices, snapped_signs
from regionscope.geometry import Slice
from regionscope.geometry.crossing import Points, SignTable, place_points
from regionscope.geometry.interpolation import Interpolation
from regionscope.geometry.maxima import Candidates, breaks_along, leaders
from regionscope.geometry.planar.split import Units
from regionscope.network import Maxima, Program, Thresholds

__all__ = ["LineState", "cut_line", "partition_lines"]


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
        return (self.slice_id[1:] == self.slice_id[:-1]).nonzero()[:, 0]


def partition_lines(
    program: Program, slices: Sequence[Slice], zero_tolerances: Sequence[Tensor], budget: Budget, record: Record,
    consume: Callable[[LineState, Tensor], None] | None = None,
) -> tuple[LineState, Tensor]:  # fmt: skip
    """The exact partition of all segments, and the outputs of the network at the vertices (v, c).

    consume: called with each finished part, which is then forgotten; the result is the last part.
    """
    coords = torch.cat([piece.corners.to(program.device, torch.float64) for piece in slices])
    slice_id = torch.arange(len(slices), device=program.device).repeat_interleave(2)
    values = program.begin(inputs_of(program, slices, coords, slice_id))
    layer = torch.full_like(slice_id, -1)
    lengths = (coords[1::2, 0] - coords[0::2, 0]).sum()
    cutter = _LineCutter(program, zero_tolerances, budget, record, float(lengths), consume)
    return cutter.finish(0, LineState(coords[:, 0], slice_id, layer, values))


def cut_line(cuts: Thresholds | Maxima, state: LineState, zero_tolerance: Tensor) -> tuple[Points, Tensor]:
    """New breakpoints, sorted; and an old vertex for each pair of folds that could not be told apart."""
    start = state.intervals
    if isinstance(cuts, Thresholds):
        table = SignTable.of(cuts.values, cuts.at, zero_tolerance)
        row, unit = table.sign_changes(start, start + 1)
        units = Units(cuts.values, cuts.at, zero_tolerance)
        ua, ub = units(start[row], unit), units(start[row] + 1, unit)
        tolerance = units.tolerance_at(start[row], unit)
    else:
        candidates = Candidates(cuts.values, cuts.groups, zero_tolerance)
        breaks = breaks_along(candidates, leaders(candidates), start, start + 1)
        row, ua, ub = breaks.row, breaks.ua, breaks.ub
        unit, tolerance = breaks.group, zero_tolerance[start[row]]
    edge = start[row]
    points, crossings = place_points(edge, unit, ua, ub, tolerance)
    return points, crossings.merged


def in_order(n_old: int, points: Points) -> Tensor:
    """Vertices (old ones, then points) in their order along the line; points lie after the vertex ``points.edge``."""
    order = torch.empty(n_old + len(points), dtype=torch.int64, device=points.edge.device)
    count = torch.bincount(points.edge, minlength=n_old)
    old = torch.arange(n_old, device=order.device)
    new = torch.arange(len(points), device=order.device)
    order[old + count.cumsum(0) - count] = old
    order[points.edge + 1 + new] = n_old + new
    return order


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
            points, merged = cut_line(cuts, state, zero_tolerance)
            self.record.snap(state.slice_id[torch.cat([snapped_signs(cuts, zero_tolerance), merged])])
            order = in_order(len(state.coords), points)
            interpolation = Interpolation.of_points(len(state.coords), points.edge, points.edge + 1, points.t)
            rows = self.budget.rows(kinks[layer], self.held, state.coords.device)
            if len(order) > max(rows, 2):
                return self._in_parts(layer, state, interpolation, order, max(rows, 2))
            state = self._advance(layer, _follow(state, interpolation, order, layer))
            layer += 1
        start = state.intervals
        self.record.finish(float((state.coords[start + 1] - state.coords[start]).sum()) / self.total_length)
        outputs = self.program.outputs(state.values)
        if self.consume is not None:
            self.consume(state, outputs)
        return state, outputs

    def _in_parts(
        self, layer: int, state: LineState, interpolation: Interpolation, order: Tensor, rows: int
    ) -> tuple[LineState, Tensor]:
        """Work through runs of vertices one after another; neighbouring runs share a vertex."""
        parts: list[tuple[LineState, Tensor]] = []
        waiting = bytes_of(state.values)
        self.held += waiting
        for start in range(0, len(order) - 1, rows - 1):
            run = order[start : start + rows]
            done = self.finish(layer + 1, self._advance(layer, _follow(state, interpolation, run, layer)))
            parts = [*parts, done] if self.consume is None else [done]
        self.held -= waiting
        if self.consume is not None:
            return parts[0]
        kept = [len(outputs) - 1 for _, outputs in parts[:-1]] + [
            len(parts[-1][1])
        ]  # the last vertex is the next one's
        joined = LineState(
            torch.cat([part.coords[:n] for (part, _), n in zip(parts, kept, strict=True)]),
            torch.cat([part.slice_id[:n] for (part, _), n in zip(parts, kept, strict=True)]),
            torch.cat([part.layer[:n] for (part, _), n in zip(parts, kept, strict=True)]),
            {},
        )
        return joined, torch.cat([outputs[:n] for (_, outputs), n in zip(parts, kept, strict=True)])

    def _advance(self, layer: int, state: LineState) -> LineState:
        self.record.add(layer, state.slice_id[state.intervals], self.budget.max_regions)
        values = self.program.kinks[layer].advance(state.values, consume=True)
        return LineState(state.coords, state.slice_id, state.layer, values)


def _follow(state: LineState, interpolation: Interpolation, vertices: Tensor, layer: int) -> LineState:
    """The state at the wanted vertices, old and new."""
    matrix = interpolation.matrix(vertices)
    values = {name: matrix.apply(rows) for name, rows in state.values.items()}
    new_layer = torch.cat([state.layer, state.layer.new_full((len(interpolation.a),), layer)])
    coords = matrix.apply(state.coords[:, None])[:, 0]
    return LineState(coords, interpolation.copy_first(state.slice_id)[vertices], new_layer[vertices], values)
