"""Which measures go with the gap among settings of one ratio of learning rate to batch size, and how counts saturate.

The ratio is that of the *effective* learning rate, lr / (1 - momentum), to the batch size. Settings that differ in the
batch size and the momentum have the same ratios here, so that the two are told apart from it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial as bound
from itertools import product
from typing import Any

import numpy as np

from regionscope.measures.statistics import mean, standard_error
from regionscope.types import FloatArray
from regionscope_lab.config import DataSpec, Experiment, NetworkSpec, Training
from regionscope_lab.papers import verdict
from regionscope_lab.papers.beyond.design import (
    FEWEST_SETTINGS,
    MEASURES,
    NOTES,
    DesignCell,
    Question,
    cells_of,
    claims_on_regions,
    design_of,
    judged_measures,
    left_out,
    measures,
    over_all,
    over_factor,
    premise,
    summary,
    table_of_answers,
    table_of_pooled,
    table_of_settings,
)
from regionscope_lab.papers.beyond.factor_statistics import pooled, within_levels
from regionscope_lab.papers.charts import Lines, Scatter, Series
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace

_GRID = 3  # factors of the full factorial, which come first
FACTORS = ("effective rate / batch size", "batch size", "momentum", "weight decay")
_AT_ONE_RATIO = bound(within_levels, factor=0)
_QUESTIONS = (
    over_all(),
    Question(
        where="at one ratio", coefficient=bound(pooled, statistic=_AT_ONE_RATIO),
        least=FEWEST_SETTINGS,
    ),
    *(over_factor(name, place, of_grid=place < _GRID) for place, name in enumerate(FACTORS)),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OptimiserGrid:
    """Levels of the full factorial and of weight decay, and what is measured (see ``measures``).

    rates: effective learning rates at the batch size ``reference``; at other batch sizes the ratio is the same.
    decay: weight decay of further settings with the last momentum; the settings of the grid have none.
    """

    data: str
    n_train: int
    network: str
    options: dict[str, Any]
    rates: tuple[float, ...]
    reference: int
    batch_size: tuple[int, ...]
    momentum: tuple[float, ...]
    decay: float
    training: Training
    lines: int
    fewer: int
    points: int
    radius: float
    exact: int
    part: tuple[float, float]
    seeds: tuple[int, ...] = (0, 1, 2)
    n_test: int | None = None


_CIFAR = OptimiserGrid(
    data="cifar10", n_train=10_000, network="resnet18", options={}, rates=(0.03, 0.1, 0.3, 1.0, 3.0), reference=256,
    batch_size=(128, 256, 512), momentum=(0.0, 0.9), decay=1e-3,
    training=Training(epochs=30, precision="bf16", evaluate_every=30),
    lines=1000, fewer=200, points=256, radius=0.005, exact=4, part=(0.49, 0.51),
)  # fmt: skip
SETTINGS: dict[Size, OptimiserGrid] = {
    "smoke": OptimiserGrid(
        data="digits", n_train=32, network="mlp", options={"depth": 2, "width": 16}, rates=(0.2, 0.5), reference=8,
        batch_size=(8,), momentum=(0.0, 0.5), decay=1e-3, training=Training(epochs=60, evaluate_every=60),
        lines=5, fewer=5, points=4, radius=0.5, exact=2, part=(0.0, 1.0), seeds=(0,), n_test=50,
    ),
    "desk": OptimiserGrid(
        data="mnist", n_train=1000, network="mlp", options={"depth": 3, "width": 128},
        rates=(0.02, 0.05, 0.1, 0.2, 0.5), reference=32, batch_size=(16, 32, 64), momentum=(0.0, 0.9), decay=1e-3,
        training=Training(epochs=60, evaluate_every=60),
        lines=1000, fewer=200, points=256, radius=0.5, exact=8, part=(0.0, 1.0),
    ),
    "full": _CIFAR,
}  # fmt: skip


def experiments(size: Size) -> tuple[Experiment, ...]:
    """Seed after seed: the full factorial, then the settings with weight decay."""
    grid = SETTINGS[size]
    cells = [(*cell, 0.0) for cell in product(grid.rates, grid.batch_size, grid.momentum)]
    cells += [(*cell, grid.momentum[-1], grid.decay) for cell in product(grid.rates, grid.batch_size)]
    return tuple(_experiment(grid, seed, *cell) for seed in grid.seeds for cell in cells)


def _experiment(grid: OptimiserGrid, seed: int, rate: float, batch: int, momentum: float, decay: float) -> Experiment:
    lr = round(rate * batch / grid.reference * (1 - momentum), 12)
    return Experiment(
        data=DataSpec(name=grid.data, n_train=grid.n_train, n_test=grid.n_test, seed=seed),
        network=NetworkSpec(name=grid.network, options=grid.options),
        training=replace(grid.training, lr=lr, batch_size=batch, momentum=momentum, weight_decay=decay),
        measures=measures(
            lines=grid.lines, fewer=grid.fewer, exact=grid.exact, part=grid.part, points=grid.points, radius=grid.radius
        ),
        seed=seed,
    )  # fmt: skip


def levels_of(experiment: Experiment) -> tuple[float, ...]:
    """The level of each of ``FACTORS``."""
    training = experiment.training
    ratio = float(f"{training.lr / (1 - training.momentum) / training.batch_size:.3g}")
    return (ratio, float(training.batch_size), training.momentum, training.weight_decay)


def outcome(chosen: Sequence[DesignCell], reference: int, notes: tuple[str, ...] = ()) -> Outcome:
    """chosen: all settings that have runs, also those that do not fit their data, which are left out. reference: batch
    size at which counts are compared over rates."""
    fitted = [setting for setting in chosen if setting.fits]
    grid = [setting for setting in fitted if not setting.levels[_GRID]]
    judged = judged_measures(_QUESTIONS, grid, fitted)
    curves = {
        momentum: _curve([one for one in grid if one.levels[1:_GRID] == (reference, momentum)])
        for momentum in sorted({setting.levels[2] for setting in grid})
    }
    return Outcome(
        claims=(
            premise(chosen, fitted),
            *claims_on_regions(judged),
            *(claim for momentum, curve in curves.items() for claim in _saturation(momentum, curve, reference)),
        ),
        summary=summary(judged),
        tables=(
            table_of_answers(
                "Rank correlation over all settings and at one ratio, and granulated Kendall coefficient over each "
                "factor", judged,
            ),
            _explained(grid),
            table_of_pooled(grid, _GRID),
            table_of_settings(FACTORS, chosen),
        ),
        charts=(_chart_of_ratios(grid), _chart_of_counts(curves, reference)),
        notes=(*_NOTES, *_without_the_largest(grid), *NOTES, *left_out(FACTORS, chosen), *notes),
    )  # fmt: skip


_Curve = Sequence[tuple[float, float, float]]  # effective rate, region count, its standard error over seeds


def _curve(members: Sequence[DesignCell]) -> _Curve:
    counts = [
        (float(f"{one.levels[0] * one.levels[1]:.2g}"), [seed["regions"] for seed in one.numbers.values()])
        for one in members
    ]
    return [(rate, mean(values), standard_error(values)) for rate, values in sorted(counts)]


def _saturation(momentum: float, curve: _Curve, reference: int) -> tuple[Claim, ...]:
    """Whether counts fall with the rate (Li et al.), and whether the largest rate has more than the lowest count."""
    if len(curve) < 2:
        return ()
    rates, counts, errors = zip(*curve, strict=True)
    at = f"batches of {reference}, momentum {momentum:g}"
    order = [-float(place) for place in range(len(rates))]
    ours = ", ".join(f"{count:.3f} ({rate:.3g})" for rate, count, _ in curve)
    lowest = counts.index(min(counts))
    rise, error = counts[-1] - counts[lowest], math.hypot(errors[-1], errors[lowest])
    return (
        Claim(f"{at}: region count against the effective rate", "falls as it grows", ours,
              verdict.ordering(order, counts, errors), "± " + ", ".join(f"{value:.3f}" for value in errors)),
        Claim(f"{at}: region count at the largest rate above its lowest value", "above",
              f"{rise:+.3f} from {rates[lowest]:.3g} to {rates[-1]:.3g}",
              verdict.differs(counts[-1], counts[lowest], error), f"± {error:.3f}"),
    )  # fmt: skip


def _without_the_largest(grid: Sequence[DesignCell]) -> tuple[str, ...]:
    """The answer for region counts at one ratio without the two largest ratios, at which training hardly fits."""
    ratios = sorted({setting.levels[0] for setting in grid})
    rest = [setting for setting in grid if setting.levels[0] in ratios[:-2]]
    if len(rest) < FEWEST_SETTINGS:
        return ()
    value = pooled(design_of("regions", rest), _AT_ONE_RATIO)
    return (
        f"At the two largest ratios few settings fit. Without them, the correlation of regions and gap at one ratio is "
        f"{value}, over {len(rest)} settings. This choice was made after the runs, and is not judged.",
    )


def _explained(grid: Sequence[DesignCell]) -> Table:
    """The share of the variance of the gap and of each measure that a quadratic in log ratio explains."""
    rows = [("generalisation gap", _share(design_of("regions", grid).levels, design_of("regions", grid).means()[1]))]
    for name, (words, _) in MEASURES.items():
        design = design_of(name, grid)
        rows.append((words, _share(design.levels, design.means()[0])))
    return Table("Share of the variance over the grid that a quadratic in log ratio explains", ("", "share"),
                 tuple((words, f"{share:.2f}") for words, share in rows))  # fmt: skip


def _share(levels: FloatArray, values: FloatArray) -> float:
    (y,) = values
    if len(y) <= 3 or y.var() == 0:
        return math.nan
    known = np.vander(np.log(levels[:, 0]), 3)
    rest = y - known @ np.linalg.lstsq(known, y, rcond=None)[0]
    return float(1 - rest.var() / y.var())


def _chart_of_ratios(grid: Sequence[DesignCell]) -> Scatter:
    """Region count and gap of each setting, in one colour for each ratio."""
    points: dict[float, list[tuple[float, float]]] = defaultdict(list)
    for setting in sorted(grid, key=lambda setting: setting.levels):
        seeds = setting.numbers.values()
        points[setting.levels[0]].append((mean([one["regions"] for one in seeds]), mean([one["gap"] for one in seeds])))
    return Scatter.fitted(
        title="Region count and generalisation gap, by effective rate / batch size", x_label=MEASURES["regions"][0],
        y_label="generalisation gap, %",
        series=tuple(Series.of(f"ratio {ratio:g}", members) for ratio, members in points.items()),
    )  # fmt: skip


def _chart_of_counts(curves: dict[float, _Curve], reference: int) -> Lines:
    return Lines(
        title=f"Region count and effective learning rate, batches of {reference}",
        x_label="learning rate / (1 - momentum)", y_label="regions on a line", x_scale="log",
        series=tuple(Series.of(f"momentum {momentum:g}", curve) for momentum, curve in curves.items()),
    )  # fmt: skip


_NOTES = (
    "The weakest point: one network on 10,000 images, and the seeds. The first seed has all settings; the others have "
    "batches of 256 only, which are too few settings for a coefficient of their own, so that the rule leaves the "
    "correlations undecided whatever their intervals. These cover the choice of settings more than that of seeds.",
    "At one ratio: rank correlation of measure and gap after ranking the settings of each ratio among themselves, "
    "with the mean rank of each ratio taken away. The bootstrap draws the seeds of a setting again, which adds noise: "
    "intervals are wide and lie too low.",
)  # fmt: skip


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    wanted = experiments(size)
    runs = workspace.ended(wanted)
    lacking = len(wanted) - len(runs)
    notes = (f"{len(runs)} of {len(wanted)} planned runs exist.",) * bool(lacking)
    diverged = sum(run.status != "finished" for run in runs)
    notes += (f"{diverged} runs diverged or failed and are left out.",) * bool(diverged)
    return outcome(cells_of(runs, levels_of), SETTINGS[size].reference, notes)


OPTIMISER = read_study("beyond-optimiser", experiments=experiments, analyse=_analyse)
