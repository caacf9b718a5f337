"""Every way to write an activation counts the same, wherever its kinks are."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from complexity.listed_layers import names
from regionscope.complexity import local_complexity, soft_local_complexity


class Calls(nn.Module):
    """One linear layer, then a given function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 6)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear(x))


SAME = {
    "F.relu": functional.relu,
    "F.relu inplace": lambda x: functional.relu(x, inplace=True),
    "torch.relu": torch.relu,
    "torch.relu_": torch.relu_,
    "method": lambda x: x.relu(),
    "method in place": lambda x: x.relu_(),
    "keyword": lambda x: functional.relu(input=x),
    "clamp": lambda x: x.clamp(min=0),
    "clamp_min": lambda x: torch.clamp_min(x, 0),
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "leaky": lambda x: functional.leaky_relu(x, 0.1),
    "threshold": lambda x: functional.threshold(x, 0.0, 0.0),
    "gelu": functional.gelu,
    "silu": functional.silu,
    "mish": functional.mish,
    "tanh": torch.tanh,
    "x.tanh": lambda x: x.tanh(),
    "sigmoid": torch.sigmoid,
    "expit": torch.special.expit,
    "elu": functional.elu,
    "selu": torch.selu,
    "celu": functional.celu,
    "softplus": functional.softplus,
    "softsign": functional.softsign,
    "abs": abs,
    "written out": lambda x: x * torch.sigmoid(1.7 * x),
    "gelu with erf": lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
    "gelu with x.erf": lambda x: 0.5 * x * (1 + (x / math.sqrt(2)).erf_()),
    "gelu with erfc": lambda x: 0.5 * x * torch.special.erfc(-x / math.sqrt(2)),
    "gelu with ndtr": lambda x: x * torch.special.ndtr(x),
    "gelu with tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "atan": torch.atan,
    "arctan": lambda x: x.arctan(),
    "asinh": torch.asinh,
    "fmax": lambda x: torch.fmax(x, torch.zeros_like(x)),
    "fmin": lambda x: torch.fmin(x, 0.1 * x),
    "prelu": lambda x: torch.prelu(x, torch.tensor([0.2])),
    "rrelu": functional.rrelu,
}


@pytest.mark.parametrize("function", SAME.values(), ids=SAME.keys())
def test_every_way_to_write_an_activation_counts_the_same(function: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    model, x = Calls(function), torch.randn(9, 4)
    wanted = local_complexity(nn.Sequential(model.linear, nn.ReLU()), x, dims=3, radius=0.5, layers="1")
    found = local_complexity(model, x, dims=3, radius=0.5)
    assert wanted.total.sum() > 3
    assert found.total.tolist() == wanted.total.tolist()
    assert list(found.units.values()) == [6]


@pytest.mark.parametrize(
    ("function", "at"),
    [
        (functional.relu6, (0.0, 6.0)),
        (nn.ReLU6(), (0.0, 6.0)),
        (functional.hardtanh, (-1.0, 1.0)),
        (nn.Hardtanh(-2.0, 0.5), (-2.0, 0.5)),
        (functional.hardswish, (-3.0, 3.0)),
        (nn.Hardsigmoid(), (-3.0, 3.0)),
        (nn.Softshrink(0.3), (-0.3, 0.3)),
        (functional.hardshrink, (-0.5, 0.5)),
        (lambda x: x.clamp(-0.25, 0.75), (-0.25, 0.75)),
        (lambda x: torch.clip(x, max=0.5), (0.5,)),
    ],
)
def test_kinks_away_from_zero(function: Callable[[Tensor], Tensor], at: tuple[float, ...]) -> None:
    torch.manual_seed(1)
    model, x = Calls(function), 6 * torch.randn(60, 4)
    found = local_complexity(model, x, dims=4, radius=1.5, frames=torch.eye(4))
    linear = model.linear(x).detach()
    reach = (1.5 * model.linear.weight.detach().abs()).amax(1)
    each = [((linear - t).abs() < reach).sum(1) for t in at]
    assert all(int(counts.sum()) > 0 for counts in each)
    wanted = torch.stack(each).sum(0)
    assert found.total.tolist() == wanted.tolist()


def test_an_activation_with_erf_counts_beside_others_and_away_from_zero() -> None:
    torch.manual_seed(0)
    first, second, x = nn.Linear(4, 6), nn.Linear(6, 5), torch.randn(9, 4)
    laplace = Calls(lambda h: 0.5 * (1 + torch.erf((h - 0.25) / (0.3 * math.sqrt(2)))))
    laplace.linear = first
    found = local_complexity(nn.Sequential(laplace, second, nn.ReLU()), x, dims=4, radius=0.5, frames=torch.eye(4))
    assert found.units == {"0.erf": 6, "2": 5}
    reach = (0.5 * first.weight.detach().abs()).amax(1)
    assert found.by_layer["0.erf"].tolist() == ((first(x).detach() - 0.25).abs() < reach).sum(1).tolist()


@pytest.mark.parametrize("function", [torch.sin, torch.cos, torch.exp, lambda x: torch.where(x > 0, x, 0 * x)])
def test_functions_that_are_not_seen(function: Callable[[Tensor], Tensor]) -> None:
    assert names(nn.Sequential(Calls(function), nn.ReLU()), (4,)) == ["1"]


def test_maxima_of_two_tensors_and_bounds_of_each_unit_are_folds() -> None:
    class Net(nn.Module):
        def __init__(self, fold: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            self.fold = fold

        def forward(self, x: Tensor) -> Tensor:
            return self.fold(x)

    x, bound = torch.randn(6, 4), torch.tensor([0.1, 0.2, 0.3, 0.4])
    near = (x - bound).abs() < 0.5
    for fold in (
        lambda x: torch.max(x, bound.expand_as(x)),
        lambda x: x.min(bound.expand_as(x)),
        lambda x: x.clamp(max=bound),
        lambda x: x.clamp_max(bound),
        lambda x: torch.clamp_min(x, min=bound),
    ):
        found = local_complexity(Net(fold), x, dims=4, radius=0.5, frames=torch.eye(4))
        assert found.total.tolist() == near.sum(1).tolist()
    both = local_complexity(Net(lambda x: x.clamp(-bound, bound)), x, dims=4, radius=0.5, frames=torch.eye(4))
    assert both.total.tolist() == (near.sum(1) + ((x + bound).abs() < 0.5).sum(1)).tolist()


def test_an_activation_without_units_counts_nothing() -> None:
    def in_two_parts(h: Tensor) -> Tensor:
        return torch.cat([torch.relu(h[:, :0]), torch.relu(h)], 1)

    torch.manual_seed(2)
    model, x = Calls(in_two_parts), torch.randn(7, 4)
    whole = Calls(torch.relu)
    whole.linear = model.linear
    for instrument in (lambda net: local_complexity(net, x, radius=0.5).total, partial(_soft, x)):
        assert torch.equal(instrument(model), instrument(whole))


def _soft(x: Tensor, model: nn.Module) -> Tensor:
    return soft_local_complexity(model, x, radius=0.5, dims=3).detach()
