"""Exact regions on slices of any dimension, meant for dim >= 3: polytopes are cut by one unit after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.errors import CheckFailed
from regionscope.exact.budget import Budget, Keep, Record, TooManyRegions, domains_of, embed_on_slices
from regionscope.exact.zero_tolerance import at_vertices, snapped_signs
from regionscope.formatting import counted
from regionscope.geometry.polytope.complex import Complex
from regionscope.geometry.polytope.cut import NewVertices, cut_along
from regionscope.geometry.polytope.maximum import cut_maxima
from regionscope.geometry.slices import Slice
from regionscope.network import Maxima, Program, Thresholds


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
class CellState:
    """Cells with what is known at their vertices: coordinates (v, k), the slice they belong to (v,), live values."""

    cells: Complex
    coords: Tensor
    slice_id: Tensor
    values: dict[str, Tensor]


def partition_cells(
    program: Program, slices: Sequence[Slice], zero_tolerances: Sequence[Tensor], budget: Budget, record: Record,
    keep: Keep | None = None,
) -> CellPartition:  # fmt: skip
    """The exact partition of slices of one dimension k into polytopes on which the network is affine.

    zero_tolerances: from ``zero_tolerances_of``. Raises ``TooManyRegions`` as soon as a slice
    has more regions than ``budget.max_regions``, and ``CheckFailed`` where rounding leaves no consistent cut.

    keep: which cells to go on with after each fold; the others are left out of the result.

    Cost: for each unit that changes sign somewhere a scan of all cells, and work in proportion to what is cut; the
    number of regions grows like (units)^k, and all of them are held in memory at once.
    """
    cells, coords = Complex.of_domains(domains_of(program, slices))
    slice_id = cells.vertex_slice_id
    values = program.begin(embed_on_slices(program, slices, coords, slice_id))
    state = CellState(cells, coords, slice_id, values)
    return carry_cells(program, zero_tolerances, budget, record, state, keep=keep)


def carry_cells(
    program: Program, zero_tolerances: Sequence[Tensor], budget: Budget, record: Record, state: CellState, *,
    start: int = 0, keep: Keep | None = None, share: float = 1.0,
) -> CellPartition:  # fmt: skip
    """Cut the cells at fold ``start`` and all later ones. share: of all the work, for the progress."""
    cells, coords, slice_id, values = state.cells, state.coords, state.slice_id, state.values
    first_unit = sum(fold.n_units for fold in program.folds[:start])
    for layer, fold in enumerate(program.folds[start:], start):
        compared = fold.compared(values)
        record.snap(slice_id[snapped_signs(compared, at_vertices(zero_tolerances[layer], slice_id))])
        cutter = _CellCutter(
            cells, _Rows(compared.values), slice_id, zero_tolerances[layer], layer, first_unit, budget, record
        )
        cutter.cut(compared)
        cells, kept = cutter.cells.compact()
        first_unit += fold.n_units
        values = {name: _follow(rows, cutter.history, kept) for name, rows in values.items()}
        coords, slice_id = _follow(coords, cutter.history, kept), cutter.slice_id[kept]
        record.add(layer, cells.slice_id, budget.max_regions)
        values = fold.advance(values, consume=True)
        mask = None if keep is None else keep(layer, cells.cell_corners, coords, values)
        if mask is not None:
            cells, kept = cells.take(mask).compact()
            values = {name: rows[kept] for name, rows in values.items()}
            coords, slice_id = coords[kept], slice_id[kept]
        record.report_progress(share / len(program.folds[start:]))
    return CellPartition(cells, coords, program.outputs(values))


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
