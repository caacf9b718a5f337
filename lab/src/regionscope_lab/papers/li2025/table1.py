"""Nine networks with SGD over the settings of Table 1: Figures 2, 4, 5 and 8, Tables 2, 3, 6 and 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.li2025.settings_table import (
    HULLS,
    POOLED,
    TABLE2,
    TABLE8,
    by_network,
    correlations_table,
    graded,
    means_table,
    scatter,
    settings_of,
)
from regionscope_lab.papers.rules import Graded, Setting, by_seed, correlated, in_range, order_vote, over_seeds
from regionscope_lab.papers.seed_table import SeedRun, SeedTable, by_setting

Runs = Mapping[str, Sequence[SeedRun]]
LINES = {
    "regions_test": "between test points",
    "regions": "between training points",
    "regions_random": "random directions",
}
RANGES = {
    "regions": (3.56, 0.98),
    "regions_from_-1_to_2": (4.47, 0.96),
    "regions_from_-2_to_3": (5.86, 0.92),
    "regions_from_-3_to_4": (6.39, 0.93),
}
EVOLUTION = {  # share of the training -> count, gap in percent, correlation (Table 3, of 200 epochs)
    0.1: (3.14, 11.2, -0.53),
    0.2: (3.02, 7.3, -0.29),
    0.3: (3.10, 18.2, 0.35),
    0.4: (3.22, 26.7, 0.77),
    0.5: (3.25, 30.4, 0.98),
    0.8: (3.27, 31.7, 0.98),
    1.0: (3.26, 31.6, 0.98),
}


def _all(runs: Runs) -> dict[str, tuple[SeedRun, ...]]:
    return by_network(run for mine in runs.values() for run in mine)


def figure2(table: SeedTable, runs: Runs) -> Finding:
    mine = runs["resnet18"]
    return Finding(
        {
            "distance": correlated(0.0, settings_of(mine, "distance"), weak=True),
            "margin": correlated(0.0, settings_of(mine, "margin"), weak=True),
            "regions": correlated(0.98, settings_of(mine)),
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
            **{name: correlated(0.98, settings_of(mine)) for name, mine in three.items()},
            "pooled": correlated(POOLED, [one for mine in three.values() for one in settings_of(mine)]),
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


def figure5(table: SeedTable, runs: Runs) -> Finding:
    mine = runs["resnet18"]
    rates, batches = (sorted({run[f"training.{name}"] for run in mine}) for name in ("lr", "batch_size"))

    def count(seed: int, **chosen: float) -> float:
        same = [
            run
            for run in mine
            if run.seed == seed and all(run[f"training.{name}"] == value for name, value in chosen.items())
        ]
        return fmean(run.last["regions"] for run in same)

    def along(factor: str, levels: Sequence[float], sign: int, **fixed: float) -> Graded:
        """By seed: the order of the mean counts along one factor, over all other settings."""
        values = {
            seed: [count(seed, **{factor: level}, **fixed) for level in levels]
            for seed in sorted({run.seed for run in mine})
        }
        means = [fmean(one) for one in zip(*values.values(), strict=True)]
        said = ", ".join(f"{mean:.2f} ({level:g})" for mean, level in zip(means, levels, strict=True))
        return by_seed([sign * order_vote(one) for one in values.values()], said)

    each = {rate: along("batch_size", batches, +1, lr=rate) for rate in rates}
    cells = (
        tuple(
            (rate, *(fmean(count(seed, lr=rate, batch_size=batch) for seed in (0, 1, 2)) for batch in batches))
            for rate in rates
        )
        if len({run.seed for run in mine}) == 3
        else ()
    )
    other = {name: _orders(same) for name, same in _all(runs).items() if name != "resnet18"}
    return Finding(
        {
            "rate": along("lr", rates, -1),
            "batch": along("batch_size", batches, +1),
            **{f"batch-{rate:g}": one for rate, one in each.items()},
        },
        (
            Table(
                "ResNet18: mean count by learning rate and batch size",
                ("learning rate", *(f"batch {b}" for b in batches)),
                cells,
            ),
            Table(
                "Other networks, one seed each: mean count",
                ("network", "by learning rate", "by batch size"),
                tuple((name, *words) for name, words in other.items()),
            ),
        ),
    )


def _orders(runs: Sequence[SeedRun]) -> tuple[str, ...]:
    """Mean counts along the learning rate and along the batch size."""
    return tuple(
        ", ".join(
            f"{fmean(run.last['regions'] for run in same if 'regions' in run.last):.2f} ({level:g})"
            for level, same in sorted(by_setting(runs, f"training.{factor}").items())
        )
        for factor in ("lr", "batch_size")
    )


def table6(table: SeedTable, runs: Runs) -> Finding:
    mine = runs["resnet18"]
    by_run = by_setting(mine, "seed")
    counts = {name: [fmean(run.last[name] for run in same) for same in by_run.values()] for name in RANGES}
    parts = {name: correlated(paper, settings_of(mine, name)) for name, (_, paper) in RANGES.items()}
    rows = tuple(
        (
            name.removeprefix("regions_from_").replace("regions", "0_to_1").replace("_", " "),
            fmean(counts[name]),
            paper,
            parts[name].ours,
            r,
        )
        for name, (paper, r) in RANGES.items()
    )
    return Finding(
        {
            "order": by_seed([order_vote(one) for one in zip(*counts.values(), strict=True)]),
            "correlation": graded(parts),
            "level": in_range(over_seeds(counts["regions"]), 3.56 * 0.95, 3.56 * 1.05),
        },
        (Table("Range of the interpolation", ("range", "mean count", "the paper", "correlation", "the paper "), rows),),
    )


def table3(table: SeedTable, runs: Runs) -> Finding:
    mine = runs["resnet18"]
    seeds = by_setting(mine, "seed")
    moments = {share: [_moment(same, share) for same in seeds.values()] for share in EVOLUTION}
    settings = {share: _settings_at(mine, share) for share in EVOLUTION}
    found = {share: correlated(paper[2], settings[share], weak=paper[2] < 0.5) for share, paper in EVOLUTION.items()}
    start = [fmean(run.curve("regions_path").values[0] for run in same) for same in seeds.values()]
    last = moments[1.0]
    rows = tuple(
        (
            share,
            fmean(count for count, _ in moments[share]),
            paper[0],
            fmean(gap for _, gap in moments[share]),
            paper[1],
            found[share].ours,
            paper[2],
        )
        for share, paper in EVOLUTION.items()
    )
    return Finding(
        {
            "start": in_range(over_seeds(start), 1.0, 1.5),
            "rises": by_seed([1 if count > first else -1 for first, (count, _) in zip(start, last, strict=True)]),
            "early": found[0.2],
            "second-half": graded({f"at {share:g}": one for share, one in found.items() if share >= 0.5}),
            "level": in_range(over_seeds(count for count, _ in last), 3.26 * 0.95, 3.26 * 1.05),
            "gap": in_range(over_seeds(gap for _, gap in last), 31.6 * 0.95, 31.6 * 1.05, unit="%"),
        },
        (
            Table(
                "Along the training, by its share",
                ("share", "count", "the paper", "gap, %", "the paper ", "correlation", "the paper  "),
                rows,
            ),
        ),
    )


def _at(run: SeedRun, share: float) -> tuple[float, float]:
    """Count and gap in percent at a share of the training."""
    path, errors = run.curve("regions_path"), [run.curve(f"{part}_error") for part in ("train", "test")]
    step = share * path.steps[-1]
    train, test = (float(curve.values[curve.place(step)]) for curve in errors)
    return float(path.values[path.place(step)]), 100 * (test - train)


def _moment(runs: Sequence[SeedRun], share: float) -> tuple[float, float]:
    counts, gaps = zip(*(_at(run, share) for run in runs), strict=True)
    return fmean(counts), fmean(gaps)


def _settings_at(runs: Sequence[SeedRun], share: float) -> list[Setting]:
    """All settings at a share of the training, of which all fit their data at its end."""
    groups = by_setting(runs, "training.lr", "training.batch_size", "training.weight_decay")
    pairs = {key: list(zip(*(_at(run, share) for run in same), strict=True)) for key, same in groups.items()}
    return [Setting(x, y, key[:2]) for key, (x, y) in pairs.items()]
