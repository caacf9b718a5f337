"""Whether a result agrees with the paper, by a rule that is stated next to it.

Absolute counts depend on seeds, data order and the grid, so correlations, orderings and trends are compared. Every rule
returns its own sentence. Rules that only one paper needs stand beside its studies.

An error of NaN is one that is not known, such as that of a single seed: no difference is beyond it, so that a result is
at most of the same trend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from regionscope.measures.correlate import Coefficient

__all__ = [
    "Grade",
    "Verdict",
    "agrees",
    "correlation",
    "differs",
    "holds",
    "near",
    "ordering",
    "overall",
    "shown",
    "uncorrelated",
]

_CLOSE = 0.1  # two correlations this near count as equal
_TREND = 0.5  # rank correlation from which an order counts as the same trend
_WEAK = 0.5  # a correlation below this does not predict


_UNKNOWN = "; no more than same trend, since a single value has no standard error"


class Grade(Enum):
    """How far a result agrees."""

    REPRODUCED = "reproduced"
    SAME_TREND = "same trend"
    NOT_REPRODUCED = "not reproduced"
    SHOWN = "shown"  # a picture or a number that the paper gives no figure for


@dataclass(frozen=True)
class Verdict:
    """A grade, and the rule that gave it."""

    grade: Grade
    rule: str


def correlation(paper: float, ours: Coefficient) -> Verdict:
    """A strong correlation: as strong as the paper's, or at least of its sign beyond chance."""
    rule = (
        f"reproduced: within {_CLOSE} of the paper's {paper:+.2f} or stronger, with an interval without 0; "
        "same trend: its sign, and an interval without 0"
    )
    low, high = ours.interval
    stronger = ours.value * math.copysign(1, paper) >= abs(paper) - _CLOSE
    if low > 0 > -paper or high < 0 < -paper:
        return Verdict(Grade.REPRODUCED if stronger else Grade.SAME_TREND, rule)
    return Verdict(Grade.NOT_REPRODUCED, rule)


def uncorrelated(ours: Coefficient) -> Verdict:
    """A measure that the paper finds not to predict."""
    rule = f"reproduced: the whole interval between -{_WEAK} and {_WEAK}; same trend: the correlation between them"
    if all(abs(end) < _WEAK for end in ours.interval):
        return Verdict(Grade.REPRODUCED, rule)
    return Verdict(Grade.SAME_TREND if abs(ours.value) < _WEAK else Grade.NOT_REPRODUCED, rule)


def ordering(
    paper: Sequence[float], ours: Sequence[float], spread: Sequence[float] = (), *, noise: float = 0.0
) -> Verdict:
    """Values along one setting: do they rise and fall in the paper's order?

    spread: standard errors of ours; with them a step against the paper's order that is smaller than one joint error is
    no contradiction. Where an error is NaN it is the same trend at most. noise: values of the
    paper that differ by no more than this are not compared, such as those of a single run.
    """
    least = f"{noise:,.0f}" if noise >= 100 else f"{noise:.3g}"
    beyond = f" (pairs that differ by more than {least} there)" if noise else ""
    rule = (
        f"reproduced: no pair stands against the paper's order{beyond} by more than one standard error, the paper's "
        "lowest and highest differ in its direction by more than two, and the rank correlation with its values is at "
        f"least {_TREND}; same trend: that rank correlation"
    )
    if len(paper) != len(ours) or len(paper) < 2:
        raise ValueError(f"two lists of one length are compared, and they have {len(paper)} and {len(ours)}")
    if not all(map(math.isfinite, ours)):
        return Verdict(Grade.NOT_REPRODUCED, rule)
    from scipy.stats import spearmanr  # takes longer to import than all of regionscope

    errors = tuple(spread) if spread else (0.0,) * len(ours)
    against = 0
    for i in range(len(ours)):
        for j in range(i):
            step = (ours[i] - ours[j]) * math.copysign(1, paper[i] - paper[j])
            compared = abs(paper[i] - paper[j]) > noise
            against += compared and step < -math.hypot(errors[i], errors[j])
    low, high = paper.index(min(paper)), paper.index(max(paper))
    known = not any(map(math.isnan, errors))
    clear = known and ours[high] - ours[low] > 2 * math.hypot(errors[low], errors[high])
    rank = float(spearmanr(paper, ours).statistic) if len(set(ours)) > 1 else 0.0
    rule += "" if known else _UNKNOWN
    if rank < _TREND:
        return Verdict(Grade.NOT_REPRODUCED, rule)
    return Verdict(Grade.REPRODUCED if clear and not against else Grade.SAME_TREND, rule)


def differs(larger: float, smaller: float, error: float) -> Verdict:
    """One value is larger than another; ``error`` is the standard error of their difference, NaN if not known."""
    known = not math.isnan(error)
    rule = "reproduced: larger by more than two standard errors; same trend: larger" + ("" if known else _UNKNOWN)
    if known and larger - smaller > 2 * error:
        return Verdict(Grade.REPRODUCED, rule)
    return Verdict(Grade.SAME_TREND if larger > smaller else Grade.NOT_REPRODUCED, rule)


def agrees(paper: float, ours: float, *, within: float) -> Verdict:
    """A number that does not depend on chance, up to a share of it."""
    rule = f"reproduced: within {100 * within:g}% of the paper's value; same trend: within {500 * within:g}%"
    error = abs(ours - paper) / abs(paper)
    if error <= within:
        return Verdict(Grade.REPRODUCED, rule)
    return Verdict(Grade.SAME_TREND if error <= 5 * within else Grade.NOT_REPRODUCED, rule)


def holds(failures: int, cases: int) -> Verdict:
    """A theorem: it holds in every case, or it does not."""
    rule = "reproduced: no failure in all cases"
    return Verdict(Grade.REPRODUCED if failures == 0 and cases > 0 else Grade.NOT_REPRODUCED, rule)


def near(paper: float, ours: float, *, factor: float = 2.0) -> Verdict:
    """A number of which the paper gives the order of magnitude."""
    rule = f"reproduced: within a factor of {factor:g} of {paper:g}; same trend: within a factor of {factor**2:g}"
    off = max(ours / paper, paper / ours) if ours > 0 else math.inf
    if off <= factor:
        return Verdict(Grade.REPRODUCED, rule)
    return Verdict(Grade.SAME_TREND if off <= factor**2 else Grade.NOT_REPRODUCED, rule)


def shown() -> Verdict:
    """A picture or a number that the paper gives no figure for."""
    return Verdict(Grade.SHOWN, "")


def overall(verdicts: Sequence[Verdict]) -> Grade:
    """The grade of a study: that of its weakest claim."""
    for grade in (Grade.NOT_REPRODUCED, Grade.SAME_TREND, Grade.REPRODUCED):
        if any(verdict.grade is grade for verdict in verdicts):
            return grade
    return Grade.SHOWN
