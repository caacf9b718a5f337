"""What the curve of one seed shows: descent, ascent, second descent; and orders of such numbers along a setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from regionscope.errors import InputError
from regionscope_lab.papers.declaration import Table
from regionscope_lab.papers.figures import Figure, Series
from regionscope_lab.papers.rules import Graded, by_seed, order_vote
from regionscope_lab.papers.seed_table import Curve, SeedRun, by_setting

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


Number = Callable[[SeedRun], float]
ByLevel = Mapping[Any, Sequence[SeedRun]]


def shape(run: SeedRun, name: str = "lc.train") -> DescentShape:
    """Descent, ascent and second descent of this seed, with the standard errors over its own points."""
    curve = run.curve(name)
    return double_descent(curve.steps, curve.values.tolist(), curve.errors.tolist())


def three_phases(run: SeedRun, name: str = "lc.train") -> int:
    """+1: descent, ascent and second descent are clear; -1: only a descent is clear; 0 otherwise."""
    return phases_vote(shape(run, name))


def phases_vote(course: DescentShape) -> int:
    """The same for a curve of any origin; its largest rise is below half of the descent with all of its error."""
    largest = course.rise.amount + CLEAR_ERRORS * course.rise.error
    falls = course.clear == (True, False, False) and largest < course.first_descent.amount / 2
    return 1 if all(course.clear) else -1 if falls else 0


def second_descent(run: SeedRun, name: str = "lc.train") -> float:
    """The share of its peak that the curve loses after it, NaN without an ascent."""
    course = shape(run, name)
    if course.peak is None:
        return math.nan
    fall = course.second_descent
    return 0.0 if fall is None else fall.amount / course.values[course.peak]


def has_second_descent(run: SeedRun, name: str = "lc.train") -> bool:
    """Whether a clear fall follows a clear ascent."""
    return shape(run, name).clear[2]


def rise(run: SeedRun, name: str = "lc.train") -> float:
    """The height of the largest rise, clear or not."""
    return shape(run, name).rise.amount


def steepness(run: SeedRun, name: str = "lc.train") -> float:
    """The largest rise for each power of ten of steps that it takes; steps are counted from 1."""
    course = shape(run, name)
    decades = math.log10((course.steps[course.rise.last] + 1) / (course.steps[course.rise.first] + 1)) or 1.0
    return course.rise.amount / decades


def peak(run: SeedRun, name: str = "lc.train") -> float:
    """The value at the end of the ascent, NaN without one."""
    course = shape(run, name)
    return math.nan if course.peak is None else course.values[course.peak]


def half_rise(run: SeedRun, name: str = "lc.train") -> float:
    """The first step of the ascent at which the curve is half way from its valley to its peak, NaN without one."""
    course = shape(run, name)
    if course.valley is None or course.peak is None:
        return math.nan
    level = (course.values[course.valley] + course.values[course.peak]) / 2
    places = range(course.valley, course.peak + 1)
    return float(next(course.steps[i] for i in places if course.values[i] >= level))


def peak_step(run: SeedRun, name: str = "lc.train") -> float:
    """The step at which the ascent ends, NaN without one."""
    course = shape(run, name)
    return math.nan if course.peak is None else float(course.steps[course.peak])


def level(run: SeedRun, name: str) -> float:
    """Mean over the measurements."""
    return float(run.curve(name).values.mean())


def accuracy(run: SeedRun, part: str) -> Curve:
    """The share of right labels over training."""
    wrong = run.curve(f"error.{part}")
    return Curve(wrong.steps, 1 - wrong.values, wrong.errors)


def reached(curve: Curve, share: float = 0.9) -> int:
    """The first step at which a curve has this share of its largest value."""
    return curve.steps[int(np.argmax(curve.values >= share * curve.values.max()))]


def apart(run: SeedRun, one: str, other: str, step: float) -> tuple[float, float]:
    """The difference of two curves at the measurement nearest to a step, and its standard error over points."""
    a, b = run.curve(one), run.curve(other)
    i = a.place(step)
    return float(a.values[i] - b.values[i]), math.hypot(a.errors[i], b.errors[i])


def is_true(holds: bool) -> int:
    """The vote of a seed in which the statement is true, or its opposite is."""
    return 1 if holds else -1


def sign(value: float) -> int:
    """+1, -1, or 0 for zero and NaN."""
    return int(np.sign(value)) if math.isfinite(value) else 0


def ordered(levels: ByLevel, number: Number, *, falling: bool = False, unit: str = "") -> Graded:
    """Whether a number rises (or falls) along a setting, seed by seed."""
    values = {name: [number(run) for run in runs] for name, runs in levels.items()}
    votes = [order_vote(seed) * (-1 if falling else 1) for seed in zip(*values.values(), strict=True)]
    return by_seed(votes, listed(values, unit))


def listed(values: Mapping[Any, Iterable[float]], unit: str = "") -> str:
    """Means over seeds by level, in one line.

    >>> listed({2: [1.0, 3.0], 3: [4.0]})
    '2 (2), 4 (3)'
    """
    means = {name: [value for value in seeds if math.isfinite(value)] for name, seeds in values.items()}
    return ", ".join(f"{short(fmean(seeds)) if seeds else 'none'}{unit} ({name})" for name, seeds in means.items())


def short(value: float) -> str:
    """Three digits, whole numbers with commas from 1,000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def by_depth(runs: Mapping[str, Sequence[SeedRun]], *names: str) -> dict[str, tuple[SeedRun, ...]]:
    """The runs by depth, which counts the last linear layer."""
    groups = by_setting([run for name in names for run in runs[name]], "network.options.depth")
    return {f"depth {depth + 1}": groups[depth] for depth in sorted(groups)}


def phases_table(title: str, levels: Mapping[Any, Sequence[SeedRun]], name: str = "lc.train") -> Table:
    """Where the curve of each seed starts, turns and ends; means over the seeds in the first of their rows."""
    columns = ("", "seed", "start", "valley", "at step", "peak", "at step", "peaks", "last")
    rows = []
    for key, runs in levels.items():
        for run in runs:
            course = shape(run, name)
            turns: list[float | int | str] = []
            for place in (course.valley, course.peak):
                turns += ["none", ""] if place is None else [course.values[place], course.steps[place]]
            rows.append((str(key), run.seed, course.values[0], *turns, course.peaks, course.values[-1]))
    return Table(title, columns, tuple(rows), detail=True)


def course_table(title: str, levels: Mapping[Any, Sequence[SeedRun]], name: str = "lc.train") -> Table:
    """Means over the seeds of where their curves start, turn and end; the turns of the seeds that have an ascent."""
    rows = []
    for key, runs in levels.items():
        shapes = [shape(run, name) for run in runs]
        turned = [one for one in shapes if one.valley is not None and one.peak is not None]
        turns: list[str] = []
        for places in ([one.valley for one in turned], [one.peak for one in turned]):
            pairs = [(one.values[i], one.steps[i]) for one, i in zip(turned, places, strict=True) if i is not None]
            turns.append(f"{fmean(v for v, _ in pairs):.3g} at {fmean(s for _, s in pairs):,.0f}" if pairs else "none")
        ends = (fmean(one.values[i] for one in shapes) for i in (0, -1))
        start, last = (f"{value:.3g}" for value in ends)
        ascents = f"{len(turned)} of {len(shapes)}"
        rows.append((str(key), start, *turns, last, ascents, ", ".join(str(one.peaks) for one in shapes)))
    columns = ("", "start", "valley at step", "peak at step", "last", "seeds with an ascent", "peaks by seed")
    return Table(title, columns, tuple(rows))


def shown(
    *groups: tuple[str, Mapping[Any, Sequence[SeedRun]], str], more: Sequence[Table] = ()
) -> tuple[tuple[Table, ...], tuple[Figure, ...]]:
    """Tables and figures of a finding, from the title, the levels and the name of each group of curves."""
    tables, figures = list[Table](), list[Figure]()
    for title, levels, name in groups:
        tables += [course_table(f"{title}, means over seeds", levels, name), phases_table(title, levels, name)]
        series = [
            Series(str(key), curve.steps, curve.values.tolist())
            for key, runs in levels.items()
            for curve in (run.curve(name) for run in runs)
        ]
        figures.append(Figure(title=title, x_label="step", y_label="local complexity", series=series, log_x=True))
    return (*tables, *more), tuple(figures)


def along(run: SeedRun, answers: Sequence[Mapping[str, Any]], name: str, error: str) -> Curve:
    """A number of the stored answers about this run, by step."""
    mine = sorted((one for one in answers if one["run"] == run.key), key=lambda one: one["step"])
    values, errors = (np.array([one[key] for one in mine], dtype=np.float64) for key in (name, error))
    return Curve(tuple(one["step"] for one in mine), values, errors)


def signed(what: str, values: Sequence[float]) -> str:
    """The mean over seeds with its sign, in words."""
    return f"{what} {fmean(values):+.3g}"
