"""Names, units and batch axes of the layers that a forward pass shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import regionscope as rs
from complexity.listed_layers import layers_of, names
from regionscope.complexity import local_complexity
from regionscope.complexity.layer_listing import _one_after_the_other
from regionscope.errors import InputError


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


def test_a_nested_function_is_named_after_its_module() -> None:
    assert names(nn.Sequential(Named(), nn.ReLU()), (4,))[-2:] == ["0.relu#2", "1"]


def test_linear_outputs_that_no_activation_follows() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.skip, self.b, self.c = (nn.Linear(4, 4) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            h = torch.relu((self.a(x) + self.skip(x)).reshape(len(x), 2, 2)).flatten(1)
            return self.c(self.b(h))

    assert names(Net(), (4,), "linear") == ["b", "c"]
    assert names(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU()), (4,), "linear") == []


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


@pytest.mark.parametrize("tokens", [1, 5, 6, 7, 35])
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
    sizes, known = rs.deformation(model, x, dims=2).diameter, rs.deformation(first, x, dims=2).diameter
    torch.testing.assert_close(sizes["linear"], known["0"])
    flat = TimeMajor(flat=True)
    if tokens == 1:
        assert layers_of(flat, (1, 2))[0].axis == 0
        return
    with pytest.raises(
        InputError, match=r"mixes the inputs of a batch\. Select other layers with layers=\[\.\.\.\]\.$"
    ):
        local_complexity(flat, x, dims=2)
    reshape = r"'linear', which mixes the inputs of a batch\. Reshape what this layer takes to \(batch, \.\.\.\) in the"
    for measure in (rs.deformation, partial(rs.trusted_radius, radii=(0.1, 0.2))):
        assert "layers" not in inspect.signature(measure).parameters
        with pytest.raises(InputError, match=reshape):
            measure(flat, x, dims=2)


def test_equal_tokens_before_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="mixes the inputs of a batch"):
        local_complexity(TimeMajor(flat=True), torch.zeros(4, 14, 2), dims=2)


def test_a_layer_whose_weights_are_zero_is_counted_in_one_axis_with_its_tokens() -> None:
    zero = nn.Linear(2, 3)
    nn.init.zeros_(zero.weight)
    model = nn.Sequential(nn.Flatten(0, 1), zero, nn.ReLU(), nn.Unflatten(0, (-1, 5)))
    assert local_complexity(model, torch.randn(4, 5, 2), dims=2).total.tolist() == [0] * 4


def test_a_model_that_does_other_things_for_other_numbers_of_inputs_is_refused() -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x) if len(x) == 7 else torch.tanh(x)

    with pytest.raises(InputError, match=r"the same operations for every .*got different ones for 7 and 2 inputs"):
        local_complexity(Odd(), torch.randn(3, 2), dims=2, radius=0.5)


def test_a_transformer_layer_is_seen() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    assert names(layer, (5, 8)) == ["gelu"]


def test_nothing_to_see_is_said() -> None:
    with pytest.raises(
        InputError, match=r"at least one activation that .*got none; with linear_outputs=True also 0, 1"
    ):
        local_complexity(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(5, 4), dims=2)


class Bent(nn.Module):
    """A linear layer and a function of its output."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(4, 4), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear(x))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (torch.sin, "only sin, which is not counted"),
        (lambda h: h * (h > 0) + h.cos_(), "only cos, gt, which are not counted"),
        (lambda h: h + torch.zeros(1).exp(), "none"),
    ],
)
def test_functions_that_are_not_counted_are_named(function: Callable[[Tensor], Tensor], said: str) -> None:
    with pytest.raises(
        InputError, match=f"got {said};.* Counted are ReLU .* Use one of these, or region_count"
    ) as error:
        local_complexity(Bent(function), torch.randn(5, 4), dims=2)
    assert "recurrent" not in str(error.value)


def test_a_fused_recurrent_cell_is_named() -> None:
    with pytest.raises(InputError, match=r"got only gru_cell, .* Write the fused recurrent cell with torch functions"):
        local_complexity(nn.GRUCell(4, 3), torch.randn(5, 4), dims=2)


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


def test_inputs_and_tokens_on_one_axis_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look at the numbers for each layer: each makes the host wait for a GPU."""
    looks: list[Tensor] = []
    known = torch.Tensor.__bool__
    monkeypatch.setattr(torch.Tensor, "__bool__", lambda self: (looks.append(self), known(self))[1])
    for order, alike in ((torch.arange(7).repeat_interleave(3), True), (torch.arange(7).repeat(3), False)):
        values = torch.eye(2)[(order == 6).long()]
        looks.clear()
        assert _one_after_the_other(values, 7) is alike
        assert len(looks) == 1
