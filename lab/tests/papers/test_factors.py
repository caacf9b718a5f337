"""What region counts follow: statistics against cases worked out by hand, and claims that can come out each way."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import spearmanr

from regionscope.measures.correlate import Coefficient
from regionscope_lab.papers import verdict
from regionscope_lab.papers.beyond import optimiser
from regionscope_lab.papers.beyond.design import MEASURES, DesignCell
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
from regionscope_lab.papers.beyond.factors import FACTORS, experiments, outcome
from regionscope_lab.papers.study import Outcome
from regionscope_lab.papers.verdict import Grade

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


GRID = tuple((*cell, 0.0, 0.0) for cell in product((5.0, 10.0, 20.0), (0.0, 0.1, 0.2), (16.0, 32.0, 64.0)))


def settings(seeds: int = 3, train_error: float = 0.5) -> tuple[DesignCell, ...]:
    """Regions rise with the noise as the gap does, and with the data, over which the gap falls."""
    found = []
    for n, noise, width, *rest in GRID:
        gap, regions = 100 / n + 100 * noise - width / 50, n + 300 * noise - width / 20
        numbers = {"gap": gap, "train_error": train_error, "test_error": gap, "epochs": 9.0}
        every = dict.fromkeys(MEASURES, regions) | {"margin": -gap}
        found.append(DesignCell((n, noise, width, *rest), dict.fromkeys(range(seeds), numbers | every)))
    return tuple(found)


def grades(found: Outcome) -> list[Grade]:
    return [claim.verdict.grade for claim in found.claims[1:]]


def test_claims_come_out_each_way() -> None:
    yes, no, undecided = Grade.REPRODUCED, Grade.NOT_REPRODUCED, Grade.INCONCLUSIVE
    found = outcome(settings())
    assert [claim.what for claim in found.claims[1:]] == [
        f"regions and gap, {what}" for what in ("over all settings", *(f"over {name}" for name in FACTORS))
    ]
    assert grades(found)[1:] == [no, yes, yes, undecided, undecided]
    assert found.claims[2].ours == "-1.00"
    assert grades(outcome(settings(seeds=2))) == [undecided] * 6
    margin = next(row for row in found.tables[0].rows if row[0] == "minus the output margin")
    assert str(margin[1]) == "+1.00 [+1.00, +1.00] follows"
    unfitted = outcome((*settings()[:5], *settings(train_error=1.1)[5:]))
    assert unfitted.claims[0].ours == "5 of 27"
    assert grades(unfitted)[0] is undecided, "too few settings are left"


def test_the_rule_needs_the_interval_and_the_seeds() -> None:
    def graded(value: float, low: float, high: float, seeds: list[float], n: int = 8) -> Grade:
        return verdict.follows(Coefficient(value, (low, high), n), seeds, least=8).grade

    assert graded(0.7, 0.1, 0.9, [0.6, 0.5, 0.4]) is Grade.REPRODUCED
    assert graded(0.7, 0.1, 0.9, [0.6, 0.4, 0.4]) is Grade.INCONCLUSIVE
    assert graded(0.7, -0.1, 0.9, [0.6, 0.6, 0.6]) is Grade.INCONCLUSIVE
    assert graded(0.2, -0.1, 0.4, [0.2, 0.2, 0.6]) is Grade.NOT_REPRODUCED
    assert graded(-0.9, -1.0, -0.8, [-0.9, -0.9, -0.9], n=7) is Grade.INCONCLUSIVE
    assert graded(math.nan, math.nan, math.nan, [math.nan] * 3) is Grade.INCONCLUSIVE


def test_runs_of_the_full_size() -> None:
    """36 settings of the grid, 12 with decay and 3 with augmentation, for each of 3 seeds, all different."""
    every = experiments("full")
    assert len({experiment.key for experiment in every}) == len(every) == 3 * (36 + 12 + 3)
    assert {(one.training.lr, one.training.batch_size, one.training.stop_at_error) for one in every} == {
        (0.02, 256, 0.01)
    }
    assert all(experiment.data.seed == experiment.seed for experiment in every)


def test_correlation_within_levels_by_hand() -> None:
    """Level 0: ranks 1 2 3 against 1 3 2, level 1: 1 2 against 2 1; the levels themselves do not count."""
    levels = np.array([[0.0, 0, 0, 1, 1]])[..., None]
    x, y = np.array([[1.0, 2, 3, 50, 60]]), np.array([[1.0, 3, 2, 90, 80]])
    assert within_levels(x, y, levels, factor=0)[0] == pytest.approx((1 - 0.5) / (2 + 0.5))
    order = [3, 0, 4, 2, 1]
    assert within_levels(x[:, order], y[:, order], levels[:, order], factor=0)[0] == pytest.approx(0.2)
    assert within_levels(x, -x, levels, factor=0)[0] == pytest.approx(-1)
    assert math.isnan(within_levels(x, y, np.arange(5.0)[None, :, None], factor=0)[0]), "one setting in each level"


def optimiser_cells(at_one_ratio: float, seeds: int = 3) -> tuple[DesignCell, ...]:
    """Gaps fall with the ratio as regions do; at one ratio, batch size and momentum move both alike (1) or not (-1)."""
    cells = []
    for ratio, batch, momentum in product((1e-4, 3e-4, 1e-3, 3e-3), (128.0, 256.0, 512.0), (0.0, 0.9)):
        inner = batch / 512 + momentum
        gap, regions = -10 * math.log(ratio) + inner, -10 * math.log(ratio) + at_one_ratio * inner
        every = {**dict.fromkeys(MEASURES, regions), "gap": gap, "train_error": 0.0, "test_error": gap, "epochs": 9.0}
        cells.append(DesignCell((ratio, batch, momentum, 0.0), dict.fromkeys(range(seeds), every)))
    return tuple(cells)


def test_claims_about_the_optimiser_come_out_each_way() -> None:
    yes, no, undecided = Grade.REPRODUCED, Grade.NOT_REPRODUCED, Grade.INCONCLUSIVE
    with_ratio = optimiser.outcome(optimiser_cells(1), 256)
    assert [claim.what for claim in with_ratio.claims[1:3]] == [
        "regions and gap, over all settings", "regions and gap, at one ratio"
    ]  # fmt: skip
    assert grades(with_ratio)[:6] == [yes, yes, yes, yes, yes, undecided], "no setting has weight decay"
    assert grades(optimiser.outcome(optimiser_cells(-1), 256))[:6] == [yes, no, yes, no, no, undecided]
    assert grades(optimiser.outcome(optimiser_cells(1, seeds=2), 256))[:5] == [undecided] * 5
    falls, above = with_ratio.claims[-2:]
    assert (falls.verdict.grade, above.verdict.grade) == (yes, no)
    assert float(dict(with_ratio.tables[1].rows)["generalisation gap"]) > 0.9


def test_settings_of_one_ratio_have_one_effective_rate_for_each_example() -> None:
    """30 settings of the grid and 15 with weight decay, for each of 3 seeds; 6 of the grid for each of 5 ratios."""
    every = optimiser.experiments("full")
    assert len({experiment.key for experiment in every}) == len(every) == 3 * (30 + 15)
    levels = [optimiser.levels_of(experiment) for experiment in every if not experiment.training.weight_decay]
    ratios = [ratio for ratio, *_ in levels]
    assert sorted({ratios.count(ratio) for ratio in ratios}) == [18]
    assert len(set(ratios)) == 5
    rates = {experiment.training.lr for experiment in every if experiment.training.momentum == 0.9}
    assert {0.03, 0.3} <= rates
