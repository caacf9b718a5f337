"""Stored runs as points of a figure: one for each setting, averaged over seeds. Works on any folder of such runs.

What is read of a run: its settings, its train and test error, and the rows called ``regions``, ``regions_refined``,
``regions_test``, ``regions_random``, ``regions_2d`` to ``regions_5d``, ``regions_path``, ``norm.l2``, ``distance`` and
``margin``, as far as it has them (see ``settings.measures``). Errors and gaps are in percent.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from regionscope.formatting import counted
from regionscope.measures.correlate import Correlation, correlate
from regionscope.measures.statistics import deviation
from regionscope_lab.config import Experiment
from regionscope_lab.papers.rules import FIT as FITTED
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store import RunFolder

_UNTRAINED_ERROR = 50.0  # training error in percent
_FEWEST_SETTINGS = 3  # settings of a sweep, or cells of settings that are near-copies


@dataclass(frozen=True)
class Point:
    """One setting: the mean of every number over its seeds, and the standard deviation (NaN for a single seed)."""

    experiment: Experiment
    seeds: int
    values: dict[str, float]
    deviations: dict[str, float]

    @property
    def network(self) -> str:
        return self.experiment.network.name

    @property
    def data(self) -> str:
        return self.experiment.data.name

    @property
    def factors(self) -> dict[str, Any]:
        """What Table 1 varies."""
        training = self.experiment.training
        return {"lr": training.lr, "batch_size": training.batch_size, "weight_decay": training.weight_decay}


def points(runs: Iterable[RunFolder]) -> tuple[Point, ...]:
    """One point for each setting, in the order of the runs.

    Left out (see ``left_out``): runs that diverged, and settings that did not train, which have no gap to speak of.
    """
    return tuple(_point(same) for same in _settings(runs))


def left_out(runs: Iterable[RunFolder]) -> tuple[str, ...]:
    """A sentence for the runs that diverged, and one for those that did not train; or nothing."""
    every = list(runs)
    finished = [run for run in every if run.status == "finished"]
    diverged = [run for run in every if run.status != "finished"]
    untrained = [run for run in finished if _numbers(run).get("train_error", 0.0) > _UNTRAINED_ERROR]
    sentences = []
    if diverged:
        sentences.append(
            f"{counted(len(diverged), 'run')} left out, whose weights are not finite, such as "
            f"{diverged[0].experiment.label}."
        )
    if untrained:
        sentences.append(
            f"{counted(len(untrained), 'run')} ended with a training error above {_UNTRAINED_ERROR:g}%, such as "
            f"{untrained[0].experiment.label}: settings whose mean over seeds is above it did not train and are left "
            "out."
        )
    return tuple(sentences)


def fitting(
    runs: Sequence[RunFolder], *, others: str = "they are left out of every row"
) -> tuple[list[RunFolder], tuple[str, ...]]:
    """The runs of the settings that fit their data (mean training error over seeds below ``FITTED``), and a sentence
    on the training errors. Where fewer than three do, all are kept, and the sentence says so.

    others: what the sentence says about the settings that do not fit their data.
    """
    settings = _settings(runs)
    fitted = [same for same in settings if _train_error(same) < FITTED]
    said = f"{len(settings) - len(fitted)} of {len(settings)} settings have a training error of {FITTED:g}% or more"
    if len(fitted) == len(settings):
        most = max(map(_train_error, settings))
        return list(runs), (
            f"All {len(settings)} settings have a training error below {FITTED:g}%, at most {most:.2g}%.",
        )
    if len(fitted) < _FEWEST_SETTINGS:
        return list(runs), (f"{said}; too few are left without them, so they are kept.",)
    worst = max(settings, key=_train_error)
    example = f"such as {worst[0].experiment.label} ({_train_error(worst):.1f}%)"
    return [run for same in fitted for run in same], (f"{said}, {example}; {others}.",)


def missing(runs: Sequence[RunFolder], wanted: Sequence[Experiment]) -> tuple[str, ...]:
    """A sentence on the runs that have not been made, by network and the seeds that have runs; or nothing."""
    if len(runs) == len(wanted):
        return ()
    planned = Counter(experiment.network.name for experiment in wanted)
    seeds: dict[str, Counter[int]] = defaultdict(Counter)
    for run in runs:
        seeds[run.experiment.network.name][run.experiment.seed] += 1
    words = []
    for name, n in planned.items():
        by_seed = ", ".join(f"{there} of seed {seed}" for seed, there in sorted(seeds[name].items()))
        words.append(f"{name}: {seeds[name].total()} of {n}" + (f" ({by_seed})" if 0 < seeds[name].total() < n else ""))
    return (f"{len(runs):,} of {len(wanted):,} planned runs exist: {'; '.join(words)}. The others were not trained.",)


def stored(workspace: Workspace, wanted: Sequence[Experiment]) -> tuple[list[RunFolder], tuple[str, ...]]:
    """The planned runs that exist, and sentences on those that do not, diverged or did not train."""
    runs = workspace.ended(wanted)
    return runs, (*missing(runs, wanted), *left_out(runs))


def correlation(chosen: Sequence[Point], measure: str, target: str = "gap") -> Correlation | None:
    """Of a measure with the gap over the settings; None where fewer than 3 have it or one of them is constant.

    Intervals come from drawing (learning rate, batch size) cells, since settings of one cell are near-copies.
    """
    have = [point for point in chosen if {measure, target} <= point.values.keys()]
    return _correlate(
        [point.values[measure] for point in have],
        [point.values[target] for point in have],
        [_cell(point.experiment) for point in have],
    )


def group_by(chosen: Iterable[Point], key: Callable[[Point], str]) -> dict[str, tuple[Point, ...]]:
    """The points of each group, groups in the order of their first point."""
    groups: dict[str, list[Point]] = defaultdict(list)
    for point in chosen:
        groups[key(point)].append(point)
    return {name: tuple(members) for name, members in groups.items()}


def _settings(runs: Iterable[RunFolder]) -> list[list[RunFolder]]:
    """The finished runs of each setting (its seeds), in the order of the runs, without settings that did not train.

    Where fewer than three settings of a sweep (a network on data, trained one way) did train, all are kept.
    """
    sweeps: dict[str, dict[str, list[RunFolder]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.status == "finished":
            whole = replace(run.experiment, seed=0)
            varied = replace(whole.training, lr=1.0, batch_size=1, weight_decay=0.0)
            sweeps[replace(whole, training=varied).key][whole.key].append(run)
    found = []
    for settings in sweeps.values():
        trained = [same for same in settings.values() if _train_error(same) <= _UNTRAINED_ERROR]
        found += trained if len(trained) >= _FEWEST_SETTINGS else list(settings.values())
    return found


def _train_error(runs: Sequence[RunFolder]) -> float:
    """In percent, the mean over seeds; 0 where it is not known."""
    return fmean(_numbers(run).get("train_error", 0.0) for run in runs)


def _point(runs: Sequence[RunFolder]) -> Point:
    numbers = [_numbers(run) for run in runs]
    names = [name for name in numbers[0] if all(name in each for each in numbers)]
    return Point(
        runs[0].experiment,
        len(runs),
        {name: fmean(each[name] for each in numbers) for name in names},
        {name: deviation([each[name] for each in numbers]) for name in names},
    )


def _numbers(run: RunFolder) -> dict[str, float]:
    """The last value of every measure, with errors, gap and accuracy in percent."""
    result = run.result() or {}
    found = {name: float(entry["value"]) for name, entry in result.get("measures", {}).items() if _is_number(entry)}
    if result.get("gap") is not None:
        train, test = 100 * result["train_error"], 100 * result["test_error"]
        found |= {"train_error": train, "test_error": test, "gap": test - train, "test_accuracy": 100 - test}
    return found


def _is_number(entry: dict[str, Any]) -> bool:
    return entry["value"] is not None and math.isfinite(float(entry["value"]))


def _correlate(x: Sequence[float], y: Sequence[float], cells: Sequence[tuple[Any, ...]]) -> Correlation | None:
    """None where no correlation is defined."""
    if len(set(cells)) < _FEWEST_SETTINGS or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return correlate(x, y, clusters=cells)


def _cell(experiment: Experiment) -> tuple[Any, ...]:
    """Settings that differ in nothing but the weight decay, which in Table 1 hardly matters, are near-copies."""
    training = experiment.training
    return experiment.network.name, experiment.data.name, training.lr, training.batch_size
