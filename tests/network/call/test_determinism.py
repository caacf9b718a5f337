"""A model that answers by chance, or by the company an input keeps, is refused by every sampled instrument."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regionscope as rs
from regionscope.errors import InputError


class Net(nn.Module):
    def __init__(self, first: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = first
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Any:
        return self.net(self.first(x))


def by_chance(x: Tensor) -> Tensor:
    return F.dropout(x, 0.5)  # training=True is its default


def by_python(x: Tensor) -> Tensor:
    return x * random.random()


def by_numpy(x: Tensor) -> Tensor:
    return x + float(np.random.rand())  # noqa: NPY002 - the global generator is meant


def by_the_clock(x: Tensor) -> Tensor:
    return x * (time.perf_counter() % 1)


COUNT = itertools.count()


def by_the_call(x: Tensor) -> Tensor:
    return x + next(COUNT)


def by_company(x: Tensor) -> Tensor:
    return x - x.mean(0)


INSTRUMENTS: list[Callable[[nn.Module, Tensor], Any]] = [
    lambda model, x: rs.region_count(model, x, slices=3),
    lambda model, x: rs.region_count(model, x, slices=3, method="refined", batch_size=7),
    lambda model, x: rs.local_complexity(model, x, dims=2),
    lambda model, x: rs.complexity.deformation(model, x, dims=2),
    lambda model, x: rs.measures.error_rate(model, x, torch.zeros(len(x), dtype=torch.int64)),
]


@pytest.mark.parametrize(
    ("measure", "first", "sentence"),
    [
        *((measure, by_chance, "draws random numbers") for measure in INSTRUMENTS),
        *((measure, by_company, "a model whose output for .*got one whose output does") for measure in INSTRUMENTS),
        *((INSTRUMENTS[0], first, "draws random numbers") for first in (by_python, by_numpy)),
        *((INSTRUMENTS[2], first, "whose output is .*got one that draws") for first in (by_the_clock, by_the_call)),
    ],
)
def test_refused(measure: Callable[[nn.Module, Tensor], Any], first: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        measure(Net(first), inputs())


def inputs() -> Tensor:
    return torch.randn(9, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("measure", INSTRUMENTS)
def test_numbers_that_are_drawn_and_not_used_are_accepted(measure: Callable[[nn.Module, Tensor], Any]) -> None:
    def unused(x: Tensor) -> Tensor:
        torch.rand(3)
        return x.mul_(2)

    model, x = Net(unused), inputs()
    before = torch.get_rng_state()
    found, wanted = measure(model, x), measure(Net(lambda x: 2 * x), inputs())
    assert getattr(found, "readings", lambda: found)() == getattr(wanted, "readings", lambda: wanted)()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("measure", INSTRUMENTS)
def test_weights_without_values(measure: Callable[[nn.Module, Tensor], Any]) -> None:
    with pytest.raises(InputError, match="weights with values, got weights on the device meta"):
        measure(nn.Sequential(nn.Linear(6, 3), nn.ReLU()).to("meta"), inputs())


@pytest.mark.parametrize("measure", [INSTRUMENTS[0], INSTRUMENTS[1], INSTRUMENTS[4]])
def test_infinite_weights(measure: Callable[[nn.Module, Tensor], Any]) -> None:
    """Labels come out of such a network, but those of another one."""
    model = Net(lambda x: x)
    with torch.no_grad():
        model.net[0].weight[0, 0] = -torch.inf
    with pytest.raises(InputError, match=r"Expected finite weights, got infinity in parameter 'net\.0\.weight'"):
        measure(model, inputs())


class Masked(nn.Module):
    def __init__(self, mask: list[float]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(6, 3)
        self.register_buffer("mask", torch.tensor(mask))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) + self.mask


def test_an_infinite_buffer_is_a_mask() -> None:
    masked, plain = Masked([0.0, 0.0, -torch.inf]), Masked([0.0, 0.0, 0.0])
    without = nn.Linear(6, 2)
    with torch.no_grad():
        without.weight.copy_(plain.net.weight[:2])
        without.bias.copy_(plain.net.bias[:2])
    found, wanted, other = (rs.region_count(model, inputs(), slices=40).counts for model in (masked, without, plain))
    assert torch.equal(found, wanted)
    assert not torch.equal(found, other)
    labels = torch.full((9,), 2)
    assert rs.measures.error_rate(masked, inputs(), labels).value == 1.0
    assert rs.measures.error_rate(plain, inputs(), labels).value < 1.0
