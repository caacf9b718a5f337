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

import make_network_table
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
    (nn.Hardshrink(), (4,), "'encoder.act' is Hardshrink, which is not piecewise affine (it jumps)"),
    (
        nn.Softmax(1),
        (4,),
        "'encoder.act' is Softmax, which is not piecewise affine. Exact regions accept .* leave it off",
    ),
    (nn.Threshold(0.1, 20.0), (4,), "'encoder.act' is Threshold, .* jumps from 20 to 0.1 at its threshold"),
    (nn.LayerNorm(4), (4,), "'encoder.act' is LayerNorm, .* (it divides by the spread of its input)"),
    (nn.LocalResponseNorm(2), IMAGE, "'encoder.act' is LocalResponseNorm, .* (it divides by the spread"),
    (nn.Bilinear(4, 4, 2), (4,), "'encoder.act' is Bilinear, .* (it multiplies or divides by a value that itself dep"),
    (nn.MultiheadAttention(4, 1), (5, 4), "'encoder.act' is MultiheadAttention, "),
    (nn.Embedding(4, 4), (5,), "'encoder.act' is Embedding, .* (it takes integers, which have no slices)"),
    (nn.MaxPool2d(2, return_indices=True), IMAGE, "'encoder.act' is MaxPool2d, .* (the indices of a maximum jump"),
    (Gate(), IMAGE, "'mul' in 'encoder.act' (Gate) calls torch.mul, .* depends on the input"),
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
    (nn.RNN(4, 4), (5, 4), "'encoder.act' is RNN, which is not piecewise affine"),
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
    "product": (lambda s, x: x * x, "'mul' calls torch.mul, .* (it multiplies or divides by a value that itself"),
    "quotient": (lambda s, x: 1 / x, "'truediv' calls .* (it multiplies or divides by a value that itself"),
    "weights": (lambda s, x: F.linear(torch.ones(2, 4), x), "(it multiplies or divides by a value that itself depends"),
    "power": (lambda s, x: x**2, "'pow_1' calls torch.pow, which is not"),
    "cast": (lambda s, x: x.to(torch.int64) * 0.5, "torch.Tensor.to, .* (it jumps: it casts to whole numbers)"),
    "cast by keyword": (lambda s, x: x.to(dtype=torch.bool) * 0.5, "(it jumps: it casts to whole numbers)"),
    "cast to a type": (lambda s, x: x.type(torch.LongTensor) * 0.5, "(it jumps: it casts to whole numbers)"),
    "cast like another": (lambda s, x: x.type_as(torch.tensor(1)) * 0.5, "(it jumps: it casts to whole numbers)"),
    "complex": (lambda s, x: x.to(torch.complex64), "(it makes complex numbers)"),
    "norm": (lambda s, x: F.normalize(x), "'normalize' calls torch.nn.functional.normalize, which is not"),
    "comparison": (lambda s, x: (x > 0) * 1.0, "'gt' calls torch.gt, which is not piecewise affine (it jumps)"),
    "equality": (lambda s, x: (x == 0) * x, "'eq' calls torch.eq, which is not piecewise affine (it jumps)"),
    "mask as an index": (lambda s, x: x[x > 0], "'gt' calls torch.gt, .* (it jumps)"),
    "sides apart": (
        lambda s, x: torch.where(x > 1, x, 0 * x),
        "'where' calls torch.where, .* (it jumps: its two sides do",
    ),
    "gate of another value": (
        lambda s, x: x * (x.flip(1) > 0),
        "'mul' calls torch.mul, .* do not meet where the compar",
    ),
    "two comparisons": (
        lambda s, x: x * ((x > 0) & (x.flip(1) < 1)),
        "(it jumps: it combines comparisons of different values)",
    ),
    "sign": (lambda s, x: x.sign() + x, "calls torch.add, .* (it jumps: its two sides do not meet"),
    "unsorted": (lambda s, x: x.topk(2, sorted=False)[0], "(the order of its values is open; pass sorted=True)"),
    "order of a norm": (
        lambda s, x: x.norm(p=3, dim=1, keepdim=True),
        "(its order is 3; orders 1 and infinity are acc",
    ),
    "complex numbers": (
        lambda s, x: torch.fft.rfft(x).abs(),
        "torch.fft.rfft, .* (it makes complex numbers; their real and",
    ),
    "where": (lambda s, x: torch.where(x, x, 0 * x), "(its condition depends on the input)"),
    "indices": (
        lambda s, x: x + x.max(1)[1],
        "'max_1' calls torch.Tensor.max, .* (the indices of a maximum jump; use its values alone)",
    ),
    "argmax": (lambda s, x: x.argmax(1), "'argmax' calls torch.Tensor.argmax, .* (it jumps)"),
    "dropout": (lambda s, x: F.dropout(x), "'dropout' calls .* (it is random here: pass training=self.training"),
    "normal_": (lambda s, x: x + x.clone().normal_(), "'normal' calls torch.Tensor.normal_, .* (it is random)"),
    "new_empty": (lambda s, x: x + x.new_empty(4), "torch.Tensor.new_empty, .* (its values are whatever memory holds)"),
    "unknown": (
        lambda s, x: torch.fft.ihfft(x),
        "torch.fft.ihfft in line .* of test_refusals.py (<lambda>), for which there is no rule. Exact regions accept",
    ),
    "sort": (lambda s, x: x + torch.sort(x, 1)[1], "'sort' calls torch.sort, .* (the indices of a maximum jump"),
    "out=": (lambda s, x: torch.add(x, 1, out=x), "with these arguments"),
}


@pytest.mark.parametrize("name", NOT_AFFINE)
def test_functions(name: str) -> None:
    function, sentence = NOT_AFFINE[name]
    with pytest.raises(NotPiecewiseAffine, match=pattern(sentence)):
        trace(Lambda(function), (4,))


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
    "flat": (lambda s, x: x.view(-1), "works along the batch dimension"),
    "one row": (lambda s, x: x[0], "works along the batch dimension"),
    "batch last": (lambda s, x: x.t(), "has the batch as dimension 1. Transpose it"),
    "gram": (lambda s, x: torch.ones(3, 1) @ x, "works along the batch dimension"),
    "batch sized": (lambda s, x: x + torch.ones(5, 4), "works along the batch dimension"),
    "noise": (lambda s, x: x + torch.randn(4), "draws random numbers in eval mode"),
    "tuple": (lambda s, x: (x, x), "returns a tuple of 2 values. Choose it with output=: an index from 0 to 1"),
    "dict": (
        lambda s, x: {"logits": x},
        "the module returns a dict of 1 value. Choose it with output=: one of 'logits'.",
    ),
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
        trace(nn.Sequential(scripted), (4,))


def _with(module: nn.Module, name: str, value: Tensor) -> nn.Module:
    """The module with another value of a parameter or buffer."""
    owner, _, last = name.rpartition(".")
    holder = module.get_submodule(owner)
    setattr(holder, last, nn.Parameter(value) if last in holder._parameters else value)
    return module


def _normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU())


def _images() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))


SHAPE = "input_shape to be a tuple of positive integers"
BAD_INPUT: list[tuple[Any, Any, str]] = [
    (_with(_normed(), "0.bias", torch.full((3,), math.nan)), (4,), r"NaN or infinity in parameter '0\.bias'"),
    (_with(_normed(), "1.running_var", torch.full((3,), math.inf)), (4,), r"infinity in buffer '1\.running_var'"),
    (_with(_normed(), "1.running_var", -torch.ones(3)), (4,), "'1' is BatchNorm1d and uses one that holds NaN or inf"),
    (_with(nn.Linear(4, 3), "weight", torch.ones(3, 4).to_sparse()), (4,), "a sparse tensor .* Call to_dense"),
    (Lambda(lambda s, x: x * math.inf), (4,), "finite"),
    (Lambda(lambda s, x: x / 0), (4,), "finite"),
    (nn.Linear(4, 2, device="meta"), (4,), r"parameter 'weight' .* on the device meta, without values"),
    (nn.LazyLinear(3), (4,), "parameter 'weight' has no shape yet"),
    (nn.Linear(4, 3, dtype=torch.complex64), (4,), r"parameter 'weight' .* complex numbers"),
    (lambda x: x, (4,), r"a torch\.nn\.Module, got function"),
    *((nn.Linear(4, 3), shape, SHAPE) for shape in ((), (0,), (3, -1), (2.5,), "ab")),
    (_images(), (3, 8, 8), r"'3' is Linear and cannot take a value of shape \(v, 144\), .* \(v, 3, 8, 8\)"),
    (_images(), (1, 3, 8, 8), r"'0' is Conv2d .* without the batch axis, such as x\[0\] in place of x\[:1\]\.$"),
    (_images(), (1, 6, 6), r"'0' is Conv2d and cannot take a value of shape \(v, 1, 6, 6\)"),
    (_images(), (6, 6), r"'0' is Conv2d .* with the batch\. Add the missing axis: x\[None\]"),
    (_images(), (3, 2, 2), r"'0' is Conv2d .* larger than the image"),
    (nn.BatchNorm2d(4), (4,), r"fails on an input of shape \(v, 4\) with ValueError: expected 4D input"),
    (Lambda(lambda s, x: x[:, :3] + x[:, :2]), (4,), r"'add' calls torch.add and cannot take .* \(v, 3\) and \(v, 2\)"),
    (Lambda(lambda s, x: x[:, :0]), (4,), r"at least one output, got outputs of shape \(v, 0\)"),
]


@pytest.mark.parametrize(("module", "shape", "sentence"), BAD_INPUT)
def test_weights_and_shapes(module: Any, shape: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        trace(module, shape)


def test_inputs_that_do_not_fit() -> None:
    program = trace(nn.Linear(4, 3), (4,))
    with pytest.raises(InputError, match=r"inputs of shape \(v, 4\), got \(2, 5\)"):
        program.begin(torch.zeros(2, 5))
    with pytest.raises(InputError, match=r"inputs of shape \(v, 4\), got \(4,\)"):
        program(torch.zeros(4))
    with pytest.raises(InputError, match=r"floating-point inputs, got torch.int64"):
        program(torch.zeros(2, 4, dtype=torch.long))
    with pytest.raises(InputError, match=r"dtype to be torch.float64 or torch.float32, got torch.float16"):
        trace(nn.Linear(4, 3), (4,), dtype=torch.float16)


def test_padding_the_batch_is_refused_unless_it_adds_nothing() -> None:
    for widths in ((1, 1, 0, 1), (0, 0, 1, 0), (0, 0, 0, 0, 0, 0)):
        with pytest.raises(UntraceableModel, match="works along the batch dimension"):
            trace(Lambda(lambda self, x, widths=widths: F.pad(x, widths)), (4,))
    assert trace(Lambda(lambda self, x: F.pad(x, (1, 1, 0, 0))), (4,)).output_shape == (6,)


def test_a_last_layer_that_keeps_the_order_may_be_left_off() -> None:
    x, y = torch.randn(2, 100)
    for act in (nn.Sigmoid(), nn.Tanh(), nn.LogSigmoid()):
        with pytest.raises(NotPiecewiseAffine, match="leave it off: the order of the outputs stays the same, and sigm"):
            trace(nn.Sequential(nn.Linear(4, 3), act), (4,))
        assert torch.equal(act(x) > act(y), x > y)  # what the sentence says
    assert torch.equal(torch.sigmoid(x) > 0.5, x > 0)
    assert torch.equal(torch.tanh(x) > 0, x > 0)
    with pytest.raises(NotPiecewiseAffine, match="leave it off: the predicted class stays the same"):
        trace(nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(-1)), (4,))


def test_the_page_of_networks_has_the_table_of_the_rules() -> None:
    page = make_network_table.PAGE.read_text(encoding="utf-8")
    assert make_network_table.with_table(page) == page, "run: python tools/make_network_table.py"


def test_a_check_of_the_data() -> None:
    def checked(self: Lambda, x: Tensor) -> Tensor:
        if torch.isnan(x).any():
            raise ValueError
        return F.relu(x)

    with pytest.raises(NotPiecewiseAffine, match=r"without a check of the data, but 'isnan' calls .* leave"):
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
