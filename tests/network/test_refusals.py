"""Every network without exact regions is refused with a sentence that names the culprit and the way out."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from network.architectures import Lambda
from regionscope.errors import InputError, NotPiecewiseAffine, UntraceableModel
from regionscope.network import trace

IMAGE = (3, 6, 6)


class Nested(nn.Module):
    """'encoder.act' with whatever activation, in the middle of a network."""

    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.encoder = nn.Sequential()
        self.encoder.add_module("act", act)

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x * F.relu(self.fc(x.mean((2, 3))))[:, :, None, None]


LAYERS: list[tuple[nn.Module, tuple[int, ...], str]] = [
    (nn.GELU(), (4,), "'encoder.act' is GELU, which is not piecewise affine. Exact regions accept ReLU, LeakyReLU, "),
    (nn.SiLU(), (4,), "'encoder.act' is SiLU, which is not piecewise affine"),
    (nn.Sigmoid(), (4,), "'encoder.act' is Sigmoid, which is not piecewise affine"),
    (nn.Tanh(), (4,), "'encoder.act' is Tanh, which"),
    (nn.ELU(), (4,), "'encoder.act' is ELU, which"),
    (nn.SELU(), (4,), "'encoder.act' is SELU, which"),
    (nn.Softplus(), (4,), "'encoder.act' is Softplus, which"),
    (nn.Mish(), (4,), "'encoder.act' is Mish, which"),
    (nn.Hardswish(), (4,), "'encoder.act' is Hardswish, which"),
    (nn.Hardshrink(), (4,), "'encoder.act' is Hardshrink, which is not piecewise affine (it jumps)"),
    (nn.GLU(), (4,), "'encoder.act' is GLU, which"),
    (
        nn.Softmax(1),
        (4,),
        "'encoder.act' is Softmax, which is not piecewise affine. Exact regions accept .* leave it off",
    ),
    (nn.LogSoftmax(1), (4,), "'encoder.act' is LogSoftmax, which"),
    (nn.Threshold(0.1, 20.0), (4,), "'encoder.act' is Threshold, .* jumps from 20 to 0.1 at its threshold"),
    (nn.LayerNorm(4), (4,), "'encoder.act' is LayerNorm, .* (it divides by the spread of its input)"),
    (nn.GroupNorm(1, 3), IMAGE, "'encoder.act' is GroupNorm, .* (it divides by the spread of its input)"),
    (nn.InstanceNorm2d(3), IMAGE, "'encoder.act' is InstanceNorm2d, .* (it divides by the spread of its input)"),
    (nn.LocalResponseNorm(2), IMAGE, "'encoder.act' is LocalResponseNorm, .* (it divides by the spread"),
    (nn.Bilinear(4, 4, 2), (4,), "'encoder.act' is Bilinear, .* (it multiplies or divides by a value that itself dep"),
    (nn.MultiheadAttention(4, 1), (5, 4), "'encoder.act' is MultiheadAttention, "),
    (nn.TransformerEncoderLayer(4, 1), (5, 4), "'encoder.act' is TransformerEncoderLayer, "),
    (nn.Embedding(4, 4), (5,), "'encoder.act' is Embedding, .* (it takes integers, which have no slices)"),
    (nn.MaxPool2d(2, return_indices=True), IMAGE, "'encoder.act' is MaxPool2d, .* (the indices of a maximum jump"),
    (
        nn.AdaptiveMaxPool2d(2, return_indices=True),
        IMAGE,
        "'encoder.act' is AdaptiveMaxPool2d, .* (the indices of a max",
    ),
    (nn.LPPool2d(2, 2), IMAGE, "'encoder.act' is LPPool2d, which"),
]


@pytest.mark.parametrize(("layer", "shape", "sentence"), LAYERS, ids=lambda value: type(value).__name__)
def test_layers(layer: nn.Module, shape: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(NotPiecewiseAffine, match=pattern(sentence)) as caught:
        trace(Nested(layer), shape)
    assert "region_count() or local_complexity() for other networks." in str(caught.value)


def test_no_other_instrument_is_named_for_a_batch_norm_without_statistics() -> None:
    with pytest.raises(NotPiecewiseAffine, match=r"no running statistics.* Build it with track_running_stats=True\.$"):
        trace(Nested(nn.BatchNorm1d(4, track_running_stats=False)), (4,))


RECURRENT = [
    (nn.LSTM(4, 4), (5, 4), "'encoder.act' is LSTM, which is not piecewise affine (it multiplies values that depend"),
    (nn.GRUCell(4, 4), (4,), "'encoder.act' is GRUCell, which is not piecewise affine"),
    (nn.RNN(4, 4), (5, 4), "'encoder.act' is RNN, which is not piecewise affine"),
    (
        nn.RNN(4, 4, nonlinearity="relu"),
        (5, 4),
        "RNN, a fused recurrent layer of ReLU, for which there is no rule",
    ),
    (nn.RNNCell(4, 4, nonlinearity="relu"), (4,), "Write its steps out with torch functions"),
]


@pytest.mark.parametrize(("layer", "shape", "sentence"), RECURRENT)
def test_recurrent_layers(layer: nn.Module, shape: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(NotPiecewiseAffine, match=pattern(sentence)) as caught:
        trace(Nested(layer), shape)
    assert str(caught.value).endswith("Use region_count() for such networks.")


def pattern(sentence: str) -> str:
    """The sentence as a regular expression, in which ' .* ' alone is special."""
    return ".*".join(re.escape(part) for part in sentence.split(".*"))


NOT_AFFINE: dict[str, tuple[Callable[[Any, Tensor], Any], str]] = {
    "gelu": (lambda s, x: F.gelu(x), "'gelu' calls torch.nn.functional.gelu, which is not piecewise affine"),
    "tanh": (lambda s, x: x.tanh(), "'tanh' calls torch.Tensor.tanh, which is not piecewise affine"),
    "product": (lambda s, x: x * x, "'mul' calls torch.mul, .* (it multiplies or divides by a value that itself"),
    "quotient": (lambda s, x: 1 / x, "'truediv' calls .* (it multiplies or divides by a value that itself"),
    "matmul": (lambda s, x: x[:, None] @ x[:, :, None], "'matmul' calls torch.matmul, .* (it multiplies or divides"),
    "weights": (lambda s, x: F.linear(torch.ones(2, 4), x), "(it multiplies or divides by a value that itself depends"),
    "power": (lambda s, x: x**2, "'pow_1' calls torch.pow, which is not"),
    "pow": (lambda s, x: torch.pow(x, 2), "'pow_1' calls torch.pow, which is not"),
    "remainder": (lambda s, x: torch.remainder(x, 2), "'remainder' calls torch.remainder, .* (it jumps)"),
    "cast": (lambda s, x: x.to(torch.int64) * 0.5, "torch.Tensor.to, .* (it jumps: it casts to whole numbers)"),
    "cast by keyword": (lambda s, x: x.to(dtype=torch.bool) * 0.5, "(it jumps: it casts to whole numbers)"),
    "cast to a type": (lambda s, x: x.type(torch.LongTensor) * 0.5, "(it jumps: it casts to whole numbers)"),
    "cast by name": (lambda s, x: x.type("torch.IntTensor") * 0.5, "(it jumps: it casts to whole numbers)"),
    "cast like another": (lambda s, x: x.type_as(torch.tensor(1)) * 0.5, "(it jumps: it casts to whole numbers)"),
    "cast in a sum": (lambda s, x: x + x.sum(1, True, dtype=torch.int32), "(it jumps: it casts to whole numbers)"),
    "cast in a running sum": (lambda s, x: x.cumsum(1, dtype=torch.int32), "(it jumps: it casts to whole numbers)"),
    "complex": (lambda s, x: x.to(torch.complex64), "(it makes complex numbers)"),
    "norm": (lambda s, x: F.normalize(x), "'normalize' calls torch.nn.functional.normalize, which is not"),
    "comparison": (lambda s, x: (x > 0) * x, "'gt' calls torch.gt, which is not piecewise affine (it jumps)"),
    "where": (lambda s, x: torch.where(x, x, 0 * x), "(its condition depends on the input)"),
    "indices": (
        lambda s, x: x + x.max(1)[1],
        "'max_1' calls torch.Tensor.max, .* (the indices of a maximum jump; use its values alone)",
    ),
    "argmax": (lambda s, x: x.argmax(1), "'argmax' calls torch.Tensor.argmax, .* (it jumps)"),
    "dropout": (lambda s, x: F.dropout(x), "'dropout' calls .* (it is random here: pass training=self.training"),
    "noise": (lambda s, x: x + torch.randn_like(x), "'randn_like' calls torch.randn_like, .* (it is random)"),
    "normal_": (lambda s, x: x + x.clone().normal_(), "'normal' calls torch.Tensor.normal_, .* (it is random)"),
    "uniform_": (lambda s, x: x.clone().uniform_(-1, 1), "'uniform' calls torch.Tensor.uniform_, .* (it is random)"),
    "exponential_": (lambda s, x: (0 * x).exponential_(), "torch.Tensor.exponential_, .* (it is random)"),
    "new_empty": (lambda s, x: x + x.new_empty(4), "torch.Tensor.new_empty, .* (its values are whatever memory holds)"),
    "unknown": (lambda s, x: torch.fft.rfft(x), "for which there is no rule. Exact regions accept"),
    "sort": (lambda s, x: torch.sort(x, 1)[0], "'sort' calls torch.sort, for which there is no rule"),
    "out=": (lambda s, x: torch.add(x, 1, out=x), "with these arguments"),
}


@pytest.mark.parametrize("name", NOT_AFFINE)
def test_functions(name: str) -> None:
    function, sentence = NOT_AFFINE[name]
    with pytest.raises(NotPiecewiseAffine, match=pattern(sentence)):
        trace(Lambda(function), (4,))


def test_a_gate_names_its_module() -> None:
    with pytest.raises(NotPiecewiseAffine, match=r"'mul' in '1' \(Gate\) calls torch.mul, .* depends on the input"):
        trace(nn.Sequential(nn.Conv2d(3, 3, 3), Gate()), IMAGE)


def _stale(self: Lambda, x: Tensor) -> Tensor:
    h = x * 2
    F.relu(h[:, :2], inplace=True)
    return h


def _stale_copy(self: Lambda, x: Tensor) -> Tensor:
    h = x.view(-1, 2, 2).transpose(1, 2)
    return h.contiguous().add_(1) + h


def _stale_cast(self: Lambda, x: Tensor) -> Tensor:
    h = x * 2
    return h.double().relu_() + h


def _branch(self: Lambda, x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


def _assign(self: Lambda, x: Tensor) -> Tensor:
    h = x * 2
    h[:, 0] = 0
    return h


def _write_buffer(self: Lambda, x: Tensor) -> Tensor:
    self.p += x
    return self.p


def _write_constant(self: Lambda, x: Tensor) -> Tensor:
    h = torch.zeros(1, 4)
    h.add_(F.relu(x))
    return x + h


def _write_alias(self: Lambda, x: Tensor) -> Tensor:
    h = torch.zeros(1, 4)
    g = h
    h += F.relu(x)
    return h + 2 * g


def _write_view(self: Lambda, x: Tensor) -> Tensor:
    h = torch.zeros(1, 2, 4)
    h[:, 1].add_(F.relu(x))
    return x + h.sum(1)


UNTRACEABLE: dict[str, tuple[Callable[[Any, Tensor], Any], str]] = {
    "branch": (lambda s, x: x if x.mean(1) else -x, "the forward branches on the values of a tensor"),
    "item": (lambda s, x: x * float(x[:, 0]), "the forward reads a tensor's value as a Python number"),
    "numpy": (lambda s, x: x.numpy(), "the forward reads a tensor's value as a Python number"),
    "full": (lambda s, x: torch.full((4,), x), "argument 'fill_value' (position 2) must be Number"),
    "rows": (lambda s, x: sum(row for row in x), "the forward loops over the rows of a batch"),
    "assignment": (_assign, "the forward assigns into part of a tensor"),
    "stale view": (_stale, "after an in-place operation has changed its memory through another view"),
    "stale copy": (_stale_copy, "after an in-place operation has changed its memory through another view"),
    "stale cast": (_stale_cast, "after an in-place operation has changed its memory through another view"),
    "constant written": (_write_constant, "reads a tensor after an in-place operation has written values of the input"),
    "constant with two names": (_write_alias, "reads a tensor after an in-place operation has written values"),
    "constant written in part": (_write_view, "reads a tensor after an in-place operation has written values"),
    "buffer": (_write_buffer, "changes a parameter or buffer in place"),
    "batch mean": (lambda s, x: x - x.mean(0), "'mean' calls torch.Tensor.mean and works along the batch dimension"),
    "whole mean": (lambda s, x: x - x.mean(), "works along the batch dimension"),
    "flat": (lambda s, x: x.view(-1), "works along the batch dimension"),
    "merged": (lambda s, x: x.reshape(2, 2), "works along the batch dimension"),
    "flip rows": (lambda s, x: x.flip(0), "works along the batch dimension"),
    "one row": (lambda s, x: x[0], "works along the batch dimension"),
    "joined rows": (lambda s, x: torch.cat([x, x]), "works along the batch dimension"),
    "batch last": (lambda s, x: x.t(), "has the batch as dimension 1. Transpose it"),
    "gram": (lambda s, x: torch.ones(3, 1) @ x, "works along the batch dimension"),
    "batch sized": (lambda s, x: x + torch.ones(5, 4), "works along the batch dimension"),
    "noise": (lambda s, x: x + torch.randn(4), "draws random numbers in eval mode"),
    "tuple": (lambda s, x: (x, x), "returns a tuple of 2 values. Choose it with output=: an index from 0 to 1"),
    "dict": (
        lambda s, x: {"logits": x},
        "the module returns a dict of 1 value. Choose it with output=: one of 'logits'.",
    ),
    "list": (lambda s, x: [x], "the module returns a list of 1 value."),
    "none": (lambda s, x: None, "the module returns a value of type NoneType"),
    "constant": (lambda s, x: s.p * 2, "the module returns a tensor that does not depend on the input"),
    "typo": (lambda s, x: s.missing(x), "torch.fx cannot read the forward of Lambda: .* has no attribute 'missing'"),
}


@pytest.mark.parametrize("name", UNTRACEABLE)
def test_untraceable(name: str) -> None:
    function, sentence = UNTRACEABLE[name]
    with pytest.raises(UntraceableModel, match=pattern(sentence)):
        trace(Lambda(function, p=nn.Parameter(torch.ones(4))), (4,))


class Two(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class Optional(nn.Module):
    def forward(self, x: Tensor, scale: float = 2.0, *, features: bool = False) -> Tensor:
        return torch.relu(x) if features else torch.relu(x) * scale


def test_several_inputs() -> None:
    with pytest.raises(
        UntraceableModel, match=r"the forward of Two takes 2 inputs \(x, y\)\. Pass the others with args="
    ):
        trace(Two(), (4,))
    x = torch.randn(3, 4, dtype=torch.float64)
    assert torch.equal(trace(Optional(), (4,))(x), torch.relu(x) * 2)


def test_scripted_module() -> None:
    with warnings.catch_warnings():  # newer torch says that it is deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(nn.Linear(4, 2))
    with pytest.raises(UntraceableModel, match="TorchScript"):
        trace(scripted, (4,))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite(bad: float) -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU())
    nn.init.constant_(module[0].bias, bad)
    with pytest.raises(InputError, match=r"finite weights, got NaN or infinity in parameter '0\.bias'"):
        trace(module, (4,))
    nn.init.zeros_(module[0].bias)
    module[1].running_var.fill_(bad)
    with pytest.raises(InputError, match=r"finite weights, got NaN or infinity in buffer '1\.running_var'"):
        trace(module, (4,))
    module[1].running_var.fill_(-1)
    with pytest.raises(InputError, match="'1' is BatchNorm1d and uses one that holds NaN or infinity"):
        trace(module, (4,))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite(value: float) -> None:
    with pytest.raises(InputError, match="finite"):
        trace(Lambda(lambda s, x: x * value), (4,))
    with pytest.raises(InputError, match="finite"):
        trace(Lambda(lambda s, x: x / 0), (4,))


def test_weights_without_values() -> None:
    with pytest.raises(InputError, match=r"parameter 'weight' .* on the device meta, without values"):
        trace(nn.Linear(4, 2, device="meta"), (4,))


def test_weights_of_other_kinds() -> None:
    with pytest.raises(InputError, match="parameter 'weight' has no shape yet"):
        trace(nn.LazyLinear(3), (4,))
    with pytest.raises(InputError, match=r"parameter 'weight' .* complex numbers"):
        trace(nn.Linear(4, 3, dtype=torch.complex64), (4,))
    with pytest.raises(InputError, match=r"a torch\.nn\.Module, got function"):
        trace(torch.relu_ if False else (lambda x: x), (4,))
    with pytest.raises(InputError, match=r"dtype to be torch.float64 or torch.float32, got torch.float16"):
        trace(nn.Linear(4, 3), (4,), dtype=torch.float16)


@pytest.mark.parametrize("shape", [(), (0,), (3, -1), (2.5,), "ab", (True and 3.0,)])
def test_bad_input_shape(shape: Any) -> None:
    with pytest.raises(InputError, match="input_shape to be a tuple of positive integers"):
        trace(nn.Linear(4, 3), shape)


def test_shapes_that_do_not_fit() -> None:
    conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(
        InputError, match=r"'3' is Linear and cannot take a value of shape \(v, 144\), .* \(v, 3, 8, 8\)"
    ):
        trace(conv, (3, 8, 8))
    with pytest.raises(InputError, match=r"'0' is Conv2d and cannot take a value of shape \(v, 1, 6, 6\)"):
        trace(conv, (1, 6, 6))
    with pytest.raises(
        InputError, match=r"'0' is Conv2d .* without the batch axis, such as x\[0\] in place of x\[:1\]\.$"
    ):
        trace(nn.Sequential(nn.Conv2d(3, 2, 3)), (1, 3, 8, 8))
    with pytest.raises(InputError, match=r"'0' is Conv2d .* with the batch\. Add the missing axis: x\[None\]"):
        trace(conv, (6, 6))
    with pytest.raises(InputError, match=r"'0' is Conv2d .* larger than the image"):
        trace(conv, (3, 2, 2))
    with pytest.raises(InputError, match=r"fails on an input of shape \(v, 4\) with ValueError: expected 4D input"):
        trace(nn.Sequential(nn.BatchNorm2d(4)), (4,))
    with pytest.raises(
        InputError, match=r"'add' calls torch.add and cannot take a value of shape \(v, 3\) and \(v, 2\)"
    ):
        trace(Lambda(lambda s, x: x[:, :3] + x[:, :2]), (4,))


def test_inputs_that_do_not_fit() -> None:
    program = trace(nn.Linear(4, 3), (4,))
    with pytest.raises(InputError, match=r"inputs of shape \(v, 4\), got \(2, 5\)"):
        program.begin(torch.zeros(2, 5))
    with pytest.raises(InputError, match=r"inputs of shape \(v, 4\), got \(4,\)"):
        program(torch.zeros(4))
    with pytest.raises(InputError, match=r"floating-point inputs, got torch.int64"):
        program(torch.zeros(2, 4, dtype=torch.long))


def test_a_sparse_parameter_and_a_missing_output_are_sentences() -> None:
    module = nn.Linear(4, 3)
    module.weight = nn.Parameter(module.weight.detach().to_sparse())
    with pytest.raises(InputError, match=r"parameter 'weight' .* a sparse tensor .* Call to_dense"):
        trace(module, (4,))
    with pytest.raises(InputError, match=r"at least one output, got outputs of shape \(v, 0\)"):
        trace(Lambda(lambda self, x: x[:, :0]), (4,))


def test_padding_the_batch_is_refused_unless_it_adds_nothing() -> None:
    for widths in ((1, 1, 0, 1), (0, 0, 1, 0), (0, 0, 0, 0, 0, 0)):
        with pytest.raises(UntraceableModel, match="works along the batch dimension"):
            trace(Lambda(lambda self, x, widths=widths: F.pad(x, widths)), (4,))
    assert trace(Lambda(lambda self, x: F.pad(x, (1, 1, 0, 0))), (4,)).output_shape == (6,)


@pytest.mark.parametrize("act", [nn.Sigmoid(), nn.Tanh(), nn.LogSigmoid()], ids=lambda act: type(act).__name__)
def test_a_last_layer_that_keeps_the_order_may_be_left_off(act: nn.Module) -> None:
    with pytest.raises(NotPiecewiseAffine, match=r"leave it off: the order of the outputs stays the same, and sigmoid"):
        trace(nn.Sequential(nn.Linear(4, 3), act), (4,))
    x, y = torch.randn(2, 100)  # what the sentence says
    assert torch.equal(act(x) > act(y), x > y)
    assert torch.equal(torch.sigmoid(x) > 0.5, x > 0)
    assert torch.equal(torch.tanh(x) > 0, x > 0)


def test_a_last_log_softmax_may_be_left_off() -> None:
    with pytest.raises(NotPiecewiseAffine, match="leave it off: the predicted class stays the same"):
        trace(nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(-1)), (4,))


@pytest.mark.parametrize("function", [torch.isnan, torch.isinf, torch.isfinite], ids=lambda f: f.__name__)
def test_a_check_of_the_data(function: Callable[[Tensor], Tensor]) -> None:
    def checked(self: Lambda, x: Tensor) -> Tensor:
        if function(x).any():
            raise ValueError
        return F.relu(x)

    with pytest.raises(
        NotPiecewiseAffine, match=rf"without a check of the data, but '{function.__name__}' calls .* leave"
    ):
        trace(Lambda(checked), (4,))


def test_an_if_statement_gets_advice_that_is_accepted() -> None:
    with pytest.raises(UntraceableModel, match=r"write its branches with torch.relu, torch.maximum or torch.clamp, or"):
        trace(Lambda(_branch), (4,))
    trace(Lambda(lambda s, x: torch.maximum(x, -x) + torch.clamp(x, min=0) - torch.relu(x)), (4,))


@pytest.mark.parametrize("output", [None, 0])
def test_a_policy_of_stable_baselines(output: int | None) -> None:
    """Of a class that says it is theirs; their package is not among the tests' requirements."""

    class QNetwork(nn.Linear):
        pass

    class ActorCriticPolicy(nn.Linear):
        pass

    for kind in (QNetwork, ActorCriticPolicy):
        kind.__module__ = "stable_baselines3.common.policies"
    trace(QNetwork(4, 2), (4,))
    own = type("MyPolicy", (ActorCriticPolicy,), {})
    with pytest.raises(
        UntraceableModel, match=pattern("policy ActorCriticPolicy, which turns observations into actions")
    ):
        trace(own(4, 2), (4,), output=output)
