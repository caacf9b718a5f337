"""Facts of Appendix C of Humayun et al. 2023, at full size where that is quick."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regionscope.complexity import local_complexity

RADII = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]
DIMS = [2, 10, 25, 50, 100, 200]


def stack(depth: int, width: int, *, bias: bool, activation: nn.Module | None = None) -> nn.Sequential:
    """``depth`` layers of ``width`` units on 784 inputs."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for i in range(depth):
        layers.append(nn.Linear(784 if i == 0 else width, width, bias=bias))
        if activation is not None:
            layers.append(activation)
    return nn.Sequential(*layers)


def at_origin(model: nn.Module, dims: int, radius: float) -> int:
    found = local_complexity(model, torch.zeros(1, 784), dims=dims, radius=radius, linear_outputs=True)
    assert sum(found.units.values()) == 50 * 400
    return int(found.total)


@pytest.mark.slow
def test_a_linear_network_without_bias_folds_at_the_origin_with_every_unit() -> None:
    model = stack(50, 400, bias=False)
    for dims in DIMS:
        assert at_origin(model, dims, 0.01) == 20_000
    for radius in RADII:
        assert at_origin(model, 2, radius) == 20_000


@pytest.mark.slow
def test_with_relu_the_hull_of_embedded_vertices_misses_units() -> None:
    model = stack(50, 400, bias=False, activation=nn.ReLU())
    few, many = at_origin(model, 2, 0.01), at_origin(model, 200, 0.01)
    assert few < many < 20_000
    first = local_complexity(model, torch.zeros(1, 784), dims=2, radius=0.01, layers="1")
    assert int(first.total) == 400  # nothing is lost in the first layer


@pytest.mark.slow
def test_complexity_falls_away_from_the_origin_and_saturates_in_the_number_of_directions() -> None:
    """LC at [0]^d .. [10]^d in steps of 2.5, for each P; three frames averaged."""
    model = stack(18, 100, bias=True, activation=nn.LeakyReLU(0.01))
    centers = torch.linspace(0, 10, 5)[:, None].expand(5, 784)
    at_origin = []
    for dims in DIMS:
        runs = [local_complexity(model, centers, dims=dims, radius=5.0, seed=seed).total for seed in range(3)]
        counts = torch.stack(runs).double().mean(0).tolist()
        assert counts[0] > counts[1] > counts[2] > max(counts[3:])
        assert counts[-1] < 0.2 * counts[0]
        at_origin.append(counts[0])
    assert at_origin == sorted(at_origin)
    early, late = at_origin[1] - at_origin[0], at_origin[5] - at_origin[4]  # 2 -> 10 and 100 -> 200
    assert late < 0.5 * early
