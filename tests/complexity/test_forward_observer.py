"""What a forward pass shows: every activation, under a readable name, and no trace afterwards."""

from __future__ import annotations

import copy
import inspect
import math
import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import regionscope as rs
from careless import Careless
from regionscope.complexity import local_complexity
from regionscope.complexity.forward_observer import ForwardObserver
from regionscope.complexity.layers import Layer, _one_after_the_other, list_layers
from regionscope.errors import InputError
from regionscope.network.call.untouched import untouched


def layers_of(model: nn.Module, shape: tuple[int, ...]) -> list[Layer]:
    with untouched(model) as private:
        return list(list_layers(private, torch.zeros(shape)).layers)


def names(model: nn.Module, shape: tuple[int, ...], role: str = "activation") -> list[str]:
    return [layer.name for layer in layers_of(model, shape) if layer.role == role]


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
    ):
        found = local_complexity(Net(fold), x, dims=4, radius=0.5, frames=torch.eye(4))
        assert found.total.tolist() == near.sum(1).tolist()
    both = local_complexity(Net(lambda x: x.clamp(-bound, bound)), x, dims=4, radius=0.5, frames=torch.eye(4))
    assert both.total.tolist() == (near.sum(1) + ((x + bound).abs() < 0.5).sum(1)).tolist()


def test_a_model_that_does_other_things_for_other_numbers_of_inputs_is_refused() -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x) if len(x) == 7 else torch.tanh(x)

    with pytest.raises(InputError, match=r"the same operations for every .*got different ones for 7 and 5 inputs"):
        local_complexity(Odd(), torch.randn(3, 2), dims=2, radius=0.5)


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
    assert list(rs.deformation(wrap(model), x, dims=3).diameter) == list(rs.deformation(model, x, dims=3).diameter)


@pytest.mark.slow
def test_a_compiled_part_is_watched_uncompiled() -> None:
    part = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    model, x = nn.Sequential(torch.compile(part, backend="eager"), nn.Linear(6, 2), nn.ReLU()), torch.randn(5, 4)
    model(x)
    plain = local_complexity(nn.Sequential(part, *model[1:]), x, dims=3, radius=0.5)
    found = local_complexity(model, x, dims=3, radius=0.5)
    assert list(found.by_layer) == list(plain.by_layer) == ["0.1", "2"]
    assert found.total.tolist() == plain.total.tolist()


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_a_scripted_model_is_one_sentence() -> None:
    scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 6), nn.ReLU()))
    for model, words in (
        (scripted, "got a TorchScript module, whose"),
        (nn.Sequential(scripted), "got a TorchScript module as layer '0'"),
    ):
        with pytest.raises(InputError, match=words):
            local_complexity(model, torch.randn(5, 4), dims=3)


def test_a_transformer_layer_is_seen() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    assert names(layer, (5, 8)) == ["gelu"]


def trace_of(model: nn.Module) -> list[object]:
    hooks = [
        dict(getattr(module, name))
        for module in model.modules()
        for name in (
            "_forward_hooks",
            "_forward_pre_hooks",
            "_forward_hooks_always_called",
            "_forward_hooks_with_kwargs",
        )
    ]
    return [hooks, [module.training for module in model.modules()], torch.get_rng_state().tolist()]


def test_measuring_leaves_no_trace() -> None:
    model = Careless(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5)))
    model(torch.randn(8, 4)).sum().backward()
    model.net[1].eval()
    model.net[0].register_forward_hook(lambda *_: None)
    before, weights = trace_of(model), copy.deepcopy(model.state_dict())
    grads = [parameter.grad.clone() for parameter in model.parameters()]
    buffers = [id(buffer) for buffer in model.buffers()]
    x = torch.randn(5, 4, requires_grad=True)
    before[-1] = torch.get_rng_state().tolist()
    local_complexity(model, x, dims=2, frames="per-point")
    assert trace_of(model) == before
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert all(torch.equal(grad, p.grad) for grad, p in zip(grads, model.parameters(), strict=True))
    assert [id(buffer) for buffer in model.buffers()] == buffers
    assert x.grad is None


def test_an_error_in_the_forward_pass_leaves_no_trace() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            if len(self.linear(x)) > 7:
                raise RuntimeError("too many")
            return torch.relu(x)

    model, x = Fails(), torch.randn(5, 4)
    before = trace_of(model)
    with pytest.raises(InputError, match="too many"):
        local_complexity(model, x, dims=4)
    assert trace_of(model) == before


def test_batch_statistics_are_refused() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.ReLU())
    with pytest.raises(InputError, match="batch normalisation with running statistics, got '1', which"):
        local_complexity(model, torch.randn(5, 4), dims=2)


def test_nothing_to_see_is_said() -> None:
    with pytest.raises(InputError, match=r"at least one activation in .*got none; with linear_outputs=True also 0, 1"):
        local_complexity(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(5, 4), dims=2)


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


@pytest.mark.parametrize("fails", [False, True])
def test_modules_are_called_as_before_after_watching(fails: bool) -> None:
    calls: list[str] = []

    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if fails:
                raise RuntimeError("no")
            return torch.relu(x)

    model = nn.Sequential(Inner())
    model[0].register_forward_hook(lambda _, given, output: torch.sigmoid(output))
    whole = model._call_impl
    model.__dict__["_compiled_call_impl"] = lambda *args: (calls.append("own"), whole(*args))[1]
    before = [dict(module.__dict__) for module in model.modules()]
    observer = ForwardObserver(model)
    with pytest.raises(InputError, match="no") if fails else nullcontext(), observer.watching():
        observer.forward(torch.ones(2, 3))
    assert calls == ["own"]  # what ran in place of a module still runs
    assert observer.seen == ({} if fails else {"0.relu": 1, "0.sigmoid": 1})  # hooks belong to their module
    after = [dict(module.__dict__) for module in model.modules()]
    assert before == after


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


def test_nothing_is_left_in_a_model_that_lists_a_shared_layer_twice() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(8, 8)
            self.b = self.a

        def named_modules(self, memo: Any = None, prefix: str = "", remove_duplicate: bool = True) -> Any:
            return super().named_modules(memo, prefix, False)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.b(torch.relu(self.a(x))))

    model = Twice()
    before = {name: dict(value) if isinstance(value, dict) else value for name, value in vars(model.a).items()}
    rs.soft_local_complexity(model, torch.zeros(2, 8), radius=1.0)
    assert vars(model.a) == before


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
