"""Other ways of training ResNet18 and eight networks: Table 7, Figures 6, 7 and 9."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.li2025.settings_table import TABLE2, TABLE7, by_network, graded, means_table, settings_of
from regionscope_lab.papers.rules import Graded, correlated, in_range, share
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable


def table7(table: SeedTable, runs: Runs) -> Finding:
    claims, rows = {}, []
    for i, optimiser in enumerate(("adam", "adagrad")):
        networks = by_network([*runs[optimiser], *runs[f"{optimiser} vgg19"]])
        parts = {name: correlated(TABLE7[name][i], settings_of(mine)) for name, mine in networks.items()}
        every = {
            name: correlated(TABLE7[name][i], settings_of(mine, all_settings=True)) for name, mine in networks.items()
        }
        claims[optimiser] = graded(parts)
        rows += [(name, optimiser, one.ours, every[name].ours, TABLE7[name][i]) for name, one in parts.items()]
    columns = ("network", "optimiser", "settings that fit", "all settings", "the paper")
    return Finding(claims, (Table("Correlation with the gap by optimiser", columns, tuple(rows)),))


def _cell(run: SeedRun) -> tuple[float, int]:
    return run["training.lr"], run["training.batch_size"]


def _plain(runs: Runs) -> dict[tuple[float, int], SeedRun]:
    """The runs without augmentation of the same seed and weight decay."""
    same = runs["mixup"][0]
    return {
        _cell(run): run
        for run in runs["resnet18"]
        if run.seed == same.seed and run["training.weight_decay"] == same["training.weight_decay"]
    }


def _share(pairs: Sequence[tuple[SeedRun, SeedRun]], measure: str, sign: int, unit: str = "") -> Graded:
    """The share of settings in which a measure changes in the paper's direction: more than a half of them."""
    changes = [after.last[measure] - before.last[measure] for after, before in pairs]
    found = in_range(share(sum(sign * one > 0 for one in changes), len(changes)), 0.5, 1.0)
    words = f"mean change {fmean(changes):+.3g}{unit}; share of settings {found.ours}"
    return Graded(found.verdict, found.rule, words, found.value, found.interval)


def augmentation(table: SeedTable, runs: Runs) -> Finding:
    plain = _plain(runs)
    claims = {}
    for name, key in (("mixup", "mixup"), ("crop", "crop and flip")):
        pairs = [(run, plain[_cell(run)]) for run in runs[key]]
        claims[f"{name}-regions"] = _share(pairs, "regions", -1)
        claims[f"{name}-accuracy"] = _share(pairs, "test_accuracy", +1, " points")
        claims[f"{name}-correlation"] = correlated(TABLE2["resnet18"][0], settings_of(runs[key]))
    flips = {_cell(run): run for run in runs["crop and flip"]}
    claims["crop-better"] = _share([(flips[_cell(run)], run) for run in runs["mixup"]], "test_accuracy", +1, " points")
    words = ("regions", "gap", "train_error", "test_accuracy")
    tables = tuple(
        means_table(f"ResNet18, {key}", mine, words)
        for key, mine in {
            "plain": list(plain.values()),
            "mixup": runs["mixup"],
            "crop and flip": runs["crop and flip"],
        }.items()
    )
    return Finding(claims, tables)
