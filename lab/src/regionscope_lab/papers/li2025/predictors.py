"""Figures 2, 4 and 8: which numbers go with the generalisation gap, over the settings of Table 1."""

from __future__ import annotations

from collections.abc import Sequence

from regionscope_lab.config import Experiment
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Chart
from regionscope_lab.papers.li2025 import paper, settings
from regionscope_lab.papers.li2025.claims import correlation_claim, interval, points_table, scatter, signed, undefined
from regionscope_lab.papers.li2025.tables import Point, correlation, group_by
from regionscope_lab.papers.study import Claim, Outcome, Size

_COLUMNS = ("regions", "gap", "train_error", "test_error")
_OTHERS = {
    "distance": "distance from the initial weights",
    "norm.l2": "norm of the weights",
    "margin": "mean output margin",
}
_PRINTED = ("distance", "margin")  # those that Figure 2 has


def runs_of_primary(size: Size) -> tuple[Experiment, ...]:
    """Table 1 for the network that stands where the paper has ResNet18 on CIFAR-10."""
    return settings.grid(size, *settings.PRIMARY[size])


def runs_of_networks(size: Size) -> tuple[Experiment, ...]:
    """Table 1 for every network of Figure 4."""
    data = settings.PRIMARY[size][1]
    return tuple(experiment for net in settings.networks(size) for experiment in settings.grid(size, net, data))


def of_figure2(chosen: Sequence[Point], notes: tuple[str, ...] = ()) -> Outcome:
    """Norm and margin do not predict the gap; the region count does."""
    charts = list[Chart]()
    for name, words in _OTHERS.items():
        charts += scatter(f"{words.capitalize()} and gap", chosen, name, words)
    charts += scatter("Region count and gap", chosen, "regions", "regions on a line")
    return Outcome(
        summary=_contradiction(chosen),
        claims=tuple(claims_of_figure2(chosen)),
        tables=(points_table("Norm and margin by setting", chosen, ("regions", "gap", "train_error", *_OTHERS)),),
        charts=tuple(charts),
        notes=(
            "Figure 2 shows the distance from the initial weights and the output margin of Example 1; the norm of the "
            "weights is added here. The paper calls the correlations low and prints no number in the text.",
            *notes,
        ),
    )


def claims_of_figure2(chosen: Sequence[Point], prefix: str = "") -> list[Claim]:
    """Norm and margin against the gap, and the region count of the one network of these points."""
    claims = []
    for name, words in _OTHERS.items():
        with_gap = correlation(chosen, name)
        value = undefined() if with_gap is None else with_gap.pearson
        printed, judged = ("low", verdict.uncorrelated(value)) if name in _PRINTED else ("", verdict.shown())
        claims.append(Claim(f"{prefix}{words} against gap", printed, signed(with_gap), judged, interval(with_gap)))
    network = chosen[0].network
    what = f"{prefix}{network}: regions against gap"
    return [*claims, correlation_claim(what, _of_network(network), chosen, "regions")]


def _contradiction(chosen: Sequence[Point]) -> str:
    """What the margin does over these settings, where that is not what the paper says; or nothing."""
    margin, regions = correlation(chosen, "margin"), correlation(chosen, "regions")
    if margin is None or verdict.uncorrelated(margin.pearson).grade is not verdict.Grade.NOT_REPRODUCED:
        return ""
    fitted = all(point.values.get("train_error", 0.0) < settings.FITTED for point in chosen)
    alone = ", one seed each," if all(point.seeds == 1 for point in chosen) else ""
    return (
        f"Over {margin.pearson.n} settings{' that fit their data' if fitted else ''}{alone} the mean output margin "
        f"correlates with the generalisation gap with {signed(margin)} ({interval(margin)}). This contradicts the "
        f"paper, which calls that correlation low (Figure 2). The region count correlates with {signed(regions)}."
    )


def of_figure4(chosen: Sequence[Point], notes: tuple[str, ...] = ()) -> Outcome:
    """Region count against gap, by network and over all."""
    groups = group_by(chosen, lambda point: point.network)
    claims = [
        correlation_claim(f"{name}: regions against gap", _of_network(name), members, "regions")
        for name, members in groups.items()
    ]
    for name, members in groups.items():
        fitted = [point for point in members if point.values.get("train_error", 0.0) < settings.FITTED]
        if len(fitted) < len(members):
            what = f"{name}: the same over settings with a training error below {settings.FITTED:g}%"
            claims.append(correlation_claim(what, None, fitted, "regions"))
    if set(paper.NETWORKS) <= groups.keys():
        same = [point for name in paper.NETWORKS for point in groups[name]]
        pooled = (paper.POOLED, f"{paper.POOLED:.2f}")
        claims.append(correlation_claim(f"{', '.join(paper.NETWORKS)} together", pooled, same, "regions"))
    elif len(groups) > 1:
        what = f"{', '.join(groups)} together (the paper's {paper.POOLED:.2f} is for other networks)"
        claims.append(correlation_claim(what, None, chosen, "regions"))
    return Outcome(
        claims=tuple(claims),
        tables=(points_table("Settings", chosen, _COLUMNS),),
        charts=scatter("Region count and generalisation gap", chosen, "regions", "regions on a line"),
        notes=(paper.COUNTS_DIFFER, *notes),
    )


def runs_of_figure8(size: Size) -> tuple[Experiment, ...]:
    """All nine networks at the paper's size; else those of Figure 4."""
    return runs_of_all_networks(size) if size == "full" else runs_of_networks(size)


def runs_of_all_networks(size: Size) -> tuple[Experiment, ...]:
    """Table 1 for every network that is trained on the data set of ``PRIMARY``."""
    data = settings.PRIMARY[size][1]
    return tuple(
        experiment
        for net, name in settings.data_sets(size)
        if name == data
        for experiment in settings.grid(size, net, data)
    )


def of_figure8(chosen: Sequence[Point], notes: tuple[str, ...] = ()) -> Outcome:
    """Region count against test accuracy."""
    claims, charts = [], list[Chart]()
    for name, members in group_by(chosen, lambda point: point.network).items():
        value, words = _of_network(name)
        claims.append(
            correlation_claim(
                f"{name}: regions against test accuracy",
                (-value, f"high; gap: {words}"),
                members,
                "regions",
                "test_accuracy",
            )
        )
        charts += scatter(
            f"Region count and test accuracy, {name}",
            members,
            "regions",
            "regions on a line",
            "test_accuracy",
            "test accuracy, %",
        )
    return Outcome(
        claims=tuple(claims),
        tables=(points_table("Test accuracy by setting", chosen, ("regions", "test_accuracy", "train_error")),),
        charts=tuple(charts),
        notes=(
            "The numbers of Figure 8 appear in the picture only. At a training error near 0 the gap equals the test "
            "error, so we compare with the correlation of Table 2 with the opposite sign.",
            *notes,
        ),
    )


def _of_network(name: str) -> tuple[float, str]:
    return paper.expected(paper.TABLE2, name, "cifar10")
