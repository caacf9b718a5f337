"""Li et al. 2025, "Understanding Nonlinear Implicit Bias via Region Counts in Input Space"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from regionscope_lab.config import Experiment
from regionscope_lab.papers.li2025 import (
    augmentation,
    cifar10,
    consistency,
    counting,
    evolution,
    exact,
    hyperparameter_effects,
    momentum,
    predictors,
    reparametrisation,
    settings,
    theory,
)
from regionscope_lab.papers.li2025.networks import fitted_networks, read_networks, whole_grids
from regionscope_lab.papers.li2025.schedule import planned
from regionscope_lab.papers.li2025.tables import stored, stored_points
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.study import Outcome, Size, Study
from regionscope_lab.papers.workspace import Workspace

__all__ = ["STUDIES"]


def _study(
    name: str,
    experiments: Callable[[Size], tuple[Experiment, ...]],
    outcome: Callable[..., Outcome],
    read: Callable[[Workspace, Sequence[Experiment]], tuple[Any, tuple[str, ...]]] = stored_points,
) -> Study:
    """A study whose outcome follows from what ``read`` finds of its runs, and its notes."""

    def analyse(workspace: Workspace, size: Size) -> Outcome:
        return outcome(*read(workspace, experiments(size)))

    return read_study(name, experiments=experiments, analyse=analyse)


def _networks_study(
    name: str, experiments: Callable[[Size], tuple[Experiment, ...]], outcome: Callable[..., Outcome]
) -> Study:
    """A study of several networks: at size full, of the settings that fit their data."""

    def analyse(workspace: Workspace, size: Size) -> Outcome:
        return outcome(*read_networks(workspace, experiments(size), size))

    return read_study(name, experiments=experiments, analyse=analyse)


_STUDIES = (
    _study("li2025-figure2", predictors.runs_of_primary, predictors.of_figure2),
    _study("li2025-momentum", momentum.runs_of_momentum, momentum.of_momentum),
    _networks_study("li2025-figure4", predictors.runs_of_networks, predictors.of_figure4),
    read_study("li2025-table2", experiments=consistency.runs_of_table2, analyse=consistency.table2),
    _networks_study("li2025-figure8", predictors.runs_of_figure8, predictors.of_figure8),
    _networks_study("li2025-figure5", predictors.runs_of_networks, hyperparameter_effects.of_figure5),
    _study("li2025-augmentation", augmentation.runs_of_augmentation, augmentation.of_augmentation),
    _study("li2025-table3", predictors.runs_of_primary, evolution.of_table3, stored),
    read_study("li2025-table4", experiments=settings.counting_runs, analyse=counting.table4),
    read_study("li2025-table5", experiments=settings.counting_runs, analyse=counting.table5),
    _study("li2025-table6", predictors.runs_of_primary, counting.of_table6),
    _study("li2025-table7", consistency.runs_of_table7, consistency.of_table7, whole_grids),
    _networks_study("li2025-table8", predictors.runs_of_figure8, consistency.of_table8),
    read_study("li2025-section3", experiments=reparametrisation.runs_of_section3, analyse=reparametrisation.section3),
    read_study("li2025-section6", analyse=theory.section6),
    _study("li2025-cifar10", cifar10.runs_of_cifar10, cifar10.of_sweep, stored),
    *(
        _study(name, partial(cifar10.runs_of, networks=networks), cifar10.of_networks, fitted_networks)
        for name, networks in (
            ("li2025-cifar10-networks", settings.OTHER_NETWORKS),
            ("li2025-cifar10-five", settings.FIVE_NETWORKS),
        )
    ),
    read_study("li2025-exact", experiments=exact.runs_of_exact, analyse=exact.exact),
)
STUDIES = tuple(replace(one, plan=planned) for one in _STUDIES)
