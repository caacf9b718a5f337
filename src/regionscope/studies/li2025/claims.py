"""Lines, tables and figures that several studies of this paper have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from regionscope.measures.correlate import Coefficient, Correlation
from regionscope.studies import verdict
from regionscope.studies.charts import Scatter, Series
from regionscope.studies.li2025.tables import Point, correlation, group_by
from regionscope.studies.study import Claim, Outcome, Table

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
    have = [one for one in chosen if {measure, target} <= one.values.keys()]
    if correlation(have, measure, target) is None:
        return ()
    series = tuple(
        Series.of(name, ((one.values[measure], one.values[target]) for one in members))
        for name, members in group_by(have, lambda one: one.network).items()
    )
    fitted = Scatter.fitted(title=title, x_label=x_label, y_label=y_label, series=series)
    return (replace(fitted, found=correlation(have, measure, target)),)  # the interval of the claims


def points_table(title: str, chosen: Sequence[Point], names: Sequence[str]) -> Table:
    """One row a setting: means over seeds and, where there are several, the standard deviation of the first two."""
    spreads = names[:2] if any(one.seeds > 1 for one in chosen) else ()
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
            one.network,
            one.data,
            one.experiment.training.lr,
            one.experiment.training.batch_size,
            one.experiment.training.weight_decay,
            one.seeds,
            *(one.values.get(name, math.nan) for name in names),
            *(one.deviations.get(name, math.nan) for name in spreads),
        )
        for one in chosen
    )
    return Table(title, columns, rows)


def joined(outcomes: Iterable[Outcome]) -> Outcome:
    """Several outcomes on one page; what comes twice is kept once: a note, a chart, a line of the table."""
    every = list(outcomes)
    claims = chain.from_iterable(one.claims for one in every)
    charts = chain.from_iterable(one.charts for one in every)
    return Outcome(
        summary=" ".join(one.summary for one in every if one.summary),
        claims=_once(claims, lambda one: one.what),
        tables=tuple(chain.from_iterable(one.tables for one in every)),
        charts=_once(charts, lambda one: replace(one, title="")),
        notes=_once(chain.from_iterable(one.notes for one in every), lambda one: one),
    )


def _once(things: Iterable[Thing], key: Callable[[Thing], object]) -> tuple[Thing, ...]:
    """The first of all that have the same key."""
    found: dict[object, Thing] = {}
    for one in things:
        found.setdefault(key(one), one)
    return tuple(found.values())
