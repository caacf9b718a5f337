"""Soft local complexity: its limit, its gradient, its invariance, and what a penalty does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.errors import InputError

POINTS = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def net(activation: type[nn.Module] = nn.ReLU) -> nn.Module:
    torch.manual_seed(1)
    layers = [nn.Linear(3, 7), activation(), nn.Linear(7, 7), activation(), nn.Linear(7, 2)]
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU, nn.ReLU6])
def test_at_temperature_zero_it_is_local_complexity(activation: type[nn.Module]) -> None:
    hard = rs.local_complexity(net(activation), POINTS, radius=0.7, seed=4).total
    soft = rs.complexity.soft_local_complexity(net(activation), POINTS, radius=0.7, seed=4, temperature=1e-5)
    assert hard.sum() > 5
    assert torch.allclose(soft.detach(), hard.double(), atol=1e-6)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU, nn.ReLU6])
def test_the_gradient_passes_gradcheck(activation: type[nn.Module]) -> None:
    class WithValues(nn.Module):
        """The network with given values in place of its parameters."""

        def __init__(self, values: tuple[torch.Tensor, ...]) -> None:
            super().__init__()
            self.net = net(activation)
            self.values = dict(zip(dict(self.net.named_parameters()), values, strict=True))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(self.net, self.values, (x,))

    def penalty(*values: torch.Tensor) -> torch.Tensor:
        return rs.complexity.soft_local_complexity(WithValues(values), POINTS[:3], radius=0.7)

    start = [value.detach().clone().requires_grad_() for value in net(activation).parameters()]
    assert torch.autograd.gradcheck(penalty, start)
    assert torch.autograd.grad(penalty(*start).sum(), start[0])[0].abs().max() > 1e-3


def behind_dead_units(bias: bool, dtype: torch.dtype) -> nn.Module:
    """The units of the second layer are constant, and 0 without a bias."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5, bias=bias), nn.ReLU(), nn.Linear(5, 2), nn.Tanh()
    ).to(dtype)
    model[0].bias.data.fill_(-100.0)
    return model


@pytest.mark.parametrize(
    ("dtype", "bias", "temperature"),
    [
        (torch.float32, True, 1.0),
        (torch.float32, False, 1e-6),
        (torch.float64, False, 0.1),
        (torch.float64, True, 1e-9),
    ],
)
def test_constant_units_count_nothing_and_have_finite_gradients(
    dtype: torch.dtype, bias: bool, temperature: float
) -> None:
    model, x = behind_dead_units(bias, dtype), POINTS.to(dtype)
    assert rs.local_complexity(model, x, radius=0.5).total.tolist() == [0] * len(x)
    found = rs.complexity.soft_local_complexity(model, x, radius=0.5, temperature=temperature)
    found.sum().backward()
    assert float(found.detach().abs().max()) < 1e-12
    gradients = [value.grad for value in model.parameters() if value.grad is not None]
    assert len(gradients) > 3
    assert all(float(gradient.abs().max()) < 1e-12 for gradient in gradients)


def test_a_generator_gives_a_new_frame_at_each_call() -> None:
    model, generator = net(nn.ReLU), torch.Generator().manual_seed(4)
    first, second = (
        rs.complexity.soft_local_complexity(model, POINTS, radius=0.7, generator=generator) for _ in range(2)
    )
    assert torch.equal(first, rs.complexity.soft_local_complexity(model, POINTS, radius=0.7, seed=4))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_units_that_only_reach_their_fold_count_nothing(sign: float) -> None:
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(sign * torch.relu(x))

    torch.manual_seed(1)
    linear = nn.Linear(3, 9).double()
    hard = rs.local_complexity(nn.Sequential(linear, nn.ReLU()), POINTS, radius=0.7).total
    assert int(hard.sum()) > 5
    model = nn.Sequential(linear, Twice())
    assert torch.equal(rs.local_complexity(model, POINTS, radius=0.7).total, hard)
    limit = rs.complexity.soft_local_complexity(model, POINTS, radius=0.7, temperature=1e-6)
    assert torch.allclose(limit, hard.double(), atol=1e-9)

    def penalty(weight: torch.Tensor) -> torch.Tensor:
        class Given(nn.Sequential):
            def forward(self, input: torch.Tensor) -> torch.Tensor:
                return torch.func.functional_call(model, {"0.weight": weight}, (input,))

        return rs.complexity.soft_local_complexity(Given(model), POINTS, radius=0.7)

    assert torch.autograd.gradcheck(penalty, linear.weight.detach().clone().requires_grad_())


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        (net(), {"temperature": 0.0}, "temperature to be positive, got 0"),
        (nn.Linear(3, 2).double(), {}, "Expected a model that calls activations, got one"),
        (net(), {"generator": 3}, "a Generator for generator, got int"),
        (abs, {}, "Expected a torch.nn.Module"),
    ],
)
def test_mistakes_are_one_sentence(model: nn.Module, options: dict[str, float], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        rs.complexity.soft_local_complexity(model, POINTS, **options)


@pytest.mark.parametrize("units", [59, 60])  # 60: as many rows as there are vertices
def test_activations_of_weights_are_no_units(units: int) -> None:
    class PositiveWeights(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.out = nn.Parameter(torch.randn(units, 3)), nn.Linear(units, 2)
            self.register_buffer("shift", torch.zeros(units))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            shift = nn.functional.softplus(self.shift).clone()
            shift += x.sum() * 0  # from here on computed from the input
            return self.out(torch.relu(nn.functional.linear(x, self.weight.abs()) + torch.relu(self.weight).sum(1)))

    torch.manual_seed(0)
    model, x = PositiveWeights(), torch.randn(10, 3)
    soft = rs.complexity.soft_local_complexity(model, x, radius=0.3, temperature=1e-6)
    assert torch.equal(soft.detach().round().long(), rs.local_complexity(model, x, radius=0.3).total)
    assert soft.sum() > 0


def test_many_units_add_up_in_half_precision() -> None:
    """A sum in bfloat16 stops growing at 256 units of 1."""
    torch.manual_seed(0)
    layer = nn.Linear(2, 1500, bias=False)
    model = nn.Sequential(layer, nn.ReLU()).bfloat16()
    soft = rs.complexity.soft_local_complexity(model, torch.zeros(1, 2), radius=1.0, temperature=1e-3)
    assert soft.dtype == torch.float32
    assert soft.item() == 1500  # all folds pass through the point
    soft.backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.bfloat16
