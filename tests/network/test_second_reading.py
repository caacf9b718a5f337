"""A forward that is not the same function each time has no exact regions."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.errors import UntraceableModel
from regionscope.network import trace


class Net(nn.Module):
    def __init__(self, change: Callable[[Net, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.change = nn.Linear(2, 6), nn.Linear(6, 2), change
        self.calls = 0
        self.register_buffer("steps", torch.zeros(()))
        self.state = torch.zeros(1, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.change(self, self.first(x))))


def counted(net: Net, x: Tensor) -> Tensor:
    net.calls += 1
    return x + net.calls


def counted_in_a_buffer(net: Net, x: Tensor) -> Tensor:
    return x * net.steps.add_(1)


def every_fifth_call(net: Net, x: Tensor) -> Tensor:
    net.calls += 1
    return -x if net.calls % 5 == 0 else x


def every_fifth_step(net: Net, x: Tensor) -> Tensor:
    return -x if int(net.steps.add_(1)) % 5 == 0 else x


def remembered(net: Net, x: Tensor) -> Tensor:
    net.state = net.state + x
    return net.state


CHANGES: dict[str, Callable[[Net, Tensor], Tensor]] = {
    "random": lambda net, x: x * random.random(),
    "a random branch": lambda net, x: -x if random.random() < 0.5 else x,
    "the system": lambda net, x: x * int.from_bytes(os.urandom(4), "big"),
    "the time": lambda net, x: x * time.time(),
    "a counter": counted,
    "a counter in a buffer": counted_in_a_buffer,
    "every fifth call": every_fifth_call,
    "every fifth step of a buffer": every_fifth_step,
    "its last input": remembered,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_forward_that_changes_is_refused(name: str) -> None:
    random.seed(0)
    with pytest.raises(UntraceableModel, match="changes from call to call"):
        trace(Net(CHANGES[name]), (2,))


@pytest.mark.parametrize(
    "measure",
    [
        lambda net, x: rs.linear_regions(net, rs.Segment(x[0], x[1])),
        lambda net, x: rs.decision_regions(net, rs.Segment(x[0], x[1])),
        lambda net, x: rs.region_count(net, x, slices=2, method="exact"),
        lambda net, x: rs.measures.linear_region_count(net, x, slices=2),
    ],
)
def test_every_exact_count_refuses(measure: Callable[[nn.Module, Tensor], object]) -> None:
    with pytest.raises(UntraceableModel, match="random numbers, the time or its own earlier calls"):
        measure(Net(counted), torch.eye(3, 2))


def test_what_does_not_reach_the_output_is_no_matter() -> None:
    def harmless(net: Net, x: Tensor) -> Tensor:
        net.calls += 1
        net.steps.add_(random.random())
        net.kept = x
        return x

    net = Net(harmless)
    program = trace(net, (2,))
    x = torch.eye(2, dtype=torch.float64)
    assert torch.allclose(program(x), net.double()(x))


def test_the_first_reading_is_not_the_second_ones_to_change() -> None:
    """A buffer that is written to before it is used gives one value in every call."""

    def renewed(net: Net, x: Tensor) -> Tensor:
        net.steps.zero_()
        return x + net.steps.add_(1)

    x = torch.eye(2, dtype=torch.float64)
    assert torch.allclose(trace(Net(renewed), (2,))(x), Net(renewed).double()(x))
