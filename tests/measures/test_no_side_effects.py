"""Every measure leaves the model as it was, and gives the same numbers whatever torch is set to around it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from careless import Careless, Doubled
from regionscope import measures
from regionscope.complexity import draw_points
from regionscope.monitor import Monitor

X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(20) % 3

Call = Callable[[nn.Module, Tensor, Tensor], Any]


def watched(model: nn.Module, x: Tensor, y: Tensor) -> list[float]:
    monitor = Monitor({
        "complexity": lambda net: rs.local_complexity(net, x, dims=2, radius=0.3),
        "sharpness": lambda net: measures.sharpness(net, x, y),
    })  # fmt: skip
    return [row.value for row in monitor(0, model)]


RUNS: dict[str, Call] = {
    "local_complexity": lambda net, x, y: rs.local_complexity(net, x, dims=2, radius=0.3).total.tolist(),
    "deformation": lambda net, x, y: [
        size.tolist() for size in rs.complexity.deformation(net, x, dims=2).diameter.values()
    ],
    "sharpness": lambda net, x, y: measures.sharpness(net, x, y),
    "sharpness of some": lambda net, x, y: measures.sharpness(net, x, y, samples=7, dtype=torch.float64),
    "region_count": lambda net, x, y: rs.region_count(
        net, x, slices=5, length=9.0, through="direction"
    ).counts.tolist(),
    "output_margin": lambda net, x, y: measures.output_margin(net, x, y),
    "error_rate": lambda net, x, y: measures.error_rate(net, x, y),
    "monitor": watched,
}
READS: dict[str, Call] = {  # these read the model and do not run it
    "line": lambda net, x, y: rs.linear_regions(net, rs.Segment(x[0], x[1])).vertices.tolist(),
    "plane": lambda net, x, y: rs.linear_regions(net, rs.Simplex(x[:3])).vertices.tolist(),
    "space": lambda net, x, y: rs.linear_regions(net, rs.Simplex(x[:4])).vertices.tolist(),
    "exact": lambda net, x, y: rs.region_count(net, x, slices=5, method="exact").counts.tolist(),
}
MORE: dict[str, Call] = {  # options and layers that compute in ways of their own
    "decision": lambda net, x, y: rs.decision_regions(net, rs.Simplex(x[:3])).boundary.tolist(),
    "box": lambda net, x, y: rs.decision_regions(net, rs.Box(x[0], x[1:3], 0.5)).count,
    "convolutions": lambda net, x, y: rs.linear_regions(CONVOLUTIONAL, rs.Simplex(IMAGES[:3])).vertices.tolist(),
    "complexity of convolutions": lambda net, x, y: rs.local_complexity(
        CONVOLUTIONAL, IMAGES, dims=4, radius=0.2
    ).total.tolist(),
    "grid": lambda net, x, y: rs.region_count(net, x, dim=3, slices=4, grid=6).counts.tolist(),
    "refined": lambda net, x, y: rs.region_count(net, x, dim=2, slices=4, grid=8, method="refined").counts.tolist(),
    "far lines": lambda net, x, y: rs.region_count(far_away(net), x + 100, slices=30, method="refined").counts.tolist(),
    "from the origin": lambda net, x, y: rs.region_count(net, x, slices=4, through="origin").counts.tolist(),
    "drawn frames": lambda net, x, y: rs.local_complexity(net, x, dims=2, frames="per-point").total.tolist(),
    "drawn points": lambda net, x, y: [part.double().tolist() for part in points_of(x)],
    "slices of lists": lambda net, x, y: [
        rs.linear_regions(net, rs.Box(center=[0, 0, 1], directions=[[1, 0, 0], [0, 1, 0]], radius=1)).by_layer,
        rs.linear_regions(net, rs.Segment([0.0, 1.0, 0.5], [1.0, 0.5, 0.0])).by_layer,
    ],
}
IMAGES: Tensor = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def far_away(net: nn.Module) -> nn.Module:
    """The same network around (100, 100, 100), where half precision cannot tell neighbouring inputs apart."""
    moved = copy.deepcopy(net)
    with torch.no_grad():
        moved[0].bias -= 100 * moved[0].weight.sum(1)
    return moved


def points_of(x: Tensor) -> tuple[Tensor, ...]:
    drawn = draw_points(x, x[:9], n=5)
    return drawn.train, drawn.test, drawn.random


def convolutional() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return nn.Sequential(
            nn.Conv2d(1, 3, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Hardtanh(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(3, 2),
        )


CONVOLUTIONAL: nn.Sequential = convolutional()


def network() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(
            nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)
        )


@pytest.mark.parametrize("name", RUNS)
def test_the_model_is_as_before(name: str) -> None:
    model = Careless(network())
    model(X).sum().backward()
    model.net[1].eval()
    model.net[0].register_forward_hook(lambda *_: None)
    hooks = [dict(part._forward_hooks) for part in model.modules()]
    modes = [part.training for part in model.modules()]
    weights, gradients = copy.deepcopy(model.state_dict()), [copy.deepcopy(value.grad) for value in model.parameters()]
    buffers, random = [id(buffer) for buffer in model.buffers()], torch.get_rng_state()
    RUNS[name](model, X, Y)
    assert all(torch.equal(weights[key], value) for key, value in model.state_dict().items())
    assert all(torch.equal(old, p.grad) for old, p in zip(gradients, model.parameters(), strict=True))
    assert [id(buffer) for buffer in model.buffers()] == buffers
    assert [part.training for part in model.modules()] == modes
    assert [dict(part._forward_hooks) for part in model.modules()] == hooks
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize("name", RUNS)
def test_a_model_that_writes_into_its_inputs_has_the_same_numbers_and_your_inputs_stay(name: str) -> None:
    """As in-place activations do. What is called twice with the same inputs sees those of the first call."""
    x, y = X.clone(), Y.clone()
    found = RUNS[name](nn.Sequential(Doubled(in_place=True), *network()), x, y)
    assert found == RUNS[name](nn.Sequential(Doubled(in_place=False), *network()), X, Y)
    assert torch.equal(x, X)
    assert torch.equal(y, Y)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*RUNS, *READS])
def test_inference_mode_changes_no_number(name: str) -> None:
    call, model = (RUNS | READS)[name], network()
    wanted = call(model, X, Y)
    with torch.inference_mode():
        assert call(model, X, Y) == wanted
        assert call(network(), X.clone(), Y.clone()) == wanted


@contextmanager
def double_by_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


SURROUNDINGS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "default dtype": double_by_default,
    "default device": lambda: torch.device("meta"),  # a tensor made there has no numbers: using it is an error
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*RUNS, *READS, *MORE])
def test_settings_of_torch_change_no_number(name: str) -> None:
    call, model = (RUNS | READS | MORE)[name], network()
    wanted = call(model, X, Y)
    for surrounding, enter in SURROUNDINGS.items():
        with enter():
            assert call(model, X, Y) == wanted, surrounding


def test_a_result_of_inference_mode_can_be_used_outside() -> None:
    with torch.inference_mode():
        plane = rs.linear_regions(network(), rs.Simplex(X[:3]))
        decided = rs.decision_regions(network(), rs.Simplex(X[:3]))
    plane.check()
    assert len(decided.boundary) == len(rs.decision_regions(network(), rs.Simplex(X[:3])).boundary)
    assert plane.n_linear_regions == rs.linear_regions(network(), rs.Simplex(X[:3])).n_linear_regions
