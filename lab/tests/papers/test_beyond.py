"""Questions beyond the papers: statistics against cases worked out by hand, and claims that can come out each way."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from regionscope.measures.correlate import Coefficient
from regionscope_lab.papers.beyond import designs, penalty, transformers
from regionscope_lab.papers.beyond.factor_statistics import (
    Design,
    conditional_information,
    granulated_kendall,
    partial,
    pearson,
    pooled,
    spearman,
    within_levels,
)
from regionscope_lab.papers.beyond.gap import MEASURES, follows
from regionscope_lab.papers.declaration import Finding, runs_of
from regionscope_lab.papers.rules import Graded
from regionscope_lab.papers.seed_table import SeedRun, SeedTable
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.sweep.grid import Sweep

NOTHING = SeedTable({}, {})
YES, NO, OPEN = "holds", "contradicted", "undecided"


def verdicts(claims: Mapping[str, Graded]) -> dict[str, str]:
    return {name: one.verdict.value for name, one in claims.items()}


def a_run(settings: Mapping[str, Any], numbers: Mapping[str, float], *, gap: float, train: float = 0.0) -> SeedRun:
    """train and gap in percent."""
    measures = {name: {"value": value} for name, value in numbers.items()}
    result = {"status": "finished", "measures": measures, "gap": gap / 100, "train_error": train / 100,
              "test_error": (train + gap) / 100}  # fmt: skip
    return SeedRun(json.dumps([dict(settings), gap]), settings, result, bytes)


SQUARE = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float)


def design(levels: np.ndarray, x: list[float], y: list[float], seeds: int = 1) -> Design:
    return Design(levels, tuple((value,) * seeds for value in x), tuple((value,) * seeds for value in y))


def test_granulated_kendall_by_hand() -> None:
    """Over the first factor both contexts agree; over the second, one agrees and one does not."""
    square = design(SQUARE, [1, 2, 3, 4], [1, 2, 4, 3])
    assert [granulated_kendall(square, factor).value for factor in (0, 1)] == [1.0, 0.0]
    assert granulated_kendall(square, 1).interval == (-1.0, 1.0)
    assert granulated_kendall(square, 1).n == 2
    line = np.array([[0.0], [1.0], [2.0]])
    assert granulated_kendall(design(line, [1, 2, 3], [1, 3, 2]), 0).value == pytest.approx(1 / 3)
    assert granulated_kendall(design(line, [1, 1, 3], [1, 3, 2]), 0).value == pytest.approx(0), "a tie counts 0"
    alone = granulated_kendall(design(SQUARE[:1], [1], [1]), 0)
    assert (math.isnan(alone.value), alone.n) == (True, 0)


def test_conditional_information_by_hand() -> None:
    """5 of 6 pairs agree: 1 - h(1/6) / log 2, which is less than given the first factor (1) or the second (0.54)."""
    wrong = 1 / 6
    entropy = -(wrong * math.log(wrong) + (1 - wrong) * math.log(1 - wrong))
    square = design(SQUARE, [1, 2, 3, 4], [1, 2, 4, 3])
    assert conditional_information(square) == pytest.approx(1 - entropy / math.log(2))
    three = np.zeros((3, 1))
    assert conditional_information(design(three, [1, 2, 3], [6, 5, 4])) == pytest.approx(1), "the sign does not matter"
    assert math.isnan(conditional_information(design(three, [1, 1, 1], [1, 2, 3])))
    assert conditional_information(design(np.zeros((4, 1)), [1, 2, 3, 4], [2, 4, 1, 3])) == pytest.approx(0)


def test_correlations_by_hand() -> None:
    levels = np.arange(4.0)[None, :, None]
    x, y = np.array([[1.0, 2, 4, 3]]), np.array([[20.0, 10, 30, 40]])
    assert partial(x, y, levels)[0] == pytest.approx(-1 / 9)
    random = np.random.default_rng(0)
    x, y = random.integers(5, size=(2, 3, 9)).astype(float)
    expected = [float(spearmanr(a, b).statistic) for a, b in zip(x, y, strict=True)]
    assert spearman(x, y, levels) == pytest.approx(expected)
    assert pearson(x, y, levels) == pytest.approx([np.corrcoef(a, b)[0, 1] for a, b in zip(x, y, strict=True)])
    assert math.isnan(pearson(np.ones((1, 4)), y[:1, :4], levels)[0])


def test_intervals_are_over_settings_and_over_seeds() -> None:
    levels = np.arange(8.0)[:, None]
    rising = [float(value) for value in range(8)]
    alike = pooled(design(levels, rising, rising, seeds=3), spearman)
    assert (alike.value, alike.interval, alike.n) == (1.0, (1.0, 1.0), 8)
    noisy = tuple((value - 4, value, value + 4) for value in rising)
    shaken = pooled(Design(levels, noisy, tuple((value,) * 3 for value in rising)), spearman)
    assert shaken.value == 1.0
    assert -1 < shaken.interval[0] < 0.9, "the seeds alone move the order of the settings"
    assert math.isnan(pooled(design(levels[:2], [1, 2], [1, 2]), spearman).value)


def test_correlation_within_levels_by_hand() -> None:
    """Level 0: ranks 1 2 3 against 1 3 2, level 1: 1 2 against 2 1; the levels themselves do not count."""
    levels = np.array([[0.0, 0, 0, 1, 1]])[..., None]
    x, y = np.array([[1.0, 2, 3, 50, 60]]), np.array([[1.0, 3, 2, 90, 80]])
    assert within_levels(x, y, levels, factor=0)[0] == pytest.approx((1 - 0.5) / (2 + 0.5))
    order = [3, 0, 4, 2, 1]
    assert within_levels(x[:, order], y[:, order], levels[:, order], factor=0)[0] == pytest.approx(0.2)
    assert within_levels(x, -x, levels, factor=0)[0] == pytest.approx(-1)
    assert math.isnan(within_levels(x, y, np.arange(5.0)[None, :, None], factor=0)[0]), "one setting in each level"


def factor_runs(seeds: int = 3, train: float = 0.5) -> dict[str, list[SeedRun]]:
    """Regions rise with the noise as the gap does, and with the data, over which the gap falls."""
    runs = []
    for n, noise, width in product((5, 10, 20), (0.0, 0.1, 0.2), (16, 32, 64)):
        gap, regions = 100 / n + 100 * noise - width / 50, n + 300 * noise - width / 20
        for seed in range(seeds):
            settings = {"data.n_train": n, "data.label_noise": noise, "network.options.width": width, "seed": seed,
                        "training.weight_decay": 0.0, "training.augment": "none"}  # fmt: skip
            runs.append(a_run(settings, dict.fromkeys(MEASURES, regions) | {"margin": -gap}, gap=gap, train=train))
    return {"factorial": runs, "decay": [], "crops": [], "further": [], "optimiser": []}


def test_claims_about_the_factors_come_out_each_way() -> None:
    found = designs.factors(NOTHING, factor_runs())
    said = verdicts(found.claims)
    assert said.pop("all") in (YES, OPEN)
    assert said == {"data-size": NO, "label-noise": YES, "width": YES, "weight-decay": OPEN, "crops-and-flips": OPEN}
    assert found.claims["data-size"].value == -1.0
    assert set(verdicts(designs.factors(NOTHING, factor_runs(seeds=2)).claims).values()) == {OPEN}
    margin = next(row for row in found.tables[0].rows if row[0] == "minus the output margin")
    assert margin[1] == "+1.00 [+1.00, +1.00] follows"
    few = factor_runs(train=1.1)["factorial"][15:] + factor_runs()["factorial"][:15]
    assert verdicts(designs.factors(NOTHING, {**factor_runs(), "factorial": few}).claims)["all"] == OPEN


@pytest.mark.parametrize(
    ("value", "ends", "seeds", "n", "verdict"),
    [
        (0.7, (0.1, 0.9), [0.6, 0.5, 0.4], 8, YES),
        (0.7, (0.1, 0.9), [0.6, 0.4, 0.4], 8, OPEN),
        (0.7, (-0.1, 0.9), [0.6, 0.6, 0.6], 8, OPEN),
        (0.2, (-0.1, 0.4), [0.2, 0.2, 0.6], 8, NO),
        (-0.9, (-1.0, -0.8), [-0.9, -0.9, -0.9], 7, OPEN),
        (math.nan, (math.nan, math.nan), [math.nan] * 3, 8, OPEN),
    ],
)
def test_the_rule_needs_the_interval_and_the_seeds(
    value: float, ends: tuple[float, float], seeds: list[float], n: int, verdict: str
) -> None:
    assert follows(Coefficient(value, ends, n), seeds, fewest=8).verdict.value == verdict


def optimiser_runs(at_one_ratio: float, seeds: int = 3) -> dict[str, list[SeedRun]]:
    """Gaps fall with the ratio as regions do; at one ratio, batch size and momentum move both alike (1) or not (-1)."""
    runs = []
    for ratio, batch, momentum in product((1e-4, 3e-4, 1e-3, 3e-3), (128, 256, 512), (0.0, 0.9)):
        inner = batch / 512 + momentum
        gap, regions = -10 * math.log(ratio) + inner, -10 * math.log(ratio) + at_one_ratio * inner
        for seed in range(seeds):
            settings = {"training.lr": ratio * batch * (1 - momentum), "training.batch_size": batch, "seed": seed,
                        "training.momentum": momentum, "training.weight_decay": 0.0}  # fmt: skip
            runs.append(a_run(settings, dict.fromkeys(MEASURES, regions), gap=gap))
    return {"optimiser": runs}


def test_claims_about_the_optimiser_come_out_each_way() -> None:
    found = designs.optimiser(NOTHING, optimiser_runs(1))
    questions = ("all", "ratio", "rate", "batch-size", "momentum", "weight-decay")

    def said(one: Finding) -> list[str]:
        return [verdicts(one.claims)[name] for name in questions]

    assert said(found) == [YES, YES, YES, YES, YES, OPEN], "no setting has weight decay"
    assert said(designs.optimiser(NOTHING, optimiser_runs(-1))) == [YES, NO, YES, NO, NO, OPEN]
    assert said(designs.optimiser(NOTHING, optimiser_runs(1, seeds=2)))[:5] == [OPEN] * 5
    assert [verdicts(found.claims)[name] for name in ("falls-0", "rises-0")] == [YES, NO]
    assert float(dict(found.tables[1].rows)["generalisation gap"]) > 0.9


def test_claims_about_the_regions_of_images_come_out_each_way() -> None:
    """The gap rises with the decision regions, distances have nothing to do with it, and all counts are the same."""

    def said(train: float = 0.0) -> dict[str, str]:
        runs = [
            a_run({"training.lr": 1.0 + i // 3, "training.batch_size": 1 + i % 3, "seed": seed},
                  {"regions": i + 0.1 * seed, "points": 64.0, "points.distance": (7.0 * i) % 12}, gap=10.0 + i,
                  train=train if i < 5 else 0.0)
            for i, seed in product(range(12), range(3))
        ]  # fmt: skip
        return verdicts(designs.point_regions(NOTHING, {"points": runs}).claims)

    assert said() == {"regions": YES, "points": OPEN, "distance": NO}
    assert set(said(train=1.1).values()) == {OPEN}, "seven settings fit"


def test_runs_of_the_designs() -> None:
    """36 settings of the grid, 12 with decay and 3 with crops; of the optimiser 30, and 15 with weight decay; of the
    regions of images 12."""
    declared = runs_of("beyond", "designs", "full")
    assert {name: len(mine) for name, mine in declared.items()} == {
        "factorial": 3 * 36, "decay": 3 * 12, "crops": 3 * 3, "further": 2 * 36, "optimiser": 3 * 45,
        "points": 3 * 12,
    }  # fmt: skip
    every = [one for mine in declared.values() for one in mine]
    assert len({one.key for one in every}) == len(every)
    assert all(one.data.seed == one.seed for one in every)
    plain = [one.training for one in declared["optimiser"] if not one.training.weight_decay]
    ratios = [f"{one.lr / (1 - one.momentum) / one.batch_size:.3g}" for one in plain]
    assert {ratios.count(ratio) for ratio in ratios} == {18}
    assert len(set(ratios)) == 5


STEPS = (0, 1, 10, 100, 1000, 10_000)
KNOWN, NEW = (0.1, 1.0, 1.0, 1.0, 1.0, 1.0), (0.0, 0.1, 0.2, 0.7, 0.97, 1.0)
FALLING, FLAT, RISING = (
    (5.0, 10.0, 10.0, 7.0, 4.0, 4.0),
    (5.0, 10.0, 9.0, 10.0, 9.5, 9.5),
    (1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
)


def a_course(seed: int, lc: Sequence[float], test: Sequence[float], noise: float) -> SeedRun:
    """A run of modular addition."""
    values = {f"{name}.{part}.position.2": lc for name in ("lc", "fine") for part in ("train", "test")}
    values |= {"error.train": [1 - one for one in KNOWN], "error.test": [1 - one for one in test]}
    rows = [
        {"name": name, "step": step, "value": value + (noise * (seed - 1) if "position" in name else 0.0)}
        for name, course in values.items()
        for step, value in zip(STEPS, course, strict=True)
    ]
    return SeedRun(str(seed), {"seed": seed}, {}, lambda: "\n".join(map(json.dumps, rows)).encode())


def grokking(lc: Sequence[float], control: Sequence[float], test: Sequence[float] = NEW) -> dict[str, str]:
    runs = {
        name: [a_course(seed, course, test, noise) for seed in range(3)]
        for name, course, noise in (
            ("weight decay 1", lc, 0.01), ("weight decay 0", control, 0.01), ("random labels", control, 1.0)
        )
    }  # fmt: skip
    return verdicts(transformers.grokking(NOTHING, runs).claims)


def test_the_phases_of_a_run() -> None:
    one = transformers.phases(KNOWN, NEW)
    assert one is not None
    assert (one.memorised, one.before, one.solved) == (1, 2, 4)
    assert one.fall(np.array(FALLING)) == pytest.approx(0.6)
    assert np.isnan(one.fall(np.zeros(6)))
    assert transformers.phases(KNOWN, (0.0, 0.1, 0.2, 0.5, 0.9, 0.94)) is None  # never solved
    assert transformers.phases((0.1, 0.2, 0.5, 0.9, 1.0, 1.0), NEW) is None  # solved before it has memorised
    assert transformers.phases(KNOWN, (0.0, 0.6, 0.9, 1.0, 1.0, 1.0)) is None  # never memorised alone


def test_claims_about_grokking_come_out_each_way() -> None:
    assert set(grokking(FALLING, FLAT).values()) == {YES}
    rising = grokking(RISING, FLAT)
    assert rising.pop("groks") == YES
    assert set(rising.values()) == {NO}
    same = grokking(FALLING, FALLING)
    assert (same["decay"], same["random"]) == (NO, OPEN)
    never = grokking(FALLING, FLAT, test=[0.0] * 6)
    assert never.pop("groks") == NO
    assert set(never.values()) == {"not tested"}


def test_claims_about_networks_come_out_each_way() -> None:
    def graded(sign: int, n: int) -> dict[str, str]:
        numbers = [dict.fromkeys(("regions", "regions_2d"), 50.0 + sign * gap) for gap in range(n)]
        runs = [
            a_run({"network.name": "vit", "training.lr": gap + 1.0, "seed": 0}, one, gap=10.0 + gap)
            for gap, one in enumerate(numbers)
        ]
        return verdicts(transformers.vision(NOTHING, {"vit": runs}).claims)

    assert graded(1, 9) == {"lines": YES, "planes": YES, "refined": "not tested", "test": "not tested"}
    assert graded(-1, 9)["lines"] == NO
    assert graded(1, 7)["lines"] == OPEN, "eight settings are needed"


def test_claims_about_the_penalty_come_out_each_way() -> None:
    def answers(after: Callable[[int], tuple[float, float, float]]) -> dict[str, str]:
        rows = [
            {"setting": {"n_train": 9}, "strength": strength, "seed": seed, "train_error": 0.0, "test_error": gap,
             "lc": lc, "regions": regions, "gap": gap}
            for strength in penalty.STRENGTHS
            for seed in range(3)
            for lc, regions, gap in [after(seed) if strength else (10.0 + seed, 2 + 0.01 * seed, 9 + 0.1 * seed)]
        ]  # fmt: skip
        stored = SeedTable({}, {"beyond.penalty.trained": [{"settings": {}, "answer": row} for row in rows]})
        return verdicts(penalty.penalty(stored, {}).claims)

    assert set(answers(lambda i: (5.0 + i, 1 + 0.01 * i, 8 + 0.11 * i)).values()) == {YES}
    mixed = answers(lambda i: (5.0 + i, 2.5 + 0.01 * i, 9 + 0.3 * (-1) ** i))
    assert [mixed[f"{name}-1"] for name in ("lc", "regions", "gap")] == [YES, NO, OPEN]


def test_the_fewest_epochs_that_fit_the_data_are_chosen(tmp_path: Path) -> None:
    longest = replace(
        penalty.SETTINGS["smoke"], n_train=16, batch=4, lr=0.02, options={"depth": 2, "width": 32}, epochs=41
    )
    assert penalty.of_a_length_that_fits(Workspace(tmp_path), longest, (1, 40)).epochs == 40
    assert penalty.of_a_length_that_fits(Workspace(tmp_path), longest, (1,)).epochs == 41


def test_the_sweep_file_is_what_is_declared() -> None:
    file = Sweep.from_toml(Path(__file__).parents[3] / "examples" / "table1_cifar10_vit.toml")
    assert set(file.keys) == {one.key for one in runs_of("beyond", "transformers", "full")["vit"]}
