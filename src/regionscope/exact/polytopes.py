"""Exact regions on slices of any dimension, meant for dim >= 3: polytopes are cut by one unit after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from regionscope.errors import CheckFailed
from regionscope.exact.budget import Budget, Keep, Record, TooManyRegions, bytes_of, domains_of, embed_on_slices
from regionscope.exact.carry import Parts, State, Walk
from regionscope.exact.zero_tolerance import at_vertices, snapped_signs
from regionscope.formatting import counted
from regionscope.geometry.polytope.complex import Complex
from regionscope.geometry.polytope.cut import NewVertices, cut_along
from regionscope.geometry.polytope.maximum import cut_maxima
from regionscope.geometry.slices import Slice
from regionscope.network import Maxima, Program, Thresholds

Part = TypeVar("Part")
_HEADROOM = 3  # cells are parted once they have a third of the vertices that may be live


@dataclass(frozen=True)
class CellPartition:
    """The exact partition of all slices.

    Attributes:
        cells: one polytope for each region; ``cells.slice_id`` tells the slice. A facet's wall is the index of the unit
            that folds there, counted over all folds in order (``Program.n_units``), or negative on the slice's border.
        coords: (v, k) slice coordinates of the vertices.
        outputs: (v, c) the network's outputs at the vertices.
    """

    cells: Complex
    coords: Tensor
    outputs: Tensor


@dataclass(frozen=True)
class CellState(State[list[CellPartition]]):
    """Cells with what is known at their vertices: coordinates (v, k), the slice they belong to (v,), live values."""

    cells: Complex
    coords: Tensor
    slice_id: Tensor
    values: dict[str, Tensor]

    def cut(self, walk: Walk[list[CellPartition]], layer: int, share: float) -> CellState | Parts[list[CellPartition]]:
        """Cut by all units of the fold, one after another."""
        halves = halves_of(self, self.cells.slice_id, self.cells.n_vertices, walk, layer)
        if halves is not None:
            return halves
        zero_tolerance, slice_id = walk.zero_tolerances[layer], self.slice_id
        compared = walk.program.folds[layer].compared(self.values)
        walk.record.snap(slice_id[snapped_signs(compared, at_vertices(zero_tolerance, slice_id))])
        first_unit = sum(fold.n_units for fold in walk.program.folds[:layer])
        cutter = _CellCutter(
            self.cells, _Rows(compared.values), slice_id, zero_tolerance, layer, first_unit, walk.budget, walk.record
        )
        cutter.cut(compared)
        cells, kept = cutter.cells.compact()
        values = {name: _follow(rows, cutter.history, kept) for name, rows in self.values.items()}
        return CellState(cells, _follow(self.coords, cutter.history, kept), cutter.slice_id[kept], values)

    def behind(self, values: dict[str, Tensor]) -> CellState:
        return replace(self, values=values)

    def region_slices(self, single: bool) -> Tensor:
        return self.cells.slice_id

    def cell_corners(self) -> tuple[Tensor, Tensor]:
        return self.cells.cell_corners()

    def take(self, mask: Tensor) -> CellState:
        cells, kept = self.cells.take(mask).compact()
        values = {name: rows[kept] for name, rows in self.values.items()}
        return CellState(cells, self.coords[kept], self.slice_id[kept], values)

    def finish(self, outputs: Tensor) -> list[CellPartition]:
        return [CellPartition(self.cells, self.coords, outputs)]


def halves_of(
    state: State[list[Part]], region_slices: Tensor, n_vertices: int, walk: Walk[list[Part]], layer: int
) -> Parts[list[Part]] | None:
    """Two parts of the cells where there may soon be too many vertices: of some slices each, which share none. The
    cells of one slice are parted only where finished parts are not put together. None where the cells go on together.
    """
    rows = walk.budget.rows(walk.program.folds[layer], walk.held, state.coords.device)
    if _HEADROOM * n_vertices <= rows:
        return None
    n_cells, present = len(region_slices), region_slices.unique()
    if len(present) > 1:
        first, share = torch.isin(region_slices, present[: len(present) // 2]), len(present) // 2 / len(present)
    elif walk.consume is not None and n_cells > 1:
        first, share = torch.arange(n_cells, device=region_slices.device) < n_cells // 2, n_cells // 2 / n_cells
    else:
        return None
    parts = ((state.take(half), part) for half, part in ((first, share), (~first, 1 - share)))
    return Parts(parts, bytes_of(state.values), lambda finished: [part for parts in finished for part in parts])


def partition_cells(
    program: Program, slices: Sequence[Slice], zero_tolerances: Sequence[Tensor], budget: Budget, record: Record,
    keep: Keep | None = None, consume: Callable[[list[CellPartition]], object] | None = None,
) -> list[CellPartition]:  # fmt: skip
    """The exact partition of slices of one dimension k into polytopes on which the network is affine, in one part or
    in several with some of the slices each.

    zero_tolerances: from ``zero_tolerances_of``. Raises ``TooManyRegions`` as soon as a slice
    has more regions than ``budget.max_regions``, and ``CheckFailed`` where rounding leaves no consistent cut.

    keep: which cells to go on with after each fold; the others are left out of the result. consume: called with each
    finished part, which is then forgotten; the result is the last part.

    Cost: for each unit that changes sign somewhere a scan of all cells, and work in proportion to what is cut; the
    number of regions grows like (units)^k, and without ``consume`` those of a slice are held in memory at once.
    """
    cells, coords = Complex.of_domains(domains_of(program, slices))
    slice_id = cells.vertex_slice_id
    values = program.begin(embed_on_slices(program, slices, coords, slice_id))
    corners = [slice.corners for slice in slices]
    walk = Walk.of(program, zero_tolerances, budget, record, corners, keep=keep, consume=consume)
    return walk.carry(CellState(cells, coords, slice_id, values))


class _Rows:
    """A matrix that grows at the bottom in place: appending costs the new rows only, on average."""

    def __init__(self, rows: Tensor, capacity: int = 0) -> None:
        self._buffer = rows.new_empty(capacity or 2 * len(rows), *rows.shape[1:])
        self._buffer[: len(rows)] = rows
        self._count = len(rows)

    @property
    def filled(self) -> Tensor:
        """The rows so far, as a view."""
        return self._buffer[: self._count]

    def append(self, rows: Tensor) -> None:
        """Add rows at the bottom."""
        count = self._count + len(rows)
        if count > len(self._buffer):
            grown = self._buffer.new_empty(max(count, 2 * len(self._buffer)), *rows.shape[1:])
            grown[: self._count] = self.filled
            self._buffer = grown
        self._buffer[self._count : count] = rows
        self._count = count


@dataclass
class _CellCutter:
    """One fold: the cells so far, the values that fold at their vertices, and how the vertices came about."""

    cells: Complex
    rows: _Rows
    slice_id: Tensor  # (v,) slice of each vertex
    zero_tolerance: Tensor  # (slices,) or (slices, units): what counts as zero
    layer: int
    first_unit: int
    budget: Budget
    record: Record

    def __post_init__(self) -> None:
        self.history: list[NewVertices] = []

    def cut(self, compared: Thresholds | Maxima) -> None:
        """Cut the cells by all units of the fold, one after another."""
        if isinstance(compared, Thresholds):
            for t, threshold in enumerate(compared.at):
                for i in _changing_sign(compared.values, threshold):
                    self._cut_threshold(i, threshold, self.first_unit + t * compared.values.shape[1] + i)
        else:
            for w, group in enumerate(compared.groups):
                self._cut_maximum(group.unique(), self.first_unit + w)

    def _cut_threshold(self, column: int, threshold: float, label: int) -> None:
        u = self.rows.filled[:, column] - threshold
        codes = torch.where(u.abs() <= self.zero_tolerance[self.slice_id, column], 0, u.sign())
        result = cut_along(self.cells, codes, u, label=label)
        before = self.cells.n_vertices
        self._apply(result.cells, (result.new,), result.snapped, result.unresolved)
        self.rows.filled[before:, column] = threshold

    def _cut_maximum(self, columns: Tensor, label: int) -> None:
        result = cut_maxima(self.cells, self.rows.filled[:, columns], self.zero_tolerance[self.slice_id], label=label)
        self._apply(result.cells, result.new, result.snapped, result.unresolved)

    def _apply(self, cells: Complex, batches: Sequence[NewVertices], snapped: Tensor, unresolved: int) -> None:
        self.cells = cells
        for new in batches:
            self.rows.append(new.lerp(self.rows.filled))
            self.slice_id = torch.cat([self.slice_id, self.slice_id[new.a]])
            self.history.append(new)
        self.record.snap(self.slice_id[snapped])
        if unresolved:
            raise CheckFailed(
                f"Expected signs of a unit that fit a flat cut, got {counted(unresolved, 'region')} where rounding "
                "left others. Take a larger slice, or pass a Tolerance with another zero."
            )
        limit = self.budget.max_regions
        if limit is not None and int(torch.bincount(cells.slice_id).max()) > limit:
            raise TooManyRegions(self.layer)


def _changing_sign(values: Tensor, threshold: float) -> list[int]:
    """Columns with values on both sides of the threshold; the others cut nothing."""
    both: list[int] = ((values > threshold).any(0) & (values < threshold).any(0)).nonzero().flatten().tolist()
    return both


def _follow(x: Tensor, history: Sequence[NewVertices], kept: Tensor) -> Tensor:
    """Values at the vertices after all cuts, for anything affine on the cells before them."""
    rows = _Rows(x, len(x) + sum(len(new) for new in history))
    for new in history:
        rows.append(new.lerp(rows.filled))
    return rows.filled if len(kept) == len(rows.filled) else rows.filled[kept]
