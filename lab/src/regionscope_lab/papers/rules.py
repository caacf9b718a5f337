"""How a claim of a paper is graded: five rules, each from numbers by seed, by setting or by case to a verdict.

=================  ================================================================================================
``by_seed``        a statement about a curve (a peak, an order, a sign), checked in the curve of each seed
``in_range``       a statement about a mean, a share or an exact number, by its interval
``correlated``     a correlation over settings that fit their data, by a bootstrap over settings, then seeds
``single_run``     a number of one run of the paper, against a prediction interval of our runs
``every_case``     a theorem, which must hold in every case
=================  ================================================================================================

``combined`` is the verdict of a claim that has parts, such as one for each depth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from regionscope.errors import InputError
from regionscope.types import FloatArray
from regionscope_lab.statistics import mean, t_interval, wilson

FEWEST_SEEDS, FEWEST_SETTINGS = 3, 8
FIT = 1.0  # training error in percent up to which a setting fits its data
CLEAR = 3.5  # joint standard errors that a change along a curve must exceed: its ends are extremes among tens of looks
ABOVE_ZERO = (math.ulp(0.0), math.inf)  # range of a number that is positive
_ORDERED = 0.6  # Kendall's tau from which values are in an order
_STRONG, _NEAR = 0.5, 0.1  # correlations
_WIDEST = 4.0  # largest by smallest end of a prediction interval that can contradict a number
_RESAMPLES = 2000


class Verdict(Enum):
    """What our runs say about a claim."""

    HOLDS = "holds"
    PARTLY = "partly"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOT_TESTED = "not tested"


@dataclass(frozen=True)
class Graded:
    """A verdict, our number in words with its 95% interval or its votes, and the value and ends behind them."""

    verdict: Verdict
    rule: str
    ours: str
    value: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)


_TEXTS = {
    "by_seed": f"""
        A statement about a curve (a peak, an order, a sign) is checked in the curve of each seed, never in an
        average. With at least {FEWEST_SEEDS} seeds it holds if it is true in two thirds of them, and is contradicted
        if its opposite is; else it is undecided. A rise or fall counts if it exceeds {CLEAR:g} joint standard errors
        over the points of that seed. Values are in an order if Kendall's tau is at least {_ORDERED:g}.""",
    "in_range": f"""
        The 95% interval of a mean over seeds (Student, at least {FEWEST_SEEDS}) or of a share (Wilson), or a number
        without chance: inside the range that the statement allows it holds, outside it is contradicted, across an end
        it is undecided.""",
    "correlated": f"""
        At least {FEWEST_SETTINGS} settings that fit their data (training error at most {FIT:g}%) and differ in more
        than the weight decay, else undecided; the interval is a bootstrap over settings, then seeds. A strong
        correlation holds if the interval lies above {_STRONG:g} and reaches within {_NEAR:g} of the paper's value,
        holds partly above 0, and is contradicted below {_STRONG:g}. A weak one holds between -{_STRONG:g} and
        {_STRONG:g}, and is contradicted outside.""",
    "single_run": f"""
        A number of one run of the paper is compared with the 95% prediction interval of a further run of ours
        (Student's t on the logarithm, at least {FEWEST_SEEDS} seeds). Inside it holds, or is undecided if the interval
        spans more than a factor of {_WIDEST:g}; outside it is contradicted. Ours is a
        geometric mean; tables have arithmetic ones.""",
    "every_case": """
        A theorem must hold in every case: one failure contradicts it.""",
    "combined": """
        A claim with parts (depths, networks, epochs) holds if nine tenths of its decided parts hold, and is
        contradicted if at most a tenth hold, even in part, unless more parts are undecided. It holds partly if some
        parts hold and others do not; else it is undecided.""",
}
RULES = {name: " ".join(text.split()) for name, text in _TEXTS.items()}
"""Each rule in words, as the page of the papers shows it."""

_INTRO = "Drawings and definitions are not claims."
_FIDELITY = (
    "Fidelity, on the pages of the papers: **A** the paper's setting as far as it is printed; **B** something is "
    "shortened or is our choice; **C** something is replaced."
)


def by_seed(votes: Sequence[int], ours: str = "") -> Graded:
    """votes: for each seed +1 if the statement is true, -1 if its opposite is, and 0 if neither is.

    >>> by_seed([1, 1, 0]).verdict.value, by_seed([1, 1]).verdict.value
    ('holds', 'undecided')
    """
    if not set(votes) <= {-1, 0, 1}:
        raise InputError(f"Expected votes of -1, 0 and +1, got {list(votes)}. Compare each seed's curve first.")
    n, yes, no = len(votes), sum(vote > 0 for vote in votes), sum(vote < 0 for vote in votes)
    verdict = Verdict.NOT_TESTED if n == 0 else Verdict.UNDECIDED
    if n >= FEWEST_SEEDS:
        if 3 * yes >= 2 * n:
            verdict = Verdict.HOLDS
        elif 3 * no >= 2 * n:
            verdict = Verdict.CONTRADICTED
    said = f"{yes} of {n} seeds" + (f", the opposite in {no}" if no else "")
    return Graded(verdict, "by_seed", f"{ours}; {said}" if ours else said, float(yes), (float(no), float(n)))


def in_range(
    interval: tuple[float, float, float], low: float, high: float, *, said: str = ".3g", unit: str = ""
) -> Graded:
    """interval: value and 95% ends, NaN where they are not known. low, high: range that the statement allows.

    >>> in_range((2.0, 1.5, 2.5), 0.0, float("inf")).ours
    '2 [1.5, 2.5]'
    """
    value, lower, upper = interval
    if math.isnan(lower) or math.isnan(upper):
        verdict = Verdict.NOT_TESTED if math.isnan(value) else Verdict.UNDECIDED
    elif low <= lower and upper <= high:
        verdict = Verdict.HOLDS
    else:
        verdict = Verdict.CONTRADICTED if upper < low or lower > high else Verdict.UNDECIDED
    ends = "" if lower == upper or math.isnan(lower) else f" [{lower:{said}}, {upper:{said}}]"
    words = "no value" if math.isnan(value) else f"{value:{said}}{unit}{ends}"
    return Graded(verdict, "in_range", words, value, (lower, upper))


def over_seeds(values: Iterable[float]) -> tuple[float, float, float]:
    """Mean and Student's 95% interval, without ends below three seeds: what ``in_range`` grades."""
    known = [value for value in values if not math.isnan(value)]
    return t_interval(known) if len(known) >= FEWEST_SEEDS else (mean(known), math.nan, math.nan)


def share(successes: int, cases: int) -> tuple[float, float, float]:
    """A share of cases and Wilson's 95% interval."""
    return (successes / cases, *wilson(successes, cases)) if cases else (math.nan, math.nan, math.nan)


def order_vote(values: Sequence[float]) -> int:
    """Whether values rise along a setting (+1), fall (-1) or neither (0), by Kendall's tau.

    >>> order_vote([1.0, 2.0, 4.0, 3.0]), order_vote([2.0, 1.0, 3.0])
    (1, 0)
    """
    signs = [np.sign(later - value) for i, value in enumerate(values) for later in values[i + 1 :]]
    tau = float(np.mean(signs)) if signs and all(map(math.isfinite, values)) else 0.0
    return 1 if tau >= _ORDERED else -1 if tau <= -_ORDERED else 0


@dataclass(frozen=True)
class Setting:
    """Two numbers of a setting, one for each seed, and the cell of settings that are near-copies of it."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    cell: tuple[object, ...]


def correlated(paper: float, settings: Sequence[Setting], *, weak: bool = False, sign: int = 1) -> Graded:
    """Pearson's correlation over settings that fit.

    paper: its value, NaN if it prints none. weak: whether the claim is that it is low.
    sign: -1 for a claim of a negative correlation, whose paper value is negative, too.
    """
    value, low, high = bootstrap(settings)
    cells = len({one.cell for one in settings})
    ends = (low, high) if sign > 0 else (-high, -low)
    wanted = _STRONG if math.isnan(paper) else sign * paper
    if cells < FEWEST_SETTINGS or math.isnan(ends[0]):
        verdict = Verdict.UNDECIDED if settings else Verdict.NOT_TESTED
    elif weak:
        inside, outside = max(map(abs, ends)) < _STRONG, ends[0] >= _STRONG or ends[1] <= -_STRONG
        verdict = Verdict.HOLDS if inside else Verdict.CONTRADICTED if outside else Verdict.UNDECIDED
    elif ends[0] > _STRONG and ends[1] >= wanted - _NEAR:
        verdict = Verdict.HOLDS
    elif ends[0] > 0:
        verdict = Verdict.PARTLY
    else:
        verdict = Verdict.CONTRADICTED if ends[1] < _STRONG else Verdict.UNDECIDED
    ours = "not defined" if math.isnan(value) else f"{value:+.2f} [{low:+.2f}, {high:+.2f}], {len(settings)} settings"
    return Graded(verdict, "correlated", ours, value, (low, high))


def bootstrap(settings: Sequence[Setting], *, seed: int = 0) -> tuple[float, float, float]:
    """Pearson's r of the means over seeds, and the 2.5% and 97.5% quantiles over resamples of cells, then of seeds.

    NaN below three cells or where x or y is constant.
    """
    x, y = (np.array([mean(getattr(one, name)) for one in settings]) for name in ("x", "y"))
    cells = {cell: i for i, cell in enumerate(dict.fromkeys(one.cell for one in settings))}
    if len(cells) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan, math.nan, math.nan
    random = np.random.default_rng(seed)
    times = random.multinomial(len(cells), [1 / len(cells)] * len(cells), size=_RESAMPLES).astype(float)
    weights = times[:, [cells[one.cell] for one in settings]]
    a, b = np.empty((2, _RESAMPLES, len(settings)))
    for i, one in enumerate(settings):
        drawn = random.integers(len(one.x), size=(_RESAMPLES, len(one.x)))
        a[:, i], b[:, i] = np.array(one.x)[drawn].mean(1), np.array(one.y)[drawn].mean(1)
    found = _pearson(a, b, weights)
    low, high = np.quantile(found[np.isfinite(found)], [0.025, 0.975])
    return float(_pearson(x[None], y[None], np.ones((1, len(x))))[0]), float(low), float(high)


def _pearson(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    total = weights.sum(1, keepdims=True)
    a, b = (values - (weights * values).sum(1, keepdims=True) / total for values in (x, y))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((weights * a * b).sum(1) / np.sqrt((weights * a**2).sum(1) * (weights * b**2).sum(1)))


def single_run(paper: float, values: Sequence[float], *, said: str = ".3g") -> Graded:
    """paper: a positive number of one run. values: the same number of our runs, one for each seed.

    >>> single_run(100.0, [90.0, 100.0, 110.0, 105.0]).verdict.value
    'holds'
    """
    n = len(values)
    if n < FEWEST_SEEDS or min(values) <= 0:
        return Graded(Verdict.UNDECIDED, "single_run", f"{mean(values):{said}}, no interval", mean(values))
    logs = [math.log(value) for value in values]
    centre, lower, _ = t_interval(logs)
    half = (centre - lower) * math.sqrt(n + 1)  # of a further run, in place of the mean of n
    value, low, high = (math.exp(centre + shift) for shift in (0.0, -half, half))
    narrow = high / low <= _WIDEST
    verdict = Verdict.CONTRADICTED if not low <= paper <= high else Verdict.HOLDS if narrow else Verdict.UNDECIDED
    return Graded(
        verdict, "single_run", f"{value:{said}} [{low:{said}}, {high:{said}}] for one run", value, (low, high)
    )


def every_case(failures: int, cases: int, ours: str = "") -> Graded:
    """A theorem: the cases that were checked and those in which it failed."""
    verdict = Verdict.NOT_TESTED if not cases else Verdict.CONTRADICTED if failures else Verdict.HOLDS
    said = f"{failures} failures in {cases:,} cases"
    return Graded(verdict, "every_case", f"{ours}; {said}" if ours else said, float(failures), (0.0, float(cases)))


def combined(parts: Sequence[Graded], ours: str = "") -> Graded:
    """The verdict of a claim from those of its parts; parts that are not tested do not count."""
    verdicts = [part.verdict for part in parts if part.verdict is not Verdict.NOT_TESTED]
    hold, partly, against, open_ = (
        verdicts.count(kind) for kind in (Verdict.HOLDS, Verdict.PARTLY, Verdict.CONTRADICTED, Verdict.UNDECIDED)
    )
    decided = hold + partly + against
    if not verdicts:
        verdict = Verdict.NOT_TESTED
    elif decided and 10 * hold >= 9 * decided and open_ <= hold:
        verdict = Verdict.HOLDS
    elif decided and 10 * (hold + partly) <= decided and open_ <= against:
        verdict = Verdict.CONTRADICTED
    else:
        verdict = Verdict.PARTLY if partly or (hold and against) else Verdict.UNDECIDED
    words = {"hold": hold, "partly": partly, "contradicted": against, "undecided": open_}
    said = ", ".join(f"{n} {word}" for word, n in words.items() if n) or "no part"
    said = f"{said} of {len(verdicts)}" if len(verdicts) > 1 else said
    return Graded(
        verdict, "combined", f"{ours}; {said}" if ours else said, float(hold), (float(against), float(len(verdicts)))
    )


def rules_markdown() -> list[str]:
    """The lines of the page on how claims are graded."""
    words = {name: name.replace("_", " ").capitalize() for name in RULES}
    return ["## How claims are graded", "", _INTRO, "",
            *(f"- **{words[name]}.** {text}" for name, text in RULES.items()), "", _FIDELITY, ""]  # fmt: skip
