"""Points, the train/test gap, and the accumulator over a training."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from torch import nn

from regionscope import formatting
from regionscope.complexity import (
    ComplexityHistory,
    ComplexityWatch,
    complexity_gap,
    draw_points,
    local_complexity,
    uniform_points,
)
from regionscope.complexity.history import Level
from regionscope.errors import InputError


def test_uniform_points_fill_the_domain() -> None:
    points = uniform_points(4000, (3,), domain=(-1, 1), seed=1)
    assert points.amin() >= -1
    assert points.amax() <= 1
    assert points.mean(0).tolist() == pytest.approx([0, 0, 0], abs=0.05)
    assert points.var(0).tolist() == pytest.approx([1 / 3] * 3, abs=0.03)
    assert torch.equal(points, uniform_points(4000, (3,), domain=(-1, 1), seed=1))
    with pytest.raises(InputError, match="low < high"):
        uniform_points(3, (2,), domain=(1, 1))


def test_points_are_drawn_once_each_and_leave_the_random_state_alone() -> None:
    train, test = torch.arange(20.0).reshape(10, 2), torch.arange(100.0, 108.0).reshape(4, 2)
    state = torch.get_rng_state()
    points = draw_points(train, test, n=6)
    assert torch.equal(torch.get_rng_state(), state)
    assert len(points.train) == 6
    assert len(points.test) == 4
    assert points.random.shape == (6, 2)
    assert len(points.train.unique(dim=0)) == 6
    assert {tuple(row) for row in points.train.tolist()} <= {tuple(row) for row in train.tolist()}
    with pytest.raises(InputError, match="one shape"):
        draw_points(train, torch.zeros(3, 5))


def slow_gap(train: list[float], test: list[float]) -> tuple[float, float]:
    """AUC and its DeLong variance, by all pairs."""
    win = [[(a > b) + 0.5 * (a == b) for b in test] for a in train]
    rows = [sum(row) / len(test) for row in win]
    columns = [sum(row[j] for row in win) / len(train) for j in range(len(test))]
    auc = sum(rows) / len(train)

    def var(values: list[float]) -> float:
        return sum((value - auc) ** 2 for value in values) / (len(values) - 1)

    return auc, math.sqrt(var(rows) / len(train) + var(columns) / len(test))


def test_the_gap_equals_all_pairs() -> None:
    generator = torch.Generator().manual_seed(0)
    train = torch.randint(0, 6, (40,), generator=generator)
    test = torch.randint(0, 4, (25,), generator=generator)
    gap = complexity_gap(train, test)
    auc, error = slow_gap(train.tolist(), test.tolist())
    assert gap.auc == pytest.approx(auc)
    assert gap.auc_stderr == pytest.approx(error)
    assert gap.value == pytest.approx(float(train.double().mean() - test.double().mean()))
    variance = float(train.double().var()) / 40 + float(test.double().var()) / 25
    assert gap.stderr == pytest.approx(math.sqrt(variance))
    assert gap.z == pytest.approx(gap.value / gap.stderr)
    back = complexity_gap(test, train)
    assert back.auc == pytest.approx(1 - gap.auc)
    assert back.value == -gap.value


def test_the_error_covers_the_spread_of_the_gap() -> None:
    generator = torch.Generator().manual_seed(3)
    runs = [
        complexity_gap(
            torch.poisson(torch.full((60,), 2.0), generator), torch.poisson(torch.full((80,), 1.5), generator)
        )
        for _ in range(300)
    ]
    values = torch.tensor([run.value for run in runs])
    aucs = torch.tensor([run.auc for run in runs])
    assert float(values.std()) == pytest.approx(sum(run.stderr for run in runs) / 300, rel=0.12)
    assert float(aucs.std()) == pytest.approx(sum(run.auc_stderr for run in runs) / 300, rel=0.12)
    assert complexity_gap(torch.zeros(3), torch.zeros(3)).z == 0.0
    with pytest.raises(InputError, match="at least two points"):
        complexity_gap(torch.zeros(1), torch.zeros(3))
    with pytest.raises(InputError, match="finite counts as test, got NaN"):  # the AUC would take NaN for the largest
        complexity_gap(torch.zeros(3), torch.tensor([0.0, torch.nan]))


def test_a_watch_measures_the_same_points_with_the_same_frame() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 30), nn.ReLU(), nn.Linear(30, 2))
    points = draw_points(torch.rand(20, 6), torch.rand(20, 6), n=15)
    watch = ComplexityWatch(points, dims=4, radius=0.2)
    first = watch(5, model, train_accuracy=0.5)
    watch(0, model)
    again = watch(7, model)
    assert watch.history.steps == [0, 5, 7]
    assert watch.history.means("train") == [first.levels["train"].mean] * 3
    assert again.levels == first.levels
    lc = local_complexity(model, points.test, dims=4, radius=0.2)
    assert first.levels["test"].mean == lc.mean
    assert watch.history.stds("test")[0] == lc.std
    assert first.gap == complexity_gap(local_complexity(model, points.train, dims=4, radius=0.2), lc)
    assert json.loads(json.dumps(first.as_dict()))["train_accuracy"] == 0.5
    assert repr(first).startswith(f"ComplexityRow(step=5, train={estimated(first.levels['train'])}, ")
    assert estimated(first.levels["test"]) in repr(first.levels["test"])


def estimated(level: Level) -> str:
    return formatting.estimated(level.mean, level.stderr)


def test_a_step_is_measured_again_and_a_table_has_all_columns() -> None:
    watch = ComplexityWatch(draw_points(torch.rand(9, 4), torch.rand(9, 4)), dims=3, radius=0.3)
    assert len(watch.history) == 0
    for step, width in ((torch.tensor(4), 7), (np.int64(0), 8), (torch.tensor(4), 7)):  # the last one again
        torch.manual_seed(width)
        model = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))
        watch(cast("int", step), model, train_accuracy=cast("float", torch.tensor(0.1)), test_accuracy=1 / 3)
    assert watch.history.steps == [0, 4]
    first, second = watch.history.rows
    level = replace(second.levels["train"], by_layer={"mean": 0.1})
    uneven = ComplexityHistory((first, replace(second, gap=None, levels={**second.levels, "train": level})))
    table = uneven.to_pandas()
    assert table["step"].tolist() == [0, 4]
    assert table["gap.auc.stderr"][0] == first.gap.auc_stderr
    assert table["random.by_layer.1"][1] == second.levels["random"].by_layer["1"]
    assert table["train.by_layer.mean"].isna().tolist() == [True, False]
    with pytest.raises(InputError, match=r"Expected a whole number as step, got 0\.5"):
        watch(cast("int", 0.5), model)
