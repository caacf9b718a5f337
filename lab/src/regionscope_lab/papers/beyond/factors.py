"""Which measures go with the gap at one learning rate, batch size and training error, whatever else varies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from regionscope_lab.config import DataSpec, Experiment, NetworkSpec, Training
from regionscope_lab.papers.beyond.design import (
    MEASURES,
    NOTES,
    STOP,
    DesignCell,
    cells_of,
    chart,
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
from regionscope_lab.papers.beyond.factor_statistics import granulated_kendall
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.study import Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace

_GRID, _NOISE = 3, 1  # factors of the full factorial, which come first; place of the label noise
FACTORS = ("data size", "label noise", "width", "weight decay", "crops and flips")
_QUESTIONS = (over_all(), *(over_factor(name, place, of_grid=place < _GRID) for place, name in enumerate(FACTORS)))


@dataclass(frozen=True, kw_only=True)
class Factorial:
    """Levels of the full factorial, of the two single factors, and what is measured.

    decayed: (weight decay, label noise) beside the decay 0 of the grid. augmented: label noise with crops and flips.
        Both at the middle width and the sizes of ``single``.
    lines: number of lines of the region count; ``fewer`` of its variants. exact: of exact counts, on the ``part`` of
        each line. points: of local complexity, with ``radius``, and of sharpness. further: seeds of the grid that are
        shown, as far as they were run, and not judged.
    """

    data: str
    n_train: tuple[int, ...]
    noise: tuple[float, ...]
    network: str
    options: dict[str, Any]
    width: tuple[int, ...]
    single: tuple[int, ...]
    decayed: tuple[tuple[float, float], ...]
    augmented: tuple[float, ...]
    training: Training
    lines: int
    fewer: int
    points: int
    radius: float
    exact: int
    part: tuple[float, float]
    seeds: tuple[int, ...] = (0, 1, 2)
    further: tuple[int, ...] = (3, 4)
    n_test: int | None = None


_TRAINING = Training(
    epochs=100, lr=0.02, batch_size=256, schedule="constant", precision="bf16", evaluate_every=2, stop_at_error=STOP
)
SETTINGS: dict[Size, Factorial] = {
    "smoke": Factorial(
        data="digits", n_train=(16, 32), noise=(0.0, 0.5), network="mlp", options={"depth": 2}, width=(16, 24),
        single=(16,), decayed=((1e-3, 0.0),), augmented=(),
        training=Training(epochs=200, lr=0.05, batch_size=8, schedule="constant", stop_at_error=STOP),
        lines=5, fewer=5, points=4, radius=0.5, exact=2, part=(0.0, 1.0), seeds=(0,), n_test=50,
    ),
    "desk": Factorial(
        data="mnist", n_train=(500, 1000, 2000), noise=(0.0, 0.1, 0.2), network="mlp", options={"depth": 3},
        width=(64, 128, 256), single=(500, 1000, 2000), decayed=((1e-3, 0.0), (1e-3, 0.2)), augmented=(),
        training=Training(
            epochs=300, lr=0.05, batch_size=32, schedule="constant", evaluate_every=2, stop_at_error=STOP
        ),
        lines=1000, fewer=200, points=256, radius=0.5, exact=8, part=(0.0, 1.0),
    ),
    "full": Factorial(
        data="cifar10", n_train=(5000, 10_000, 20_000, 50_000), noise=(0.0, 0.1, 0.2), network="resnet18", options={},
        width=(16, 32, 64), single=(5000, 10_000, 20_000),
        decayed=((5e-4, 0.0), (5e-4, 0.2), (5e-3, 0.0), (5e-3, 0.2)), augmented=(0.0,), training=_TRAINING,
        lines=1000, fewer=200, points=256, radius=0.005, exact=4, part=(0.49, 0.51),
    ),
}  # fmt: skip


def experiments(size: Size) -> tuple[Experiment, ...]:
    """Seed after seed: the full factorial, smaller data sets first, then the single factors."""
    grid = SETTINGS[size]
    middle = grid.width[len(grid.width) // 2]
    cells = [(n, noise, middle, decay, "none") for n in grid.single for decay, noise in grid.decayed]
    cells += [(n, noise, middle, 0.0, "crop_flip") for n in grid.single for noise in grid.augmented]
    return tuple(_experiment(grid, seed, *cell) for seed in grid.seeds for cell in (*_cells(grid), *cells))


def _further(size: Size) -> tuple[Experiment, ...]:
    grid = SETTINGS[size]
    return tuple(_experiment(grid, seed, *cell) for seed in grid.further for cell in _cells(grid))


def _cells(grid: Factorial) -> tuple[tuple[int, float, int, float, str], ...]:
    return tuple((*cell, 0.0, "none") for cell in product(grid.n_train, grid.noise, grid.width))


def _experiment(grid: Factorial, seed: int, *cell: Any) -> Experiment:
    n_train, noise, width, decay, augment = cell
    return Experiment(
        data=DataSpec(name=grid.data, n_train=n_train, n_test=grid.n_test, label_noise=noise, seed=seed),
        network=NetworkSpec(name=grid.network, options={**grid.options, "width": width}),
        training=replace(grid.training, weight_decay=decay, augment=augment),
        measures=measures(
            lines=grid.lines, fewer=grid.fewer, exact=grid.exact, part=grid.part, points=grid.points, radius=grid.radius
        ),
        seed=seed,
    )  # fmt: skip


def _levels(experiment: Experiment) -> tuple[float, ...]:
    data, training = experiment.data, experiment.training
    width = experiment.network.options["width"]
    augmented = float(training.augment != "none")
    return (float(data.n_train or 0), data.label_noise, float(width), training.weight_decay, augmented)


def outcome(chosen: Sequence[DesignCell], notes: tuple[str, ...] = ()) -> Outcome:
    """chosen: all settings that have runs, also those that do not fit their data, which are left out."""
    fitted = [setting for setting in chosen if setting.fits]
    grid = [setting for setting in fitted if not any(setting.levels[_GRID:])]
    judged = judged_measures(_QUESTIONS, grid, fitted)
    noises = sorted({setting.levels[_NOISE] for setting in grid})
    by_noise = [[setting for setting in grid if setting.levels[_NOISE] == noise] for noise in noises]
    return Outcome(
        claims=(premise(chosen, fitted), *claims_on_regions(judged)),
        summary=summary(judged),
        tables=(
            table_of_answers(
                "Rank correlation over all settings, and granulated Kendall coefficient over each factor", judged
            ),
            Table("Granulated Kendall coefficient over data size, by label noise",
                  ("measure", *(f"noise {noise:g}" for noise in noises)),
                  tuple((words, *(str(granulated_kendall(design_of(name, members), 0)) for members in by_noise))
                        for name, (words, _) in MEASURES.items())),
            table_of_pooled(grid, _GRID),
            table_of_settings(FACTORS, chosen),
        ),
        charts=(chart(judged, 1 + _GRID),),
        notes=(*_NOTES, *NOTES, *left_out(FACTORS, chosen), *notes),
    )  # fmt: skip


_NOTES = (
    "The weakest point: this is one kind of network at one learning rate, and data size and label noise set the gap "
    "almost alone. The correlation given the levels of the three factors is the stricter test. The bootstrap draws the "
    "seeds of a setting again, which adds noise: intervals are wide and lie too low, so that an upper end just below "
    "0.5 is weak evidence that a measure does not follow the gap.",
    "Before the runs, a trial with WRN-16-4 (one seed, fixed learning rate and batch size, four data sizes and three "
    "shares of label noise) gave a pooled correlation of +0.23 [-0.43, 0.76]; over noise +0.75, +0.91, +1.00 and "
    "+1.00; over data size +0.76, -0.65 and -0.93; for the margin -0.86 pooled.",
)


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    wanted = experiments(size)
    runs = workspace.ended(wanted)
    lacking = len(wanted) - len(runs)
    notes = [f"{len(runs)} of {len(wanted)} planned runs exist."] * bool(lacking)
    planned = _further(size)
    absent = {experiment.key for experiment in workspace.missing(planned)}
    if further := [experiment for experiment in planned if experiment.key not in absent]:
        every = outcome(cells_of([*runs, *workspace.ended(further)], _levels))
        notes.append(
            f"With {len(further)} further runs of the grid, which were not planned and are not judged: {every.summary}"
        )
    return outcome(cells_of(runs, _levels), tuple(notes))


FACTORIAL = read_study("beyond-factors", experiments=experiments, analyse=_analyse)
