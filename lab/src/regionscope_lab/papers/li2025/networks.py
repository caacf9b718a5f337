"""Runs of several networks: those of whole grids, and of them the settings that fit their data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regionscope.errors import InputError
from regionscope_lab.config import Experiment
from regionscope_lab.papers.li2025.tables import Point, fitting, points, stored
from regionscope_lab.papers.study import Size
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store import RunFolder


class Grid(NamedTuple):
    """What the settings of Table 1 are run for."""

    network: str
    data: str
    optimizer: str

    def __str__(self) -> str:
        return self.network if self.optimizer == "sgd" else f"{self.network}, {self.optimizer}"


def read_networks(
    workspace: Workspace, wanted: Sequence[Experiment], size: Size
) -> tuple[tuple[Point, ...], tuple[str, ...]]:
    """The points of the planned runs that exist, and sentences on the others; at size full, of ``fitted_networks``."""
    runs, notes = (fitted_networks if size == "full" else stored)(workspace, wanted)
    return points(runs), notes


def fitted_networks(workspace: Workspace, wanted: Sequence[Experiment]) -> tuple[list[RunFolder], tuple[str, ...]]:
    """The runs of the settings that fit their data, of all ``whole_grids``, and sentences on the others."""
    grids, notes = whole_grids(workspace, wanted)
    found = {grid: fitting(runs) for grid, runs in grids.items()}
    said = (f"{named(grid, fitted)}: {sentence}" for grid, (fitted, more) in found.items() for sentence in more)
    return [run for fitted, _ in found.values() for run in fitted], (*notes, *said)


def whole_grids(
    workspace: Workspace, wanted: Sequence[Experiment]
) -> tuple[dict[Grid, list[RunFolder]], tuple[str, ...]]:
    """The runs of each grid that has one of each setting, with any seed and schedule, and sentences on the others."""
    runs, notes = stored(workspace, wanted)
    planned, there = (
        {_setting(experiment) for experiment in every} for every in (wanted, [run.experiment for run in runs])
    )
    left_out = {grid for grid, *_ in planned - there}
    whole = dict.fromkeys(grid for grid in map(_grid, wanted) if grid not in left_out)
    if not whole:
        raise InputError(
            f"Expected a run of each setting of one of {', '.join(sorted({grid.network for grid in left_out}))}, got "
            "fewer. Train them with regionscope-lab paper run and the name of the study."
        )
    return {grid: [run for run in runs if _grid(run.experiment) == grid] for grid in whole}, notes


def named(grid: Grid, runs: Sequence[RunFolder]) -> str:
    """The grid and how long its runs are, at the start of a sentence."""
    return f"{grid}, {runs[0].experiment.training.epochs} epochs"


def _grid(experiment: Experiment) -> Grid:
    return Grid(experiment.network.name, experiment.data.name, experiment.training.optimizer)


def _setting(experiment: Experiment) -> tuple[Grid, float, int, float]:
    training = experiment.training
    return _grid(experiment), training.lr, training.batch_size, training.weight_decay
