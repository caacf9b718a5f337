"""Every measure leaves the model as it was, and gives the same numbers in ``torch.inference_mode``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from careless import Careless
from regionscope.lab.monitor import Monitor
from regionscope.lab.train.evaluation import count_wrong, evaluate

X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(20) % 3

Call = Callable[[nn.Module, Tensor, Tensor], Any]


def watched(model: nn.Module, x: Tensor, y: Tensor) -> list[float]:
    monitor = Monitor({
        "complexity": lambda net: rs.local_complexity(net, x, dims=2, radius=0.3),
        "sharpness": lambda net: rs.sharpness(net, x, y),
    })  # fmt: skip
    return [row.value for row in monitor(0, model)]


RUNS: dict[str, Call] = {
    "local_complexity": lambda net, x, y: rs.local_complexity(net, x, dims=2, radius=0.3).total.tolist(),
    "deformation": lambda net, x, y: [size.tolist() for size in rs.deformation(net, x, dims=2).diameter.values()],
    "sharpness": lambda net, x, y: rs.sharpness(net, x, y),
    "sharpness of some": lambda net, x, y: rs.sharpness(net, x, y, samples=7, dtype=torch.float64),
    "region_count": lambda net, x, y: rs.region_count(
        net, x, slices=5, length=9.0, through="direction"
    ).counts.tolist(),
    "output_margin": lambda net, x, y: rs.output_margin(net, x, y),
    "error_rate": lambda net, x, y: rs.error_rate(net, x, y),
    "evaluate": evaluate,
    "count_wrong": count_wrong,
    "monitor": watched,
}
READS: dict[str, Call] = {  # these read the model and do not run it
    "line": lambda net, x, y: rs.linear_regions(net, rs.Segment(x[0], x[1])).vertices.tolist(),
    "plane": lambda net, x, y: rs.linear_regions(net, rs.Simplex(x[:3])).vertices.tolist(),
    "space": lambda net, x, y: rs.linear_regions(net, rs.Simplex(x[:4])).vertices.tolist(),
    "exact": lambda net, x, y: rs.region_count(net, x, slices=5, method="exact").counts.tolist(),
}


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
    modes = [part.training for part in model.modules()]
    weights, gradients = copy.deepcopy(model.state_dict()), [copy.deepcopy(value.grad) for value in model.parameters()]
    buffers, random = [id(buffer) for buffer in model.buffers()], torch.get_rng_state()
    RUNS[name](model, X, Y)
    assert all(torch.equal(weights[key], value) for key, value in model.state_dict().items())
    assert all(torch.equal(old, p.grad) for old, p in zip(gradients, model.parameters(), strict=True))
    assert [id(buffer) for buffer in model.buffers()] == buffers
    assert [part.training for part in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize("made", ["outside", "data inside", "model inside"])
@pytest.mark.parametrize("name", [*RUNS, *READS])
def test_inference_mode_changes_no_number(name: str, made: str) -> None:
    call = (RUNS | READS)[name]
    wanted = call(network(), X, Y)
    model, x, y = network(), X, Y
    with torch.inference_mode():
        if made != "outside":
            x, y = X.clone(), Y.clone()
        if made == "model inside":
            model = network()
        assert call(model, x, y) == wanted


def test_a_monitored_function_can_have_gradients_in_inference_mode() -> None:
    def slope(model: nn.Module) -> Tensor:
        with torch.enable_grad():
            start = X[:1].clone().requires_grad_()
            return torch.autograd.grad(model(start).sum(), start)[0].norm()

    model = network()
    wanted = Monitor({"slope": slope})(0, model)
    with torch.inference_mode():
        found = Monitor({"slope": slope})(0, model)
    assert found[0].value == wanted[0].value


def test_a_monitored_function_cannot_change_a_model_made_in_inference_mode() -> None:
    def careless(model: nn.Module) -> float:
        with torch.inference_mode():
            model[0].weight.zero_()
        return 0.0

    with torch.inference_mode():
        model = network()
    Monitor({"careless": careless})(0, model)
    assert torch.equal(model[0].weight, network()[0].weight)


def test_a_result_of_inference_mode_can_be_used_outside() -> None:
    with torch.inference_mode():
        plane = rs.linear_regions(network(), rs.Simplex(X[:3]))
        decided = rs.decision_regions(network(), rs.Simplex(X[:3]))
    plane.check()
    assert len(decided.boundary) == len(rs.decision_regions(network(), rs.Simplex(X[:3])).boundary)
    assert plane.n_linear_regions == rs.linear_regions(network(), rs.Simplex(X[:3])).n_linear_regions
