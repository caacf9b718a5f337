"""Networks with one hidden layer on a segment: proven labels and counts against arithmetic on balls."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.network.curves import Curve
from regionscope.network.operations import Smooth
from regionscope.network.record import Call, Data
from regionscope.network.rules.curves import smooth
from smooth.ball_functions import Ball, Function, ball, domain, twins

flint = pytest.importorskip("flint")

WIDTH, N_POINTS = 4, 40


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    """Balls of 160 bits."""
    before, flint.ctx.prec = flint.ctx.prec, 160
    yield
    flint.ctx.prec = before


TWINS = twins()
NAMES = [f"{curve.name}-{i}" for i, curve in enumerate(TWINS)]


def random_network(curve: Curve, seed: int) -> nn.Sequential:
    """1-[4]-2 with a function of inputs in its domain."""
    rng = np.random.default_rng(seed)
    low, high = (max(-6.0, domain(curve)[0]), min(6.0, domain(curve)[1]))
    net = nn.Sequential(nn.Linear(1, WIDTH), Applied(curve), nn.Linear(WIDTH, 2)).double()
    with torch.no_grad():
        ends = torch.from_numpy(rng.uniform(low, high, (2, WIDTH)))  # of each unit, at -1 and 1
        net[0].weight.copy_((ends[1] - ends[0])[:, None] / 2)
        net[0].bias.copy_((ends[1] + ends[0]) / 2)
        net[2].weight.copy_(torch.from_numpy(rng.normal(size=(2, WIDTH))))
        net[2].bias.copy_(-net[2].weight @ curve(net[0].bias))
    return net.requires_grad_(False)


class Applied(nn.Module):
    """A record as a module."""

    def __init__(self, curve: Curve) -> None:
        super().__init__()
        self.curve = curve

    def forward(self, x: Tensor) -> Tensor:
        return apply_curve(x, self.curve)


def apply_curve(x: Tensor, curve: Curve) -> Tensor:
    """A function with a rule of its own, so that every record can stand in a network."""
    if torch.overrides.has_torch_function_unary(x):
        return torch.overrides.handle_torch_function(apply_curve, (x,), x, curve)
    return curve(x)


apply_curve.__module__ = "torch"


@smooth(apply_curve, any_axis=True)
def _record(call: Call, x: Data, curve: Curve) -> Data:
    return call.record(Smooth(function=curve), x, shape=x.shape)


def difference(net: nn.Sequential, value: Function, x: float) -> Ball:
    """Output 1 minus output 0, as a ball."""
    total = ball(float(net[2].bias[1])) - ball(float(net[2].bias[0]))
    for unit in range(WIDTH):
        inner = ball(float(net[0].weight[unit, 0])) * ball(x) + ball(float(net[0].bias[unit]))
        total += (ball(float(net[2].weight[1, unit])) - ball(float(net[2].weight[0, unit]))) * value(inner)
    return total


def check(name: str, seed: int) -> None:
    curve, (value, _) = list(TWINS.items())[NAMES.index(name)]
    net = random_network(curve, seed)
    m = rs.decision_map(net, rs.Segment([-1.0], [1.0]), undecided=0.02, max_cells=300)
    proven = (m.labels >= 0).nonzero()[:, 0].tolist()
    rng = np.random.default_rng(seed)
    for cell in rng.choice(proven, N_POINTS):
        low, high = m.cells[cell][:, 0].tolist()
        x = float(m.slice.embed([[rng.choice([low, high, rng.uniform(low, high)])]]))
        sign = difference(net, value, x)
        assert sign > 0 if m.labels[cell] == 1 else sign < 0
    regions = m.n_regions
    if isinstance(regions, int):
        signs = [difference(net, value, x) > 0 for x in np.linspace(-1, 1, 400)]
        assert 1 + sum(a != b for a, b in pairwise(signs)) <= regions


@pytest.mark.parametrize("name", NAMES)
def test_labels_of_networks_of_one_function(name: str) -> None:
    check(name, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_labels_of_thirty_networks_of_one_function(name: str) -> None:
    for seed in range(1, 30):
        check(name, seed)
