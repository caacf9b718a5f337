"""Nine networks with SGD over the settings of Table 1: Figures 2, 4 and 8, Tables 2 and 8."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from regionscope_lab.papers.declaration import Finding, Table, printed
from regionscope_lab.papers.li2025.settings_table import (
    HULLS,
    TABLE2,
    TABLE8,
    by_network,
    correlations_table,
    graded,
    means_table,
    scatter,
    settings_of,
)
from regionscope_lab.papers.rules import correlated
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable

LINES = {
    "regions_test": "between test points",
    "regions": "between training points",
    "regions_random": "random directions",
}


def _all(runs: Runs) -> dict[str, tuple[SeedRun, ...]]:
    return by_network(run for mine in runs.values() for run in mine)


def figure2(table: SeedTable, runs: Runs) -> Finding:
    mine = runs["resnet18"]
    return Finding(
        {
            "distance": correlated(0.0, settings_of(mine, "distance"), weak=True),
            "margin": correlated(0.0, settings_of(mine, "margin"), weak=True),
            "regions": correlated(TABLE2["resnet18"][0], settings_of(mine)),
        },
        (
            means_table(
                "ResNet18: norm, distance and margin by setting",
                mine,
                ("regions", "gap", "train_error", "norm.l2", "distance", "margin"),
            ),
        ),
        tuple(
            scatter(f"{words} and generalisation gap", {"ResNet18": mine}, name)
            for name, words in {
                "norm.l2": "Norm of the weights",
                "distance": "Distance from the start",
                "margin": "Output margin",
            }.items()
        ),
    )


def momentum(table: SeedTable, runs: Runs) -> Finding:
    mine = runs["momentum 0"]
    words = ("regions", "gap", "train_error", "distance", "margin")
    return Finding(
        {name: correlated(0.0, settings_of(mine, name), weak=True) for name in ("distance", "margin")},
        (means_table("ResNet18 without momentum", mine, words),),
    )


def figure4(table: SeedTable, runs: Runs) -> Finding:
    networks = _all(runs)
    three: dict[str, Sequence[SeedRun]] = {
        name: networks[name] for name in ("resnet18", "efficientnetb0", "senet18") if name in networks
    }
    return Finding(
        {
            **{name: correlated(TABLE2[name][0], settings_of(mine)) for name, mine in three.items()},
            "pooled": correlated(
                printed("li2025", "table1", "figure4")["pooled"],
                [one for mine in three.values() for one in settings_of(mine)],
            ),
        },
        tuple(
            means_table(f"{name}: settings", mine, ("regions", "gap", "train_error")) for name, mine in three.items()
        ),
        (scatter("Region count and generalisation gap", three),),
    )


def table2(table: SeedTable, runs: Runs) -> Finding:
    networks = _all(runs)
    hulls = {
        f"{name}, {k + 2}d": correlated(TABLE2[name][k + 1], settings_of(mine, measure))
        for name, mine in networks.items()
        for k, measure in enumerate(HULLS)
    }
    columns = {"regions": "lines", **{name: name[-2:] for name in HULLS}}
    return Finding(
        {
            "lines": graded({name: correlated(TABLE2[name][0], settings_of(mine)) for name, mine in networks.items()}),
            "hulls": graded(hulls),
        },
        (correlations_table("Correlation of region count and gap, CIFAR-10", networks, columns, TABLE2),),
    )


def figure8(table: SeedTable, runs: Runs) -> Finding:
    networks = _all(runs)
    parts = {
        name: correlated(-TABLE2[name][0], settings_of(mine, "regions", "test_accuracy"), sign=-1)
        for name, mine in networks.items()
    }
    rows = tuple((name, one.ours) for name, one in parts.items())
    return Finding(
        {"accuracy": graded(parts)},
        (Table("Correlation of region count and test accuracy", ("network", "ours"), rows),),
        (scatter("Region count and test accuracy", networks, target="test_accuracy"),),
    )


def table8(table: SeedTable, runs: Runs) -> Finding:
    networks = _all(runs)
    parts = {
        f"{name}, {words}": correlated(TABLE8[name][i], settings_of(mine, measure))
        for name, mine in networks.items()
        for i, (measure, words) in enumerate(LINES.items())
    }
    return Finding(
        {"lines": graded(parts)},
        (
            correlations_table("Correlation by where lines are", networks, LINES, TABLE8),
            Table(
                "What a grid of 200 points misses, beside refined counts on the same lines",
                ("network", "mean over settings", "most in a setting", "counted there", "refined count there"),
                tuple((name, *_missed(mine)) for name, mine in networks.items()),
            ),
        ),
    )


def _missed(runs: Sequence[SeedRun]) -> tuple[float, float, float, float]:
    """Refined less plain counts per line, over the settings that fit: their mean, and the setting with the most."""
    refined, plain = (settings_of(runs, name) for name in ("regions_refined", "regions"))
    pairs = [(fmean(fine.x), fmean(grid.x)) for fine, grid in zip(refined, plain, strict=True)]
    most = max(pairs, key=lambda pair: pair[0] - pair[1])
    return fmean(fine - grid for fine, grid in pairs), most[0] - most[1], most[1], most[0]
