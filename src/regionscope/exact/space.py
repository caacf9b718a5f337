"""Exact regions on three-dimensional slices: cells carried through the network, cut by all units of a layer at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regionscope.errors import CheckFailed
from regionscope.exact.budget import Budget, Keep, Record, domains_of, embed_on_slices
from regionscope.exact.carry import Parts, State, Walk
from regionscope.exact.polytopes import CellPartition, CellState, halves_of, partition_cells
from regionscope.exact.zero_tolerance import at_vertices, snapped_signs
from regionscope.geometry import arrays as xp
from regionscope.geometry.arrays import rows_at_a_time
from regionscope.geometry.bitsets import lowest
from regionscope.geometry.crossing import Units
from regionscope.geometry.maxima import Candidates, cell_leaders, leaders
from regionscope.geometry.polytope.cut import NewVertices
from regionscope.geometry.slices import Slice
from regionscope.geometry.spatial.cut import cut_solids
from regionscope.geometry.spatial.faces import Unresolved
from regionscope.geometry.spatial.merge import merge_cells
from regionscope.geometry.spatial.solids import NotPolytopes, Solids
from regionscope.network import Program, Thresholds
from regionscope.types import Progress

_COMPARISONS = 32  # candidates compared at a time; a comparison may cut cells that are joined again afterwards
_MOST_CANDIDATES = 16  # of a maximum; with more, most comparisons are between two candidates that both lose


@dataclass(frozen=True)
class SpacePartition:
    """The exact partition of all slices.

    solids: one cell for each region. A face's wall is the index of the unit that folds there, counted over all folds
        in order, or negative on the slice's border.
    coords: (v, 3) slice coordinates of the vertices. outputs: (v, c) the network's outputs there.
    """

    solids: Solids
    coords: Tensor
    outputs: Tensor


SpaceParts = list["SpacePartition | CellPartition"]


@dataclass(frozen=True)
class SpaceState(State[SpaceParts]):
    """Cells with what is known at their vertices: coordinates (v, 3), the slice they belong to (v,), live values."""

    solids: Solids
    coords: Tensor
    slice_id: Tensor
    values: dict[str, Tensor]

    def cut(self, walk: Walk[SpaceParts], layer: int, share: float) -> State[SpaceParts] | Parts[SpaceParts]:
        """Cut by all units at once; where rounding leaves signs that fit no cut, or a maximum has many candidates, as
        polytopes by one unit after another, from here on.
        """
        halves = halves_of(self, self.solids.slice_id, self.solids.n_vertices, walk, layer)
        if halves is not None:
            return halves
        compared, zero_tolerance = walk.program.folds[layer].compared(self.values), walk.zero_tolerances[layer]
        cut, done = None, walk.record.done
        if isinstance(compared, Thresholds) or compared.groups.shape[1] <= _MOST_CANDIDATES:
            with suppress(Unresolved):
                report_progress = partial(walk.record.report_progress, of=share)
                cut = cut_space(walk, layer, self, report_progress)
        if cut is None:
            walk.record.done = done  # this fold starts again
            cells: Any = CellState(self.solids.as_complex(), self.coords, self.slice_id, self.values)
            result: State[SpaceParts] | Parts[SpaceParts] = cells.cut(walk, layer, share)
            return result
        if not isinstance(compared, Thresholds):
            walk.record.snap(self.slice_id[snapped_signs(compared, at_vertices(zero_tolerance, self.slice_id))])
        state, snapped = cut
        walk.record.snap(snapped)
        return state

    def behind(self, values: dict[str, Tensor]) -> SpaceState:
        return replace(self, values=values)

    def region_slices(self, single: bool) -> Tensor:
        return self.solids.slice_id

    def cell_corners(self) -> tuple[Tensor, Tensor]:
        return _cell_corners(self.solids)

    def finish(self, outputs: Tensor) -> SpaceParts:
        return [SpacePartition(self.solids, self.coords, outputs)]

    def extend(self, batches: Sequence[NewVertices]) -> SpaceState:
        """With new vertices, each batch built on the vertices before it."""
        slice_id = self.slice_id
        for new in batches:
            slice_id = torch.cat([slice_id, slice_id.index_select(0, new.a)])
        values = {name: _extended(rows, batches) for name, rows in self.values.items()}
        return SpaceState(self.solids, _extended(self.coords, batches), slice_id, values)

    def take(self, cells: Tensor) -> SpaceState:
        """The cells of a mask (r,) alone."""
        solids, kept = xp.numpy_on_cpu(self.solids).take(xp.numpy_on_cpu(cells))
        return self.at(xp.as_tensors(kept), xp.as_tensors(solids))

    def at(self, vertices: Tensor, solids: Solids) -> SpaceState:
        """Cells whose vertices are some of these."""
        values = {name: rows.index_select(0, vertices) for name, rows in self.values.items()}
        return SpaceState(solids, self.coords[vertices], self.slice_id[vertices], values)


def begin_space(program: Program, slices: Sequence[Slice]) -> SpaceState:
    """One cell for each slice, before the first fold."""
    domains = domains_of(program, slices)
    solids, coords = Solids.of_domains(domains)
    slice_id = torch.tensor([i for i, (c, _, _) in enumerate(domains) for _ in c], device=program.device)
    return SpaceState(solids, coords, slice_id, program.begin(embed_on_slices(program, slices, coords, slice_id)))


def partition_space(
    program: Program, slices: Sequence[Slice], zero_tolerances: Sequence[Tensor], budget: Budget, record: Record,
    keep: Keep | None = None, consume: Callable[[SpaceParts], object] | None = None,
) -> SpaceParts:  # fmt: skip
    """The exact partition of slices of dimension 3, in one part or in several with some of the slices each.

    zero_tolerances: from ``zero_tolerances_of``. Where a maximum has more than 16 candidates, or where
    rounding leaves signs that fit no cut, the cells become polytopes and are cut further by one unit after another; all
    of them from the start where rounding has left a cell that is no polytope. Raises ``TooManyRegions`` when a slice
    has more regions than ``budget.max_regions``.

    keep: which cells to go on with after each fold; the others are left out of the result. consume: called with each
    finished part, which is then forgotten; the result is the last part.

    Cost: in proportion to the number of regions after each layer. Without ``consume`` all regions of a slice are held
    in memory at once; of several slices some are worked through after the others where their values would not fit.
    """
    corners = [slice.corners for slice in slices]
    walk = Walk.of(program, zero_tolerances, budget, record, corners, keep=keep, consume=consume)
    try:
        return walk.carry(begin_space(program, slices))
    except NotPolytopes:
        if consume is not None:
            raise CheckFailed(
                "Expected cells that are polytopes, got one that rounding has flattened, after some parts were passed "
                "on. Use linear_regions, which starts again, or take a larger slice."
            ) from None
        record.restart()
        parts: Any = partition_cells(program, slices, zero_tolerances, budget, record, keep)
        return list(parts)


def cut_space(
    walk: Walk[SpaceParts], layer: int, state: SpaceState, report_progress: Progress
) -> tuple[SpaceState, Tensor]:
    """Cut the cells at fold ``layer``, before it is applied.

    report_progress: called with the share of this cut that was just done.
    Also returns the slice of each sign that could not be told from zero. Raises ``Unresolved`` where rounding
    leaves signs that fit no cut.
    """
    fold, zero_tolerance = walk.program.folds[layer], walk.zero_tolerances[layer]
    label = sum(earlier.n_units for earlier in walk.program.folds[:layer])
    compared = fold.compared(state.values)
    if isinstance(compared, Thresholds):

        def units(state: SpaceState) -> Units:
            compared = fold.compared(state.values)
            assert isinstance(compared, Thresholds)
            tolerance = at_vertices(zero_tolerance, state.slice_id)
            return Units(compared.values, compared.at, tolerance, state.coords, walk.extent)

        cut = _cut_by(state, units, label, count_zeros=True)
        report_progress(1.0)
        return cut
    n, m = compared.groups.shape
    step = n if m == 2 else max(1, _COMPARISONS // m)  # of two candidates, both are the largest somewhere
    snapped = []
    for start in range(0, n, step):
        groups = compared.groups[start : start + step]
        state, own = _cut_windows(walk, layer, state, groups, label + start)
        snapped.append(own)
        report_progress(len(groups) / n)
    return state, torch.cat(snapped)


def _cut_by(
    state: SpaceState, units: Callable[[SpaceState], Units], label: int, count_zeros: bool
) -> tuple[SpaceState, Tensor]:
    """Cut the cells by all units, whose values at the vertices of a state ``units`` tells."""

    def extend(batches: Sequence[NewVertices]) -> Units:
        nonlocal state
        state = state.extend(batches)
        return units(state)

    solids, snapped = cut_solids(state.solids, units(state), extend, label=label, count_zeros=count_zeros)
    return replace(state, solids=solids), state.slice_id[snapped]


def _cut_windows(
    walk: Walk[SpaceParts], layer: int, state: SpaceState, groups: Tensor, label: int
) -> tuple[SpaceState, Tensor]:
    """Cut the cells where the largest candidate of a group (w, m) changes.

    In each round pairs of candidates are compared, and the larger one goes on. This cuts cells between two that
    both lose in the end, too, and these are joined again.
    """
    fold, zero_tolerance = walk.program.folds[layer], walk.zero_tolerances[layer]
    snapped, first_new = [state.slice_id[:0]], walk.program.n_units

    def candidates(state: SpaceState) -> Candidates:
        return Candidates(fold.compared(state.values).values, groups, at_vertices(zero_tolerance, state.slice_id))

    def gaps(state: SpaceState, rounds: int) -> Tensor:
        best = candidates(state).values[:, groups]
        for _ in range(rounds):
            even = 2 * (best.shape[2] // 2)
            best = torch.cat([torch.maximum(best[..., :even:2], best[..., 1:even:2]), best[..., even:]], 2)
        even = 2 * (best.shape[2] // 2)
        return (best[..., :even:2] - best[..., 1:even:2]).flatten(1)

    for rounds in range((groups.shape[1] - 1).bit_length()):
        now, tolerance = gaps(state, rounds), at_vertices(zero_tolerance, state.slice_id)[:, None]
        used = ((now > tolerance).any(0) & (now < -tolerance).any(0)).nonzero()[:, 0]
        if len(used) == 0:
            continue

        def units(state: SpaceState, rounds: int = rounds, used: Tensor = used) -> Units:
            tolerance = at_vertices(zero_tolerance, state.slice_id)
            return Units(gaps(state, rounds)[:, used], (0.0,), tolerance, state.coords, walk.extent)

        state, own = _cut_by(state, units, first_new, count_zeros=False)
        snapped.append(own)
    return _without_losers(state, candidates(state), first_new, label), torch.cat(snapped)


def _without_losers(state: SpaceState, candidates: Candidates, first_new: int, label: int) -> SpaceState:
    """Join cells across faces from ``first_new`` on with the same largest candidates; the others get their label."""
    corners, offsets = _cell_corners(state.solids)
    winner = lowest(cell_leaders(leaders(candidates), corners, offsets))
    if bool((winner < 0).any()):
        raise Unresolved((winner < 0).any(1).nonzero()[:, 0])
    new = state.solids.wall >= first_new
    changes = winner[state.solids.cells[new, 0]] != winner[state.solids.cells[new, 1]]
    state.solids.wall[new] = label + changes.int().argmax(1)
    losing = torch.zeros_like(new).index_put_((new,), ~changes.any(1))
    if not bool(losing.any()):
        return state
    solids, kept = merge_cells(state.solids, losing)
    return state.at(kept, solids)


def _cell_corners(solids: Solids) -> tuple[Tensor, Tensor]:
    corners, offsets = xp.numpy_on_cpu(solids).cell_corners()
    return xp.as_tensors(corners), xp.as_tensors(offsets)


def _extended(rows: Tensor, batches: Sequence[NewVertices]) -> Tensor:
    """Rows (v, ...) at the old vertices, then at the new ones."""
    total = len(rows) + sum(len(new) for new in batches)
    out, count = rows.new_empty(total, *rows.shape[1:]), len(rows)
    # NumPy copies, and blocks are small, so that torch starts no second thread: it would spin between the operations
    xp.numpy_on_cpu(out)[:count] = xp.numpy_on_cpu(rows)
    step = rows_at_a_time(64 * max(1, rows[:1].numel()), rows.device)
    for new in batches:
        weight = new.t.to(rows.dtype).view(-1, *[1] * (rows.ndim - 1))
        for start in range(0, len(new), step):
            a, b = (out.index_select(0, end[start : start + step]) for end in (new.a, new.b))
            stop = min(start + step, len(new))
            torch.lerp(a, b, weight[start:stop], out=out[count + start : count + stop])
        count += len(new)
    return out
