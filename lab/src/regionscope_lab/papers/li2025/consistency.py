"""Tables 2, 7 and 8: the same correlation for other networks, data, dimensions, optimisers and ways to draw slices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from regionscope.measures.correlate import Coefficient
from regionscope_lab.config import Experiment
from regionscope_lab.papers.charts import Bars, Series
from regionscope_lab.papers.li2025 import paper, settings
from regionscope_lab.papers.li2025.claims import correlation_claim, points_table, undefined
from regionscope_lab.papers.li2025.networks import Grid, named, read_networks
from regionscope_lab.papers.li2025.tables import Point, correlation, fitting, group_by, points
from regionscope_lab.papers.study import Claim, Outcome, Size
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store import RunFolder

_DIMENSIONS = ("regions", "regions_2d", "regions_3d", "regions_4d", "regions_5d")
_SETTINGS = ("regions", "gap", "train_error")
_METHODS = {
    "regions": "between training points",
    "regions_test": "between test points",
    "regions_random": "along a random direction",
}
_SWAPPED = (
    'In Table 8 the column "Test" repeats the training-point column of Table 2 (0.98, 0.98, 0.94, 0.95, ...), so its '
    "headers Test and Train may be swapped. Both are compared as printed; the difference is at most 0.05."
)


def runs_of_table2(size: Size) -> tuple[Experiment, ...]:
    return tuple(experiment for pair in settings.data_sets(size) for experiment in settings.grid(size, *pair))


def table2(workspace: Workspace, size: Size) -> Outcome:
    chosen, notes = read_networks(workspace, runs_of_table2(size), size)
    claims: list[Claim] = []
    for members in group_by(chosen, lambda point: f"{point.network} {point.data}").values():
        network, data = members[0].network, members[0].data
        column = data if data in ("cifar10", "cifar100", "imagenet") else "cifar10"
        expected = paper.expected(paper.TABLE2, network, column)
        claims.append(correlation_claim(f"{network} on {data}", expected, members, "regions"))
    on_primary_data = [point for point in chosen if point.data == settings.PRIMARY[size][1]]
    dimensions = of_dimensions(on_primary_data, notes)
    return Outcome(
        claims=(*claims, *dimensions.claims),
        tables=(points_table("Settings", chosen, (*_SETTINGS, *_DIMENSIONS[1:])),),
        charts=dimensions.charts,
        notes=dimensions.notes,
    )


def of_dimensions(chosen: Sequence[Point], notes: tuple[str, ...] = ()) -> Outcome:
    """The right half of Table 2: hulls of 3 to 6 training points."""
    groups = group_by(chosen, lambda point: point.network)
    claims = tuple(
        correlation_claim(
            f"{network}, dimension {k}",
            paper.expected(paper.TABLE2, network, f"regions_{k}d"),
            members,
            f"regions_{k}d",
        )
        for network, members in groups.items()
        for k in (2, 3, 4, 5)
    )
    names = ("1", "2", "3", "4", "5")
    return Outcome(
        claims=claims,
        charts=(_bars("Correlation by the dimension of the hull", "dimension", names, _pairs(groups, _DIMENSIONS)),),
        notes=(
            "The paper gives no grid for dimensions 3 to 5; here a hull has at most 1,024 points there "
            "(17, 11 and 8 along each axis), so counts of different dimensions are not comparable with each other.",
            *notes,
        ),
    )


def runs_of_table7(size: Size) -> tuple[Experiment, ...]:
    """SGD as in the other studies; Adam and Adagrad with one seed."""
    experiments: list[Experiment] = []
    for network, data in _optimised(size):
        experiments += settings.grid(size, network, data)
        for optimizer in ("adam", "adagrad"):
            experiments += settings.grid(size, network, data, optimizer=optimizer, seeds=(0,))
    return tuple(experiments)


def of_table7(every: Mapping[Grid, Sequence[RunFolder]], notes: tuple[str, ...] = ()) -> Outcome:
    """A claim for each network and optimiser; where some settings do not fit their data, a second one without them.

    Networks that have been trained with SGD alone are left out.
    """
    compared = {grid.network for grid in every if grid.optimizer != "sgd"}
    grids = {grid: runs for grid, runs in every.items() if grid.network in compared}
    claims: list[Claim] = []
    sentences: list[str] = []
    by_network: dict[str, dict[str, tuple[Point, ...]]] = defaultdict(dict)
    fitted_by_network: dict[str, dict[str, tuple[Point, ...]]] = defaultdict(dict)
    for grid, runs in grids.items():
        fitted, on_fit = fitting(runs, others="a row of its own leaves them out")
        every_point = by_network[grid.network][grid.optimizer] = points(runs)
        fitted_points = fitted_by_network[grid.network][grid.optimizer] = points(fitted)
        expected = paper.expected(paper.OPTIMISERS, grid.network, grid.optimizer)
        name = f"{grid.network}, {grid.optimizer}"
        claims.append(correlation_claim(name, expected, every_point, "regions"))
        sentences += [f"{named(grid, runs)}: {sentence}" for sentence in on_fit]
        if len(fitted) < len(runs):
            claims.append(correlation_claim(f"{name}, settings that fit", expected, fitted_points, "regions"))
    names = {"SGD": "sgd", "Adam": "adam", "Adagrad": "adagrad"}
    charts = tuple(
        _bars(
            title, "optimiser", tuple(names),
            {
                network: [(by_optimiser.get(name, ()), "regions") for name in names.values()]
                for network, by_optimiser in networks.items()
            },
        )
        for title, networks in (
            ("Correlation by optimiser, all settings", by_network),
            ("Correlation by optimiser, settings that fit their data", fitted_by_network),
        )
    )  # fmt: skip
    of_optimiser = {
        label: [point for by_optimiser in by_network.values() for point in by_optimiser.get(name, ())]
        for label, name in names.items()
    }
    return Outcome(
        claims=tuple(claims),
        tables=tuple(points_table(label, chosen, _SETTINGS) for label, chosen in of_optimiser.items() if chosen),
        charts=charts,
        notes=(
            "The paper does not say which learning rates Adam had; here they are a tenth of Table 1's, since Adam does "
            "not train with 0.1.",
            *notes,
            *sentences,
        ),
    )


def of_table8(chosen: Sequence[Point], notes: tuple[str, ...] = ()) -> Outcome:
    """Slices between training points, between test points, and along random directions."""
    groups = group_by(chosen, lambda point: point.network)
    claims = tuple(
        correlation_claim(f"{network}, {words}", paper.expected(paper.METHODS, network, name), members, name)
        for network, members in groups.items()
        for name, words in _METHODS.items()
    )
    names = ("train", "test", "random direction")
    return Outcome(
        claims=claims,
        tables=(points_table("Region counts by where the lines are", chosen, (*_METHODS, "gap")),),
        charts=(_bars("Correlation by where the lines are", "lines", names, _pairs(groups, _METHODS)),),
        notes=(_SWAPPED, *notes),
    )


def _optimised(size: Size) -> tuple[tuple[str, str], ...]:
    """All nine networks at size full; else the MLP, which is the cheapest to train."""
    data = settings.PRIMARY[size][1]
    return tuple((network, data) for network in (paper.ALL_NETWORKS if size == "full" else ("mlp",)))


_Pairs = Mapping[str, Sequence[tuple[Sequence[Point], str]]]  # by network


def _pairs(groups: Mapping[str, Sequence[Point]], measures: Iterable[str]) -> _Pairs:
    """The points of each network with each measure."""
    return {network: [(members, measure) for measure in measures] for network, members in groups.items()}


def _bars(title: str, x_label: str, names: tuple[str, ...], pairs: _Pairs) -> Bars:
    """Correlations with their intervals: for every network, the points and the measure behind each name."""
    series = []
    for network, cells in pairs.items():
        coefficients = [_value(chosen, measure) for chosen, measure in cells]
        heights = tuple(coefficient.value for coefficient in coefficients)
        intervals = tuple(coefficient.interval for coefficient in coefficients)
        series.append(Series(label=network, x=(), y=heights, interval=intervals))
    return Bars(title=title, x_label=x_label, y_label="correlation with the gap", names=names, series=tuple(series))


def _value(chosen: Sequence[Point], measure: str) -> Coefficient:
    found = correlation(chosen, measure)
    return undefined() if found is None else found.pearson
