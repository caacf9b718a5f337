"""The shape of a curve over training: descent, ascent, second descent, and turning points that stand out of noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regionscope.errors import InputError

CLEAR_ERRORS = 3.5  # joint standard errors that a change must exceed: its ends are extremes among some tens of looks
_LAST_LOOKS = 3  # looks at the end, whose mean a second descent is judged by


@dataclass(frozen=True)
class Change:
    """From one place of the curve to a later one: the places (indices), how much it changed, and the standard error."""

    first: int
    last: int
    amount: float
    error: float

    @property
    def clear(self) -> bool:
        """Whether it is larger than the noise can make the extremes of a flat curve."""
        return self.amount > CLEAR_ERRORS * self.error


@dataclass(frozen=True)
class DescentShape:
    """A curve as a first descent, an ascent and a second descent.

    first_descent: may be unclear, or of the amount 0. rise: the largest rise, clear or not. ascent: the same if it is
    clear, else None, and then there is no valley, peak or second descent either. second_descent: from the peak to the
    mean of the last three looks (of those after the peak); None where the peak is the last look. turns: places of all
    turning points that stand out of the noise, the two ends not among them.
    """

    steps: tuple[float, ...]
    values: tuple[float, ...]
    first_descent: Change
    rise: Change
    ascent: Change | None
    second_descent: Change | None
    turns: tuple[int, ...]

    @property
    def clear(self) -> tuple[bool, bool, bool]:
        """Which of descent, ascent and second descent are there."""
        second = self.second_descent is not None and self.second_descent.clear
        return self.first_descent.clear, self.ascent is not None, second

    @property
    def valley(self) -> int | None:
        """Where the first descent ends."""
        return None if self.ascent is None else self.ascent.first

    @property
    def peak(self) -> int | None:
        """Where the ascent ends."""
        return None if self.ascent is None else self.ascent.last

    @property
    def peaks(self) -> int:
        """How many of the turning points are peaks."""
        return sum(self._is_peak(i) for i in range(len(self.turns)))

    def _is_peak(self, i: int) -> bool:
        neighbour = self.turns[i - 1] if i > 0 else (self.turns[i + 1] if len(self.turns) > 1 else 0)
        return self.values[self.turns[i]] > self.values[neighbour]


def double_descent(steps: Sequence[float], values: Sequence[float], errors: Sequence[float]) -> DescentShape:
    """The largest clear rise of a curve, the largest fall before it, and the fall from its top to the end.

    errors: standard errors of the values; from few seeds, pooled along the curve, since those of one step are guesses.
    Clear is what exceeds ``CLEAR_ERRORS`` joint standard errors, so nothing where they are NaN (not known). Without a
    clear rise there is one descent only, the largest fall. Cost: quadratic in the number of steps.

    >>> shape = double_descent([0, 1, 2, 3, 4], [5, 1, 3, 4, 0], [0.1] * 5)
    >>> shape.first_descent.amount, shape.ascent.amount, shape.second_descent.amount, shape.steps[shape.peak]
    (4, 3, 4.0, 3)
    """
    if not len(steps) == len(values) == len(errors) or len(steps) < 2:
        raise InputError(
            f"Expected two or more steps, values and errors, as many of each, got {len(steps)}, {len(values)} and "
            f"{len(errors)}. Pass lists of one length."
        )
    if not all(map(math.isfinite, values)) or any(map(math.isinf, errors)):
        raise InputError("Expected a finite curve, got NaN or infinite values. Remove them.")
    rise = _largest_rise(values, errors)
    ascent = rise if rise.clear else None
    if ascent is None:
        fall = _largest_rise([-value for value in values], errors)
    else:
        start = max(range(ascent.first + 1), key=lambda i: values[i])
        low = ascent.first
        fall = Change(start, low, values[start] - values[low], math.hypot(errors[start], errors[low]))
    second = None if ascent is None else _to_the_end(ascent.last, values, errors)
    return DescentShape(tuple(steps), tuple(values), fall, rise, ascent, second, turning_points(values, errors))


def turning_points(values: Sequence[float], errors: Sequence[float]) -> tuple[int, ...]:
    """Places of peaks and valleys from which the curve moves away by more than the noise on both sides.

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


def _largest_rise(values: Sequence[float], errors: Sequence[float]) -> Change:
    """The largest rise among the clear ones; where none is clear, the largest."""
    best = Change(0, 0, 0.0, math.hypot(errors[0], errors[0]))
    for j in range(len(values)):
        for i in range(j):
            one = Change(i, j, values[j] - values[i], math.hypot(errors[i], errors[j]))
            if (one.clear, one.amount) > (best.clear, best.amount):
                best = one
    return best


def _to_the_end(peak: int, values: Sequence[float], errors: Sequence[float]) -> Change | None:
    """From the peak to the mean of the last looks after it, which share their points: the errors do not average out."""
    last = range(max(peak + 1, len(values) - _LAST_LOOKS), len(values))
    if not last:
        return None
    level, error = (sum(these[i] for i in last) / len(last) for these in (values, errors))
    return Change(peak, len(values) - 1, values[peak] - level, math.hypot(errors[peak], error))


def _beyond(amount: float, one: float, other: float) -> bool:
    return amount > 0 and amount > CLEAR_ERRORS * math.hypot(one, other)
