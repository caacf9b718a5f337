"""Figures 6, 7 and 9: mixup, and random crops with random flips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regionscope_lab.config import Experiment
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Chart, Scatter, Series
from regionscope_lab.papers.li2025 import paper, settings
from regionscope_lab.papers.li2025.claims import correlation_claim, points_table, scatter
from regionscope_lab.papers.li2025.tables import Point, difference, group_by
from regionscope_lab.papers.study import Claim, Outcome, Size

WHERE: dict[Size, tuple[str, str]] = {
    "smoke": ("mlp", "digits"),
    "desk": ("mlp", "fashion_mnist"),
    "full": ("resnet18", "cifar10"),
}
_ALPHA = 1.0  # of mixup's Beta distribution; the paper does not give it
_WORDS = {"mixup": "mixup", "crop_flip": "crop and flip"}


def runs_of_augmentation(size: Size) -> tuple[Experiment, ...]:
    """Table 1 plain (as in other studies), with mixup, and with crops and flips; one seed."""
    network, data = WHERE[size]
    return (
        *settings.grid(size, network, data, seeds=(0,)),
        *settings.grid(size, network, data, mixup=_ALPHA, seeds=(0,)),
        *settings.grid(size, network, data, augment="crop_flip", seeds=(0,)),
    )


def kind_of(point: Point) -> str:
    """none, mixup or crop_flip."""
    training = point.experiment.training
    return "mixup" if training.mixup else training.augment


def of_augmentation(chosen: Sequence[Point], notes: tuple[str, ...] = ()) -> Outcome:
    """Both lower the region count and raise the test accuracy, crops and flips more; correlations stay high."""
    groups = group_by(chosen, kind_of)
    claims: list[Claim] = []
    charts: list[Chart] = []
    for kind, figure in (("mixup", "Figure 6"), ("crop_flip", "Figure 7")):
        claims += _effect(kind, groups[kind], groups["none"])
        charts.append(_shift(f"{figure}: {_WORDS[kind]}", {name: groups[name] for name in ("none", kind)}))
    gain, error, n = difference(groups["crop_flip"], groups["mixup"], "test_accuracy")
    claims.append(
        Claim(
            "test accuracy, crop and flip minus mixup",
            "positive",
            f"{gain:+.2f} points",
            verdict.differs(gain, 0.0, error),
            f"± {error:.2f}, {n} settings",
        )
    )
    expected = paper.expected(paper.TABLE2, chosen[0].network, "cifar10")
    high = (expected[0], f"remains high; without: {expected[1]}")
    for kind, words in _WORDS.items():
        claims.append(correlation_claim(f"{words}: regions against gap", high, groups[kind], "regions"))
        charts += scatter(f"Figure 9: {words}", groups[kind], "regions", "regions on a line")
    return Outcome(
        claims=tuple(claims),
        tables=tuple(
            points_table(f"Settings, {_WORDS.get(kind, 'plain')}", members, ("regions", "gap", "test_accuracy"))
            for kind, members in groups.items()
        ),
        charts=tuple(charts),
        notes=(
            f"The paper does not give alpha of mixup; here it is {_ALPHA:g}. Its Figure 9 has numbers in the picture "
            "only. The training error, and so the gap, is that on the plain training images.",
            *notes,
        ),
    )


def _effect(kind: str, changed: Sequence[Point], plain: Sequence[Point]) -> list[Claim]:
    fewer, error, n = difference(plain, changed, "regions")
    gain, doubt, _ = difference(changed, plain, "test_accuracy")
    words, size = _WORDS[kind], f"{n} settings"
    return [
        Claim(
            f"{words}: change of the region count", "fewer", f"{-fewer:+.3f}", verdict.differs(fewer, 0.0, error),
            f"± {error:.3f}, {size}",
        ),
        Claim(
            f"{words}: change of the test accuracy", "better", f"{gain:+.2f} points",
            verdict.differs(gain, 0.0, doubt), f"± {doubt:.2f}, {size}",
        ),
    ]  # fmt: skip


def _shift(title: str, groups: Mapping[str, Sequence[Point]]) -> Scatter:
    series = tuple(
        Series.of(_WORDS.get(kind, "plain"), ((one.values["regions"], one.values["test_accuracy"]) for one in members))
        for kind, members in groups.items()
    )
    return Scatter(title=title, x_label="regions on a line", y_label="test accuracy, %", series=series)
