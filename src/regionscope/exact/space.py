"""Exact regions on three-dimensional slices: cells carried through the network, cut by all units of a layer at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from regionscope.exact.budget import Budget, Keep, Record, bytes_of, domains_of, embed_on_slices, shares_of_folds
from regionscope.exact.polytopes import CellPartition, CellState, carry_cells, partition_cells
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
from regionscope.network import Fold, Program, Thresholds
from regionscope.types import Progress

_COMPARISONS = 32  # candidates compared at a time; a comparison may cut cells that are joined again afterwards
_MOST_CANDIDATES = 16  # of a maximum; with more, most comparisons are between two candidates that both lose
_HEADROOM = 3  # slices are divided once they have a third of the vertices that may be live


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


@dataclass(frozen=True)
class SpaceState:
    """Cells with what is known at their vertices: coordinates (v, 3), the slice they belong to (v,), live values."""

    solids: Solids
    coords: Tensor
    slice_id: Tensor
    values: dict[str, Tensor]

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
    keep: Keep | None = None,
) -> list[SpacePartition | CellPartition]:  # fmt: skip
    """The exact partition of slices of dimension 3, in one part or in several with some of the slices each.

    zero_tolerances: from ``zero_tolerances_of``. Where a maximum has more than 16 candidates, or where
    rounding leaves signs that fit no cut, the cells become polytopes and are cut further by one unit after another; all
    of them from the start where rounding has left a cell that is no polytope. Raises ``TooManyRegions`` when a slice
    has more regions than ``budget.max_regions``.

    keep: which cells to go on with after each fold; the others are left out of the result.

    Cost: in proportion to the number of regions after each layer. All regions of a slice are held in memory at once;
    of several slices some are worked through after the others where their values would not fit.
    """
    cutter = _SpaceCutter(program, zero_tolerances, budget, record, keep, shares_of_folds(program, 3))
    try:
        return cutter.carry(0, begin_space(program, slices), 0, 1.0)
    except NotPolytopes:
        record.restart()
        return [partition_cells(program, slices, zero_tolerances, budget, record, keep)]


@dataclass(frozen=True)
class _SpaceCutter:
    program: Program
    zero_tolerances: Sequence[Tensor]
    budget: Budget
    record: Record
    keep: Keep | None
    shares: Sequence[float]  # see ``shares_of_folds``

    def carry(self, start: int, state: SpaceState, held: int, share: float) -> list[SpacePartition | CellPartition]:
        """Carry cells through fold ``start`` and all later ones, while values of ``held`` bytes wait.

        share: of all the work, for the progress.
        """
        folds, present = self.program.folds, state.solids.slice_id.unique()
        for layer in range(start, len(folds)):
            rows = self.budget.rows(folds[layer], held, state.coords.device)
            if len(present) > 1 and _HEADROOM * state.solids.n_vertices > rows:
                first = torch.isin(state.solids.slice_id, present[: len(present) // 2])
                held += bytes_of(state.values)
                halves = [(first, share * (len(present) // 2) / len(present))]
                halves.append((~first, share - halves[0][1]))
                return [
                    part
                    for half, half_share in halves
                    for part in self.carry(layer, state.take(half), held, half_share)
                ]
            compared, zero_tolerance = folds[layer].compared(state.values), self.zero_tolerances[layer]
            found, done, own = None, self.record.done, share * self.shares[layer]
            if isinstance(compared, Thresholds) or compared.groups.shape[1] <= _MOST_CANDIDATES:
                with suppress(Unresolved):
                    report_progress = partial(self.record.report_progress, of=own)
                    found = cut_space(self.program, layer, state, zero_tolerance, report_progress)
            if found is None:
                self.record.done = done  # this fold starts again
                cells = CellState(state.solids.as_complex(), state.coords, state.slice_id, state.values)
                return [
                    carry_cells(self.program, self.zero_tolerances, self.budget, self.record, cells, start=layer,
                                keep=self.keep, share=share)
                ]  # fmt: skip
            if not isinstance(compared, Thresholds):
                self.record.snap(state.slice_id[snapped_signs(compared, at_vertices(zero_tolerance, state.slice_id))])
            state, snapped = found
            self.record.snap(snapped)
            self.record.add(layer, state.solids.slice_id, self.budget.max_regions)
            state = replace(state, values=folds[layer].advance(state.values, consume=True))
            if self.keep is not None:
                mask = self.keep(layer, partial(_cell_corners, state.solids), state.coords, state.values)
                state = state if mask is None or bool(mask.all()) else state.take(mask)
            share -= own
        return [SpacePartition(state.solids, state.coords, self.program.outputs(state.values))]


def cut_space(
    program: Program, layer: int, state: SpaceState, zero_tolerance: Tensor, report_progress: Progress
) -> tuple[SpaceState, Tensor]:
    """Cut the cells at fold ``layer``, before it is applied.

    zero_tolerance: from ``zero_tolerances_of``. report_progress: called with the share of this cut that was just done.
    Also returns the slice of each sign that could not be told from zero. Raises ``Unresolved`` where rounding
    leaves signs that fit no cut.
    """
    fold = program.folds[layer]
    label = sum(earlier.n_units for earlier in program.folds[:layer])
    compared = fold.compared(state.values)
    if isinstance(compared, Thresholds):

        def units(state: SpaceState) -> Units:
            compared = fold.compared(state.values)
            assert isinstance(compared, Thresholds)
            return Units(compared.values, compared.at, at_vertices(zero_tolerance, state.slice_id))

        cut = _cut_by(state, units, label, count_zeros=True)
        report_progress(1.0)
        return cut
    n, m = compared.groups.shape
    step = n if m == 2 else max(1, _COMPARISONS // m)  # of two candidates, both are the largest somewhere
    snapped = []
    for start in range(0, n, step):
        groups = compared.groups[start : start + step]
        state, own = _cut_windows(program, fold, state, groups, zero_tolerance, label + start)
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
    program: Program, fold: Fold, state: SpaceState, groups: Tensor, zero_tolerance: Tensor, label: int
) -> tuple[SpaceState, Tensor]:
    """Cut the cells where the largest candidate of a group (w, m) changes.

    In each round pairs of candidates are compared, and the larger one goes on. This cuts cells between two that
    both lose in the end, too, and these are joined again.
    """
    snapped, first_new = [state.slice_id[:0]], program.n_units

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
            return Units(gaps(state, rounds)[:, used], (0.0,), at_vertices(zero_tolerance, state.slice_id))

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
