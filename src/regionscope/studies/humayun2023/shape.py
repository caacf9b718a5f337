"""The shape of a curve over training: descent, ascent, second descent, and turning points that stand out of noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regionscope.errors import InputError

__all__ = ["BEYOND", "Change", "Shape", "double_descent", "turning_points"]

BEYOND = 2.0  # standard errors that a change must exceed


@dataclass(frozen=True)
class Change:
    """From one place of the curve to a later one: the places (indices), how much it changed, and the standard error."""

    first: int
    last: int
    amount: float
    error: float

    @property
    def clear(self) -> bool:
        """Whether it is larger than two standard errors."""
        return self.amount > BEYOND * self.error


@dataclass(frozen=True)
class Shape:
    """A curve as a first descent, an ascent and a second descent; what is not there has the amount 0 or is not clear.

    turns: places of all turning points that stand out of the noise, the two ends not among them.
    """

    steps: tuple[float, ...]
    values: tuple[float, ...]
    first_descent: Change
    ascent: Change
    second_descent: Change
    turns: tuple[int, ...]

    @property
    def phases(self) -> tuple[Change, Change, Change]:
        return self.first_descent, self.ascent, self.second_descent

    @property
    def valley(self) -> int:
        """Where the first descent ends."""
        return self.ascent.first

    @property
    def peak(self) -> int:
        """Where the ascent ends."""
        return self.ascent.last

    @property
    def peaks(self) -> int:
        """How many of the turning points are peaks."""
        return sum(self._is_peak(i) for i in range(len(self.turns)))

    def _is_peak(self, i: int) -> bool:
        neighbour = self.turns[i - 1] if i > 0 else (self.turns[i + 1] if len(self.turns) > 1 else 0)
        return self.values[self.turns[i]] > self.values[neighbour]


def double_descent(steps: Sequence[float], values: Sequence[float], errors: Sequence[float]) -> Shape:
    """The largest rise of a curve, the largest fall before it and the largest fall after it.

    errors: standard errors of the values. A rise that is not larger than two joint standard errors is no ascent, and
    without an ascent there is one descent only. Cost: linear.

    >>> shape = double_descent([0, 1, 2, 3, 4], [5, 1, 3, 4, 0], [0.1] * 5)
    >>> [change.amount for change in shape.phases], shape.steps[shape.peak]
    ([4, 3, 4], 3)
    """
    if not len(steps) == len(values) == len(errors) or len(steps) < 2:
        raise InputError(
            f"{len(steps)} steps, {len(values)} values and {len(errors)} errors came; two or more of each are needed."
        )
    if not all(map(math.isfinite, (*values, *errors))):
        raise InputError("The curve holds NaN or infinite values; its shape is defined for finite ones only.")
    low, high = _largest_rise(values)
    ascent = _change(low, high, values, errors)
    if ascent.clear:
        start = max(range(low + 1), key=lambda i: values[i])
        end = min(range(high, len(values)), key=lambda i: values[i])
        first, second = _change(low, start, values, errors), _change(end, high, values, errors)
        first, second = Change(start, low, first.amount, first.error), Change(high, end, second.amount, second.error)
    else:
        start, bottom = _largest_rise([-value for value in values])
        first = Change(start, bottom, values[start] - values[bottom], math.hypot(errors[start], errors[bottom]))
        ascent = Change(bottom, bottom, 0.0, math.hypot(errors[bottom], errors[bottom]))
        second = ascent
    return Shape(tuple(steps), tuple(values), first, ascent, second, turning_points(values, errors))


def turning_points(values: Sequence[float], errors: Sequence[float]) -> tuple[int, ...]:
    """Places of peaks and valleys from which the curve moves away by more than two joint standard errors on both sides.

    >>> turning_points([0, 3, 2.9, 3.1, 0, 4], [0.1] * 6)
    (3, 4)
    """
    found: list[int] = []
    top = bottom = 0  # extremes since the last turn
    rising: bool | None = None
    for i, value in enumerate(values):
        top = i if value > values[top] else top
        bottom = i if value < values[bottom] else bottom
        if rising is not False and _beyond(values[top] - value, errors[top], errors[i]):
            found += [top] if rising else []
            rising, bottom, top = False, i, i
        elif rising is not True and _beyond(value - values[bottom], errors[bottom], errors[i]):
            found += [bottom] if rising is False else []
            rising, bottom, top = True, i, i
    return tuple(found)


def _largest_rise(values: Sequence[float]) -> tuple[int, int]:
    """Places i <= j at which values[j] - values[i] is largest."""
    lowest, best = 0, (0, 0)
    for i, value in enumerate(values):
        lowest = i if value < values[lowest] else lowest
        best = (lowest, i) if value - values[lowest] > values[best[1]] - values[best[0]] else best
    return best


def _change(low: int, high: int, values: Sequence[float], errors: Sequence[float]) -> Change:
    return Change(low, high, values[high] - values[low], math.hypot(errors[low], errors[high]))


def _beyond(amount: float, one: float, other: float) -> bool:
    return amount > 0 and amount > BEYOND * math.hypot(one, other)
