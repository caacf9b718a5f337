"""Corollary 5.1: the exact test error of late gradient flows, against the number of points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scipy.optimize import brentq

from regionscope.measures.fit import linear_fit
from regionscope.measures.statistics import mean, standard_error
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Series
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.safran2022.flows import DELTA, ERROR_GRID, Ends, late_flows
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace

_FEWEST_POINTS = 3  # points that a slope needs


def error_bound(r: int, n: int, *, delta: float = DELTA) -> float:
    """The epsilon with n = (r log(1 / epsilon) + log(1 / delta)) / epsilon: Corollary 5.1 with C0 = 1; at most 1.

    >>> round(error_bound(2, 100), 3)
    0.075
    """
    if n <= math.log(1 / delta):
        return 1.0

    def excess(epsilon: float) -> float:
        return n * epsilon - r * math.log(1 / epsilon) - math.log(1 / delta)

    return float(brentq(excess, 1e-300, 1.0))


def of_corollary51(found: Mapping[int, Sequence[Ends]]) -> Outcome:
    """For each teacher: the error against n, its order, its slope, and the bound with C0 = 1."""
    known = {r: [result for result in ends if len(result)] for r, ends in found.items()}
    known = {r: ends for r, ends in known.items() if len(ends) > 1}
    return Outcome(
        claims=tuple(claim for r, ends in known.items() for claim in _claims(r, ends)),
        tables=tuple(_table(r, ends) for r, ends in known.items()),
        charts=(_chart(known),) if known else (),
        notes=(
            f"The paper does not name its constant C0: the bound with C0 = 1 and confidence 1 - {DELTA:g} is our "
            "choice, and a handful of flows cannot establish so small a share, so that it is shown and not judged.",
            "± of a slope is its standard error, from the residuals of the line through the means.",
            "The error is exact, from the zeros of both networks. Only flows that classify their sample count, as "
            "the corollary requires.",
        ),
    )


def _claims(r: int, ends: Sequence[Ends]) -> tuple[Claim, ...]:
    means = [mean(result.error) for result in ends]
    errors = [standard_error(result.error) for result in ends]
    above = [sum(error > error_bound(r, result.n) for error in result.error) / len(result) for result in ends]
    slope = _slope(ends)
    return (
        Claim(
            f"r = {r}: test error as n grows",
            "falls (n of order log(1/error) / error)",
            ", ".join(f"{result.n}: {value:.3g}" for result, value in zip(ends, means, strict=True)),
            verdict.ordering([1 / result.n for result in ends], means, errors),
            "standard errors " + ", ".join(f"{value:.1g}" for value in errors),
        ),
        Claim(
            f"r = {r}: slope of log error over log n",
            "-1, up to a logarithm",
            "cannot be said" if slope is None else f"{slope[0]:+.2f}",
            verdict.shown() if slope is None else verdict.near(1.0, -slope[0], factor=1.5),
            "" if slope is None else f"± {slope[1]:.1g}",
        ),
        Claim(
            f"r = {r}: share of flows above the error of the corollary, for each n",
            f"at most {DELTA:g} (C0 = 1)",
            f"{max(above):.2f} at most",
            verdict.shown(),
            f"{min(map(len, ends))} flows or more for each n",
        ),
    )


def _slope(ends: Sequence[Ends]) -> tuple[float, float] | None:
    """Of the line through log n and log mean error, with its standard error from the residuals of the line.

    Without the n whose error is zero; None below three points.
    """
    points = [(math.log(result.n), math.log(value)) for result in ends if (value := mean(result.error)) > 0]
    if len(points) < _FEWEST_POINTS:
        return None
    fit = linear_fit(*zip(*points, strict=True))
    return fit.slope, fit.slope_stderr


def _table(r: int, ends: Sequence[Ends]) -> Table:
    columns = ("n", "width", "classified", "mean error", "standard error", "largest", "bound, C0 = 1", "regions")
    rows = tuple(
        (result.n, result.width, f"{len(result)}/{result.seeds}", mean(result.error), standard_error(result.error),
         max(result.error), error_bound(r, result.n), mean(result.line))
        for result in ends
    )  # fmt: skip
    return Table(f"Teacher of width {r}", columns, rows)


def _chart(known: Mapping[int, Sequence[Ends]]) -> Lines:
    series = []
    for r, ends in known.items():
        label, bounds = (
            f"r = {r}, mean ± standard error",
            ((float(result.n), error_bound(r, result.n)) for result in ends),
        )
        series += [
            Series.of(label, ((float(result.n), mean(result.error), standard_error(result.error)) for result in ends)),
            Series.of(f"r = {r}, bound with C0 = 1", bounds, beside=label),
        ]
    return Lines(
        title="Corollary 5.1: test error of late flows", x_label="training points n", y_label="P[wrong sign]",
        x_scale="log", y_scale="log", series=tuple(series),
    )  # fmt: skip


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    asked = ERROR_GRID[size].settings()
    found: dict[int, list[Ends]] = {}
    for setting, answer in zip(asked, workspace.compute_with_place(late_flows, asked), strict=True):
        found.setdefault(setting["r"], []).append(Ends.of(setting, answer))
    return of_corollary51(found)


COROLLARY51 = read_study("safran2022-corollary51", analyse=_analyse)
