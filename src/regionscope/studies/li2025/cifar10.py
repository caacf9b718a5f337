"""CIFAR-10 as far as a GPU comes in minutes: ResNet18 with all of Table 1, three more networks with a part of it."""

from __future__ import annotations

from collections.abc import Sequence

from regionscope.lab.config import Experiment
from regionscope.lab.store import RunFolder
from regionscope.studies.li2025 import settings
from regionscope.studies.li2025.claims import joined
from regionscope.studies.li2025.consistency import of_dimensions, of_table8
from regionscope.studies.li2025.counting import of_refined
from regionscope.studies.li2025.evolution import of_table3
from regionscope.studies.li2025.hyperparameters import of_figure5
from regionscope.studies.li2025.predictors import of_figure2, of_figure4, of_figure8, of_longer, runs_of_networks
from regionscope.studies.li2025.tables import left_out, points
from regionscope.studies.study import Outcome, Size
from regionscope.studies.workspace import Workspace

__all__ = ["cifar10", "of_sweep", "other_networks", "runs_of_cifar10", "runs_of_other_networks", "runs_of_table1"]


def runs_of_cifar10(size: Size) -> tuple[Experiment, ...]:
    """The sweep of ``examples/table1_cifar10.toml``; at smaller sizes, runs that other studies make."""
    return (*runs_of_table1(size), *(settings.cifar10_longer() if size == "full" else ()))


def runs_of_table1(size: Size) -> tuple[Experiment, ...]:
    """Every setting of Table 1 once, all with the same number of epochs."""
    if size == "full":
        return settings.cifar10_sweep()
    network = "resnet18" if "resnet18" in settings.networks(size) else settings.PRIMARY[size][0]
    return settings.grid(size, network, settings.PRIMARY[size][1])


def cifar10(workspace: Workspace, size: Size) -> Outcome:
    return of_sweep(workspace.runs(runs_of_cifar10(size)))


def of_sweep(runs: Sequence[RunFolder]) -> Outcome:
    """Everything that one sweep over Table 1 can show; ``runs`` may come from any folder.

    Settings may come a second time with more epochs: these are for one more correlation.
    """
    epochs = min(run.experiment.training.epochs for run in runs)
    usual = [run for run in runs if run.experiment.training.epochs == epochs]
    chosen = points(usual)
    parts = [
        of_figure4(chosen, left_out(usual)),
        *([of_longer(chosen, points(longer))] if (longer := [run for run in runs if run not in usual]) else []),
        of_figure5(chosen),
        of_dimensions(chosen),
        of_table3(usual),
        of_table8(chosen),
        of_figure2(chosen),
    ]
    if all("regions_refined" in (run.result() or {}).get("measures", {}) for run in usual):
        parts.append(of_refined(chosen))
    return joined(tuple(parts))


def runs_of_other_networks(size: Size) -> tuple[Experiment, ...]:
    """The sweep of ``examples/table1_cifar10_networks.toml``; at smaller sizes, runs that other studies make."""
    return settings.cifar10_networks() if size == "full" else runs_of_networks(size)


def other_networks(workspace: Workspace, size: Size) -> Outcome:
    runs = workspace.runs(runs_of_other_networks(size))
    chosen = points(runs)
    parts = [of_figure4(chosen, left_out(runs)), of_figure5(chosen), of_figure8(chosen), of_table8(chosen)]
    return joined((*parts, of_refined(chosen)))
