"""Names, units and batch axes of the layers that a forward pass shows, and every way to write an activation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import regionscope as rs
from regionscope.complexity import local_complexity, soft_local_complexity
from regionscope.complexity.layer_listing import list_layers
from regionscope.complexity.layers import Layer
from regionscope.errors import InputError
from regionscope.network.call.untouched import untouched


def layers_of(model: nn.Module, shape: tuple[int, ...]) -> list[Layer]:
    with untouched(model) as private:
        return list(list_layers(private, torch.zeros(shape)).layers)


def names(model: nn.Module, shape: tuple[int, ...], role: str = "activation") -> list[str]:
    return [layer.name for layer in layers_of(model, shape) if layer.role == role]


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.again = nn.Linear(4, 4)
        self.act = nn.Tanh()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.again(self.first(x)))
        x = self.act(self.again(x))
        x = functional.relu(x - 0.1)
        return functional.relu(x + 0.1) * functional.softplus(self.scale)


def test_names_say_where_and_the_second_call_is_a_layer_of_its_own() -> None:
    assert names(Named(), (4,)) == ["first.1", "act", "act#2", "relu", "relu#2"]  # softplus(parameter) is none
    assert names(nn.Sequential(Named(), nn.ReLU()), (4,))[-2:] == ["0.relu#2", "1"]


def test_units_are_counted_per_position_and_max_pooling_is_listed() -> None:
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 2))
    found = layers_of(model, (1, 6, 6))
    assert [(layer.name, layer.role, layer.units) for layer in found] == [
        ("1", "activation", 48),
        ("2", "max_pool", 12),
        ("4", "linear", 2),
    ]
    assert nn.Conv2d in found[0].kinds
    assert nn.ReLU in found[0].kinds


@pytest.mark.parametrize("tokens", [1, 6, 7])
def test_the_batch_axis_is_found_where_it_is(tokens: int) -> None:
    class Sequence(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            turned = torch.tanh(x.transpose(0, 1))  # tokens first
            merged = torch.relu(x.reshape(-1, x.shape[-1]))  # tokens in the batch axis
            return turned.sum() + merged.sum()

    n = 2 * tokens
    found = layers_of(Sequence(), (tokens, 2))
    assert [(layer.units, layer.axis) for layer in found] == [(n, 1), (n, 0)]
    x = torch.randn(6, tokens, 2)
    counts = local_complexity(Sequence(), x, dims=n, radius=0.5, frames=torch.eye(n).reshape(n, tokens, 2))
    wanted = (x.abs() < 0.5).flatten(1).sum(1)
    for layer in counts.by_layer.values():
        assert layer.tolist() == wanted.tolist()


class TimeMajor(nn.Module):
    """A linear layer and ReLU on every token, tokens first; ``flat``: inputs and tokens in one axis."""

    def __init__(self, *, flat: bool) -> None:
        super().__init__()
        self.linear, self.flat = nn.Linear(2, 2), flat

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.transpose(0, 1)
        return torch.relu(self.linear(tokens.reshape(-1, 2) if self.flat else tokens)).sum()


@pytest.mark.parametrize("tokens", [1, 3, 7])
def test_tokens_before_inputs_are_counted_or_refused(tokens: int) -> None:
    x = torch.randn(4, tokens, 2)
    model = TimeMajor(flat=False)
    first = nn.Sequential(model.linear, nn.ReLU())  # the same units, inputs first
    options = {"dims": 2 * tokens, "radius": 0.5}
    found, wanted = local_complexity(model, x, **options), local_complexity(first, x, **options)
    assert found.total.tolist() == wanted.total.tolist()
    sizes, known = (
        rs.complexity.deformation(model, x, dims=2).diameter,
        rs.complexity.deformation(first, x, dims=2).diameter,
    )
    torch.testing.assert_close(sizes["linear"], known["0"])
    flat = TimeMajor(flat=True)
    if tokens == 1:
        assert layers_of(flat, (1, 2))[0].axis == 0
        return
    for inputs in (x, torch.zeros(4, 14, 2)):
        with pytest.raises(InputError, match=r"mixes the inputs of a batch\. Select other layers with layers="):
            local_complexity(flat, inputs, dims=2)
    for measure in (rs.complexity.deformation, partial(rs.complexity.trusted_radius, radii=(0.1, 0.2))):
        with pytest.raises(InputError, match=r"'linear', which mixes the inputs of a batch\. Reshape what this layer"):
            measure(flat, x, dims=2)


class Several(nn.Module):
    """Modules that are called twice, functions at the top and in a block, a module with the name of a function."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.LeakyReLU()
        self.block = nn.Sequential(Gated(), nn.ReLU6(), Gated())

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.relu(self.block(self.relu(x))) - 1) + torch.relu(x)


class Gated(nn.Linear):
    def __init__(self) -> None:
        super().__init__(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(super().forward(x)) - functional.relu(x)


def test_layers_have_the_names_of_the_exact_engine() -> None:
    model = Several()
    exact = rs.linear_regions(model, rs.Segment(torch.zeros(4), torch.ones(4))).by_layer
    local = rs.local_complexity(model, torch.rand(3, 4), dims=2, radius=0.1).by_layer
    assert set(exact) == set(local)
    assert {"relu", "relu#2", "relu#3", "relu#4", "block.0.relu", "block.0.relu#2", "block.1"} < set(exact)


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
    "method in place": lambda x: x.relu_(),
    "clamp": lambda x: x.clamp(min=0),
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "threshold": lambda x: functional.threshold(x, 0.0, 0.0),
    "gelu": functional.gelu,
    "silu": functional.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "abs": abs,
    "written out": lambda x: x * torch.sigmoid(1.7 * x),
    "gelu with erf": lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
    "gelu with erfc": lambda x: 0.5 * x * torch.special.erfc(-x / math.sqrt(2)),
    "gelu with ndtr": lambda x: x * torch.special.ndtr(x),
    "gelu with tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "atan": torch.atan,
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
def test_folds_away_from_zero(function: Callable[[Tensor], Tensor], at: tuple[float, ...]) -> None:
    torch.manual_seed(1)
    model, x = Calls(function), 6 * torch.randn(60, 4)
    found = local_complexity(model, x, dims=4, radius=1.5, frames=torch.eye(4))
    linear = model.linear(x).detach()
    reach = (1.5 * model.linear.weight.detach().abs()).amax(1)
    each = [((linear - t).abs() < reach).sum(1) for t in at]
    assert all(int(counts.sum()) > 0 for counts in each)
    wanted = torch.stack(each).sum(0)
    assert found.total.tolist() == wanted.tolist()


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


class Odd(nn.Module):
    """Another operation for seven inputs."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) if len(x) == 7 else torch.tanh(x)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: nn.Linear(4, 4), r"at least one activation that .*got none; with linear_outputs=True also linear"),
        (lambda: Calls(torch.sin), "got only sin, which is not counted;.* Use one of these, or region_count"),
        (lambda: Calls(lambda h: h * (h > 0) + h.cos_()), "got only cos, gt, which are not counted"),
        (lambda: Calls(lambda h: h + torch.zeros(1).exp()), "got none;"),
        (lambda: nn.GRUCell(4, 3), "got only gru_cell, .* Write the fused recurrent cell with torch functions"),
        (Odd, "the same operations for every .*got different ones for 7 and 2 inputs"),
        (lambda: nn.BatchNorm1d(4, track_running_stats=False), "batch normalisation with running statistics"),
        (lambda: torch.jit.script(nn.Linear(4, 6)), "got a TorchScript module, whose"),
        (lambda: nn.Sequential(torch.jit.script(nn.Linear(4, 6))), "got a TorchScript module as layer '0'"),
    ],
)
def test_a_model_whose_folds_cannot_be_counted_is_refused(build: Callable[[], nn.Module], words: str) -> None:
    with pytest.raises(InputError, match=words):
        local_complexity(build(), torch.randn(5, 4), dims=2)
