"""The settings of Table 1 from their seeds: pairs of numbers to correlate, and the numbers that the paper prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from regionscope_lab.papers.declaration import Table, printed
from regionscope_lab.papers.figures import Figure, Series
from regionscope_lab.papers.rules import FIT, Graded, Setting, Verdict, combined, correlated
from regionscope_lab.papers.seed_table import SeedRun, by_setting

FACTORS = ("network.name", "training.lr", "training.batch_size", "training.weight_decay")
NETWORKS = ("resnet18", "resnet34", "vgg19", "mobilenetv2", "senet18", "shufflenetv2", "efficientnetb0",
            "regnetx200mf", "simpledla")  # fmt: skip
TABLE2, TABLE7, TABLE8 = (printed("li2025", "table1", name) for name in ("table2", "table7", "table8"))
HULLS = ("regions_2d", "regions_3d", "regions_4d", "regions_5d")


def settings_of(
    runs: Iterable[SeedRun], measure: str = "regions", target: str = "gap", *, all_settings: bool = False
) -> list[Setting]:
    """The settings that fit their data, with both numbers of each seed; near-copies share learning rate and batch."""
    found = []
    for (network, rate, batch, _), mine in by_setting(runs, *FACTORS).items():
        known = [run.last for run in mine if {measure, target} <= run.last.keys()]
        if known and (all_settings or fmean(one["train_error"] for one in known) <= FIT):
            x, y = (tuple(one[name] for one in known) for name in (measure, target))
            found.append(Setting(x, y, (network, rate, batch)))
    return found


def by_network(runs: Iterable[SeedRun]) -> dict[str, tuple[SeedRun, ...]]:
    """The runs of each network, in the order of Table 2."""
    groups = by_setting(runs, "network.name")
    return {name: groups[name] for name in NETWORKS if name in groups}


def graded(parts: Mapping[str, Graded]) -> Graded:
    """A claim about several networks, with the names of those for which it does not hold."""
    others = [name for name, one in parts.items() if one.verdict is not Verdict.HOLDS]
    return combined(list(parts.values()), f"all but {'; '.join(others)}" if others else "")


def correlations_table(
    title: str,
    networks: Mapping[str, Sequence[SeedRun]],
    columns: Mapping[str, str],
    printed: Mapping[str, Sequence[float]],
) -> Table:
    """Ours and the paper's correlation with the gap, by network and by measure."""
    rows: list[tuple[str | float, ...]] = []
    for name, runs in networks.items():
        cells = list[str | float]()
        for measure, paper in zip(columns, printed[name], strict=True):
            cells += [correlated(paper, settings_of(runs, measure)).ours, paper]
        rows.append((name, *cells))
    head = [part for words in columns.values() for part in (words, "the paper")]
    return Table(title, ("network", *head), tuple(rows))


def scatter(
    title: str, networks: Mapping[str, Sequence[SeedRun]], measure: str = "regions", target: str = "gap"
) -> Figure:
    """The settings that fit, means over seeds, in one colour for each network."""
    series = []
    for name, runs in networks.items():
        settings = settings_of(runs, measure, target)
        series.append(Series(name, [fmean(one.x) for one in settings], [fmean(one.y) for one in settings]))
    return Figure(title=title, x_label=measure, y_label=f"{target}, %", series=series, joined=False)


def means_table(title: str, runs: Iterable[SeedRun], measures: Sequence[str]) -> Table:
    """Each setting: means over its seeds."""
    rows = []
    for (network, rate, batch, decay), mine in by_setting(runs, *FACTORS).items():
        known = [run.last for run in mine]
        means = [fmean(one[name] for one in known) if all(name in one for one in known) else "n/a" for name in measures]
        rows.append((network, rate, batch, decay, len(mine), *means))
    return Table(title, ("network", "learning rate", "batch", "decay", "seeds", *measures), tuple(rows), detail=True)
