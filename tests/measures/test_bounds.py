"""Bounds against brute force and exact counts; estimates against the mean of random networks."""

from __future__ import annotations

import itertools
import math
from math import comb, prod

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.measures.bounds import (
    activation_patterns,
    kac_rice,
    montufar_lower,
    montufar_upper,
    raghu_upper,
    region_bounds,
    serra_upper,
    zaslavsky,
)


def random_network(n_0: int, widths: list[int], *, seed: int) -> nn.Sequential:
    """A ReLU network with one output and the initialisation "he" of ``kac_rice``, biases N(0, 1)."""
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise([n_0, *widths, 1]):
        linear = nn.Linear(fan_in, fan_out, dtype=torch.float64)
        for value, deviation in ((linear.weight, math.sqrt(2 / fan_in)), (linear.bias, 1.0)):
            value.data = deviation * torch.randn(value.shape, generator=generator, dtype=torch.float64)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


SHAPES = [(2, [3]), (1, [4, 4]), (2, [4, 3, 5]), (3, [5, 2, 4]), (2, [1, 6]), (5, [7, 3, 3]), (2, [6, 1, 6])]


def serra_by_enumeration(n_0: int, widths: list[int]) -> int:
    total = 0
    for js in itertools.product(*(range(n + 1) for n in widths)):
        caps = [min([n_0, *[widths[m] - js[m] for m in range(i)], widths[i]]) for i in range(len(widths))]
        if all(j <= cap for j, cap in zip(js, caps, strict=True)):
            total += prod(comb(n, j) for n, j in zip(widths, js, strict=True))
    return total


def test_closed_forms() -> None:
    assert [zaslavsky(n, 2) for n in range(5)] == [1, 2, 4, 7, 11]
    assert zaslavsky(5, 9) == 32
    assert montufar_lower(2, [4, 4]) == 4 * (1 + 4 + 6)
    assert montufar_lower(1, [3, 3, 3]) == 3 * 3 * 4
    assert raghu_upper(1, [3, 3]) == 16
    assert montufar_upper(3, [4, 2, 5]) == zaslavsky(4, 3) * zaslavsky(2, 3) * zaslavsky(5, 2)
    assert activation_patterns([3, 4]) == 128


@pytest.mark.parametrize(("n_0", "widths"), SHAPES)
def test_serra_by_enumeration_and_the_order_of_the_bounds(n_0: int, widths: list[int]) -> None:
    assert serra_upper(n_0, widths) == serra_by_enumeration(n_0, widths)
    chain = [
        montufar_lower(n_0, widths), serra_upper(n_0, widths), montufar_upper(n_0, widths), raghu_upper(n_0, widths),
    ]  # fmt: skip
    assert chain == sorted(chain)
    assert raghu_upper(n_0, widths) <= activation_patterns(widths) or n_0 < max(widths)
    names = [bound.name for bound in region_bounds(n_0, widths)]
    assert ("Zaslavsky" in names) == (len(widths) == 1)


@pytest.mark.parametrize(
    ("n_0", "widths"),
    [
        (2, [6]),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((2, [5, 5]), (2, [6, 1, 6]), (1, [5, 5, 5]))),
    ],
)
def test_no_network_is_above_an_upper_bound(n_0: int, widths: list[int]) -> None:
    end = torch.full((n_0,), 60.0)
    where = rs.Segment(-end, end) if n_0 == 1 else rs.Box(torch.zeros(2), torch.eye(2), 60.0)
    counts = [
        rs.linear_regions(random_network(n_0, widths, seed=seed), where).n_activation_regions for seed in range(15)
    ]
    assert max(counts) <= serra_upper(n_0, widths)
    if len(widths) == 1:
        assert max(counts) == zaslavsky(widths[0], n_0)  # the exact maximum is reached: the box holds every crossing


@pytest.mark.slow
@pytest.mark.parametrize("widths", [[60], pytest.param([40, 40], marks=pytest.mark.slow)])
def test_kac_rice_is_the_mean_of_random_networks(widths: list[int]) -> None:
    start, end = torch.tensor([-1.0, 0.3]), torch.tensor([1.5, 1.0])
    segment = rs.Segment(start, end)
    counts = torch.tensor(
        [rs.linear_regions(random_network(2, widths, seed=s), segment).n_linear_regions for s in range(60)]
    ).double()
    stderr = float(counts.std()) / 60**0.5
    assert abs(kac_rice(2, widths, start, end) - float(counts.mean())) < 4 * stderr
    shifted = kac_rice(2, widths, start + 5, end + 5)
    assert shifted < kac_rice(2, widths, start, end)  # away from the origin there are fewer


def test_kac_rice_through_the_origin_by_hand() -> None:
    """One unit w x + b in one dimension: the fold -b / w is Cauchy, and half of them lie in [-1, 1]."""
    found = kac_rice(1, [100], torch.tensor([-1.0]), torch.tensor([1.0]), bias=2**0.5, nodes=2000)
    assert found == pytest.approx(1 + 100 * 0.5, rel=1e-5)
