"""Lines of reports that several studies of this paper have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from regionscope.studies import verdict
from regionscope.studies.humayun2023.curves import Curve
from regionscope.studies.study import Claim

__all__ = ["difference", "larger", "ordered", "rise", "second_descent", "three_phases"]


def three_phases(what: str, one: Curve) -> Claim:
    """Double descent: first descent, ascent, second descent."""
    shape = one.shape
    places = (shape.first_descent.first, shape.valley, shape.peak, shape.second_descent.last)
    said = " → ".join(f"{one.means[i]:.3g} (step {one.steps[i]:,})" for i in places)
    return Claim(
        what,
        "descent, ascent, second descent",
        said,
        verdict.phases([(change.amount, change.error) for change in shape.phases]),
        ", ".join(f"{change.amount:.2g} ± {change.error:.1g}" for change in shape.phases),
    )


def ordered(what: str, paper: str, ranks: Sequence[float], found: Mapping[str, tuple[float, float]]) -> Claim:
    """Values with errors along a setting, whose order the paper says; ``ranks`` rise where the paper's values do."""
    values, errors = [value for value, _ in found.values()], [error for _, error in found.values()]
    said = ", ".join(f"{name}: {value:.3g}" for name, value in zip(found, values, strict=True))
    return Claim(what, paper, said, verdict.ordering(ranks, values, errors), ", ".join(f"± {e:.1g}" for e in errors))


def larger(what: str, paper: str, big: tuple[str, float, float], small: tuple[str, float, float]) -> Claim:
    """One number (name, value, standard error) is larger than another."""
    error = math.hypot(big[2], small[2])
    said = ", ".join(f"{name}: {value:.3g}" for name, value, _ in (big, small))
    return Claim(what, paper, said, verdict.differs(big[1], small[1], error), f"difference ± {error:.1g}")


def rise(one: Curve) -> tuple[float, float]:
    """How far the curve ascends, with its standard error."""
    return one.shape.ascent.amount, one.shape.ascent.error


def second_descent(one: Curve) -> tuple[float, float]:
    """What share of its peak the curve loses after it, with its standard error."""
    top = one.means[one.shape.peak]
    change = one.shape.second_descent
    return (change.amount / top, change.error / top) if top > 0 else (0.0, 0.0)


def difference(one: Curve, other: Curve, place: int) -> tuple[float, float]:
    """One curve minus another at a measurement, with its standard error."""
    return one.means[place] - other.means[place], math.hypot(one.errors[place], other.errors[place])
