"""The largest margin of a property on a slice, by cutting the slice only where the answer is still open.

The margin of an input is the largest slack with which it fits an alternative: max over alternatives of the smallest
slack of its constraints. It is piecewise affine, so its maximum stands on a vertex of a cell on which everything that
matters is affine. Cells wait in order of their upper bound. A cell is dropped when its upper bound is not above the
best margin that was found; else it is cut along the zero line of the unit that leaves most open. Cells on which many
units change sides are settled all the same when their bounds are, so few of the network's regions are ever built.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import torch

from regionscope.exact.bounding.bounds import Bounds, bound_cells, on_vertices, padded_points, rounding_of, with_ones
from regionscope.exact.bounding.hinge_network import HingeNetwork
from regionscope.exact.bounding.merge import Indices
from regionscope.geometry import Slice
from regionscope.geometry.polytope.complex import Complex, join
from regionscope.geometry.polytope.cut import cut_in_two
from regionscope.tolerance import UNIT
from regionscope.types import FloatArray

_ENTRIES = 3e6  # numbers that the bounds of one batch of cells hold


@dataclass(frozen=True, eq=False)
class Found:
    """The largest margin and where it stands, in coordinates of the slice; ``bound`` is a proven upper bound of it.

    rounding: by how much rounding may change a margin. cells: number of cells the slice was cut into.
    estimated: whether ``rounding`` is an estimate from probe points, and not a bound.
    complete: whether every cell was settled; otherwise ``bound`` is that of the cells that are left.
    """

    margin: float
    point: FloatArray
    bound: float
    rounding: float
    cells: int
    complete: bool
    estimated: bool = False


@dataclass
class _Pool:
    """Cells that wait: each with vertices of its own, an upper bound and its place among ``coords``."""

    cells: Complex
    coords: torch.Tensor
    bounds: FloatArray


def largest_margin(
    hinges: HingeNetwork, alternatives: list[list[int]], slice: Slice, *, deadline: float, max_cells: int
) -> Found:
    """Maximise the margin over the slice. hinges: the network up to the slacks, of which alternatives are lists."""
    cells, coords = Complex.of_domains([(slice.corners, *slice.halfspaces)])
    hinge_tolerances, error = rounding_of(hinges, with_ones(coords.numpy()))
    search = _Search(hinges, alternatives, hinge_tolerances, float(error.max()))
    search.evaluate(with_ones(coords.numpy()))
    pool = _Pool(*_apart(cells, coords), np.array([np.inf]))
    while len(pool.bounds):
        if time.monotonic() > deadline or search.cells > max_cells:
            return search.found(float(pool.bounds.max()), complete=False)
        pool = search.step(pool)
    return search.found(search.margin + search.tolerance, complete=True)


@dataclass
class _Search:
    hinges: HingeNetwork
    alternatives: list[list[int]]
    hinge_tolerances: list[FloatArray]
    tolerance: float
    margin: float = -np.inf
    point: FloatArray | None = None
    cells: int = 1
    left: float = -np.inf

    def found(self, bound: float, *, complete: bool) -> Found:
        assert self.point is not None
        return Found(self.margin, self.point, max(bound, self.left), self.tolerance, self.cells, complete)

    def step(self, pool: _Pool) -> _Pool:
        """Bound the most promising cells, drop the settled ones, cut the others."""
        batch, rest = self._divided(pool)
        points = padded_points(batch.cells.corners, batch.cells.offsets, batch.coords)
        bounds = bound_cells(self.hinges, points, self.hinge_tolerances)
        upper, chosen, best = self._upper(bounds, points)
        self.evaluate(points[np.arange(len(points)), best])
        open_cells = np.flatnonzero(upper > self.margin + self.tolerance)
        kept = [_cut_down(rest, np.flatnonzero(rest.bounds > self.margin + self.tolerance))]
        if len(open_cells):
            lines = self._lines(bounds, points, chosen, open_cells)
            still = replace(batch, bounds=np.minimum(batch.bounds, upper))
            kept.append(self._cut(_cut_down(still, open_cells), lines))
        return _joined([part for part in kept if len(part.bounds)], pool)

    def _divided(self, pool: _Pool) -> tuple[_Pool, _Pool]:
        widest = max([1, len(self.hinges.first), *(layer.matrix.shape[1] for layer in self.hinges.layers)])
        size = int(max(4, _ENTRIES / (widest * 8)))
        order = np.argsort(-pool.bounds, kind="stable")
        return _cut_down(pool, order[:size]), _cut_down(pool, order[size:])

    def evaluate(self, points: FloatArray) -> None:
        """Run the network at points (p, k + 1), and remember the best."""
        slacks = self.hinges.run(points)
        margins = np.max([slacks[rows].min(0) for rows in self.alternatives], axis=0)
        best = int(margins.argmax())
        if margins[best] > self.margin:
            self.margin, self.point = float(margins[best]), points[best, 1:].copy()

    def _upper(self, bounds: Bounds, points: FloatArray) -> tuple[FloatArray, Indices, Indices]:
        """Upper bound of the margin on each cell (b,), the alternative it belongs to, and its most promising vertex."""
        values = on_vertices(bounds.high, points)
        by_alternative = np.stack([values[rows].max(2).min(0) for rows in self.alternatives])
        at_vertices = np.max([values[rows].min(0) for rows in self.alternatives], axis=0)
        return by_alternative.max(0), by_alternative.argmax(0), at_vertices.argmax(1)

    def _lines(self, bounds: Bounds, points: FloatArray, chosen: Indices, cells: Indices) -> FloatArray:
        """The affine function (b, k + 1) along whose zero line each open cell is cut.

        A crossing counts by what it leaves open times the absolute weights between it and the slacks.
        """
        weight = np.zeros((len(bounds.high), len(points)))
        for cell in cells:
            weight[self.alternatives[chosen[cell]], cell] = 1.0
        most = np.zeros(len(points))
        lines = np.zeros((len(points), points.shape[2]))
        for layer, crossings in zip(reversed(self.hinges.layers), reversed(bounds.crossings), strict=True):
            weight = np.asarray(abs(layer.matrix).T @ weight)
            bent = weight[layer.n :]
            score = np.where(crossings.exact, crossings.gap * bent[crossings.hinge, crossings.cell], 0.0)
            order = np.argsort(score, kind="stable")  # of several for one cell, the last assignment is the largest
            order = order[score[order] > most[crossings.cell[order]]]
            most[crossings.cell[order]] = score[order]
            lines[crossings.cell[order]] = crossings.line[order]
            back = np.zeros((layer.n, len(points)))
            np.add.at(back, layer.units, bent * crossings.slope)
            weight = weight[: layer.n] + back
        for cell in cells[most[cells] == 0]:
            lines[cell] = self._between_slacks(bounds, points, int(chosen[cell]), int(cell))
        return lines[cells]

    def _between_slacks(self, bounds: Bounds, points: FloatArray, chosen: int, cell: int) -> FloatArray:
        """Every slack is affine: cut where the smallest of them changes; or, in the last resort, in the middle."""
        rows = self.alternatives[chosen]
        functions = bounds.high[rows, cell]
        best, line = 0.0, None
        for i in range(len(rows)):
            difference = functions[i] - functions
            values = difference @ points[cell].T
            depth = np.minimum(values.max(1), -values.min(1))
            if depth.max() > best:
                best, line = float(depth.max()), difference[int(depth.argmax())]
        return line if line is not None else _across(points[cell])

    def _cut(self, pool: _Pool, lines: FloatArray) -> _Pool:
        """The two parts of each cell, with the bound of the whole."""
        owner = pool.cells.cell_of_corner.numpy()
        coords = pool.coords.numpy()[pool.cells.corners.numpy()]
        u = (np.concatenate([np.ones((len(coords), 1)), coords], 1) * lines[owner]).sum(1)
        size = np.zeros(len(lines))
        np.maximum.at(size, owner, np.abs(u))
        values = torch.zeros(len(pool.coords), dtype=torch.float64)
        codes = torch.zeros(len(pool.coords), dtype=torch.int8)
        values[pool.cells.corners] = torch.from_numpy(u)
        codes[pool.cells.corners] = torch.from_numpy(np.sign(u * (np.abs(u) > 64 * UNIT * size[owner])).astype(np.int8))
        halves = cut_in_two(pool.cells, codes, values)
        whole = ~halves.cut.numpy()
        coords_now = halves.new.extend(pool.coords)
        parts = [_Pool(*_apart(half, coords_now), pool.bounds[~whole]) for half in (halves.plus, halves.minus)]
        self.cells += int((~whole).sum())
        if whole.any():  # slivers on which rounding hides the line: they are not cut further, and their bound stands
            self.left = max(self.left, float(pool.bounds[whole].max()))
        if halves.unresolved:
            self.left = max(self.left, float(pool.bounds.max()))
        return _joined(parts, pool)


def _across(points: FloatArray) -> FloatArray:
    """A line through the middle of the cell, across its longest extent."""
    coords = points[:, 1:]
    centre = coords.mean(0)
    axis = np.linalg.svd(coords - centre)[2][0]
    return np.concatenate([[-axis @ centre], axis])


def _apart(cells: Complex, coords: torch.Tensor) -> tuple[Complex, torch.Tensor]:
    """The same cells, each with vertices of its own."""
    numbers = torch.arange(len(cells.corners))
    return replace(cells, corners=numbers, n_vertices=len(numbers)), coords[cells.corners]


def _cut_down(pool: _Pool, index: Indices) -> _Pool:
    cells = pool.cells.take(torch.from_numpy(np.asarray(index, dtype=np.int64)))
    return _Pool(*_apart(cells, pool.coords), pool.bounds[index])


def _joined(parts: list[_Pool], empty: _Pool) -> _Pool:
    if not parts:
        return _cut_down(empty, np.zeros(0, dtype=np.int64))
    if len(parts) == 1:
        return parts[0]
    moved, start = [], 0
    for part in parts:
        moved.append(replace(part.cells, corners=part.cells.corners + start, n_vertices=start + len(part.coords)))
        start += len(part.coords)
    return _Pool(
        join(moved), torch.cat([part.coords for part in parts]), np.concatenate([part.bounds for part in parts])
    )
