"""How long a network is trained where its grid has several schedules: as briefly as fits the data."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from regionscope_lab.config import Experiment
from regionscope_lab.papers.li2025.settings import FITTED
from regionscope_lab.papers.workspace import Workspace


def planned(workspace: Workspace, wanted: Iterable[Experiment]) -> tuple[Experiment, ...]:
    """The runs to train next, and in the end all that a page is made from: for each network those of one schedule.

    It is the shortest with which both pilots, the first seed of the corners of Table 1, have a training error below
    ``FITTED``; else the longest. Until this is known, only the pilots of the schedule in question are planned.
    """
    sweeps: dict[str, dict[int, list[Experiment]]] = defaultdict(lambda: defaultdict(list))
    for experiment in wanted:
        same = replace(experiment.training, epochs=1, lr=1.0, batch_size=1, weight_decay=0.0)
        sweeps[replace(experiment, training=same, seed=0).key][experiment.training.epochs].append(experiment)
    return tuple(experiment for lengths in sweeps.values() for experiment in _chosen(workspace, lengths))


def _chosen(workspace: Workspace, lengths: dict[int, list[Experiment]]) -> Sequence[Experiment]:
    *shorter, longest = sorted(lengths)
    for epochs in shorter:
        pilots = corners(lengths[epochs])
        errors = [_train_error(workspace, experiment) for experiment in pilots]
        if any(error is not None and error >= FITTED for error in errors):
            continue
        return pilots if None in errors else lengths[epochs]
    return lengths[longest]


def corners(grid: Sequence[Experiment]) -> tuple[Experiment, Experiment]:
    """The smallest rate with the largest batch, which moves least, and the largest rate with the smallest batch."""
    ratios = [(experiment.training.lr / experiment.training.batch_size, i) for i, experiment in enumerate(grid)]
    (_, slow), fast = min(ratios), max(ratio for ratio, _ in ratios)
    return grid[slow], next(experiment for experiment, (ratio, _) in zip(grid, ratios, strict=True) if ratio == fast)


def _train_error(workspace: Workspace, experiment: Experiment) -> float | None:
    """In percent; infinite for a run that diverged, None for one that has not ended."""
    if workspace.missing([experiment]):
        return None
    (run,) = workspace.runs([experiment])
    error = (run.result() or {}).get("train_error")
    return math.inf if run.status != "finished" or error is None else 100 * float(error)
