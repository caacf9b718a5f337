"""Runs of several networks on CIFAR-10: those of whole grids, in the settings that fit their data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regionscope.errors import InputError
from regionscope.lab.config import Experiment
from regionscope.lab.store import RunFolder
from regionscope.studies.li2025.tables import Point, fitting, points, stored
from regionscope.studies.study import Size
from regionscope.studies.workspace import Workspace


class _Grid(NamedTuple):
    network: str
    data: str


def read_networks(
    workspace: Workspace, wanted: Sequence[Experiment], size: Size
) -> tuple[tuple[Point, ...], tuple[str, ...]]:
    """The points of the planned runs that exist, and sentences on the others; at size full, of ``fitted_networks``."""
    runs, notes = (fitted_networks if size == "full" else stored)(workspace, wanted)
    return points(runs), notes


def fitted_networks(workspace: Workspace, wanted: Sequence[Experiment]) -> tuple[list[RunFolder], tuple[str, ...]]:
    """The runs of the settings that fit their data, network by network, and sentences on the others.

    A network of which a setting is missing is left out, for each data set.
    """
    runs, notes = stored(workspace, wanted)
    found = {grid: fitting([run for run in runs if _grid(run.experiment) == grid]) for grid in _whole(runs, wanted)}
    said = (
        f"{grid.network}, {fitted[0].experiment.training.epochs} epochs: {sentence}"
        for grid, (fitted, sentences) in found.items()
        for sentence in sentences
    )
    return [run for fitted, _ in found.values() for run in fitted], (*notes, *said)


def _whole(runs: Sequence[RunFolder], wanted: Sequence[Experiment]) -> tuple[_Grid, ...]:
    """The networks with a run of each setting, with any seed and schedule."""
    planned, there = (
        {_setting(experiment) for experiment in every} for every in (wanted, [run.experiment for run in runs])
    )
    left_out = {grid for grid, *_ in planned - there}
    found = tuple(dict.fromkeys(grid for grid in map(_grid, wanted) if grid not in left_out))
    if not found:
        raise InputError(
            f"Expected a run of each setting of one of {', '.join(sorted({grid.network for grid in left_out}))}, got "
            "fewer. Train them with regionscope study run and the name of the study."
        )
    return found


def _grid(experiment: Experiment) -> _Grid:
    return _Grid(experiment.network.name, experiment.data.name)


def _setting(experiment: Experiment) -> tuple[_Grid, float, int, float]:
    training = experiment.training
    return _grid(experiment), training.lr, training.batch_size, training.weight_decay
