"""Whether measures follow the generalisation gap over the settings of a planned design."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from regionscope.measures.correlate import Coefficient
from regionscope_lab.papers.beyond import factor_statistics as design
from regionscope_lab.papers.beyond.factor_statistics import Design
from regionscope_lab.papers.declaration import Table
from regionscope_lab.papers.rules import FEWEST_SEEDS, FEWEST_SETTINGS, FIT, Graded, Verdict
from regionscope_lab.papers.seed_table import SeedRun

FEWEST_CONTEXTS = 3
_STRONG = 0.5
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
POINT_MEASURES = {
    "regions": MEASURES["regions"],
    "points": ("linear regions with training images", 1),
    "points.distance": ("minus the median distance to the nearest fold", -1),
}
WORDS = {Verdict.HOLDS: "follows", Verdict.CONTRADICTED: "does not follow", Verdict.UNDECIDED: "undecided"}
GRID = 3  # factors of a full factorial, which come first
Levels = tuple[float, ...]
Question = tuple[Callable[[Design], Coefficient], int, bool]  # coefficient, fewest settings or contexts, of the grid


@dataclass(frozen=True)
class Cell:
    """A setting. levels: one for each factor. numbers: the last values of each seed with a finished run."""

    levels: Levels
    numbers: Mapping[int, Mapping[str, float]]

    @property
    def fits(self) -> bool:
        return all(last["train_error"] <= FIT for last in self.numbers.values())

    @property
    def of_grid(self) -> bool:
        return not any(self.levels[GRID:])


def cells_of(runs: Iterable[SeedRun], levels_of: Callable[[SeedRun], Levels]) -> list[Cell]:
    """The settings with finished runs: those of the grid first, then by level."""
    cells: dict[Levels, dict[int, Mapping[str, float]]] = {}
    for run in runs:
        if run.result["status"] == "finished":
            cells.setdefault(levels_of(run), {})[run.seed] = run.last
    order = sorted(cells, key=lambda levels: (levels[GRID + 1 :], levels[GRID] > 0, levels[0], levels[GRID], levels))
    return [Cell(levels, cells[levels]) for levels in order]


def design_of(name: str, cells: Sequence[Cell], factors: int | None = None) -> Design:
    """The settings in which every seed has the measure, with the levels of the first ``factors`` (all by default)."""
    sign = {**MEASURES, **POINT_MEASURES}[name][1]
    have = [cell for cell in cells if all(name in last for last in cell.numbers.values())]
    wide = len(cells[0].levels) if cells else 1
    return Design(
        np.array([cell.levels for cell in have]).reshape(-1, wide)[:, :factors],
        tuple(tuple(sign * last[name] for last in cell.numbers.values()) for cell in have),
        tuple(tuple(last["gap"] for last in cell.numbers.values()) for cell in have),
    )


def follows(value: Coefficient, seeds: Sequence[float], *, fewest: int) -> Graded:
    """Whether a measure follows the gap.

    value: its coefficient. seeds: that of each seed. fewest: number of settings or contexts that a verdict needs.
    The rule is in the note of the item, and was fixed before the runs.
    """
    low, high = value.interval
    strong = sum(one >= _STRONG for one in seeds)
    verdict = Verdict.UNDECIDED
    if value.n >= fewest and len(seeds) >= FEWEST_SEEDS:
        if low > 0 and 3 * strong >= 2 * len(seeds):
            verdict = Verdict.HOLDS
        elif high < _STRONG and 3 * (len(seeds) - strong) >= 2 * len(seeds):
            verdict = Verdict.CONTRADICTED
    by_seed = ", ".join(f"{one:+.2f}" for one in seeds) or "too few settings"
    return Graded(verdict, "follows", f"{value}, n = {value.n}; by seed {by_seed}", value.value, value.interval)


def answered(name: str, question: Question, cells: Sequence[Cell]) -> Graded:
    """How a measure goes with the gap over the settings that fit."""
    coefficient, fewest, of_grid = question
    chosen = [cell for cell in cells if cell.fits and (cell.of_grid or not of_grid)]
    alone = [
        design_of(name, [Cell(cell.levels, {seed: cell.numbers[seed]}) for cell in chosen if seed in cell.numbers])
        for seed in sorted({seed for cell in chosen for seed in cell.numbers})
    ]
    by_seed = [value.value for one in alone if (value := coefficient(one)).n >= fewest]
    return follows(coefficient(design_of(name, chosen)), by_seed, fewest=fewest)


def over(factor: int) -> Question:
    return partial(design.granulated_kendall, factor=factor), FEWEST_CONTEXTS, factor < GRID


def over_all(statistic: design.Statistic = design.spearman) -> Question:
    return partial(design.pooled, statistic=statistic), FEWEST_SETTINGS, True


def every_answer(
    questions: Mapping[str, Question], cells: Sequence[Cell]
) -> tuple[dict[str, Graded], tuple[Table, ...]]:
    """The claims on the region count, and what every measure says."""
    every = {name: {key: answered(name, one, cells) for key, one in questions.items()} for name in MEASURES}
    rows = tuple(
        (MEASURES[name][0], *(f"{one.ours.split(', n')[0]} {WORDS[one.verdict]}" for one in mine.values()))
        for name, mine in every.items()
    )
    grid = [cell for cell in cells if cell.fits and cell.of_grid]
    return every["regions"], (
        Table("Does each measure follow the gap?", ("measure", *(f"over {key}" for key in questions)), rows),
        Table(
            "Over all settings of the grid",
            ("measure", "rank correlation", "linear", "rank correlation given the factors", "conditional information"),
            tuple(_pooled(name, grid) for name in MEASURES),
        ),
    )  # fmt: skip


def _pooled(name: str, grid: Sequence[Cell]) -> tuple[str, ...]:
    """Conditional information: Jiang et al. 2020; it has no interval and is too high for small values."""
    known = design_of(name, grid, GRID)
    values = [str(design.pooled(known, one)) for one in (design.spearman, design.pearson, design.partial)]
    information = design.conditional_information(known) if len(known.levels) else math.nan
    return MEASURES[name][0], *values, f"{information:.2f}"
