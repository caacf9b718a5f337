"""Lines, tables and figures that several studies of this paper have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from regionscope.measures.correlate import Coefficient, Correlation
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Scatter, Series
from regionscope_lab.papers.study import Claim, Table
from regionscope_lab.papers.transformers.points import Point, correlation, group_by

GAP = "generalisation gap, %"


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
