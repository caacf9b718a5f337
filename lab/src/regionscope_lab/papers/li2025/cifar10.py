"""CIFAR-10 as far as one GPU allows: ResNet18 with all of Table 1, eight more networks with a part of it."""

from __future__ import annotations

from collections.abc import Sequence

from regionscope_lab.config import Experiment
from regionscope_lab.papers.li2025 import settings
from regionscope_lab.papers.li2025.claims import joined
from regionscope_lab.papers.li2025.consistency import of_dimensions, of_table8
from regionscope_lab.papers.li2025.counting import of_refined, of_table6
from regionscope_lab.papers.li2025.evolution import of_table3
from regionscope_lab.papers.li2025.hyperparameter_effects import of_figure5
from regionscope_lab.papers.li2025.predictors import of_figure2, of_figure4, of_figure8, runs_of_networks
from regionscope_lab.papers.li2025.tables import fitting, points
from regionscope_lab.papers.study import Outcome, Size
from regionscope_lab.store import RunFolder


def runs_of_cifar10(size: Size) -> tuple[Experiment, ...]:
    """The sweep of ``examples/table1_cifar10.toml``; at smaller sizes, runs that other studies make."""
    network = "resnet18" if "resnet18" in settings.networks(size) else settings.PRIMARY[size][0]
    return settings.grid(size, network, settings.PRIMARY[size][1])


def of_sweep(runs: Sequence[RunFolder], notes: tuple[str, ...] = ()) -> Outcome:
    """Everything that one sweep over Table 1 can show, over the settings that fit their data; ``runs`` may come from
    any folder."""
    fitted, unfitted = fitting(runs)
    chosen = points(fitted)
    parts = [
        of_figure4(chosen, (*notes, *unfitted)),
        of_figure5(chosen),
        of_dimensions(chosen),
        of_table3(fitted),
        of_table8(chosen),
        of_figure2(chosen),
    ]
    have = set.intersection(*(set(one.values) for one in chosen))
    if "regions_from_-3_to_4" in have:
        parts.append(of_table6(chosen))
    if "regions_refined" in have:
        parts.append(of_refined(chosen))
    return joined(tuple(parts))


def runs_of(size: Size, networks: Sequence[str]) -> tuple[Experiment, ...]:
    """Table 1 for these networks; at smaller sizes, runs that other studies make."""
    if size != "full":
        return runs_of_networks(size)
    return tuple(one for network in networks for one in settings.grid(size, network, settings.PRIMARY[size][1]))


def of_networks(runs: Sequence[RunFolder], notes: tuple[str, ...] = ()) -> Outcome:
    """What the sweeps of several networks can show."""
    chosen = points(runs)
    parts = (of_figure4(chosen, notes), of_figure5(chosen), of_figure8(chosen), of_dimensions(chosen))
    return joined((*parts, of_table8(chosen), of_refined(chosen)))
