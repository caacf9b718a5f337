"""Two moons and Gaussian quantiles: Figures 1, 2, 3 and 6 to 10, Tables 2 and 3."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.qi2023 import paper
from regionscope_lab.papers.qi2023.counts import DEPTH, against, by_epoch_of, by_width, counts_of, curves_figure, ratios
from regionscope_lab.papers.rules import (
    by_seed,
    every_case,
    single_run,
)
from regionscope_lab.papers.seed_table import Runs, SeedTable

LINE = 0.5676  # mean length of a line from the origin to a training point


def table2(table: SeedTable, runs: Runs) -> Finding:
    return against(paper.MOONS, counts_of(by_width(runs)), settles=False)


def table3(table: SeedTable, runs: Runs) -> Finding:
    return against(paper.QUANTILES, counts_of(by_width(runs)), settles=True)


def figure1(table: SeedTable, runs: Runs) -> Finding:
    widest = {64: by_width(runs)[64]}
    linear, decision = (counts_of(widest, name)[64][100] for name in ("linear_regions", "decision_regions"))
    rows = tuple((run.seed, a, b) for run, a, b in zip(widest[64], linear, decision, strict=True))
    return Finding(
        {
            "linear": single_run(paper.MOONS[64][-1], linear, said=",.0f"),
            "decision": by_seed([1 if count == 2 else -1 for count in decision]),
        },
        (
            Table(
                "[64, 64, 64] on two moons, epoch 100",
                ("seed", "linear regions", "decision regions"),
                rows,
                detail=True,
            ),
        ),
    )


def figure2(table: SeedTable, runs: Runs) -> Finding:
    mine = [run for same in runs.values() for run in same]
    layers = [[by_epoch_of(run, f"linear_regions.layer.relu{i}")[100] for i in (1, 2, 3)] for run in mine]
    means = " < ".join(f"{fmean(one):.0f}" for one in zip(*layers, strict=True))
    words = f"regions after layers 1 to 3 of [8, 8, 8]: {means}"
    failures = sum(b <= a for one in layers for a, b in pairwise(one))
    return Finding(
        {"layers": every_case(failures, 2 * len(layers), words)},
        (
            Table(
                "Regions of [8, 8, 8] after each layer, epoch 100",
                ("seed", "first", "second", "third"),
                tuple((run.seed, *one) for run, one in zip(mine, layers, strict=True)),
                detail=True,
            ),
        ),
    )


def figure3(table: SeedTable, runs: Runs) -> Finding:
    counts = counts_of(by_width(runs), "lines")
    rows = tuple(
        (f"[{w}, {w}, {w}]", epoch, fmean(one) / (DEPTH * w), fmean(one) / (DEPTH * w * LINE))
        for w, by_epoch in counts.items()
        for epoch, one in by_epoch.items()
        if epoch % 10 == 0
    )
    columns = ("network", "epoch", "regions / neurons", "regions / (neurons x length)")
    return Finding(
        ratios(counts),
        (Table("Regions along lines from the origin", columns, rows, detail=True),),
        (curves_figure("Regions along lines from the origin", "linear regions", counts),),
    )
