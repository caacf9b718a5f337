"""A program with new weights equals one that is read afresh; what changes more than weights is refused."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.network import Program, retrace

X = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.PReLU(), nn.Linear(8, 8), nn.LeakyReLU(0.1), nn.Linear(8, 2))


def equal(program: Program, net: nn.Module) -> bool:
    return torch.equal(program(X), rs.trace(net, (3,))(X))


def step(net: nn.Module) -> None:
    """A step of gradient descent; the optimisers of torch import its compiler, which takes a second."""
    weights = list(net.parameters())
    gradients = torch.autograd.grad(net(X.float()).square().mean(), weights)
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.sub_(gradient, alpha=0.5)


def write(net: nn.Module) -> None:
    for weight in net.parameters():
        weight.data = weight.data * 1.5


def write_in_place(net: nn.Module) -> None:
    for weight in net.parameters():
        weight.data.mul_(-2)


@pytest.mark.parametrize("change", [step, write, write_in_place])
def test_a_rebound_program_equals_a_new_one(change) -> None:
    net = model()
    program = rs.trace(net, (3,))
    before = program(X)
    change(net)
    bound = program.rebind(net)
    assert equal(bound, net)
    assert torch.equal(program(X), before)
    assert not torch.equal(bound(X), before)
    change(net)
    assert not equal(bound, net)
    assert equal(pickle.loads(pickle.dumps(bound)).rebind(torch.nn.DataParallel(net)), net)


def test_programs_made_from_a_program_can_be_rebound() -> None:
    net = model()
    short, narrow = rs.trace(net, (3,)).shortened(1), rs.trace(net, (3,), dtype=torch.float32)
    step(net)
    assert equal(short.rebind(net), net)
    assert torch.equal(narrow.rebind(net)(X), rs.trace(net, (3,), dtype=torch.float32)(X))
    assert equal(narrow.in_float64().rebind(net), net)


def test_two_layers_with_one_weight() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    net[2].weight = net[0].weight
    program = rs.trace(net, (3,))
    step(net)
    assert equal(program.rebind(net), net)
    net[2].weight = nn.Parameter(net[0].weight.detach() + 1)
    with pytest.raises(rs.InputError, match="its weights alone"):
        program.rebind(net)


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.scale = nn.Linear(3, 2), 1.0

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x) * self.scale)


def replaced(net: nn.Sequential) -> None:
    net[3] = nn.ReLU()


def steeper(net: nn.Sequential) -> None:
    net[3].negative_slope = 0.2


def wider(net: nn.Sequential) -> None:
    net[2], net[4] = nn.Linear(8, 9), nn.Linear(9, 2)


def own_forward(net: nn.Sequential) -> None:
    net[0].forward = lambda x: x @ net[0].weight.T


@pytest.mark.parametrize("change", [replaced, steeper, wider, own_forward])
def test_other_changes_are_refused(change) -> None:
    net = model()
    program = rs.trace(net, (3,))
    assert program.can_rebind(net)
    assert program.can_rebind(copy.deepcopy(net))
    change(net)
    assert not program.can_rebind(net)
    with pytest.raises(rs.InputError, match=r"its weights alone.*trace"):
        program.rebind(net)


@pytest.mark.parametrize("build", [Own, lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())])
def test_constants_that_are_no_weights_are_not_rebound(build) -> None:
    net = build()
    program = rs.trace(net, (3,))
    assert not program.can_rebind(net)
    with pytest.raises(rs.InputError, match="its weights alone"):
        program.rebind(net)


def test_bad_weights_are_refused() -> None:
    net = model()
    program = rs.trace(net, (3,))
    net[0].bias.data[0] = torch.nan
    with pytest.raises(rs.InputError, match="finite weights"):
        program.rebind(net)


def test_retrace_reads_again_where_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    net = model()
    program = retrace(None, net, (3,))
    bound: list[nn.Module] = []
    rebind = Program.rebind
    monkeypatch.setattr(Program, "rebind", lambda self, module: bound.append(module) or rebind(self, module))
    step(net)
    assert equal(retrace(program, net, (3,)), net)
    assert bound == [net]
    steeper(net)
    assert equal(retrace(program, net, (3,)), net)
    assert bound == [net]
    own = Own()
    first = retrace(program, own, (3,))
    own.scale = -2.0
    assert equal(retrace(first, own, (3,)), own)
    assert bound == [net]
