"""Lines, tables and figures that several studies of this paper have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from regionscope.measures.correlate import Coefficient, Correlation
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Scatter, Series
from regionscope_lab.papers.li2025.tables import Point, correlation, group_by
from regionscope_lab.papers.study import Claim, Outcome, Table

GAP = "generalisation gap, %"

Thing = TypeVar("Thing")


def correlation_claim(
    what: str, paper: tuple[float, str] | None, chosen: Sequence[Point], measure: str, target: str = "gap"
) -> Claim:
    """A correlation (Pearson's) beside the paper's, which comes as its value and in words; None: it has none."""
    found = correlation(chosen, measure, target)
    if paper is None:
        return Claim(what, "", signed(found), verdict.shown(), interval(found))
    value = undefined() if found is None else found.pearson
    return Claim(what, paper[1], signed(found), verdict.correlation(paper[0], value), interval(found))


def undefined() -> Coefficient:
    """Where too few settings have a number, or all have the same: no rule takes it for a correlation."""
    return Coefficient(math.nan, (math.nan, math.nan), 0)


def signed(found: Correlation | None) -> str:
    """Pearson's r, or that there is none."""
    return "not defined" if found is None else f"{found.pearson.value:+.2f}"


def interval(found: Correlation | None) -> str:
    """Its bootstrap interval and the number of settings."""
    if found is None:
        return ""
    low, high = found.pearson.interval
    return f"95% [{low:+.2f}, {high:+.2f}], {found.pearson.n} settings"


def scatter(
    title: str, chosen: Sequence[Point], measure: str, x_label: str, target: str = "gap", y_label: str = GAP
) -> tuple[Scatter, ...]:
    """The points of every network with the line through all of them; nothing where no line is defined."""
    have = [point for point in chosen if {measure, target} <= point.values.keys()]
    if correlation(have, measure, target) is None:
        return ()
    series = tuple(
        Series.of(name, ((point.values[measure], point.values[target]) for point in members))
        for name, members in group_by(have, lambda point: point.network).items()
    )
    fitted = Scatter.fitted(title=title, x_label=x_label, y_label=y_label, series=series)
    return (replace(fitted, found=correlation(have, measure, target)),)  # the interval of the claims


def points_table(title: str, chosen: Sequence[Point], names: Sequence[str]) -> Table:
    """One row a setting: means over seeds and, where there are several, the standard deviation of the first two."""
    spreads = names[:2] if any(point.seeds > 1 for point in chosen) else ()
    columns = (
        "network",
        "data",
        "learning rate",
        "batch",
        "decay",
        "seeds",
        *names,
        *(f"{name} sd" for name in spreads),
    )
    rows: tuple[tuple[str | float | int, ...], ...] = tuple(
        (
            point.network,
            point.data,
            point.experiment.training.lr,
            point.experiment.training.batch_size,
            point.experiment.training.weight_decay,
            point.seeds,
            *(point.values.get(name, math.nan) for name in names),
            *(point.deviations.get(name, math.nan) for name in spreads),
        )
        for point in chosen
    )
    return Table(title, columns, rows)


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Several outcomes on one page. A note, a chart or a claim that occurs twice is kept once."""
    claims = chain.from_iterable(outcome.claims for outcome in outcomes)
    charts = chain.from_iterable(outcome.charts for outcome in outcomes)
    notes = chain.from_iterable(outcome.notes for outcome in outcomes)
    return Outcome(
        summary=" ".join(outcome.summary for outcome in outcomes if outcome.summary),
        claims=_first_by_key(claims, lambda claim: claim.what),
        tables=tuple(chain.from_iterable(outcome.tables for outcome in outcomes)),
        charts=_first_by_key(charts, lambda chart: replace(chart, title="")),
        notes=tuple(dict.fromkeys(notes)),
    )


def _first_by_key(things: Iterable[Thing], key: Callable[[Thing], object]) -> tuple[Thing, ...]:
    """The first of all that have the same key."""
    first: dict[object, Thing] = {}
    for thing in things:
        first.setdefault(key(thing), thing)
    return tuple(first.values())
