"""ResNet18 over the 27 settings of Table 1: Figure 5 and Table 6."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from regionscope_lab.papers.declaration import Finding, Table, printed
from regionscope_lab.papers.li2025.settings_table import by_network, graded, settings_of
from regionscope_lab.papers.rules import Graded, by_seed, correlated, in_range, order_vote, over_seeds
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable, by_setting


def figure5(table: SeedTable, runs: Runs) -> Finding:
    settings = by_setting(runs["resnet18"], "seed", "training.lr", "training.batch_size")
    counts = {key: fmean(run.last["regions"] for run in same) for key, same in settings.items()}  # over the decays
    seeds, rates, batches = (sorted({key[i] for key in counts}) for i in range(3))

    def along(levels: Sequence[float], sign: int, count: Callable[[int, float], float]) -> Graded:
        """By seed: the order of the counts along one factor."""
        values = [[count(seed, level) for level in levels] for seed in seeds]
        means = zip(map(fmean, zip(*values, strict=True)), levels, strict=True)
        said = ", ".join(f"{mean:.2f} ({level:g})" for mean, level in means)
        return by_seed([sign * order_vote(one) for one in values], said)

    def at_rate(rate: float) -> Callable[[int, float], float]:
        return lambda seed, batch: counts[seed, rate, batch]

    cells = tuple((rate, *(fmean(counts[seed, rate, batch] for seed in seeds) for batch in batches)) for rate in rates)
    networks = by_network(run for mine in runs.values() for run in mine if run["network.name"] != "resnet18")
    return Finding(
        {
            "rate": along(rates, -1, lambda seed, rate: fmean(counts[seed, rate, batch] for batch in batches)),
            "batch": along(batches, +1, lambda seed, batch: fmean(counts[seed, rate, batch] for rate in rates)),
            **{f"batch-{rate:g}": along(batches, +1, at_rate(rate)) for rate in rates},
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
                tuple((name, *_orders(same)) for name, same in networks.items()),
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
    mine, known = runs["resnet18"], printed("li2025", "table1", "table6")
    by_run = by_setting(mine, "seed")
    counts = {name: [fmean(run.last[name] for run in same) for same in by_run.values()] for name in known}
    parts = {name: correlated(paper, settings_of(mine, name)) for name, (_, paper) in known.items()}
    rows = tuple(
        (
            name.removeprefix("regions_from_").replace("regions", "0_to_1").replace("_", " "),
            fmean(counts[name]),
            paper,
            parts[name].ours,
            r,
        )
        for name, (paper, r) in known.items()
    )
    return Finding(
        {
            "order": by_seed([order_vote(one) for one in zip(*counts.values(), strict=True)]),
            "correlation": graded(parts),
            "level": in_range(over_seeds(counts["regions"]), known["regions"][0] * 0.95, known["regions"][0] * 1.05),
        },
        (Table("Range of the interpolation", ("range", "mean count", "the paper", "correlation", "the paper "), rows),),
    )
