"""How close a network comes to a tie, relative to the size of the numbers at hand.

Exact ties are not close: they are exact, and an engine is asked to see them. What rounding may legitimately leave
undecided is a number that is not zero, but nearly so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from fuzz.polytopes import Function, Point, Polytope, corners, neighbours, value
from fuzz.program import Largest, Piecewise
from fuzz.truth import Truth


def smallest_sign(truth: Truth) -> float:
    """The smallest nonzero number whose sign decides about a fold or a label."""
    steps = [i for i, step in enumerate(truth.program.steps) if isinstance(step, Piecewise | Largest)]
    return min([*(_of_step(truth, i) for i in steps), _of_labels(truth)])


def _of_step(truth: Truth, i: int) -> float:
    """Over all corners: the nonzero inputs of a fold, as a share of the largest one."""
    step = truth.program.steps[i]
    assert isinstance(step, Piecewise | Largest)
    largest, smallest = 0.0, math.inf
    for cell in truth.cells:
        units = [tuple(unit) for unit in cell.tensors[step.source].tolist()]
        if isinstance(step, Piecewise):
            functions = [(*unit[:-1], unit[-1] - t) for unit in units for t in step.thresholds]
        else:
            functions = [_minus(units[i], units[j]) for group in step.groups for i in group for j in group if i < j]
        largest = max([largest, *_sizes(cell.polytope, units)])
        smallest = min([smallest, *_sizes(cell.polytope, functions)])
    return smallest / largest if largest else math.inf


def _of_labels(truth: Truth) -> float:
    """The same for the differences of outputs, at the corners of the pieces of one label."""
    largest, smallest = 0.0, math.inf
    for cell in truth.cells:
        outputs = [tuple(unit) for unit in cell.tensors[-1].tolist()]
        pairs = [_minus(a, b) for i, a in enumerate(outputs) for b in outputs[:i]]
        largest = max([largest, *_sizes(cell.polytope, outputs)])
        smallest = min([smallest, *_sizes(cell.polytope, pairs if len(outputs) > 1 else outputs)])
    return smallest / largest if largest else math.inf


def smallest_jump(truth: Truth) -> float:
    """The smallest change of slope between two neighbours that differ, as a share of the largest slope."""
    slopes = [[number for row in cell.tensors[-1].tolist() for number in row[:-1]] for cell in truth.cells]
    pairs = neighbours([cell.polytope for cell in truth.cells])
    changes = [max(abs(a - b) for a, b in zip(slopes[i], slopes[j], strict=True)) for i, j in pairs]
    largest = max(abs(number) for slope in slopes for number in slope)
    return min((change / largest for change in changes if change), default=math.inf)


def _sizes(polytope: Polytope, functions: Iterable[Function]) -> list[float]:
    """The nonzero absolute values of functions at the corners, up to a common factor."""
    points: list[Point] = corners(polytope)
    return [abs(number) / point[-1] for f in functions for point in points if (number := value(f, point))]


def _minus(a: Function, b: Function) -> Function:
    return tuple(x - y for x, y in zip(a, b, strict=True))
