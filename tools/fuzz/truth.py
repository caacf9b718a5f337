"""The counts of a network on a slice, from exact arithmetic.

Each cell of the slice is a polytope with rational corners. A layer that folds cuts every cell along the zero set of
each unit that takes both signs on its corners. Slow, but nothing is rounded and nothing is compared with a tolerance.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fuzz.polytopes import Face, Function, Point, Polytope, corners, joined, positive_part, signs, value
from fuzz.program import Affine, Integers, Join, Largest, Layer, Piecewise, Program, Ranked, Weights, compiled, integers


@dataclass(frozen=True)
class Place:
    """A slice: c -> origin + c @ basis for the coordinates c in the convex hull of ``hull``.

    kind: segment, simplex or box. origin: one input. basis: (k, *input). radius: half the sides of a box.
    """

    kind: str
    origin: np.ndarray
    basis: np.ndarray
    radius: tuple[float, ...] = ()

    @property
    def hull(self) -> Polytope:
        k = len(self.basis)
        if self.kind != "box":
            points = [(*row, 1) for row in [[0] * k, *np.eye(k, dtype=int).tolist()]]
            return [points] if k < 3 else [list(face) for face in itertools.combinations(points, 3)]
        ends = [[Fraction(-r), Fraction(r)] for r in self.radius]
        if k < 3:
            points = [_point(p) for p in itertools.product(*ends)]
            return [points if k == 1 else [points[i] for i in (0, 1, 3, 2)]]
        return [_side(ends, axis, end) for axis in range(3) for end in ends[axis]]

    def functions(self) -> tuple[Integers, int]:
        """The inputs as affine functions of the coordinates: (d, k + 1) integers and their exponent."""
        flat = np.concatenate([self.basis.reshape(len(self.basis), -1), self.origin.reshape(1, -1)])
        return integers(flat.T)


def _point(numbers: Sequence[Fraction]) -> Point:
    below = max(number.denominator for number in numbers)  # all are binary fractions
    return (*(int(number * below) for number in numbers), below)


def _side(ends: list[list[Fraction]], axis: int, end: Fraction) -> Face:
    rest = [i for i in range(3) if i != axis]
    face = []
    for a, b in ((0, 0), (0, 1), (1, 1), (1, 0)):
        numbers = [end] * 3
        numbers[rest[0]], numbers[rest[1]] = ends[rest[0]][a], ends[rest[1]][b]
        face.append(_point(numbers))
    return face


@dataclass(frozen=True)
class Cell:
    """A polytope on which every tensor so far is affine."""

    polytope: Polytope
    tensors: list[Integers]


@dataclass(frozen=True)
class Truth:
    """Exact counts of a network on a slice.

    by_layer: activation regions after each fold. linear: number of linear regions. labels: of each decision
    region, sorted. boundary: on a segment, where the label changes. cells: the activation regions.
    """

    by_layer: list[int]
    linear: int
    labels: list[int]
    boundary: list[Point]
    cells: list[Cell]
    program: Program

    @property
    def vertices(self) -> list[Point]:
        """All corners of the activation regions."""
        return list(dict.fromkeys(point for cell in self.cells for point in corners(cell.polytope)))


def truth_of(layers: Sequence[Layer], weights: Weights, place: Place) -> Truth:
    """Count all regions of a network on a slice."""
    functions, exponent = place.functions()
    program = compiled(layers, weights, place.origin.shape, exponent)
    cells, by_layer = [Cell(place.hull, [functions])], []
    for step in program.steps:
        if isinstance(step, Piecewise | Largest | Ranked):
            cells = [piece for cell in cells for piece in _folded(cell, step)]
            by_layer.append(len(cells))
        else:
            cells = [Cell(cell.polytope, [*cell.tensors, _affine(cell.tensors, step)]) for cell in cells]
    outputs = [cell.tensors[-1] for cell in cells]
    maps = [tuple(map(tuple, output.tolist())) for output in outputs]
    linear = len(set(joined([cell.polytope for cell in cells], maps)))
    pieces, labels = _labelled(cells)
    roots = joined(pieces, labels)
    return Truth(
        by_layer=by_layer,
        linear=linear,
        labels=sorted(labels[root] for root in set(roots)),
        boundary=_changes(pieces, roots) if len(place.basis) == 1 else [],
        cells=cells,
        program=program,
    )


def _affine(tensors: list[Integers], step: Affine | Join) -> Integers:
    if isinstance(step, Affine):
        product: Integers = step.matrix.dot(tensors[step.source])
        product[:, -1] += step.bias
        return product
    first, second = (tensors[i] << shift for i, shift in zip(step.sources, step.shifts, strict=True))
    return first + second if step.add else np.concatenate([first, second])


def _folded(cell: Cell, step: Piecewise | Largest | Ranked) -> list[Cell]:
    """The pieces of a cell on which every unit of the step keeps its piece, with the step's output on each."""
    units = [tuple(unit) for unit in cell.tensors[step.source].tolist()]
    pieces: list[tuple[Polytope, list[Function]]] = [(cell.polytope, [])]
    for group in [(i,) for i in range(len(units))] if isinstance(step, Piecewise) else step.groups:
        following = []
        for polytope, outputs in pieces:
            parts: list[tuple[Polytope, list[Function]]]
            if isinstance(step, Ranked):
                parts = _in_order(polytope, [units[i] for i in group], step.ranks)
            elif isinstance(step, Largest):
                parts = [(part, [output]) for part, output in upper_envelope(polytope, [units[i] for i in group])]
            else:
                parts = [(part, [output]) for part, output in _cut(polytope, units[group[0]], step)]
            following += [(part, [*outputs, *more]) for part, more in parts]
        pieces = following
    return [Cell(polytope, [*cell.tensors, _as_tensor(outputs)]) for polytope, outputs in pieces]


def _as_tensor(rows: list[Function]) -> Integers:
    tensor = np.empty((len(rows), len(rows[0])), dtype=object)
    tensor[:] = rows
    return tensor


def _cut(polytope: Polytope, unit: Function, step: Piecewise) -> list[tuple[Polytope, Function]]:
    """Cut a polytope at the thresholds of one unit; each part with the unit's output there."""
    parts, rest = [], polytope
    for j, threshold in enumerate(step.thresholds):
        above = (*unit[:-1], unit[-1] - threshold)
        negative, positive = signs(rest, above)
        if negative and positive:
            parts.append((positive_part(rest, tuple(-number for number in above)), _output(unit, step, j)))
            rest = positive_part(rest, above)
        elif not positive:
            return [*parts, (rest, _output(unit, step, j))]
    return [*parts, (rest, _output(unit, step, len(step.thresholds)))]


def _in_order(polytope: Polytope, units: list[Function], ranks: Sequence[int]) -> list[tuple[Polytope, list[Function]]]:
    """The parts of a polytope in which the units keep their order; each with those of the ranks."""
    parts = [polytope]
    for first, second in itertools.combinations(dict.fromkeys(units), 2):
        difference = tuple(a - b for a, b in zip(first, second, strict=True))
        cut = []
        for part in parts:
            if all(signs(part, difference)):
                cut += [positive_part(part, f) for f in (difference, tuple(-number for number in difference))]
            else:
                cut.append(part)
        parts = cut
    ordered = [sorted(units, key=lambda unit, part=part: _total(part, unit)) for part in parts]
    return [(part, [units[rank] for rank in ranks]) for part, units in zip(parts, ordered, strict=True)]


def _total(polytope: Polytope, unit: Function) -> Fraction:
    """The sum of the values at all corners, with the order of the values inside."""
    return sum((Fraction(value(unit, point), point[-1]) for point in corners(polytope)), Fraction(0))


def _output(unit: Function, step: Piecewise, j: int) -> Function:
    slope = step.slopes[j]
    return (*(slope * number for number in unit[:-1]), slope * unit[-1] + step.constants[j])


def upper_envelope(polytope: Polytope, candidates: list[Function]) -> list[tuple[Polytope, Function]]:
    """The parts of a polytope on which each of the different candidates is the largest."""
    parts, different = [], list(dict.fromkeys(candidates))
    for one in different:
        part: Polytope | None = polytope
        for other in different:
            if part is not None and other != one:
                part = _where_larger(part, tuple(a - b for a, b in zip(one, other, strict=True)))
        if part is not None:
            parts.append((part, one))
    return parts


def _where_larger(polytope: Polytope, difference: Function) -> Polytope | None:
    negative, positive = signs(polytope, difference)
    if not positive:
        return None
    return positive_part(polytope, difference) if negative else polytope


def _labelled(cells: list[Cell]) -> tuple[list[Polytope], list[int]]:
    """The cells cut where the largest output changes, and the label of each piece; a tie goes to the lowest index."""
    pieces, labels = [], []
    for cell in cells:
        outputs = [tuple(unit) for unit in cell.tensors[-1].tolist()]
        if len(outputs) == 1:
            outputs = [(0,) * len(outputs[0]), outputs[0]]  # one output: 1 where it is larger than 0
        for part, largest in upper_envelope(cell.polytope, outputs):
            pieces.append(part)
            labels.append(outputs.index(largest))
    return pieces, labels


def _changes(pieces: list[Polytope], roots: list[int]) -> list[Point]:
    """The points of a segment between two decision regions."""
    ends: dict[Point, set[int]] = {}
    for piece, root in zip(pieces, roots, strict=True):
        for point in piece[0]:
            ends.setdefault(point, set()).add(root)
    return [point for point, around in ends.items() if len(around) == 2]
