"""Runs of several networks on CIFAR-10: those of whole grids, in the settings that fit their data."""

from __future__ import annotations

from collections.abc import Sequence

from regionscope.errors import InputError
from regionscope.lab.config import Experiment
from regionscope.lab.store import RunFolder
from regionscope.studies.li2025.tables import fitting, stored
from regionscope.studies.workspace import Workspace


def fitted_networks(workspace: Workspace, wanted: Sequence[Experiment]) -> tuple[list[RunFolder], tuple[str, ...]]:
    """The runs of the settings that fit their data, network by network, and sentences on the others.

    A network of which a setting is missing is left out.
    """
    runs, notes = stored(workspace, wanted)
    found = {
        name: fitting([run for run in runs if run.experiment.network.name == name]) for name in _whole(runs, wanted)
    }
    said = (f"{name}: {sentence}" for name, (_, sentences) in found.items() for sentence in sentences)
    return [run for fitted, _ in found.values() for run in fitted], (*notes, *said)


def _whole(runs: Sequence[RunFolder], wanted: Sequence[Experiment]) -> tuple[str, ...]:
    """The networks with a run of each setting, with any seed and schedule."""
    planned, there = (
        {_setting(experiment) for experiment in every} for every in (wanted, [run.experiment for run in runs])
    )
    left_out = {name for name, *_ in planned - there}
    names = (experiment.network.name for experiment in wanted)
    found = tuple(dict.fromkeys(name for name in names if name not in left_out))
    if not found:
        raise InputError(
            f"Expected a run of each setting of one of {', '.join(sorted(left_out))}, got fewer. "
            "Train them with: regionscope study run"
        )
    return found


def _setting(experiment: Experiment) -> tuple[str, float, int, float]:
    training = experiment.training
    return experiment.network.name, training.lr, training.batch_size, training.weight_decay
