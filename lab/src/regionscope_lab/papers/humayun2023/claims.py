"""Lines of reports that several studies of this paper have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from regionscope_lab.papers import verdict
from regionscope_lab.papers.humayun2023.curves import Curve, plus_minus
from regionscope_lab.papers.humayun2023.shape import CLEAR_ERRORS
from regionscope_lab.papers.study import Claim

NO_ASCENT = "no ascent"
WithError = tuple[float, float]  # with its standard error


def three_phases(what: str, curve: Curve) -> Claim:
    """Double descent: first descent, ascent, second descent."""
    shape = curve.shape
    changes = [shape.first_descent, shape.ascent, shape.second_descent]
    return Claim(
        what,
        "descent, ascent, second descent",
        _course(curve),
        verdict.phases(shape.clear, beyond=CLEAR_ERRORS),
        ", ".join(
            "none" if change is None else f"{change.amount:.2g} {plus_minus(change.error)}" for change in changes
        ),
    )


def _course(curve: Curve) -> str:
    shape = curve.shape
    start = shape.first_descent.first
    if shape.ascent is None:
        return f"{_at(curve, start)} → {_at(curve, shape.first_descent.last)}, {NO_ASCENT}"
    said = " → ".join(_at(curve, i) for i in (start, shape.ascent.first, shape.ascent.last))
    second = shape.second_descent
    return said if second is None else f"{said} → {curve.means[second.first] - second.amount:.3g} at the end"


def _at(curve: Curve, place: int) -> str:
    return f"{curve.means[place]:.3g} (step {curve.steps[place]:,})"


def ordered(what: str, paper: str, ranks: Sequence[float], found: Mapping[str, WithError | None]) -> Claim:
    """Values with errors along a setting, whose order the paper says; ``ranks`` rise where the paper's values do.

    None stands for what needs an ascent where there is none: with it nothing is reproduced.
    """
    known = [value for value in found.values() if value is not None]
    said = ", ".join(f"{name}: {NO_ASCENT if value is None else f'{value[0]:.3g}'}" for name, value in found.items())
    if len(known) < len(found):
        judged = verdict.absent(beyond=CLEAR_ERRORS)
    else:
        judged = verdict.ordering(ranks, [value for value, _ in known], [error for _, error in known])
    spread = ", ".join("" if value is None else plus_minus(value[1]) for value in found.values())
    return Claim(what, paper, said, judged, spread.strip(", "))


def larger(what: str, paper: str, big: tuple[str, WithError | None], small: tuple[str, WithError | None]) -> Claim:
    """One number is larger than another; None as in ``ordered``."""
    said = ", ".join(f"{name}: {NO_ASCENT if value is None else f'{value[0]:.3g}'}" for name, value in (big, small))
    (_, first), (_, second) = big, small
    if first is None or second is None:
        return Claim(what, paper, said, verdict.absent(beyond=CLEAR_ERRORS))
    error = math.hypot(first[1], second[1])
    return Claim(what, paper, said, verdict.differs(first[0], second[0], error), f"difference {plus_minus(error)}")


def rise(curve: Curve) -> WithError:
    """The largest rise of the curve, be it beyond the noise or not."""
    return curve.shape.rise.amount, curve.shape.rise.error


def steepness(curve: Curve) -> WithError:
    """The largest rise for each power of ten of steps that it takes; steps are counted from 1."""
    change = curve.shape.rise
    decades = math.log10((curve.steps[change.last] + 1) / (curve.steps[change.first] + 1)) or 1.0
    return change.amount / decades, change.error / decades


def peak(curve: Curve) -> WithError | None:
    """The value where the ascent ends."""
    place = curve.shape.peak
    return None if place is None else (curve.means[place], curve.pooled[place])


def second_descent(curve: Curve) -> WithError | None:
    """What share of its peak the curve loses after it; 0 where the peak is the last look, None without an ascent."""
    top = peak(curve)
    if top is None or top[0] <= 0:
        return None
    change = curve.shape.second_descent
    return (0.0, top[1] / top[0]) if change is None else (change.amount / top[0], change.error / top[0])


def start_of_ascent(curve: Curve) -> WithError | None:
    """The power of ten of the step at which the ascent starts."""
    return _power(curve, curve.shape.valley)


def end_of_ascent(curve: Curve) -> WithError | None:
    """The power of ten of the step at which the ascent ends."""
    return _power(curve, curve.shape.peak)


def duration(curve: Curve) -> WithError | None:
    """The powers of ten of steps between the start and the end of the ascent."""
    start, end = start_of_ascent(curve), end_of_ascent(curve)
    return None if start is None or end is None else (end[0] - start[0], math.hypot(start[1], end[1]))


def _power(curve: Curve, i: int | None) -> WithError | None:
    """The power of ten of a step, which is known up to the distance of the measurements."""
    if i is None:
        return None
    around = curve.steps[max(0, i - 1)], curve.steps[min(len(curve.steps) - 1, i + 1)]
    low, here, high = (math.log10(max(1, step)) for step in (around[0], curve.steps[i], around[1]))
    return here, (high - low) / 4


def distance(curve: Curve, other: Curve, place: int | None) -> WithError | None:
    """Absolute difference of two curves at a measurement."""
    if place is None:
        return None
    return abs(curve.means[place] - other.means[place]), math.hypot(curve.pooled[place], other.pooled[place])
