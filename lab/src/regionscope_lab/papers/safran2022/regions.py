"""Theorem 4.2: the effective number of linear regions of late gradient flows, against the width of the teacher."""

from __future__ import annotations

import math
from collections.abc import Sequence

from regionscope.measures.statistics import deviation, mean
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Series
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.safran2022.flows import REGION_GRID, Ends, late_flows
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.shallow import region_bound

_RESIDUAL = 0.01  # KKT residual from which a direction counts as a KKT point: 1% of the norm of the weights


def of_theorem42(found: Sequence[Ends]) -> Outcome:
    """The largest effective number for each teacher beside the bound; flows that missed a point do not count."""
    known = [result for result in found if len(result)]
    claims = tuple(_bounded(result) for result in known)
    rows = tuple(_row(result) for result in found)
    columns = (
        "r", "width", "classified", "converged", "bound", "least possible", "effective, line", "deviation", "largest",
        "effective, inside", "exact", "tolerance", "KKT",
    )  # fmt: skip
    return Outcome(
        claims=(*claims, *_all(found, known)),
        tables=(Table("Late flows by the width r of the teacher (means over seeds)", columns, rows),),
        charts=(_chart(known),) if known else (),
        notes=(
            "The theorem is about the limit of the direction. At any finite time the network still has about as many "
            "exact regions as units (column exact); the effective number leaves out units below a tenth of the mean "
            "share and joins units within an angle of 0.1. Column tolerance: from this tolerance on, the count is "
            "within the bound for every seed.",
            "The teacher of width r changes sign r - 1 times, evenly; every seed has its own sample and initial "
            "weights. The paper reports no experiment; its number is the bound.",
        ),
    )


def _bounded(result: Ends) -> Claim:
    bound = region_bound(result.r)
    return Claim(
        f"r = {result.r}, width {result.width}: effective linear regions",
        f"at most 32r + 67 = {bound}",
        f"{max(result.line)} at most; the fewest possible: {_range(result.minimum)}",
        verdict.holds(sum(count > bound for count in result.line), len(result)),
        f"{mean(result.line):.1f} ± {deviation(result.line):.1f} over {len(result)} flows",
    )


def _all(found: Sequence[Ends], known: Sequence[Ends]) -> tuple[Claim, ...]:
    runs, won = sum(result.seeds for result in found), sum(map(len, found))
    ended = sum(sum(result.converged) for result in found)
    shares = [count / least for result in known for count, least in zip(result.line, result.minimum, strict=True)]
    kkt = [value for result in known for value in result.kkt]
    return (
        Claim("flows that classify every point (the premise)", "assumed", f"{won} of {runs}", verdict.shown()),
        Claim(
            "flows whose direction converged",
            "all converge in direction",
            f"{ended} of {won}",
            verdict.holds(won - ended, won),
        ),
        Claim(
            "largest KKT residual of these flows, relative to the norm of the weights",
            "0 in the limit (the direction is a KKT point)",
            f"{max(kkt):.3f}" if kkt else "no flow",
            verdict.small(max(kkt, default=math.nan), limit=_RESIDUAL),
        ),
        Claim(
            "effective regions / fewest possible",
            "at most a constant",
            f"{max(shares):.2f} at most" if shares else "no flow",
            verdict.shown(),
            f"mean {mean(shares):.2f}" if shares else "",
        ),
    )


def _row(result: Ends) -> tuple[str | float | int, ...]:
    head = (
        result.r,
        result.width,
        f"{len(result)}/{result.seeds}",
        f"{sum(result.converged)}/{result.seeds}",
        region_bound(result.r),
    )
    if not len(result):
        return (*head, *("",) * 8)
    return (
        *head, _range(result.minimum), mean(result.line), deviation(result.line), max(result.line), mean(result.inside),
        mean(result.exact), max(result.within), max(result.kkt),
    )  # fmt: skip


def _chart(known: Sequence[Ends]) -> Lines:
    r = tuple(float(result.r) for result in known)
    return Lines(
        title="Theorem 4.2: effective linear regions of late flows",
        x_label="width r of the teacher",
        y_label="linear regions",
        y_scale="log",
        series=(
            Series(
                label="found, mean ± deviation", x=r, y=tuple(mean(result.line) for result in known),
                std=tuple(deviation(result.line) for result in known),
            ),
            Series(label="bound 32r + 67", x=r, y=tuple(float(region_bound(result.r)) for result in known)),
            Series(label="fewest possible", x=r, y=tuple(mean(result.minimum) for result in known)),
            Series(label="units", x=r, y=tuple(float(result.width) for result in known)),
        ),
    )  # fmt: skip


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    asked = REGION_GRID[size].settings()
    answers = workspace.compute_with_place(late_flows, asked)
    return of_theorem42([Ends.of(setting, answer) for setting, answer in zip(asked, answers, strict=True)])


THEOREM42 = read_study("safran2022-theorem42", analyse=_analyse)
