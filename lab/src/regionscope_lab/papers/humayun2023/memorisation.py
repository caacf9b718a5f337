"""Memorisation and generalisation (section 4.4): Figures 8, 9, 10 and 11."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.humayun2023 import seeds
from regionscope_lab.papers.humayun2023.seeds import is_true, sign
from regionscope_lab.papers.rules import Graded, by_seed, combined
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable, by_setting

FINE, COARSE = "lc.train", "coarse.train"
_FITS = 0.98  # share of its largest value from which an accuracy has peaked


def figure8(table: SeedTable, runs: Runs) -> Finding:
    depths = seeds.by_depth(runs, "grokking")
    every = [run for mine in depths.values() for run in mine]
    known, new = ({run.key: seeds.accuracy(run, part) for run in every} for part in ("train", "test"))

    def during(run: SeedRun) -> int:
        course, step = seeds.shape(run), seeds.reached(known[run.key])
        return (
            -1
            if course.ascent is None
            else is_true(course.steps[course.ascent.first] <= step <= course.steps[course.ascent.last])
        )

    def gained(run: SeedRun) -> float:
        curve = new[run.key]
        return float(curve.values[-1] - curve.values[curve.place(seeds.peak_step(run))])

    def delayed(run: SeedRun) -> float:
        return float(seeds.reached(new[run.key]))

    def speed(run: SeedRun) -> float:
        """LC lost for each power of ten of steps from the peak to the first step with half of it."""
        course = seeds.shape(run)
        top = course.peak or 0
        later = next(
            (i for i in range(top, len(course.steps)) if course.values[i] <= course.values[top] / 2),
            len(course.steps) - 1,
        )
        return (course.values[top] - course.values[later]) / max(
            0.1, math.log10((course.steps[later] + 1) / (course.steps[top] + 1))
        )

    def second_peak(run: SeedRun) -> int:
        """The last peak comes before test accuracy has 90% of its largest value."""
        course = seeds.shape(run)
        tops = [i for i in course.turns if course.values[i] > course.values[max(0, i - 1)]]
        return 0 if course.peaks < 2 else is_true(course.steps[tops[-1]] <= delayed(run))

    def each(vote: Any) -> Graded:
        return combined([by_seed([vote(run) for run in mine]) for mine in depths.values()])

    return Finding(
        {
            "delay": combined(
                [
                    by_seed([is_true(delayed(run) > 2 * seeds.reached(known[run.key])) for run in mine])
                    for mine in depths.values()
                ]
            ),
            "no-first-descent": each(lambda run: is_true(not seeds.shape(run).first_descent.clear)),
            "memorise": each(during),
            "generalise": combined(
                [by_seed([sign(gained(run)) for run in mine]) for mine in depths.values()],
                f"test accuracy gains {fmean(map(gained, every)):.2f} after the peak",
            ),
            "second-descent": each(lambda run: is_true(seeds.has_second_descent(run))),
            "two-peaks": combined(
                [by_seed([is_true(seeds.shape(run).peaks >= 2) for run in mine]) for mine in depths.values()],
                f"two or more peaks in {sum(seeds.shape(run).peaks >= 2 for run in every)} of {len(every)} runs",
            ),
            "second-peak-before": each(second_peak),
            "higher": seeds.ordered(depths, seeds.peak),
            "later": seeds.ordered(depths, delayed, unit=" steps"),
            "faster-drop": seeds.ordered(depths, speed),
        },
        *seeds.shown(
            ("LC at training points, initial weights times 8", depths, "lc.train"),
            more=[
                Table(
                    "Steps to 90% of the largest accuracy",
                    ("", "seed", "train", "test", "largest test accuracy"),
                    tuple(
                        (
                            name,
                            run.seed,
                            seeds.reached(known[run.key]),
                            seeds.reached(new[run.key]),
                            float(new[run.key].values.max()),
                        )
                        for name, mine in depths.items()
                        for run in mine
                    ),
                    detail=True,
                )
            ],
        ),
    )


def figure10(table: SeedTable, runs: Runs) -> Finding:
    samples = by_setting([run for mine in runs.values() for run in mine], "data.n_train")
    first, last = samples[min(samples)], samples[max(samples)]
    return Finding(
        {
            "phases": by_seed([seeds.three_phases(run) for run in first]),
            "removed": seeds.ordered(samples, seeds.rise, falling=True),
            "gone": by_seed(
                [is_true(seeds.shape(run).ascent is None) for run in last],
                seeds.listed({"rise with 50,000": map(seeds.rise, last)}),
            ),
            "generalise": seeds.ordered(samples, lambda run: float(seeds.accuracy(run, "test").values[-1])),
        },
        *seeds.shown(("LC at training points, true labels", samples, "lc.train")),
    )


def figure11(table: SeedTable, runs: Runs) -> Finding:
    samples = by_setting([run for mine in runs.values() for run in mine], "data.n_train")
    fit = seeds.listed(
        {n: [float(seeds.accuracy(run, "train").values[-1]) for run in mine] for n, mine in samples.items()}
    )
    return Finding(
        {
            "train-peak": seeds.ordered(samples, seeds.peak),
            "test-peak": seeds.ordered(samples, lambda run: seeds.peak(run, "lc.test")),
            "longer": seeds.ordered(samples, seeds.peak_step, unit=" steps"),
        },
        *seeds.shown((f"LC at training points, random labels; final train accuracy {fit}", samples, "lc.train")),
    )
