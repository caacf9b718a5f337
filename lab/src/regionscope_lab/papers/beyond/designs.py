"""How measures go with the gap over planned designs of settings: data size, label noise, width; the optimiser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from regionscope_lab.papers.beyond import factor_statistics as design
from regionscope_lab.papers.beyond.gap import (
    GRID,
    MEASURES,
    POINT_MEASURES,
    Cell,
    Levels,
    Question,
    answered,
    cells_of,
    design_of,
    every_answer,
    over,
    over_all,
)
from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.figures import Figure, Series, side_by_side
from regionscope_lab.papers.rules import Graded, by_seed, order_vote
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable

_FACTORS = ("data size", "label noise", "width", "weight decay", "crops and flips")
_SHOWN = ("regions", "regions_test", "margin", "sharpness", "complexity")  # in the figure


def _factor_levels(run: SeedRun) -> Levels:
    names = ("data.n_train", "data.label_noise", "network.options.width", "training.weight_decay")
    return (*(float(run[name]) for name in names), float(run["training.augment"] != "none"))


def factors(table: SeedTable, runs: Runs) -> Finding:
    planned = {run.key: run for name in ("factorial", "decay", "crops") for run in runs[name]}
    cells, more = (
        cells_of(chosen, _factor_levels) for chosen in (planned.values(), (*planned.values(), *runs["further"]))
    )
    questions: dict[str, Question] = {"all settings": over_all()}
    questions |= {name: over(place) for place, name in enumerate(_FACTORS)}
    claims, tables = every_answer(questions, cells)
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
        "learning rate / batch size": (over(0), optimiser),
        "all of the optimiser": (over_all(), optimiser),
        "width": (over(2), data),
        "label noise": (over(1), data),
        "data size": (over(0), data),
        "size, noise and width": (over_all(), data),
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
        "all settings": over_all(), "settings of one ratio": over_all(at_one),
        **{name: over(i) for i, name in enumerate(("ratio", "batch size", "momentum", "weight decay"))},
    }  # fmt: skip
    claims, tables = every_answer(questions, cells)
    named = dict(zip(("all", "ratio", "rate", "batch-size", "momentum", "weight-decay"), claims.values(), strict=True))
    grid = [cell for cell in cells if cell.fits and cell.of_grid]
    middle = sorted({cell.levels[1] for cell in grid})[len({cell.levels[1] for cell in grid}) // 2]
    for momentum in sorted({cell.levels[2] for cell in grid}):
        named |= _saturation(f"{momentum:g}", [cell for cell in grid if cell.levels[1:GRID] == (middle, momentum)])
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
            for curve in [[cell for cell in grid if cell.levels[1:GRID] == (middle, momentum)]]
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
    claims = {name: answered(name, over_all(), cells) for name in POINT_MEASURES}
    rows = tuple(
        (*cell.levels[:2], seed, last["gap"], last["train_error"], *(last[name] for name in POINT_MEASURES))
        for cell in cells
        for seed, last in sorted(cell.numbers.items())
    )
    columns = ("learning rate", "batch size", "seed", "gap", "training error", "decision regions on a line",
               "linear regions", "median distance")  # fmt: skip
    return Finding({name.replace("points.", ""): one for name, one in claims.items()}, (Table("Runs", columns, rows),))
