"""Li et al. 2025, "Understanding Nonlinear Implicit Bias via Region Counts in Input Space"."""

from __future__ import annotations

from dataclasses import replace

from regionscope.studies.li2025 import (
    augmentation,
    cifar10,
    consistency,
    counting,
    evolution,
    exact,
    hyperparameter_effects,
    predictors,
    reparametrisation,
    theory,
)
from regionscope.studies.li2025.schedule import planned
from regionscope.studies.papers import read_study

__all__ = ["STUDIES"]

_STUDIES = (
    read_study("li2025-figure2", experiments=predictors.runs_of_primary, analyse=predictors.figure2),
    read_study("li2025-figure4", experiments=predictors.runs_of_networks, analyse=predictors.figure4),
    read_study("li2025-table2", experiments=consistency.runs_of_table2, analyse=consistency.table2),
    read_study("li2025-figure8", experiments=predictors.runs_of_figure8, analyse=predictors.figure8),
    read_study("li2025-figure5", experiments=predictors.runs_of_networks, analyse=hyperparameter_effects.figure5),
    read_study("li2025-augmentation", experiments=augmentation.runs_of_augmentation, analyse=augmentation.augmentation),
    read_study("li2025-table3", experiments=predictors.runs_of_primary, analyse=evolution.table3),
    read_study("li2025-table4", experiments=counting.runs_of_tables4_and_5, analyse=counting.table4),
    read_study("li2025-table5", experiments=counting.runs_of_tables4_and_5, analyse=counting.table5),
    read_study("li2025-table6", experiments=predictors.runs_of_primary, analyse=counting.table6),
    read_study("li2025-table7", experiments=consistency.runs_of_table7, analyse=consistency.table7),
    read_study("li2025-table8", experiments=predictors.runs_of_figure8, analyse=consistency.table8),
    read_study("li2025-section3", experiments=reparametrisation.runs_of_section3, analyse=reparametrisation.section3),
    read_study("li2025-section6", analyse=theory.section6),
    read_study("li2025-cifar10", experiments=cifar10.runs_of_cifar10, analyse=cifar10.cifar10),
    read_study("li2025-cifar10-networks", experiments=cifar10.runs_of_other_networks, analyse=cifar10.other_networks),
    read_study("li2025-cifar10-five", experiments=cifar10.runs_of_five_networks, analyse=cifar10.five_networks),
    read_study("li2025-exact", experiments=exact.runs_of_exact, analyse=exact.exact),
)
STUDIES = tuple(replace(one, plan=planned) for one in _STUDIES)
