"""The slow, obvious twin of the exact engine: cut one convex cell at a time, evaluate the network afresh at corners.

Before each fold the network is run from the input to there at the corners of every cell; on a cell each unit is
affine, so its values at the corners say whether and where it folds. Nothing is shared between neighbours, nothing is
interpolated from layer to layer. Used by tests and to verify the corpus; any slice dimension, small networks.

Cost: a network pass over all corners for each fold, and Python work for each cut.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from regionscope.geometry import Slice
from regionscope.network import Maxima, Program, Thresholds
from regionscope.tolerance import Tolerance
from regionscope.types import FloatArray, IntArray
from twins.reference_space import Cell, measure, neighbours, ordered, positive_part, root_cell

TOLERANCE = Tolerance.of(torch.float64)


@dataclass(frozen=True)
class ReferencePartition:
    """The partition of a slice into activation regions.

    vertices: for each region its corners (m, k) in slice coordinates; k = 1 ascending, k = 2 counter-clockwise.
    sizes: (r,) measured in input space.
    interior: (r, k), a point strictly inside each region.
    by_layer: name of each fold -> number of activation regions after it, in order.
    linear: (r,) the number of the linear region that each activation region belongs to.
    neighbours: pairs of regions whose common boundary has positive (k - 1)-measure.
    """

    vertices: list[FloatArray]
    sizes: FloatArray
    interior: FloatArray
    by_layer: dict[str, int]
    linear: IntArray
    neighbours: list[tuple[int, int]]

    @property
    def n_activation_regions(self) -> int:
        """Number of distinct activation patterns on sets with interior."""
        return len(self.vertices)

    @property
    def n_linear_regions(self) -> int:
        """Number of connected pieces on which the network is one affine map."""
        return int(self.linear.max()) + 1


@dataclass(frozen=True)
class ReferenceDecision:
    """The partition of a slice by predicted label; pieces are convex, regions are connected unions of pieces.

    labels: (p,) the label of each piece: argmax of the outputs, the lowest index on ties; a single output is labelled
        1 where it is positive, else 0.
    components: (p,) the number of the decision region of each piece. Sets without interior are not regions.
    """

    vertices: list[FloatArray]
    sizes: FloatArray
    interior: FloatArray
    labels: IntArray
    components: IntArray

    @property
    def count(self) -> int:
        """Number of decision regions; two that touch in less than a (k - 1)-dimensional set are two."""
        return int(self.components.max()) + 1


def reference_partition(program: Program, slice: Slice) -> ReferencePartition:
    """Cut ``slice`` at every fold of the program, in order."""
    return _partition(program, slice, *_activation_cells(program, slice))


def reference_regions(program: Program, slice: Slice) -> tuple[ReferencePartition, ReferenceDecision]:
    """Both partitions of ``slice`` from one pass through the program: cut at every fold, and for the labels once more
    where the largest output changes; there, pieces of equal label are joined.
    """
    cells, by_layer = _activation_cells(program, slice)
    return _partition(program, slice, cells, by_layer), _decision(program, slice, cells)


def _partition(program: Program, slice: Slice, cells: list[Cell], by_layer: dict[str, int]) -> ReferencePartition:
    pairs = neighbours(cells, _extent(slice), TOLERANCE.slope)
    interior = np.array([cell.center for cell in cells])
    slopes = _slopes(program, slice, interior)
    sizes = [TOLERANCE.slope * np.abs(slope).max() for slope in slopes]
    same = [(i, j) for i, j in pairs if np.abs(slopes[i] - slopes[j]).max() <= max(sizes[i], sizes[j])]
    return ReferencePartition(
        vertices=[ordered(cell) for cell in cells],
        sizes=np.array([measure(cell) for cell in cells]) * slice.scale,
        interior=interior,
        by_layer=by_layer,
        linear=_components(len(cells), same),
        neighbours=pairs,
    )


def _decision(program: Program, slice: Slice, cells: list[Cell]) -> ReferenceDecision:
    outputs = _outputs(program, slice, np.concatenate([cell.vertices for cell in cells]))
    zero = TOLERANCE.zero * float(np.abs(outputs).max())
    numbers = itertools.count(_first_free_facet(cells))
    pieces: list[Cell] = []
    labels: list[int] = []
    for cell, values in zip(cells, _rows_of(cells, outputs), strict=True):
        for label, part in _by_label(cell.with_values(values), zero, numbers):
            pieces.append(part)
            labels.append(label)
    pairs = neighbours(pieces, _extent(slice), TOLERANCE.slope)
    return ReferenceDecision(
        vertices=[ordered(part) for part in pieces],
        sizes=np.array([measure(part) for part in pieces]) * slice.scale,
        interior=np.array([part.center for part in pieces]),
        labels=np.array(labels),
        components=_components(len(pieces), [(i, j) for i, j in pairs if labels[i] == labels[j]]),
    )


def _activation_cells(program: Program, slice: Slice) -> tuple[list[Cell], dict[str, int]]:
    normals, offsets = slice.halfspaces
    cells = [root_cell(slice.corners.numpy(), normals.numpy(), offsets.numpy())]
    numbers = itertools.count(len(offsets))
    by_layer = {}
    for depth, fold in enumerate(program.folds):
        corners = np.concatenate([cell.vertices for cell in cells])
        compared = fold.compared(_values_before(program, depth, _embed(program, slice, corners)))
        values = compared.values.double().numpy()
        zero = TOLERANCE.zero * float(np.abs(values).max(initial=0.0))
        parts: list[Cell] = []
        for cell, rows in zip(cells, _rows_of(cells, values), strict=True):
            parts += _cut(cell.with_values(rows), compared, zero, numbers)
        cells = parts
        by_layer[fold.name] = len(cells)
    return cells, by_layer


def _cut(cell: Cell, compared: Thresholds | Maxima, zero: float, numbers: Iterator[int]) -> list[Cell]:
    """All activation regions of one fold inside one cell that carries the values the fold looks at."""
    parts = [cell]
    if isinstance(compared, Maxima):
        for group in compared.groups.tolist():
            parts = [part for whole in parts for _, part in _upper_envelope(whole, group, zero, numbers)]
        return parts
    for at, unit in itertools.product(compared.at, range(cell.values.shape[1])):
        parts = [part for whole in parts for part in _two_sides(whole, unit, at, zero, numbers)]
    return parts


def _two_sides(cell: Cell, unit: int, at: float, zero: float, numbers: Iterator[int]) -> list[Cell]:
    """The parts of the cell below and above ``values[:, unit] == at``; the whole cell where it does not pass inside."""
    u = cell.values[:, unit] - at
    if u.max() <= zero or u.min() >= -zero:
        return [cell]
    facet = next(numbers)
    return [
        part for part in (positive_part(cell, -u, facet, zero), positive_part(cell, u, facet, zero)) if part is not None
    ]


def _upper_envelope(cell: Cell, group: list[int], zero: float, numbers: Iterator[int]) -> list[tuple[int, Cell]]:
    """For each function of the group that is the largest on a set with interior: its index, and that set.

    Functions equal on the whole cell count as the first of them. The cell is never cut where the tied pair is not the
    maximum: functions that win nowhere are left out before the cutting.
    """
    candidates = list(dict.fromkeys(group))
    values = cell.values[:, candidates]
    everywhere = (values >= values.max(axis=1, keepdims=True) - zero).all(axis=0)
    if everywhere.any():
        return [(candidates[int(everywhere.argmax())], cell)]
    distinct: list[int] = []
    for i in candidates:
        if not any(np.abs(cell.values[:, i] - cell.values[:, j]).max() <= zero for j in distinct):
            distinct.append(i)
    facets = {frozenset(pair): next(numbers) for pair in itertools.combinations(distinct, 2)}

    def where_largest(i: int, rivals: list[int]) -> Cell | None:
        part: Cell | None = cell
        for j in rivals:
            if part is not None and j != i:
                part = positive_part(part, part.values[:, i] - part.values[:, j], facets[frozenset((i, j))], zero)
        return part

    winners = [i for i in distinct if where_largest(i, distinct) is not None]
    parts = ((i, where_largest(i, winners)) for i in winners)
    return [(i, part) for i, part in parts if part is not None]


def _by_label(cell: Cell, zero: float, numbers: Iterator[int]) -> list[tuple[int, Cell]]:
    """The label and the set of each label's part of a cell that carries the network's outputs."""
    n_outputs = cell.values.shape[1]
    if n_outputs > 1:
        return _upper_envelope(cell, list(range(n_outputs)), zero, numbers)
    return [(int(part.values.max() > zero), part) for part in _two_sides(cell, 0, 0.0, zero, numbers)]


def _embed(program: Program, slice: Slice, coords: FloatArray) -> Tensor:
    return slice.embed(torch.from_numpy(coords), dtype=program.dtype)


def _values_before(program: Program, depth: int, inputs: Tensor) -> dict[str, Tensor]:
    """Run the network from its input up to fold number ``depth``."""
    values = program.begin(inputs)
    for fold in program.folds[:depth]:
        values = fold.advance(values)
    return values


def _outputs(program: Program, slice: Slice, coords: FloatArray) -> FloatArray:
    return np.asarray(program(_embed(program, slice, coords)).double().numpy())


def _slopes(program: Program, slice: Slice, interior: FloatArray) -> FloatArray:
    """Derivative (r, c, k) of the outputs by the coordinates inside each region, times the extent of the slice.

    By reverse-mode differentiation: differences between corners would lose digits on small cells.
    """
    coords = torch.from_numpy(interior).requires_grad_()
    outputs = program.differentiable(slice.embed(coords, dtype=program.dtype))
    if not outputs.requires_grad:
        return np.zeros((*outputs.shape, slice.dim))
    columns = [torch.autograd.grad(column.sum(), coords, retain_graph=True)[0] for column in outputs.unbind(1)]
    return np.asarray(torch.stack(columns, 1).numpy() * _extent(slice))


def _extent(slice: Slice) -> FloatArray:
    return np.asarray(np.ptp(slice.corners.numpy(), axis=0))


def _rows_of(cells: list[Cell], values: FloatArray) -> list[FloatArray]:
    """Split rows that stand for the corners of all cells, one after another, into one block for each cell."""
    return np.split(values, np.cumsum([len(cell.vertices) for cell in cells])[:-1])


def _first_free_facet(cells: list[Cell]) -> int:
    return 1 + max(max(facets, default=0) for cell in cells for facets in cell.facets)


def _components(n: int, pairs: list[tuple[int, int]]) -> IntArray:
    """Number the connected components of n nodes joined by the pairs."""
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)
