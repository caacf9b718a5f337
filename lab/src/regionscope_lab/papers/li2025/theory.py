"""Section 6.2: Lemmas 6.4 and 6.5 and Theorem 6.3, with both sides computed while two-layer networks train."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Series
from regionscope_lab.papers.stored import nan_if_missing
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.shallow.two_layer import initial_two_layer, sharpness
from regionscope_lab.shallow.two_layer_rates import (
    RateRow,
    Trend,
    alternating_line,
    random_sphere,
    rate_trend,
    regions_vs_learning_rate,
)

_LEMMAS = {
    "lemma_6_4": "Lemma 6.4: R(a, b) <= N(a) + N(b) + 2",
    "lemma_6_5": "Lemma 6.5: (r²/N²) sum N(x) <= sharpness",
    "first": "Theorem 6.3, first step: mean R <= (2/N) sum (N(x) + 1)",
    "second": "Theorem 6.3, second step: that <= (2N/r²) sharpness + 2",
}
_NAMES = {"line": "alternating points on a line", "sphere": "random labels on a sphere"}
_SHARES = (0.1, 0.3, 0.6, 1.0, 1.3, 1.6)  # learning rates, times 2 / sharpness at the start
_AT_EDGE = 1.5  # rate x sharpness from which descent counts as working at the edge of stability
_SIZES: dict[Size, dict[str, Any]] = {  # steps: at the rate 2 / sharpness
    "smoke": {"shares": (0.3, 1.0), "width": 16, "runs": 2, "steps": 40, "record": 3, "n": (6, 6)},
    "desk": {"shares": _SHARES, "width": 60, "runs": 8, "steps": 400, "record": 9, "n": (8, 12)},
    "full": {"shares": _SHARES, "width": 200, "runs": 50, "steps": 5000, "record": 21, "n": (16, 32)},
}


def descend_with(
    *, data: str, n: int, dim: int, width: int, share: float, runs: int, steps: int, record: int
) -> dict[str, Any]:
    """Gradient descent with one learning rate, ``share`` of 2 / sharpness at the start; every inequality is checked.

    All rates descend for the same time, rate x steps.
    """
    x, y = alternating_line(n) if data == "line" else random_sphere(n, dim, seed=0)
    edge = 2 / sharpness(initial_two_layer(width, x.shape[1], seed=0), x)
    (row,) = regions_vs_learning_rate(x, y, [share * edge], width=width, runs=runs, time=steps * edge, record=record)
    return asdict(row) | {"checked": runs * record}


def section6(workspace: Workspace, size: Size) -> Outcome:
    options = dict(_SIZES[size])
    shares, points = options.pop("shares"), options.pop("n")
    answers_by_data = {}
    for data, n, dim in (("line", points[0], 2), ("sphere", points[1], 5)):
        asked = [{"data": data, "n": n, "dim": dim, "share": share, **options} for share in shares]
        answers_by_data[data] = workspace.compute(descend_with, asked)
    return of_section6(answers_by_data)


def of_section6(answers_by_data: Mapping[str, list[dict[str, Any]]]) -> Outcome:
    """Whether every inequality held, and whether larger rates end with fewer regions."""
    every = [answer for answers in answers_by_data.values() for answer in answers]
    cases, failures = sum(one["checked"] for one in every), sum(one["failures"] for one in every)
    claims = [
        Claim(
            words,
            "proven",
            f"least slack {100 * min(one['least_slack'][name] for one in every):.1f}%",
            verdict.holds(failures, cases),
            f"up to {cases} checks",
        )
        for name, words in _LEMMAS.items()
    ]
    rows = {data: [_row(answer) for answer in answers] for data, answers in answers_by_data.items()}
    for data, rate_rows in rows.items():
        claims.append(_trend(f"{_NAMES[data]}, all rates", rate_trend(rate_rows)))
        edge = [row.sharpness for row in rate_rows if row.edge >= 2 and row.lost < row.runs]
        if len(edge) > 1:
            shown = ", ".join(f"{value:.2f}" for value in edge)
            what = f"{_NAMES[data]}: rate x sharpness where descent starts unstable"
            claims.append(Claim(what, "Theta(1) (Assumption 6.2)", shown, verdict.shown()))
        at_edge = rate_trend(rate_rows, edge=_AT_EDGE)
        if math.isfinite(at_edge.low):
            claims.append(_trend(f"{_NAMES[data]}, rates at the edge", at_edge))
    return Outcome(
        claims=tuple(claims),
        tables=tuple(_table(data, rate_rows) for data, rate_rows in rows.items()),
        charts=(
            _chart("Region count and learning rate", "mean regions between training points", "regions", rows),
            _chart("Learning rate x sharpness", "rate x sharpness, late in training", "sharpness", rows),
        ),
        notes=(
            "With the second layer fixed the Hessian depends on the weights through the activation pattern only, so "
            "the sharpness does not rise to 2 / rate by itself: Assumption 6.2 is met at rates at or above "
            "2 / sharpness(0) only. The theorem bounds the count from above; it does not say that the count falls with "
            "the rate, which section 6 concludes from it; that trend is shown, since rates below the edge lie outside "
            "Assumption 6.2.",
            f"Rates at the edge are those with rate x sharpness of at least {_AT_EDGE:g} late in training: "
            f"{'; '.join(_at_edge(data, rate_rows) for data, rate_rows in rows.items())}.",
            "All runs of one data set go through the same time, rate x steps, so that small rates follow the same flow "
            "and end with the same counts. On the alternating line the loss ends near half of that of a zero output: "
            "these networks do not learn all labels.",
        ),
    )


def _at_edge(data: str, rows: Sequence[RateRow]) -> str:
    """The rates at the edge, and those that start unstable and leave it."""
    at = " and ".join(f"{row.rate:.3g}" for row in rows if row.sharpness >= _AT_EDGE)
    off = " and ".join(f"{row.rate:.3g}" for row in rows if row.edge >= 2 and row.sharpness < _AT_EDGE)
    return f"{_NAMES[data]}, {at or 'none'}{f' (not {off}, which leaves the edge)' if off else ''}"


def _trend(where: str, trend: Trend) -> Claim:
    """How the count changes as the rate grows: shown, since rates below the edge lie outside Assumption 6.2."""
    return Claim(
        f"{where}: change of the mean region count for each doubling of the rate",
        "negative (bound: N / (r² rate))",
        f"{trend.slope:+.3f}",
        verdict.shown(),
        f"95% [{trend.low:+.3f}, {trend.high:+.3f}], {trend.runs} starts",
    )


def _row(answer: Mapping[str, Any]) -> RateRow:
    """A stored row; numbers that were not finite come back as nothing."""
    known: dict[str, Any] = {name: nan_if_missing(value) for name, value in answer.items() if name != "checked"}
    known["values"] = tuple(float(nan_if_missing(value)) for value in answer["values"])
    return RateRow(**known)


def _table(data: str, rows: list[RateRow]) -> Table:
    columns = (
        "rate",
        "rate x sharpness(0)",
        "steps",
        "regions",
        "low",
        "high",
        "rate x sharpness",
        "loss",
        "lost",
        "runs",
    )
    return Table(
        _NAMES[data].capitalize(),
        columns,
        tuple((r.rate, r.edge, r.steps, r.regions, r.low, r.high, r.sharpness, r.loss, r.lost, r.runs) for r in rows),
    )


def _chart(title: str, label: str, key: str, rows: Mapping[str, list[RateRow]]) -> Lines:
    series = []
    for data, own in rows.items():
        kept = [row for row in own if math.isfinite(row.high)]
        interval = tuple((row.low, row.high) for row in kept) if key == "regions" else ()
        heights = tuple(float(getattr(row, key)) for row in kept)
        series.append(Series(label=_NAMES[data], x=tuple(row.edge for row in kept), y=heights, interval=interval))
    return Lines(
        title=title,
        x_label="learning rate x sharpness at the start",
        y_label=label,
        x_scale="log",
        series=tuple(series),
        levels=(("edge of stability", 2.0),) if key == "sharpness" else (),
    )
