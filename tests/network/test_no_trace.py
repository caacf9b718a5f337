"""Reading a module leaves no trace on it, and follows it through wrappers, hooks, closures and parametrisations."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from network.architectures import ARCHITECTURES, Architecture, Lambda, freshly_built
from regionscope.errors import RegionscopeError
from regionscope.network import trace


def state_of(module: nn.Module) -> dict[str, Any]:
    """All that tracing could disturb."""
    return {
        "modes": [child.training for child in module.modules()],
        "attributes": [sorted(child.__dict__) for child in module.modules()],
        "parameters": [(name, id(p), p.dtype, p.device, p.requires_grad, id(p.grad)) for name, p in named(module)],
        "bits": [p.detach().clone() for _, p in named(module)],
        "hooks": [list(child._forward_hooks) + list(child._forward_pre_hooks) for child in module.modules()],
        "random": torch.get_rng_state(),
    }


def named(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    for key, value in before.items():
        if key == "bits":
            assert all(torch.equal(a, b) for a, b in zip(value, after[key], strict=True))
        elif key == "random":
            assert torch.equal(value, after[key])
        else:
            assert value == after[key], key


def mixed_modes(module: nn.Module) -> nn.Module:
    for i, child in enumerate(module.modules()):
        child.training = i % 2 == 0
    return module


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.name)
def test_nothing_changes(architecture: Architecture) -> None:
    module = mixed_modes(freshly_built(architecture))
    fired: list[str] = []
    for child in module.modules():
        child.register_forward_hook(lambda *_: fired.append("forward"))
        child.register_forward_pre_hook(lambda *_: fired.append("pre"))
    before = state_of(module)
    program = trace(module, architecture.shape)
    program(torch.zeros(2, *architecture.shape))
    assert_same(before, state_of(module))
    assert {"forward", "pre"} <= set(fired)  # on a private copy: these hooks only look


def test_nothing_changes_when_refused() -> None:
    module = mixed_modes(nn.Sequential(nn.Linear(3, 3), nn.Dropout(), nn.BatchNorm1d(3), nn.Sequential(nn.GELU())))
    before = state_of(module)
    with pytest.raises(RegionscopeError):
        trace(module, (3,))
    assert_same(before, state_of(module))
    assert nn.Linear(3, 3)(torch.zeros(1, 3)).shape == (1, 3)  # torch itself is as before


def test_random_numbers_drawn_while_reading_are_given_back() -> None:
    before = torch.get_rng_state()
    with pytest.raises(RegionscopeError, match="random"):
        trace(Lambda(lambda s, x: x + torch.randn(3)), (3,))
    assert torch.equal(before, torch.get_rng_state())


class Counting(nn.Module):
    """Writes to itself on each forward."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.calls = 0
        self.seen: list[Any] = []
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.steps.add_(1)
        self.features = F.relu(self.fc(x))
        self.seen.append(self.features)
        return self.features


def test_a_forward_that_writes_to_its_module() -> None:
    module = Counting()
    program = trace(module, (3,))
    assert (module.calls, module.seen, module.steps.item()) == (0, [], 0.0)
    assert not hasattr(module, "features")
    x = torch.randn(4, 3, dtype=torch.float64)
    assert torch.allclose(program(x), copy.deepcopy(module).double()(x))


def test_wrappers() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    x = torch.randn(4, 3, dtype=torch.float64)
    expected = trace(module, (3,))(x)
    assert torch.equal(trace(nn.DataParallel(module), (3,))(x), expected)
    assert torch.equal(trace(torch.fx.symbolic_trace(module), (3,))(x), expected)
    wrapped = nn.Module()
    wrapped._orig_mod = module
    assert torch.equal(trace(wrapped, (3,))(x), expected)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_older_weight_hooks_use_the_current_weight() -> None:
    module = nn.Sequential(
        nn.utils.weight_norm(nn.Linear(3, 4)), nn.ReLU(), nn.utils.spectral_norm(nn.Linear(4, 4)), nn.ReLU()
    )
    nn.init.constant_(module[0].weight_g, 3.0)  # the weight attribute is stale until the next forward
    before = [t.clone() for _, t in named(module)]
    program, x = trace(module, (3,)), torch.randn(4, 3, dtype=torch.float64)
    assert all(torch.equal(a, b) for a, (_, b) in zip(before, named(module), strict=True))
    assert torch.allclose(program(x), module.double().eval()(x), rtol=1e-12)


class Registry:
    """An object that the copy cannot look into."""

    __slots__ = ("net",)

    def __init__(self, net: nn.Module) -> None:
        self.net = net


def test_a_way_to_the_original_that_cannot_be_followed_is_refused() -> None:
    part = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    registry = Registry(part)
    module = Lambda(lambda self, x: registry.net(x), part=part).train()
    before = state_of(module)
    with pytest.raises(RegionscopeError, match="Read it through self"):
        trace(module, (3,))
    assert_same(before, state_of(module))


@pytest.mark.slow
def test_a_compiled_part_is_read_uncompiled() -> None:
    part = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    program = trace(nn.Sequential(torch.compile(part, backend="eager"), nn.Linear(4, 2)), (3,))
    assert [fold.name for fold in program.folds] == ["0.1"]


def test_nothing_of_torch_is_patched_while_a_forward_is_read() -> None:
    """``fx.Tracer.trace`` would put its own ``__call__`` and ``__getattr__`` on all modules of all threads."""
    before = nn.Module.__call__, nn.Module.__getattr__, F.relu, torch.relu
    seen: list[object] = []
    other = nn.Linear(3, 2)

    def look(self: nn.Module, x: Tensor) -> Tensor:
        seen.extend((nn.Module.__call__, nn.Module.__getattr__, F.relu, torch.relu))
        seen.append(other(torch.ones(1, 3)).shape)
        return F.relu(self.fc(x))

    trace(Lambda(look, fc=nn.Linear(3, 3)), (3,))
    assert tuple(seen[:4]) == before
    assert seen[4] == (1, 2)
