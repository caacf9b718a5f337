"""Counts of linear regions by width and epoch, against the tables of the paper and the number of neurons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.figures import Figure, Series
from regionscope_lab.papers.qi2023 import paper
from regionscope_lab.papers.rules import (
    Graded,
    by_seed,
    combined,
    every_case,
    in_range,
    order_vote,
    over_seeds,
    single_run,
)
from regionscope_lab.papers.seed_table import Runs, SeedRun, by_setting

Counts = dict[int, dict[int, list[float]]]  # by width and epoch, one for each seed
DEPTH = 3
_TEN_TO_END = (1 / 1.25, 1.25)  # range of a ratio that stays
_RANGE = 1.5  # largest by smallest value that counts as a constant range


def by_width(runs: Runs) -> dict[int, tuple[SeedRun, ...]]:
    every = sorted(
        (run for mine in runs.values() for run in mine), key=lambda run: (run["network.options.width"], run.seed)
    )
    return by_setting(every, "network.options.width")


def by_epoch_of(run: SeedRun, name: str) -> dict[int, float]:
    per_epoch = -(-int(run["data.n_train"]) // int(run["training.batch_size"]))
    return {int(row["step"]) // per_epoch: float(row["value"]) for row in run.rows[name]}


def counts_of(widths: Mapping[int, Sequence[SeedRun]], name: str = "linear_regions") -> Counts:
    found = {}
    for width, runs in widths.items():
        each = [by_epoch_of(run, name) for run in runs]
        found[width] = {epoch: [one[epoch] for one in each] for epoch in each[0]}
    return found


def _ratio(above: Sequence[float], below: Sequence[float], low: float, high: float) -> Graded:
    """Geometric mean over seeds of a ratio, with its interval."""
    logs = over_seeds(math.log(a / b) for a, b in zip(above, below, strict=True))
    value, lower, upper = map(math.exp, logs)
    return in_range((value, lower, upper), low, high)


def against(printed: Mapping[int, Sequence[int]], counts: Counts, *, settles: bool) -> Finding:
    """Every count of a table of the paper against a further run of ours, and what the table shows."""
    first, last = paper.EPOCHS[0], paper.EPOCHS[-1]
    cells = {
        (width, epoch): single_run(value, counts[width][epoch], said=".0f")
        for width, values in printed.items()
        for epoch, value in zip(paper.EPOCHS, values, strict=True)
        if epoch > 0
    }
    inside = sum(
        one.interval[0] <= printed[width][paper.EPOCHS.index(epoch)] <= one.interval[1]
        for (width, epoch), one in cells.items()
    )
    nearest = {w: min(abs(value / printed[w][0] - 1) for value in counts[w][0]) for w in printed}
    grown = {width: _ratio(one[last], one[first], 1.0, math.inf) for width, one in counts.items()}
    wider = [order_vote(values) for values in zip(*(one[last] for one in counts.values()), strict=True)]
    claims = {
        "start": every_case(sum(off > 0.01 for off in nearest.values()), len(nearest)),
        "cells": combined(list(cells.values()), f"{inside} of {len(cells)} inside our 95% interval"),
        "grows": combined(list(grown.values()), ", ".join(f"{one.ours} ({w})" for w, one in grown.items())),
        "wider": by_seed(wider, ", ".join(f"{fmean(one[last]):,.0f} ({width})" for width, one in counts.items())),
    }
    if settles:
        late = {width: _ratio(one[last], one[10], *_TEN_TO_END) for width, one in counts.items()}
        claims["settles"] = combined(list(late.values()), ", ".join(one.ours for one in late.values()))
    rows = tuple(
        (
            f"[{w}, {w}, {w}]",
            epoch,
            printed[w][i],
            fmean(counts[w][epoch]),
            min(counts[w][epoch]),
            max(counts[w][epoch]),
            cells[w, epoch].verdict.value if epoch else "",
        )
        for w in printed
        for i, epoch in enumerate(paper.EPOCHS)
    )
    columns = ("network", "epoch", "the paper", "mean of ten seeds", "least", "most", "one run of the paper")
    figure = curves_figure("Linear regions during training", "linear regions", counts)
    return Finding(claims, (Table("Linear regions by epoch", columns, rows),), (figure,))


def curves_figure(title: str, y_label: str, counts: Counts) -> Figure:
    """The counts of each seed by epoch, one colour for each width."""
    series = [
        Series(f"[{w}, {w}, {w}]", list(by_epoch), course)
        for w, by_epoch in counts.items()
        for course in zip(*by_epoch.values(), strict=True)
    ]
    return Figure(title=title, x_label="epoch", y_label=y_label, series=series)


def ratios(counts: Counts) -> dict[str, Graded]:
    """Regions along a line over neurons: near 1, and in a constant range over the training."""
    level, reach = {}, {}
    for width, by_epoch in counts.items():
        courses = list(zip(*by_epoch.values(), strict=True))
        neurons = DEPTH * width
        level[width] = in_range(over_seeds(fmean(one) / neurons for one in courses), 0.5, 2.0)
        reach[width] = in_range(over_seeds(max(one) / min(one) for one in courses), 1.0, _RANGE)
    named = {
        name: ", ".join(f"{one.ours} ({w})" for w, one in found.items())
        for name, found in (("level", level), ("range", reach))
    }
    return {
        "level": combined(list(level.values()), named["level"]),
        "range": combined(list(reach.values()), named["range"]),
    }
