"""Convolutional networks: Figures 4 and 7, and what batch normalisation does, which Figure 5 asks, too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from regionscope_lab.papers.declaration import Finding
from regionscope_lab.papers.humayun2023 import seeds
from regionscope_lab.papers.humayun2023.seeds import is_true, sign
from regionscope_lab.papers.rules import Graded, by_seed, combined
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable, by_setting

Pairs = Mapping[str, Sequence[tuple[SeedRun, SeedRun]]]  # without and with batch normalisation, seed by seed
_PARTS = ("train", "test", "random")
_PEAKED = 0.98  # share of its largest value from which an accuracy has peaked


def pairs_of(groups: Mapping[str, Sequence[SeedRun]]) -> Pairs:
    found = {}
    for name, runs in groups.items():
        plain, normed = (by_setting(runs, "network.options.bn")[bn] for bn in (False, True))
        found[name] = tuple(zip(plain, normed, strict=True))
    return found


def _joined(parts: Sequence[Graded], ours: str = "") -> Graded:
    """The verdict over several networks, or that of the only one."""
    return combined(parts, ours) if len(parts) > 1 else replace(parts[0], ours=f"{ours}; {parts[0].ours}".lstrip("; "))


def normalisation(pairs: Pairs) -> dict[str, Graded]:
    """Of networks with and without batch normalisation."""

    def removed(plain: SeedRun, normed: SeedRun) -> int:
        """+1: a clear second descent without it and none with it; -1: one with it; 0: neither has one."""
        without, with_it = (seeds.has_second_descent(run) for run in (plain, normed))
        return -1 if with_it else int(without)

    def reduced(plain: SeedRun, normed: SeedRun) -> int:
        without, with_it = (seeds.second_descent(run) for run in (plain, normed))
        return 0 if math.isnan(without) else sign(without - (0.0 if math.isnan(with_it) else with_it))

    falls = {
        label: [seeds.second_descent(pair[i]) for mine in pairs.values() for pair in mine]
        for i, label in enumerate(("without BN", "with BN"))
    }
    levels = {
        label: [seeds.level(pair[i], "lc.train") for mine in pairs.values() for pair in mine]
        for i, label in enumerate(("without BN", "with BN"))
    }
    return {
        "removes": _joined([by_seed([removed(*pair) for pair in mine]) for mine in pairs.values()]),
        "reduces": _joined(
            [by_seed([reduced(*pair) for pair in mine]) for mine in pairs.values()],
            "share of the peak lost " + seeds.listed(falls),
        ),
        "raises": combined(
            [
                by_seed(
                    [
                        sign(seeds.level(normed, f"lc.{part}") - seeds.level(plain, f"lc.{part}"))
                        for plain, normed in mine
                    ]
                )
                for mine in pairs.values()
                for part in _PARTS
            ],
            "train LC " + seeds.listed(levels),
        ),
    }


def figure4(table: SeedTable, runs: Runs) -> Finding:
    depths = {f"depth {depth}": mine for depth, mine in by_setting(runs["cnn"], "network.options.depth").items()}
    pairs = pairs_of(depths)
    plain = {name: [pair[0] for pair in mine] for name, mine in pairs.items()}
    kinds = {
        f"{name}, {'with' if bn else 'without'} BN": [pair[bn] for pair in mine]
        for name, mine in pairs.items()
        for bn in (0, 1)
    }

    def alike(run: SeedRun) -> int:
        """Train and test LC are nearer to each other than to LC at random points, on average over training."""
        train, test, random = (run.curve(f"lc.{part}").values for part in _PARTS)
        return is_true(np.abs(train - test).mean() < 0.1 * np.abs(train - random).mean())

    def sustained(run: SeedRun) -> int:
        """Test accuracy peaks between the start and the end of the ascent, and keeps 98% of its peak."""
        course, known = seeds.shape(run), seeds.accuracy(run, "test")
        if course.ascent is None:
            return -1
        best = int(np.argmax(known.values >= _PEAKED * known.values.max()))
        inside = course.steps[course.ascent.first] <= known.steps[best] <= course.steps[course.ascent.last]
        return is_true(inside and known.values[-1] >= _PEAKED * known.values.max())

    return Finding(
        {
            "phases": combined([by_seed([seeds.three_phases(run) for run in mine]) for mine in plain.values()]),
            **normalisation(pairs),
            "alike": combined([by_seed([alike(run) for run in mine]) for mine in kinds.values()]),
            "accuracy": combined([by_seed([sustained(run) for run in mine]) for mine in kinds.values()]),
            "depth": seeds.ordered(plain, seeds.peak),
        },
        *seeds.shown(("LC at training points of CNNs", kinds, "lc.train")),
    )


def figure7(table: SeedTable, runs: Runs) -> Finding:
    decays = by_setting(runs["decay"], "training.weight_decay")
    weak, strong = decays[min(decays)], decays[max(decays)]

    def duration(run: SeedRun) -> float:
        """Powers of ten of steps from the start to the end of the ascent."""
        course = seeds.shape(run)
        return (
            math.nan
            if course.ascent is None
            else math.log10((course.steps[course.ascent.last] + 1) / (course.steps[course.ascent.first] + 1))
        )

    def less(number: seeds.Number) -> Graded:
        values = {decay: [number(run) for run in mine] for decay, mine in decays.items()}
        return by_seed([sign(number(a) - number(b)) for a, b in zip(weak, strong, strict=True)], seeds.listed(values))

    def lost(run: SeedRun) -> float:
        fall = seeds.second_descent(run)
        return 0.0 if math.isnan(fall) else fall

    fit = seeds.listed(
        {decay: [float(seeds.accuracy(run, "train").values[-1]) for run in mine] for decay, mine in decays.items()}
    )
    return Finding(
        {
            "second-descent": seeds.ordered(decays, lost, falling=True),
            "shorter": less(duration),
            "lower": less(seeds.peak),
        },
        *seeds.shown((f"LC at training points by weight decay; final train accuracy {fit}", decays, "lc.train")),
    )
