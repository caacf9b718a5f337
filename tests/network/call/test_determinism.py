"""A model that answers by chance, or by the company an input keeps, is refused by every sampled instrument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    ("first", "sentence"), [(by_chance, "draws random numbers"), (by_company, "the other inputs of its batch")]
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
    with pytest.raises(InputError, match="on the device meta, without values"):
        measure(nn.Sequential(nn.Linear(6, 3), nn.ReLU()).to("meta"), torch.randn(9, 6))
