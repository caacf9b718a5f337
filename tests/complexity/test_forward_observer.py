"""Watching a forward pass: wrapped, compiled and cloned models, and modules as before."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.complexity import local_complexity


@pytest.mark.parametrize(
    "wrap",
    [
        nn.DataParallel,
        pytest.param(lambda net: torch.compile(net, backend="eager"), id="compiled", marks=pytest.mark.slow),
    ],
)
def test_a_wrapped_model_is_the_one_inside(wrap: Callable[[nn.Module], nn.Module]) -> None:
    model, x = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)), torch.randn(5, 4)
    plain, wrapped = (local_complexity(net, x, dims=3, radius=0.5) for net in (model, wrap(model)))
    assert list(wrapped.by_layer) == ["1"]
    assert wrapped.total.tolist() == plain.total.tolist()
    assert list(rs.complexity.deformation(wrap(model), x, dims=3).diameter) == list(
        rs.complexity.deformation(model, x, dims=3).diameter
    )


@pytest.mark.slow
def test_a_compiled_part_is_watched_uncompiled() -> None:
    part = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    model, x = nn.Sequential(torch.compile(part, backend="eager"), nn.Linear(6, 2), nn.ReLU()), torch.randn(5, 4)
    model(x)
    plain = local_complexity(nn.Sequential(part, *model[1:]), x, dims=3, radius=0.5)
    found = local_complexity(model, x, dims=3, radius=0.5)
    assert list(found.by_layer) == list(plain.by_layer) == ["0.1", "2"]
    assert found.total.tolist() == plain.total.tolist()


def test_compiled_functions_of_a_language_model_run_without_their_compiler_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # draws are then noticed by the generators
    part = torch.compile(lambda x: torch.relu(x) + 1, backend="eager")

    class Model(nn.Module):
        def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            self.tokens, self.a, self.head = nn.Embedding(20, 8), nn.Linear(8, 16), nn.Linear(16, 20)
            self.function = function

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.function(self.a(self.tokens(ids))))

    ids = torch.arange(12).reshape(3, 4)
    counts = []
    for function in (part, lambda x: torch.relu(x) + 1):
        torch.manual_seed(0)
        counts.append(rs.local_complexity(Model(function), ids, radius=1.0).total)
    assert torch.equal(*counts)


def test_a_layer_that_is_cloned_in_the_forward_pass_keeps_its_own_weights() -> None:
    class Rounded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.head = nn.Linear(8, 64), nn.Linear(64, 2)

        def forward(self, x: Tensor) -> Tensor:
            clone = object.__new__(nn.Linear)
            clone.__dict__.update(self.linear.__dict__)
            clone._parameters = {"weight": (self.linear.weight * 4).round() / 4, "bias": self.linear.bias}
            return self.head(torch.relu(clone(x)))

    torch.manual_seed(0)
    model = Rounded()
    alike = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2))
    with torch.no_grad():
        alike[0].weight.copy_((model.linear.weight * 4).round() / 4)
        alike[0].bias.copy_(model.linear.bias)
    inputs = torch.randn(50, 8)
    found, wanted = (rs.local_complexity(each, inputs, radius=0.2).total for each in (model, alike))
    assert torch.equal(found, wanted)
