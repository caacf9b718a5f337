"""Whether a result agrees with the paper: one vocabulary of rules for the studies of all papers.

Absolute counts depend on seeds, data order and the grid, so correlations, orderings and trends are compared. Every rule
returns a `Verdict`: the grade, the rule in words, its name and the numbers that it judged. With name and numbers,
`judge` grades a stored claim again.

A result is **inconclusive** where its interval covers both what the paper claims and no effect. An error of NaN is not
known, such as that of a single seed; the interval then covers everything.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import wraps
from typing import Any, ParamSpec

from regionscope.checks import unknown_name
from regionscope.errors import InputError
from regionscope.measures.correlate import Coefficient
from regionscope.measures.statistics import wilson

_CORRELATION_MARGIN = 0.1  # two correlations this near count as equal
_TREND_RANK = 0.5  # rank correlation from which an order counts as the same trend
_WEAK_CORRELATION = 0.5  # a correlation below this does not predict
_FEWEST_SEEDS = 3
_RATIO_FACTOR = 1.25  # two ratios this near count as equal; Qi & Wei's own counts after epoch 10 move by up to 1.22
_STANDARD_ERRORS = 2.0  # standard errors on each side of an interval
_RANK_ROUNDING = 1e-9  # of a rank correlation

_NO_STANDARD_ERROR = "; inconclusive here, since a single value has no standard error"
_ONE_SEED = "; at most same trend, since there is one seed"

_Parameters = ParamSpec("_Parameters")


class Grade(Enum):
    """How far a result agrees."""

    REPRODUCED = "reproduced"
    SAME_TREND = "same trend"
    INCONCLUSIVE = "inconclusive"  # the interval covers both the claim and no effect
    NOT_REPRODUCED = "not reproduced"
    SHOWN = "shown"  # a picture or a number that the paper gives no figure for


@dataclass(frozen=True)
class Verdict:
    """A grade, the rule that gave it in words, the name of that rule, and the numbers that it judged."""

    grade: Grade
    rule: str
    by: str = ""
    given: Mapping[str, Any] = field(default_factory=dict, hash=False)


_RULES: dict[str, Callable[..., Verdict]] = {}
_RENAMED = {"spread": "stderr"}  # arguments of rules that older pages store under another name


def _rule(function: Callable[_Parameters, tuple[Grade, str]]) -> Callable[_Parameters, Verdict]:
    """A rule that returns a grade and words, as one that also records its name and its arguments."""
    signature, name = inspect.signature(function), function.__name__

    @wraps(function)
    def judged(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> Verdict:
        given = signature.bind(*args, **kwargs).arguments
        return Verdict(*function(*args, **kwargs), name, {key: _stored(value) for key, value in given.items()})

    _RULES[name] = judged
    return judged


def _stored(value: Any) -> Any:
    if isinstance(value, Coefficient):
        return {"value": value.value, "interval": list(value.interval), "n": value.n}
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _read(value: Any) -> Any:
    """An argument of a rule from JSON, where NaN is null."""
    if isinstance(value, Mapping):
        return Coefficient(_read(value["value"]), tuple(_read(value["interval"])), value["n"])
    if isinstance(value, list):
        return [_read(one) for one in value]
    return math.nan if value is None else value


def judge(by: str, given: Mapping[str, Any]) -> Verdict:
    """Grade numbers by the rule of this name, such as those of a stored claim.

    >>> judge("differs", {"larger": 2.0, "smaller": 1.0, "error": 0.1}).grade.value
    'reproduced'
    """
    if by not in _RULES:
        raise unknown_name("a rule", by, _RULES)
    return _RULES[by](**{_RENAMED.get(name, name): _read(value) for name, value in given.items()})


@_rule
def correlation(paper: float, ours: Coefficient) -> tuple[Grade, str]:
    """Grade a strong correlation: is ours as strong as the paper's, or at least of the same sign beyond chance?"""
    rule = (
        f"reproduced: within {_CORRELATION_MARGIN} of {paper:+.2f} or stronger, with an interval without 0; "
        "same trend: its sign, and an interval without 0; inconclusive: an interval with 0 that reaches within "
        f"{_CORRELATION_MARGIN} of that value, or no correlation is defined"
    )
    sign, least = math.copysign(1, paper), abs(paper) - _CORRELATION_MARGIN
    low, high = sorted(sign * end for end in ours.interval)
    if not math.isfinite(ours.value + low + high):
        return Grade.INCONCLUSIVE, rule
    if low > 0:
        return (Grade.REPRODUCED if sign * ours.value >= least else Grade.SAME_TREND), rule
    return (Grade.INCONCLUSIVE if high >= least else Grade.NOT_REPRODUCED), rule


@_rule
def uncorrelated(ours: Coefficient) -> tuple[Grade, str]:
    """Grade the correlation of a measure that, according to the paper, does not predict the gap."""
    rule = (
        f"reproduced: the whole interval between -{_WEAK_CORRELATION} and {_WEAK_CORRELATION}; not reproduced: the "
        "whole interval outside; else inconclusive"
    )
    low, high = ours.interval
    if max(abs(low), abs(high)) < _WEAK_CORRELATION:
        return Grade.REPRODUCED, rule
    return (
        Grade.NOT_REPRODUCED if low >= _WEAK_CORRELATION or high <= -_WEAK_CORRELATION else Grade.INCONCLUSIVE
    ), rule


@_rule
def follows(ours: Coefficient, seeds: Sequence[float], *, least: int) -> tuple[Grade, str]:
    """Grade whether a measure goes with the gap over a factor or over all settings.

    ours: of the means over seeds. seeds: the same coefficient of each seed. least: number of settings or contexts
        that a grade needs.
    """
    rule = (
        f"reproduced (it follows the gap): the interval lies above 0, and two thirds of the seeds or more have at "
        f"least {_WEAK_CORRELATION}; not reproduced (it does not follow): the interval lies below "
        f"{_WEAK_CORRELATION}, and so do two thirds of the seeds or more; else inconclusive, as with fewer than "
        f"{_FEWEST_SEEDS} seeds or {least} {'settings' if least > _FEWEST_SEEDS else 'contexts'}"
    )
    strong = sum(value >= _WEAK_CORRELATION for value in seeds)
    weak = sum(value < _WEAK_CORRELATION for value in seeds)
    low, high = ours.interval
    if ours.n < least or len(seeds) < _FEWEST_SEEDS:
        return Grade.INCONCLUSIVE, rule
    if low > 0 and 3 * strong >= 2 * len(seeds):
        return Grade.REPRODUCED, rule
    return (
        Grade.NOT_REPRODUCED if high < _WEAK_CORRELATION and 3 * weak >= 2 * len(seeds) else Grade.INCONCLUSIVE
    ), rule


@_rule
def ordering(
    paper: Sequence[float], ours: Sequence[float], stderr: Sequence[float] = (), *, noise: float = 0.0
) -> tuple[Grade, str]:
    """Grade the order of values along one setting: do they rise and fall as in the paper?

    stderr: standard errors of ours; without them the values have no noise. noise: values of the paper that differ by no
    more than this are not compared, such as those of a single run.
    """
    least = f"{noise:,.0f}" if noise >= 100 else f"{noise:.3g}"
    beyond = f" (pairs that differ by more than {least} there)" if noise else ""
    few = "; at most same trend if fewer pairs are compared than there are steps" if noise else ""
    rule = (
        f"reproduced: every pair is in the paper's order{beyond}, and the paper's lowest and highest differ in its "
        f"direction by more than {_STANDARD_ERRORS:g} standard errors; same trend: these two differ in this way, and "
        f"the rank correlation with the paper's values is at least {_TREND_RANK}; not reproduced: these two differ by "
        f"that much in the other direction, or the rank correlation is lower and a pair is against the paper's order "
        f"by more than {_STANDARD_ERRORS:g} standard errors; else inconclusive{few}"
    )
    if len(paper) != len(ours) or len(paper) < 2:
        raise InputError(f"Expected two lists of one length of at least 2, got {len(paper)} and {len(ours)}. Trim one.")
    errors = tuple(stderr) if stderr else (0.0,) * len(ours)
    if not all(map(math.isfinite, (*ours, *errors))):
        return Grade.INCONCLUSIVE, rule + ("; inconclusive here, since a value or its standard error is not known")
    from scipy.stats import spearmanr  # takes longer to import than all of regionscope

    steps = [  # in the paper's direction, and what noise explains of it
        (
            (ours[i] - ours[j]) * math.copysign(1, paper[i] - paper[j]),
            _STANDARD_ERRORS * math.hypot(errors[i], errors[j]),
        )
        for i in range(len(ours))
        for j in range(i)
        if abs(paper[i] - paper[j]) > noise
    ]
    low, high = paper.index(min(paper)), paper.index(max(paper))
    span, doubt = ours[high] - ours[low], _STANDARD_ERRORS * math.hypot(errors[low], errors[high])
    rank = float(spearmanr(paper, ours).statistic) if len(set(ours)) > 1 else 0.0
    alike = rank >= _TREND_RANK - _RANK_ROUNDING
    if span > doubt and alike:
        enough = len(steps) >= len(paper) - 1
        return (Grade.REPRODUCED if enough and all(step > 0 for step, _ in steps) else Grade.SAME_TREND), rule
    against = any(step < -error for step, error in steps) and not alike
    return (Grade.NOT_REPRODUCED if against or span + doubt <= 0 else Grade.INCONCLUSIVE), rule


@_rule
def differs(larger: float, smaller: float, error: float) -> tuple[Grade, str]:
    """Grade whether one value is larger than another. error: standard error of their difference, or NaN."""
    rule = (
        f"reproduced: larger by more than {_STANDARD_ERRORS:g} standard errors; not reproduced: not larger by any "
        f"value within {_STANDARD_ERRORS:g} standard errors; else inconclusive"
    )
    if math.isnan(error):
        return Grade.INCONCLUSIVE, rule + _NO_STANDARD_ERROR
    return _above_zero(larger - smaller - _STANDARD_ERRORS * error, larger - smaller + _STANDARD_ERRORS * error), rule


@_rule
def positive(interval: Sequence[float]) -> tuple[Grade, str]:
    """Grade a mean difference over seeds that should be positive, by its 95% interval."""
    rule = (
        "reproduced: the 95% interval of the mean difference lies above 0; not reproduced: below 0; else inconclusive"
    )
    return _above_zero(*interval), rule


def _above_zero(low: float, high: float) -> Grade:
    return Grade.REPRODUCED if low > 0 else Grade.NOT_REPRODUCED if high <= 0 else Grade.INCONCLUSIVE


@_rule
def grows(paper: float, ratio: float, interval: Sequence[float]) -> tuple[Grade, str]:
    """Grade a growth by a factor that the paper gives. interval: 95% interval over seeds."""
    rule = (
        f"reproduced: the ratio is within a factor of {_RATIO_FACTOR:g} of the paper's, and its 95% interval over "
        f"seeds lies above 1; same trend: the interval lies above 1; inconclusive: the interval covers 1 and reaches "
        f"within a factor of {_RATIO_FACTOR:g} of the paper's ratio"
    )
    low, high = interval
    if low > 1:
        return (Grade.REPRODUCED if max(ratio / paper, paper / ratio) <= _RATIO_FACTOR else Grade.SAME_TREND), rule
    return (Grade.NOT_REPRODUCED if high < paper / _RATIO_FACTOR else Grade.INCONCLUSIVE), rule


@_rule
def stays(interval: Sequence[float]) -> tuple[Grade, str]:
    """Grade a number that should stay constant, by the 95% interval of its ratio over seeds."""
    rule = (
        f"reproduced: the whole 95% interval of the ratio over seeds is within a factor of {_RATIO_FACTOR:g} of 1; not "
        "reproduced: no part of it; else inconclusive"
    )
    low, high = interval
    if low >= 1 / _RATIO_FACTOR and high <= _RATIO_FACTOR:
        return Grade.REPRODUCED, rule
    return (Grade.NOT_REPRODUCED if low > _RATIO_FACTOR or high < 1 / _RATIO_FACTOR else Grade.INCONCLUSIVE), rule


@_rule
def phases(clear: Sequence[bool], *, beyond: float) -> tuple[Grade, str]:
    """Grade a curve with a descent, an ascent and a second descent, each larger than ``beyond`` standard errors."""
    rule = (
        f"reproduced: descent, ascent and second descent are each larger than {beyond:g} joint standard errors (a high "
        "limit, since valley and peak are the extremes of all measurements); same trend: two of the three. Errors are "
        "pooled along the curve: the root mean square over all steps of the spread between seeds, without a constant "
        "offset, and at each step at least the error over its points. The ascent is the largest rise beyond that "
        "limit. The second descent goes from its peak to the mean of the last three measurements"
    )
    return {3: Grade.REPRODUCED, 2: Grade.SAME_TREND}.get(sum(clear), Grade.NOT_REPRODUCED), rule


@_rule
def absent(*, beyond: float) -> tuple[Grade, str]:
    """The grade of a property of an ascent if our curve has no ascent."""
    rule = (
        f"not reproduced: a curve has no rise of more than {beyond:g} joint standard errors, so there is no ascent to "
        "compare"
    )
    return Grade.NOT_REPRODUCED, rule


@_rule
def together(looks: int, *, least: int) -> tuple[Grade, str]:
    """Grade whether two curves meet: looks is the number of consecutive measurements within two standard errors."""
    rule = f"reproduced: within two standard errors at {least} consecutive measurements or more; same trend: at one"
    return (Grade.REPRODUCED if looks >= least else Grade.SAME_TREND if looks else Grade.NOT_REPRODUCED), rule


@_rule
def agrees(paper: float, ours: float, *, within: float, error: float = 0.0) -> tuple[Grade, str]:
    """Grade a number that should be within a share of the paper's. error: its standard error, or NaN."""
    rule = f"reproduced: within {100 * within:g}% of the paper's value; same trend: within {500 * within:g}%"
    if error:
        rule += (
            f"; both with every value within {_STANDARD_ERRORS:g} standard errors; not reproduced: no such value "
            f"within {500 * within:g}%; else inconclusive"
        )
    if math.isnan(error):
        return Grade.INCONCLUSIVE, rule + _NO_STANDARD_ERROR
    off, doubt = abs(ours - paper) / abs(paper), _STANDARD_ERRORS * error / abs(paper)
    if off + doubt <= 5 * within:
        return (Grade.REPRODUCED if off + doubt <= within else Grade.SAME_TREND), rule
    return (Grade.NOT_REPRODUCED if off - doubt > 5 * within else Grade.INCONCLUSIVE), rule


@_rule
def counted(paper: int, ours: int) -> tuple[Grade, str]:
    """Grade a small count, such as the number of peaks, which must be equal."""
    return (Grade.REPRODUCED if ours == paper else Grade.NOT_REPRODUCED), "reproduced: the same number"


@_rule
def holds(failures: int, cases: int) -> tuple[Grade, str]:
    """Grade a theorem, which must hold in every case."""
    rule = "reproduced: no failure in all cases; inconclusive: there is no case"
    if not cases:
        return Grade.INCONCLUSIVE, rule
    return (Grade.NOT_REPRODUCED if failures else Grade.REPRODUCED), rule


@_rule
def probable(successes: int, cases: int, *, least: float) -> tuple[Grade, str]:
    """Grade an event that, by a theorem, has a probability of at least ``least``."""
    rule = (
        f"reproduced: the 95% interval (Wilson) of the share lies at {least:g} or above; not reproduced: below it; "
        "else inconclusive"
    )
    low, high = wilson(successes, cases) if cases else (0.0, 1.0)
    return (Grade.REPRODUCED if low >= least else Grade.NOT_REPRODUCED if high < least else Grade.INCONCLUSIVE), rule


@_rule
def small(value: float, *, limit: float) -> tuple[Grade, str]:
    """Grade a residual that, by a theorem, tends to zero in a limit that no computation reaches."""
    rule = f"reproduced: at most {limit:g}; same trend: at most {10 * limit:g}; inconclusive: not known"
    if math.isnan(value):
        return Grade.INCONCLUSIVE, rule
    return (
        Grade.REPRODUCED if value <= limit else Grade.SAME_TREND if value <= 10 * limit else Grade.NOT_REPRODUCED
    ), rule


@_rule
def near(paper: float, ours: float, *, factor: float = 2.0) -> tuple[Grade, str]:
    """Grade a number whose order of magnitude the paper gives."""
    rule = f"reproduced: within a factor of {factor:g} of {paper:g}; same trend: within a factor of {factor**2:g}"
    off = max(ours / paper, paper / ours) if ours > 0 else math.inf
    if off <= factor:
        return Grade.REPRODUCED, rule
    return (Grade.SAME_TREND if off <= factor**2 else Grade.NOT_REPRODUCED), rule


@_rule
def shown() -> tuple[Grade, str]:
    """The grade of a picture, or of a number that the paper does not state."""
    return Grade.SHOWN, ""


_OVER_SEEDS = {"differs", "ordering", "phases", "together"}  # rules that are about errors


def one_seed(judged: Verdict) -> Verdict:
    """The verdict if all runs share one seed: a claim that is judged on errors is at most same trend."""
    if judged.by not in _OVER_SEEDS or judged.grade is not Grade.REPRODUCED:
        return judged
    return replace(judged, grade=Grade.SAME_TREND, rule=judged.rule + _ONE_SEED)


def overall(verdicts: Sequence[Verdict]) -> Grade:
    """The grade of several claims: that of the weakest."""
    for grade in (Grade.NOT_REPRODUCED, Grade.INCONCLUSIVE, Grade.SAME_TREND, Grade.REPRODUCED):
        if any(verdict.grade is grade for verdict in verdicts):
            return grade
    return Grade.SHOWN
