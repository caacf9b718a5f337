"""Fully connected networks of several depths: Figure 3 and section 4.2."""

from __future__ import annotations

import math
from dataclasses import replace

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.humayun2023 import seeds
from regionscope_lab.papers.humayun2023.seeds import is_true, sign
from regionscope_lab.papers.rules import Graded, by_seed, combined, in_range, over_seeds
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable

FINE, COARSE = "lc.train", "coarse.train"
_FITS = 0.98  # share of its largest value from which an accuracy has peaked


def figure3(table: SeedTable, runs: Runs) -> Finding:
    depths = seeds.by_depth(runs, "depth 2 and 5", "depth 3", "depth 4")
    every = [run for mine in depths.values() for run in mine]
    shallow = depths["depth 2"]

    def settled(run: SeedRun, part: str) -> int:
        """Whether accuracy has peaked where the first descent ends."""
        valley, known = seeds.shape(run).valley, seeds.accuracy(run, part)
        return (
            0
            if valley is None
            else is_true(known.values[known.place(seeds.shape(run).steps[valley])] >= _FITS * known.values.max())
        )

    def gap(run: SeedRun, name: str = "lc") -> float:
        """|train - test| at the peak of the train curve."""
        step = seeds.peak_step(run, f"{name}.train")
        return math.nan if math.isnan(step) else abs(seeds.apart(run, f"{name}.train", f"{name}.test", step)[0])

    def sharper(part: str) -> Graded:
        return combined(
            [
                by_seed([sign(seeds.rise(run) - seeds.rise(run, f"lc.{part}")) for run in mine])
                for mine in depths.values()
            ],
            seeds.listed({name: [seeds.rise(run, f"lc.{name}") for run in every] for name in ("train", part)}),
        )

    two_scales = [
        is_true(seeds.has_second_descent(run, COARSE) and not seeds.has_second_descent(run)) for run in shallow
    ]
    return Finding(
        {
            "phases": combined(
                [by_seed([seeds.three_phases(run) for run in mine]) for mine in list(depths.values())[1:]]
            ),
            "phases-coarse": combined(
                [by_seed([seeds.three_phases(run, COARSE) for run in mine]) for mine in depths.values()]
            ),
            "accuracy": combined(
                [
                    by_seed([settled(run, part) for run in mine])
                    for mine in depths.values()
                    for part in ("train", "test")
                ]
            ),
            "sharp-test": sharper("test"),
            "sharp-random": sharper("random"),
            "depth": seeds.ordered(depths, seeds.rise, falling=True),
            "depth-coarse": seeds.ordered(depths, lambda run: seeds.rise(run, COARSE), falling=True),
            "steepness": seeds.ordered(depths, seeds.steepness, falling=True),
            "gap": seeds.ordered(depths, gap, falling=True),
            "gap-coarse": seeds.ordered(depths, lambda run: gap(run, "coarse"), falling=True),
            "scales": by_seed(two_scales),
        },
        *seeds.shown(
            ("LC at training points, r = 0.005", depths, FINE), ("LC at training points, r = 0.5", depths, COARSE)
        ),
    )


def section42(table: SeedTable, runs: Runs) -> Finding:
    mine = runs["depth 4"]
    rows, found = [], {}
    for place in ("peak", "end"):
        steps = [seeds.peak_step(run) if place == "peak" else run.curve(FINE).steps[-1] for run in mine]
        paired = [(run.curve("gap"), run.curve("gap.auc"), step) for run, step in zip(mine, steps, strict=True)]
        gaps = [(float(gap.values[gap.place(step)]), float(gap.errors[gap.place(step)])) for gap, _, step in paired]
        aucs = [float(auc.values[auc.place(step)]) for _, auc, step in paired]
        found[f"clear-{place}"] = by_seed(
            [is_true(abs(gap) > 2 * error) for gap, error in gaps],
            seeds.signed("train - test", [gap for gap, _ in gaps]),
        )
        found[f"sign-{place}"] = by_seed(
            [sign(gap) for gap, _ in gaps], seeds.signed("train - test", [gap for gap, _ in gaps])
        )
        area = in_range(over_seeds(aucs), 0.55, 1.0)
        found[f"auc-{place}"] = replace(area, ours=f"area under the ROC curve {area.ours}")
        rows += [
            (place, run.seed, step, *gap, auc) for run, step, gap, auc in zip(mine, steps, gaps, aucs, strict=True)
        ]
    return Finding(
        found,
        (
            Table(
                "Train minus test LC, and how well LC tells members (area under the ROC curve)",
                ("at", "seed", "step", "difference", "standard error", "area"),
                tuple(rows),
                detail=True,
            ),
        ),
    )
