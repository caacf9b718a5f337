"""How measures go with the gap over a planned design of settings: the measures, the questions, the parts of a page."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial as bound
from typing import Any

import numpy as np

from regionscope.measures.correlate import Coefficient
from regionscope.measures.statistics import mean
from regionscope_lab.config import Experiment, MeasureSpec
from regionscope_lab.papers import verdict
from regionscope_lab.papers.beyond.factor_statistics import (
    Design,
    conditional_information,
    granulated_kendall,
    partial,
    pearson,
    pooled,
    spearman,
)
from regionscope_lab.papers.charts import Bars, Series
from regionscope_lab.papers.study import Claim, Table
from regionscope_lab.store import RunFolder

STOP = 0.01  # largest training error of a setting that fits its data
FEWEST_SETTINGS, FEWEST_CONTEXTS = 8, 3
MEASURES = {  # words, and the sign with which the measure is expected to go with the gap
    "regions": ("regions on a line", 1),
    "regions_refined": ("the same, refined", 1),
    "regions_test": ("regions between test images", 1),
    "linear": ("linear regions on lines", 1),
    "complexity": ("local complexity", 1),
    "margin": ("minus the output margin", -1),
    "sharpness": ("sharpness", 1),
    "norm.l2": ("norm of the weights", 1),
    "distance": ("distance from the start", 1),
}


def measures(
    *, lines: int, fewer: int, exact: int, part: tuple[float, float], points: int, radius: float
) -> tuple[MeasureSpec, ...]:
    """lines: number of lines of the region count; ``fewer`` of its variants. exact: of exact counts, on the ``part`` of
    each line. points: of local complexity, with ``radius``, and of sharpness."""

    def on_lines(name: str, slices: int, **more: Any) -> MeasureSpec:
        return MeasureSpec(instrument="region_count", name=name, options={"slices": slices, "grid": 200, **more})

    return (
        on_lines("regions", lines),
        on_lines("regions_refined", fewer, method="refined"),
        on_lines("regions_test", fewer, points="test"),
        MeasureSpec(
            instrument="linear_region_count", name="linear",
            options={"slices": exact, "alpha": list(part), "memory": 8 << 30},
        ),
        MeasureSpec(instrument="local_complexity", name="complexity", options={"n": points, "radius": radius}),
        MeasureSpec(instrument="output_margin", name="margin"),
        MeasureSpec(instrument="sharpness", options={"samples": points}),
        MeasureSpec(instrument="parameter_norms", name="norm"),
        MeasureSpec(instrument="distance_from", name="distance"),
    )  # fmt: skip


@dataclass(frozen=True)
class DesignCell:
    """One cell of the design. levels: one for each factor. numbers: of each seed with a finished run."""

    levels: tuple[float, ...]
    numbers: Mapping[int, Mapping[str, float]]

    @property
    def fits(self) -> bool:
        """Whether every seed has a training error of at most ``STOP``."""
        return all(numbers["train_error"] <= 100 * STOP for numbers in self.numbers.values())


def cells_of(runs: Sequence[RunFolder], levels_of: Callable[[Experiment], tuple[float, ...]]) -> tuple[DesignCell, ...]:
    """The cells of these runs, in their order."""
    numbers: dict[tuple[float, ...], dict[int, dict[str, float]]] = defaultdict(dict)
    for run in runs:
        result = run.result()
        if result is not None and run.status == "finished":
            numbers[levels_of(run.experiment)][run.experiment.seed] = _numbers(result)
    return tuple(DesignCell(levels, seeds) for levels, seeds in numbers.items())


def _numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """Gap and errors in percent, and the measures that have a value."""
    train, test = 100 * result["train_error"], 100 * result["test_error"]
    known = {name: one["value"] for name, one in result["measures"].items() if one["value"] is not None}
    return {"gap": test - train, "train_error": train, "test_error": test, "epochs": float(result["epochs"]), **known}


@dataclass(frozen=True, kw_only=True)
class Question:
    """Over what a measure is compared with the gap.

    least: number of settings or contexts that a grade needs. of_grid: over the settings of the full factorial; else
        over all that fit.
    """

    where: str
    coefficient: Callable[[Design], Coefficient]
    least: int
    of_grid: bool = True


def over_all() -> Question:
    """The rank correlation over all settings of the grid."""
    return Question(where="over all settings", coefficient=bound(pooled, statistic=spearman), least=FEWEST_SETTINGS)


def over_factor(factor: str, place: int, *, of_grid: bool) -> Question:
    """The granulated Kendall coefficient of the factor in this place."""
    return Question(
        where=f"over {factor}", coefficient=bound(granulated_kendall, factor=place), least=FEWEST_CONTEXTS,
        of_grid=of_grid,
    )  # fmt: skip


@dataclass(frozen=True)
class Following:
    """How a measure goes with the gap over a factor, or over all settings: the coefficient, that of each seed."""

    where: str
    value: Coefficient
    seeds: tuple[float, ...]
    verdict: verdict.Verdict

    def __str__(self) -> str:
        return f"{self.value} {_WORDS[self.verdict.grade]}"

    @property
    def spread(self) -> str:
        low, high = self.value.interval
        by_seed = ", ".join(f"{value:+.2f}" for value in self.seeds) or "too few settings"
        return f"95% [{low:+.2f}, {high:+.2f}], n = {self.value.n}; by seed {by_seed}"


_WORDS = {
    verdict.Grade.REPRODUCED: "follows",
    verdict.Grade.NOT_REPRODUCED: "does not follow",
    verdict.Grade.INCONCLUSIVE: "undecided",
}
COLUMNS = ("epochs", "gap", "train_error", "regions", "linear", "complexity", "margin", "sharpness")
POOLED = ("rank correlation", "linear correlation", "rank correlation given the three factors")
NOTES = (
    "A coefficient is that of the means over seeds; the same coefficient of each seed stands beside it. The intervals "
    "are a bootstrap over settings (over contexts for the granulated coefficient) and over the seeds of each.",
    "Conditional information (Jiang et al. 2020): the least share, over all choices of at most two factors, of the "
    "information on which of two settings has the larger gap that the measure adds to the levels of these factors. It "
    "has no interval and, being estimated from few settings, is too high for small values.",
)  # fmt: skip

Judged = Mapping[str, Sequence[Following]]
"""The answers to all questions, by measure."""


def judged_measures(
    questions: Sequence[Question], grid: Sequence[DesignCell], fitted: Sequence[DesignCell]
) -> dict[str, tuple[Following, ...]]:
    """grid: the cells of the full factorial that fit. fitted: all that fit."""
    return {name: tuple(_judged(name, one, grid if one.of_grid else fitted) for one in questions) for name in MEASURES}


def _judged(name: str, question: Question, members: Sequence[DesignCell]) -> Following:
    value, *seeds = (question.coefficient(design) for design in (design_of(name, members), *_by_seed(name, members)))
    by_seed = tuple(one.value for one in seeds if one.n >= question.least)
    return Following(question.where, value, by_seed, verdict.follows(value, by_seed, least=question.least))


def design_of(name: str, chosen: Sequence[DesignCell], factors: int | None = None) -> Design:
    """The settings in which every seed has the measure, with the levels of the first ``factors`` (all by default)."""
    sign = MEASURES[name][1]
    have = [one for one in chosen if all(math.isfinite(seed.get(name, math.nan)) for seed in one.numbers.values())]
    wide = len(chosen[0].levels) if chosen else 1
    return Design(
        np.array([one.levels for one in have]).reshape(-1, wide)[:, :factors],
        tuple(tuple(sign * numbers[name] for numbers in one.numbers.values()) for one in have),
        tuple(tuple(numbers["gap"] for numbers in one.numbers.values()) for one in have),
    )


def _by_seed(name: str, chosen: Sequence[DesignCell]) -> list[Design]:
    seeds = sorted({seed for setting in chosen for seed in setting.numbers})
    return [
        design_of(name, [DesignCell(one.levels, {seed: one.numbers[seed]}) for one in chosen if seed in one.numbers])
        for seed in seeds
    ]


def premise(chosen: Sequence[DesignCell], fitted: Sequence[DesignCell]) -> Claim:
    """How many settings fit their data."""
    return Claim(
        "settings with a training error of at most 1% in every seed (the premise)", "all",
        f"{len(fitted)} of {len(chosen)}", verdict.shown(),
    )  # fmt: skip


def claims_on_regions(judged: Judged) -> tuple[Claim, ...]:
    """One claim for each question."""
    return tuple(
        Claim(f"regions and gap, {one.where}", "follows", f"{one.value.value:+.2f}", one.verdict, one.spread)
        for one in judged["regions"]
    )


def table_of_answers(title: str, judged: Judged) -> Table:
    """One row a measure, one column a question."""
    columns = ("measure", *(one.where for one in judged["regions"]))
    return Table(title, columns, tuple((MEASURES[name][0], *map(str, every)) for name, every in judged.items()))


def table_of_pooled(grid: Sequence[DesignCell], factors: int) -> Table:
    """Correlations over the full factorial, whose factors are the first ``factors``."""
    columns = ("measure", *POOLED, "conditional information")
    return Table("Over all settings of the grid", columns, tuple(_row(name, grid, factors) for name in MEASURES))


def _row(name: str, grid: Sequence[DesignCell], factors: int) -> tuple[str, ...]:
    design = design_of(name, grid, factors)
    known = [str(pooled(design, statistic)) for statistic in (spearman, pearson, partial)]
    information = conditional_information(design) if len(design.levels) else math.nan
    return (MEASURES[name][0], *known, f"{information:.2f}")


def table_of_settings(factors: Sequence[str], chosen: Sequence[DesignCell]) -> Table:
    """One row a setting, means over seeds."""
    return Table("Settings, means over seeds", (*factors, "seeds", *COLUMNS), tuple(map(_means, chosen)))


def _means(setting: DesignCell) -> tuple[float, ...]:
    columns = [[numbers.get(name, math.nan) for numbers in setting.numbers.values()] for name in COLUMNS]
    return (*setting.levels, len(setting.numbers), *map(mean, columns))


def left_out(factors: Sequence[str], chosen: Sequence[DesignCell]) -> tuple[str, ...]:
    """A sentence on the settings that do not fit their data, if there are any."""
    left = "; ".join(
        ", ".join(f"{what} {level:g}" for what, level in zip(factors, setting.levels, strict=True))
        for setting in chosen
        if not setting.fits
    )
    return (f"Left out for a larger training error: {left}.",) * bool(left)


def summary(judged: Judged) -> str:
    """First where the region count fails, then where it follows the gap, and which other measures do over all."""
    said = [
        f"{words}{_listed(chosen)}."
        for grade, words in (
            (verdict.Grade.NOT_REPRODUCED, "The region count does not follow the gap "),
            (verdict.Grade.REPRODUCED, "The region count follows the gap "),
            (verdict.Grade.INCONCLUSIVE, "Undecided: "),
        )
        if (chosen := [(one.where, one.value) for one in judged["regions"] if one.verdict.grade is grade])
    ]
    others = [
        (MEASURES[name][0], every[0].value)
        for name, every in judged.items()
        if name != "regions" and every[0].verdict.grade is verdict.Grade.REPRODUCED
    ]
    return " ".join([*said, *([f"Over all settings, these follow it: {_listed(others)}."] if others else [])])


def _listed(values: Sequence[tuple[str, Coefficient]]) -> str:
    return ", ".join(f"{what} ({value})" for what, value in values if math.isfinite(value.value)) or "none"


def chart(judged: Judged, first: int) -> Bars:
    """The answers to the ``first`` questions."""
    return Bars(
        title="How each measure goes with the generalisation gap",
        y_label="rank correlation; over a factor, granulated Kendall",
        names=tuple(MEASURES[name][0] for name in judged),
        series=tuple(
            Series(
                label=judged["regions"][place].where, x=tuple(range(len(judged))),
                y=tuple(every[place].value.value for every in judged.values()),
                interval=tuple(every[place].value.interval for every in judged.values()),
            )
            for place in range(first)
        ),
    )  # fmt: skip
