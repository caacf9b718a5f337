"""Random labels: Table 1 as printed and with weight decay, Figures 4 and 5."""

from __future__ import annotations

from statistics import fmean, geometric_mean

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.figures import Figure, Series
from regionscope_lab.papers.qi2023 import paper
from regionscope_lab.papers.rules import Graded, by_seed, combined, order_vote, single_run
from regionscope_lab.papers.seed_table import Runs, SeedTable

HYPOTHESIS = 1e-4  # the decay that is graded; it was fixed before the runs


def _graded(table: SeedTable, decay: float) -> Finding:
    answers = table.answers("qi2023.decay.random_counts", decay=decay)
    sizes = sorted({one["n"] for one in answers})
    epochs = answers[0]["epochs"]
    counts = {
        n: {epoch: [one["regions"][i] for one in answers if one["n"] == n] for i, epoch in enumerate(epochs)}
        for n in sizes
    }
    printed = {n: dict(zip(epochs, paper.random(n, epochs), strict=True)) for n in sizes}
    cells = {
        (n, epoch): single_run(printed[n][epoch], counts[n][epoch], said=".0f")
        for n in sizes
        for epoch in epochs
        if epoch
    }
    inside = sum(one.interval[0] <= printed[n][epoch] <= one.interval[1] for (n, epoch), one in cells.items())
    last = epochs[-1]

    def course(n: int, sign: int) -> Graded:
        """Seed by seed, from epoch 10 on."""
        courses = zip(*(counts[n][epoch] for epoch in epochs[1:]), strict=True)
        return by_seed(
            [sign * order_vote(one) for one in courses],
            f"{fmean(counts[n][epochs[1]]):,.0f} to {fmean(counts[n][last]):,.0f}",
        )

    few, many = counts[sizes[0]][last], counts[sizes[-1]][last]
    off = {
        n: geometric_mean(value / printed[n][epoch] for epoch in epochs[1:] for value in counts[n][epoch])
        for n in sizes
    }
    rows = tuple(
        (n, epoch, printed[n][epoch], fmean(counts[n][epoch]), min(counts[n][epoch]), max(counts[n][epoch]))
        for n in sizes
        for epoch in epochs
    )
    columns = ("points", "epoch", "the paper", "mean of three seeds", "least", "most")
    return Finding(
        {
            "few-grow": course(sizes[0], +1),
            "many-fall": course(sizes[-1], -1),
            "vanish": by_seed(
                [1 if b < a / 10 else -1 for a, b in zip(few, many, strict=True)],
                f"{fmean(few):,.0f} regions with {sizes[0]:,} points, {fmean(many):,.0f} with {sizes[-1]:,}, a fall to "
                f"1/{fmean(few) / fmean(many):.2g}",
            ),
            "cells": combined(
                list(cells.values()),
                f"{inside} of {len(cells)} inside our interval for one run; ours / paper "
                + ", ".join(f"{value:.2f} ({n:,} points)" for n, value in off.items()),
            ),
        },
        (Table(f"Linear regions of [32, 32, 32], weight decay {decay:g}", columns, rows, detail=decay > 0),),
        (
            Figure(
                title=f"Linear regions with random labels, weight decay {decay:g}",
                x_label="epoch",
                log_x=True,
                y_label="linear regions",
                series=[
                    Series(f"{n:,} points", epochs, course)
                    for n in sizes
                    for course in zip(*counts[n].values(), strict=True)
                ],
            ),
        ),
    )


def table1(table: SeedTable, runs: Runs) -> Finding:
    return _graded(table, 0.0)


def decay(table: SeedTable, runs: Runs) -> Finding:
    return _graded(table, HYPOTHESIS)


def figure4(table: SeedTable, runs: Runs) -> Finding:
    every = [run for mine in runs.values() for run in mine]
    sizes = sorted({run["data.n_train"] for run in every})
    right = {
        n: {run.seed: 1 - float(run.curve("error_rate").values[-1]) for run in every if run["data.n_train"] == n}
        for n in sizes
    }
    counts = {
        n: {run.seed: float(run.curve("linear_regions").values[-1]) for run in every if run["data.n_train"] == n}
        for n in sizes
    }
    seeds = sorted(right[sizes[0]])
    peaks = [max(sizes, key={n: counts[n][seed] for n in sizes}.__getitem__) for seed in seeds]
    rows = tuple((n, paper.random(n, (300,))[0], fmean(counts[n].values()), fmean(right[n].values())) for n in sizes)
    return Finding(
        {
            "accuracy": by_seed(
                [-order_vote([right[n][seed] for n in sizes]) for seed in seeds],
                ", ".join(f"{fmean(right[n].values()):.2f} ({n:,})" for n in sizes),
            ),
            "peak": by_seed(
                [1 if sizes[0] < n < sizes[-1] else -1 for n in peaks],
                ", ".join(f"{fmean(counts[n].values()):,.0f} ({n:,})" for n in sizes),
            ),
        },
        (
            Table(
                "Epoch 300: linear regions and training accuracy",
                ("points", "the paper's count", "ours", "accuracy"),
                rows,
            ),
        ),
    )
