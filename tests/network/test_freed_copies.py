"""A measurement frees its copy of the weights as it ends: it leaves no reference cycle, which would keep the copy."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.measures import error_rate, output_margin, sharpness

WIDTH = 29  # of no tensor in other tests
LINE = rs.Segment(torch.zeros(3), torch.ones(3))
SQUARE = rs.Box(torch.zeros(3), torch.eye(3)[:2], 1.0)


class Own(nn.Module):
    """A custom forward, which is followed more than once."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(3, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.kept = self.inner(x)
        return self.head(torch.relu(self.kept))


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(3, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))


POINTS, LABELS = torch.rand(6, 3), torch.tensor([0, 1, 0, 1, 0, 1])
INSTRUMENTS: dict[str, Callable[[nn.Module], Any]] = {
    "linear_regions": lambda model: rs.linear_regions(model, SQUARE),
    "decision_regions": lambda model: rs.decision_regions(model, LINE),
    "level_set": lambda model: rs.level_set(model, SQUARE, classes=(0, 1)),
    "integrated_gradients": lambda model: rs.integrated_gradients(model, POINTS[:1], target=0),
    "region_count": lambda model: rs.region_count(model, POINTS, slices=2),
    "region_count, exact": lambda model: rs.region_count(model, POINTS, slices=2, method="exact"),
    "local_complexity": lambda model: rs.local_complexity(model, POINTS, dims=2),
    "error_rate": lambda model: error_rate(model, POINTS, LABELS),
    "output_margin": lambda model: output_margin(model, POINTS, LABELS),
    "sharpness": lambda model: sharpness(model, POINTS, LABELS),
}


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def weights() -> int:
    """How many tensors with an axis of ``WIDTH`` there are."""
    return sum(issubclass(type(each), Tensor) and WIDTH in each.shape for each in gc.get_objects())


@pytest.mark.parametrize("make", [plain, Own])
@pytest.mark.parametrize("name", INSTRUMENTS)
def test_no_copy_outlives_a_measurement(name: str, make: Callable[[], nn.Module]) -> None:
    model, measure = make(), INSTRUMENTS[name]
    measure(model)  # what is loaded or kept once
    gc.collect()
    before = weights()
    measure(model)
    assert weights() == before
