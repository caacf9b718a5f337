"""The five rules, each from both sides of its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regionscope.errors import InputError
from regionscope_lab.papers import rules
from regionscope_lab.papers.rules import Graded, Setting, Verdict


@pytest.mark.parametrize(
    ("votes", "verdict"),
    [
        ([1, 1, 0], "holds"),
        ([1, 1], "undecided"),  # two seeds are too few
        ([-1, -1, 1], "contradicted"),
        ([1, 0, 0], "undecided"),
        ([1, 1, 1, -1, -1], "undecided"),  # three of five are less than two thirds
        ([], "not tested"),
    ],
)
def test_two_thirds_of_three_seeds_decide(votes: list[int], verdict: str) -> None:
    assert rules.by_seed(votes).verdict.value == verdict


def test_a_vote_is_a_sign() -> None:
    with pytest.raises(InputError, match="votes of -1, 0 and"):
        rules.by_seed([2, 1, 1])


@pytest.mark.parametrize(
    ("values", "vote"), [([1, 2, 3, 4], 1), ([1, 2, 4, 3], 1), ([1, 3, 2], 0), ([4, 3, 2, 1], -1), ([1, math.nan], 0)]
)
def test_order_of_a_seed(values: list[float], vote: int) -> None:
    assert rules.order_vote(values) == vote


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([1.0, 1.1, 1.2], "holds"), ([-1.0, 0.1, 1.2], "undecided"), ([-1.0, -1.1, -1.2], "contradicted"),
     ([1.0, 1.1], "undecided"), ([], "not tested")],
)  # fmt: skip
def test_a_mean_by_its_interval(values: list[float], verdict: str) -> None:
    assert rules.in_range(rules.over_seeds(values), 0.0, math.inf).verdict.value == verdict


def test_an_interval_across_an_end_is_undecided() -> None:
    assert rules.in_range((1.0, 0.9, 1.2), 0.95, 1.05).verdict is Verdict.UNDECIDED
    assert rules.in_range((1.0, 1.0, 1.0), 0.95, 1.05).ours == "1"
    assert rules.in_range(rules.share(40, 40), 0.9, 1.0).verdict is Verdict.HOLDS
    assert rules.in_range(rules.share(38, 40), 0.9, 1.0).verdict is Verdict.UNDECIDED


def _settings(n: int, *, slope: float = 1.0, noise: float = 0.05, seeds: int = 3) -> list[Setting]:
    random = np.random.default_rng(1)
    x = np.linspace(0, 1, n)
    y = slope * x + noise * random.normal(size=n)
    return [Setting((a,) * seeds, tuple(b + 0.01 * random.normal(size=seeds)), (i,)) for i, (a, b) in
            enumerate(zip(x, y, strict=True))]  # fmt: skip


def test_a_strong_correlation() -> None:
    assert rules.correlated(0.98, _settings(9)).verdict is Verdict.HOLDS
    assert rules.correlated(-0.98, _settings(9, slope=-1.0), sign=-1).verdict is Verdict.HOLDS
    assert rules.correlated(0.98, _settings(9, slope=-1.0)).verdict is Verdict.CONTRADICTED
    assert rules.correlated(0.98, _settings(7)).verdict is Verdict.UNDECIDED  # eight settings are needed
    assert rules.correlated(0.98, _settings(9, noise=0.5)).verdict in {Verdict.PARTLY, Verdict.UNDECIDED}
    assert rules.correlated(0.98, []).verdict is Verdict.NOT_TESTED


def test_near_copies_count_once() -> None:
    copies = [Setting(one.x, one.y, (i // 3,)) for i, one in enumerate(_settings(12))]
    assert rules.correlated(0.98, copies).verdict is Verdict.UNDECIDED


def test_a_low_correlation() -> None:
    assert rules.correlated(math.nan, _settings(9), weak=True).verdict is Verdict.CONTRADICTED
    assert rules.correlated(math.nan, _settings(400, slope=0.0), weak=True).verdict is Verdict.HOLDS
    assert rules.correlated(math.nan, _settings(9, slope=0.0), weak=True).verdict is Verdict.UNDECIDED


def test_the_bootstrap_agrees_with_a_plain_loop() -> None:
    settings = _settings(9, noise=0.3)
    value, low, high = rules.bootstrap(settings)
    random = np.random.default_rng(5)
    drawn = []
    for _ in range(4000):
        chosen = [settings[i] for i in random.integers(9, size=9)]
        x = [np.mean(random.choice(one.x, 3)) for one in chosen]
        y = [np.mean(random.choice(one.y, 3)) for one in chosen]
        drawn.append(np.corrcoef(x, y)[0, 1])
    assert value == pytest.approx(np.corrcoef([np.mean(s.x) for s in settings], [np.mean(s.y) for s in settings])[0, 1])
    assert (low, high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.03)


def test_a_single_run_against_the_prediction_interval() -> None:
    ours = [90.0, 100.0, 110.0, 105.0]
    assert rules.single_run(100.0, ours).verdict is Verdict.HOLDS
    assert rules.single_run(115.0, ours).verdict is Verdict.HOLDS  # outside the interval of the mean
    assert rules.single_run(200.0, ours).verdict is Verdict.CONTRADICTED
    assert rules.single_run(100.0, [20.0, 100.0, 500.0]).verdict is Verdict.UNDECIDED  # so wide that it says nothing
    assert rules.single_run(100.0, ours[:2]).verdict is Verdict.UNDECIDED


def test_the_prediction_interval_holds_a_further_run() -> None:
    random = np.random.default_rng(0)
    runs = np.exp(random.normal(size=(4000, 6)))
    inside = [
        found.interval[0] <= run[5] <= found.interval[1]
        for run in runs
        if (found := rules.single_run(float(run[5]), run[:5].tolist()))
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.012)


def test_a_theorem_fails_with_one_case() -> None:
    assert [rules.every_case(*pair).verdict.value for pair in ((0, 5), (1, 5), (0, 0))] == [
        "holds", "contradicted", "not tested",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [("hhh", "holds"), ("hhc", "partly"), ("hhu", "holds"), ("huu", "undecided"), ("ccc", "contradicted"),
     ("cuu", "undecided"), ("pp", "partly"), ("hhhhhhhhhc", "holds"), ("nnh", "holds"), ("nn", "not tested")],
)  # fmt: skip
def test_parts_of_a_claim(parts: str, verdict: str) -> None:
    kinds = {kind.value[0]: kind for kind in Verdict}
    assert rules.combined([Graded(kinds[part], "by_seed", "") for part in parts]).verdict.value == verdict


def test_every_rule_is_on_the_page() -> None:
    page = "\n".join(rules.rules_markdown())
    assert all(callable(getattr(rules, name)) and text in page for name, text in rules.RULES.items())
