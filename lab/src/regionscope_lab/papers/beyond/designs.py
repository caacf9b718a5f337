"""How measures go with the gap over planned designs of settings: data size, label noise, width; the optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from regionscope.measures.correlate import Coefficient
from regionscope_lab.papers.beyond import factor_statistics as design
from regionscope_lab.papers.beyond.factor_statistics import Design
from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.figures import Figure, Series, side_by_side
from regionscope_lab.papers.rules import FEWEST_SEEDS, FEWEST_SETTINGS, FIT, Graded, Verdict, by_seed, order_vote
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable

FEWEST_CONTEXTS, _STRONG = 3, 0.5
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
_WORDS = {Verdict.HOLDS: "follows", Verdict.CONTRADICTED: "does not follow", Verdict.UNDECIDED: "undecided"}
_FACTORS = ("data size", "label noise", "width", "weight decay", "crops and flips")
_SHOWN = ("regions", "regions_test", "margin", "sharpness", "complexity")  # in the figure
_GRID = 3  # factors of a full factorial, which come first
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
        return not any(self.levels[_GRID:])


def cells_of(runs: Iterable[SeedRun], levels_of: Callable[[SeedRun], Levels]) -> list[Cell]:
    """The settings with finished runs: those of the grid first, then by level."""
    cells: dict[Levels, dict[int, Mapping[str, float]]] = {}
    for run in runs:
        if run.result["status"] == "finished":
            cells.setdefault(levels_of(run), {})[run.seed] = run.last
    order = sorted(cells, key=lambda levels: (levels[_GRID + 1 :], levels[_GRID] > 0, levels[0], levels[_GRID], levels))
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


def _over(factor: int) -> Question:
    return partial(design.granulated_kendall, factor=factor), FEWEST_CONTEXTS, factor < _GRID


def _over_all(statistic: design.Statistic = design.spearman) -> Question:
    return partial(design.pooled, statistic=statistic), FEWEST_SETTINGS, True


def _answers(questions: Mapping[str, Question], cells: Sequence[Cell]) -> tuple[dict[str, Graded], tuple[Table, ...]]:
    """The claims on the region count, and what every measure says."""
    every = {name: {key: answered(name, one, cells) for key, one in questions.items()} for name in MEASURES}
    rows = tuple(
        (MEASURES[name][0], *(f"{one.ours.split(', n')[0]} {_WORDS[one.verdict]}" for one in mine.values()))
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
    known = design_of(name, grid, _GRID)
    values = [str(design.pooled(known, one)) for one in (design.spearman, design.pearson, design.partial)]
    information = design.conditional_information(known) if len(known.levels) else math.nan
    return MEASURES[name][0], *values, f"{information:.2f}"


def _factor_levels(run: SeedRun) -> Levels:
    names = ("data.n_train", "data.label_noise", "network.options.width", "training.weight_decay")
    return (*(float(run[name]) for name in names), float(run["training.augment"] != "none"))


def factors(table: SeedTable, runs: Runs) -> Finding:
    planned = {run.key: run for name in ("factorial", "decay", "crops") for run in runs[name]}
    cells, more = (
        cells_of(chosen, _factor_levels) for chosen in (planned.values(), (*planned.values(), *runs["further"]))
    )
    questions: dict[str, Question] = {"all settings": _over_all()}
    questions |= {name: _over(place) for place, name in enumerate(_FACTORS)}
    claims, tables = _answers(questions, cells)
    noises = sorted({cell.levels[1] for cell in cells if cell.of_grid})
    by_noise = [[cell for cell in cells if cell.fits and cell.of_grid and cell.levels[1] == noise] for noise in noises]
    sizes = Table(
        "Over data size, by label noise", ("measure", *(f"noise {noise:g}" for noise in noises)),
        tuple((words, *(str(design.granulated_kendall(design_of(name, some), 0)) for some in by_noise))
              for name, (words, _) in MEASURES.items()),
    )  # fmt: skip
    again = tuple(
        (f"over {key}", claims[key].ours, answered("regions", one, more).ours) for key, one in questions.items()
    )
    longer = Table(f"The region count with {len(runs['further'])} further runs, which are not judged",
                   ("", "planned runs", "with further runs"), again)  # fmt: skip
    named = {key.replace(" ", "-"): one for key, one in claims.items()}
    named["all"] = named.pop("all-settings")
    figure = _by_what_moves(cells, cells_of(runs["optimiser"], _ratio_levels))
    return Finding(named, (tables[0], sizes, tables[1], longer), (figure,))


def _by_what_moves(data: Sequence[Cell], optimiser: Sequence[Cell]) -> Figure:
    """A few measures beside each other, for each thing that moves the gap, in both designs."""
    moved: dict[str, tuple[Question, Sequence[Cell]]] = {
        "learning rate / batch size": (_over(0), optimiser),
        "all of the optimiser": (_over_all(), optimiser),
        "width": (_over(2), data),
        "label noise": (_over(1), data),
        "data size": (_over(0), data),
        "size, noise and width": (_over_all(), data),
    }
    return side_by_side(
        "What goes with the generalisation gap when one thing moves",
        "granulated Kendall; over all, rank correlation",
        list(moved),
        [
            Series(MEASURES[name][0], range(len(moved)), [one.value for one in mine], [one.interval for one in mine])
            for name in _SHOWN
            for mine in [[answered(name, question, cells) for question, cells in moved.values()]]
        ],
    )


def _ratio_levels(run: SeedRun) -> Levels:
    batch, momentum = int(run["training.batch_size"]), float(run["training.momentum"])
    ratio = float(f"{run['training.lr'] / (1 - momentum) / batch:.3g}")
    return ratio, float(batch), momentum, float(run["training.weight_decay"])


def optimiser(table: SeedTable, runs: Runs) -> Finding:
    cells = cells_of(runs["optimiser"], _ratio_levels)
    at_one = partial(design.within_levels, factor=0)
    questions = {
        "all settings": _over_all(), "settings of one ratio": _over_all(at_one),
        **{name: _over(i) for i, name in enumerate(("ratio", "batch size", "momentum", "weight decay"))},
    }  # fmt: skip
    claims, tables = _answers(questions, cells)
    named = dict(zip(("all", "ratio", "rate", "batch-size", "momentum", "weight-decay"), claims.values(), strict=True))
    grid = [cell for cell in cells if cell.fits and cell.of_grid]
    middle = sorted({cell.levels[1] for cell in grid})[len({cell.levels[1] for cell in grid}) // 2]
    for momentum in sorted({cell.levels[2] for cell in grid}):
        named |= _saturation(f"{momentum:g}", [cell for cell in grid if cell.levels[1:_GRID] == (middle, momentum)])
    shares = [("generalisation gap", _explained(*_gaps(grid)))]
    shares += [(words, _explained(one.levels, one.means()[0])) for name, (words, _) in MEASURES.items()
               if len((one := design_of(name, grid)).levels)]  # fmt: skip
    explained = Table("Share of the variance over the grid that a quadratic in log ratio explains", ("", "share"),
                      tuple((words, f"{share:.2f}") for words, share in shares))  # fmt: skip
    figure = Figure(
        title=f"Region count and effective learning rate, batches of {middle:g}",
        x_label="learning rate / (1 - momentum)", y_label="regions on a line",
        series=[
            Series(f"momentum {momentum:g}", [cell.levels[0] * middle for cell in curve],
                   [fmean(last["regions"] for last in cell.numbers.values()) for cell in curve])
            for momentum in sorted({cell.levels[2] for cell in grid})
            for curve in [[cell for cell in grid if cell.levels[1:_GRID] == (middle, momentum)]]
        ],
    )  # fmt: skip
    return Finding(named, (tables[0], explained, tables[1]), (figure,))


def _saturation(momentum: str, curve: Sequence[Cell]) -> dict[str, Graded]:
    """By seed: whether counts fall along the rate, and whether the largest rate has more than the best one."""
    seeds = sorted(set.intersection(*(set(cell.numbers) for cell in curve))) if curve else []
    courses = [[cell.numbers[seed]["regions"] for cell in curve] for seed in seeds]
    means = ", ".join(
        f"{fmean(last['regions'] for last in cell.numbers.values()):.3f} ({cell.levels[0] * cell.levels[1]:.2g})"
        for cell in curve
    )
    return {
        f"falls-{momentum}": by_seed([-order_vote(course) for course in courses], means),
        f"rises-{momentum}": by_seed([1 if course[-1] > min(course) else -1 for course in courses]),
    }


def _gaps(grid: Sequence[Cell]) -> tuple[Any, Any]:
    known = design_of("regions", grid)
    return known.levels, known.means()[1]


def _explained(levels: Any, values: Any) -> float:
    (y,) = values
    if len(y) <= 3 or y.var() == 0:
        return math.nan
    known = np.vander(np.log(levels[:, 0]), 3)
    rest = y - known @ np.linalg.lstsq(known, y, rcond=None)[0]
    return float(1 - rest.var() / y.var())


def point_regions(table: SeedTable, runs: Runs) -> Finding:
    cells = cells_of(runs["points"], lambda run: (float(run["training.lr"]), float(run["training.batch_size"]), 0, 0))
    claims = {name: answered(name, _over_all(), cells) for name in POINT_MEASURES}
    rows = tuple(
        (*cell.levels[:2], seed, last["gap"], last["train_error"], *(last[name] for name in POINT_MEASURES))
        for cell in cells
        for seed, last in sorted(cell.numbers.items())
    )
    columns = ("learning rate", "batch size", "seed", "gap", "training error", "decision regions on a line",
               "linear regions", "median distance")  # fmt: skip
    return Finding({name.replace("points.", ""): one for name, one in claims.items()}, (Table("Runs", columns, rows),))
