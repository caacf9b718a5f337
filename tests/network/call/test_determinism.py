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
    lambda model, x: rs.deformation(model, x, dims=2),
    lambda model, x: rs.error_rate(model, x, torch.zeros(len(x), dtype=torch.int64)),
]


@pytest.mark.parametrize("measure", INSTRUMENTS)
@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        *((first, "draws random numbers") for first in (by_chance, by_python, by_numpy)),
        *((first, "a model whose output is .*got one that draws") for first in (by_the_clock, by_the_call)),
        (by_company, "a model whose output for .*got one whose output does"),
    ],
)
def test_refused(measure: Callable[[nn.Module, Tensor], Any], first: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        measure(Net(first), torch.randn(9, 6, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("measure", INSTRUMENTS)
def test_accepted(measure: Callable[[nn.Module, Tensor], Any]) -> None:
    def unused(x: Tensor) -> Tensor:
        torch.rand(3)
        return x.mul_(2)

    measure(Net(unused), torch.randn(9, 6, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("measure", INSTRUMENTS)
def test_weights_without_values(measure: Callable[[nn.Module, Tensor], Any]) -> None:
    with pytest.raises(InputError, match="weights with values, got weights on the device meta"):
        measure(nn.Sequential(nn.Linear(6, 3), nn.ReLU()).to("meta"), torch.randn(9, 6))


@pytest.mark.parametrize("measure", [INSTRUMENTS[0], INSTRUMENTS[1], INSTRUMENTS[4]])
@pytest.mark.parametrize("value", [torch.inf, -torch.inf])
def test_infinite_weights(measure: Callable[[nn.Module, Tensor], Any], value: float) -> None:
    """Labels come out of such a network, but those of another one."""
    model = Net(lambda x: x)
    with torch.no_grad():
        model.net[0].weight[0, 0] = value
    with pytest.raises(InputError, match=r"Expected finite weights, got infinity in parameter 'net\.0\.weight'"):
        measure(model, torch.randn(9, 6, generator=torch.Generator().manual_seed(0)))


def test_an_infinite_buffer_is_a_mask() -> None:
    model = Net(lambda x: x)
    model.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
    rs.region_count(model, torch.randn(9, 6), slices=2)
