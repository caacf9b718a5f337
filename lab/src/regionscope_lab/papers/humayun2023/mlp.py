"""Fully connected networks of several depths: Figures 1, 3 and 14, and sections 3.3 and 4.2."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.humayun2023 import seeds
from regionscope_lab.papers.humayun2023.seeds import double_descent, is_true, sign
from regionscope_lab.papers.rules import Graded, by_seed, combined, in_range, over_seeds
from regionscope_lab.papers.seed_table import Curve, SeedRun, SeedTable

Runs = Mapping[str, Sequence[SeedRun]]
FINE, COARSE = "lc.train", "coarse.train"
_FITS = 0.98  # share of its largest value from which an accuracy has peaked


def _along(runs: SeedRun, answers: Sequence[Mapping[str, Any]], name: str, error: str) -> Curve:
    mine = sorted((one for one in answers if one["run"] == runs.key), key=lambda one: one["step"])
    values, errors = (np.array([one[key] for one in mine], dtype=np.float64) for key in (name, error))
    return Curve(tuple(one["step"] for one in mine), values, errors)


def figure1(table: SeedTable, runs: Runs) -> Finding:
    mine = runs["depth 4"]
    every = table.answers("humayun2023.partition.folds")
    flat = [
        {
            **one,
            "close": one["to_data"]["density"][0],
            "close_error": math.nan,
            **one["to_data"],
            "boundary": one["to_boundary"]["ratio"],
            "boundary_error": one["to_boundary"]["ratio_error"],
        }
        for one in every
    ]
    density, relative, border = (
        [_along(run, flat, name, f"{name}_error") for run in mine] for name in ("close", "near", "boundary")
    )
    turns = [(course.steps[course.valley or 0], course.steps[course.peak or 0]) for course in map(seeds.shape, mine)]

    def change(curves: Sequence[Curve], *, late: bool) -> list[float]:
        """From valley to peak of the seed's own LC, or from the peak to the end."""
        pairs = [
            (top, curve.steps[-1]) if late else (valley, top)
            for curve, (valley, top) in zip(curves, turns, strict=True)
        ]
        return [
            float(one.values[one.place(b)] - one.values[one.place(a)])
            for one, (a, b) in zip(curves, pairs, strict=True)
        ]

    ends = [float(one.values[-1]) for one in border]
    rows = [
        (run.seed, step, *(float(curve.values[curve.place(step)]) for curve in (dense, rel, edge)))
        for run, dense, rel, edge, turn in zip(mine, density, relative, border, turns, strict=True)
        for step in (*turn, dense.steps[-1])
    ]
    columns = (
        "seed",
        "step",
        "folds next to data, length per area",
        "over the mean density",
        "distance to boundary / uniform",
    )
    return Finding(
        {
            "phases": by_seed(
                [seeds.three_phases(run) for run in mine], seeds.listed({"mean peak": map(seeds.peak, mine)})
            ),
            "gather": by_seed(
                [sign(x) for x in change(density, late=False)],
                _signed("change of the density", change(density, late=False)),
            ),
            "gather-relative": by_seed(
                [sign(x) for x in change(relative, late=False)],
                _signed("change of the ratio", change(relative, late=False)),
            ),
            "leave": by_seed(
                [-sign(x) for x in change(density, late=True)],
                _signed("change of the density", change(density, late=True)),
            ),
            "boundary": by_seed(
                [-sign(x) for x in change(border, late=True)],
                _signed("change of the distance", change(border, late=True)),
            ),
            "at-boundary": in_range(over_seeds(ends), 0.0, 1.0),
        },
        *seeds.shown(
            ("LC at training points, depth 4", {"r = 0.005": mine}, "lc.train"),
            more=[
                Table("Where the folds are, on 20 triangles between training points", columns, tuple(rows), detail=True)
            ],
        ),
    )


def _signed(what: str, values: Sequence[float]) -> str:
    return f"{what} {fmean(values):+.3g}"


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
            [is_true(abs(gap) > 2 * error) for gap, error in gaps], _signed("train - test", [gap for gap, _ in gaps])
        )
        found[f"sign-{place}"] = by_seed(
            [sign(gap) for gap, _ in gaps], _signed("train - test", [gap for gap, _ in gaps])
        )
        found[f"auc-{place}"] = in_range(over_seeds(aucs), 0.55, 1.0)
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


def figure14(table: SeedTable, runs: Runs) -> Finding:
    answers = table.answers("humayun2023.exact.counts_at")
    curves = {
        run.seed: [_along(run, answers, name, f"{name}_error") for name in ("lc", "exact")] for run in runs["depth 3"]
    }

    def phases(curve: Curve) -> int:
        return seeds.phases_vote(double_descent(curve.steps, curve.values.tolist(), curve.errors.tolist()))

    similar = [float(np.corrcoef(lc.values, exact.values)[0, 1]) for lc, exact in curves.values()]
    rows = tuple(
        (seed, one, float(lc.values.max()), float(exact.values.max()))
        for (seed, (lc, exact)), one in zip(curves.items(), similar, strict=True)
    )
    return Finding(
        {
            "lc": by_seed([phases(lc) for lc, _ in curves.values()]),
            "exact": by_seed([phases(exact) for _, exact in curves.values()]),
            "similar": in_range(over_seeds(similar), 0.5, 1.0, said="+.2f"),
        },
        (
            Table(
                "LC and exact linear regions at 500 points, r = 0.001",
                ("seed", "correlation", "largest LC", "most regions"),
                rows,
            ),
        ),
    )
