"""Rules for smooth functions, and for layers composed of them. Only ``trace_smooth`` reads these.

A smooth function is recorded as its ``Curve``. LayerNorm, GroupNorm, RMSNorm, softmax and attention are composed of
squares, reciprocals, reciprocal square roots, exponentials and products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regionscope.network import curves
from regionscope.network.curves import Curve, Product
from regionscope.network.operations import Fixed, Smooth
from regionscope.network.record import RULES, SMOOTH_RULES, Call, Data, rule
from regionscope.network.rules.arithmetic import same_layout
from regionscope.network.rules.layers import _dropout

_PAIRWISE_SOFTMAX = (
    32  # entries: below, the softmax is taken from differences of its inputs, which bounds it more tightly
)

smooth = partial(rule, table=SMOOTH_RULES)


def _bend(call: Call, x: Data, curve: Curve) -> Data:
    return call.record(Smooth(function=curve), x, shape=x.shape)


def _plain(name: str, curve: Curve) -> None:
    @smooth(name, any_axis=True)
    def _run(call: Call, x: Data, inplace: bool = False) -> Data:
        return _bend(call, x, curve)


for _name, _curve in {
    "silu": curves.SILU,
    "mish": curves.MISH,
    "selu": curves.SELU,
    "sigmoid": curves.SIGMOID,
    "tanh": curves.TANH,
    "softsign": curves.SOFTSIGN,
    "hardswish": curves.HARDSWISH,
    "sin": curves.SINE,
    "cos": curves.COSINE,
    "exp": curves.EXP,
    "square": curves.SQUARE,
    "sqrt": curves.SQRT,
    "rsqrt": curves.RSQRT,
    "reciprocal": curves.RECIPROCAL,
    "log": curves.LOG,
    "erf": curves.ERF,
    "logsigmoid": curves.LOGSIGMOID,
    "log_sigmoid": curves.LOGSIGMOID,
    "tanhshrink": curves.TANHSHRINK,
}.items():
    _plain(_name, _curve)


@smooth("gelu", any_axis=True)
def _gelu(call: Call, x: Data, approximate: str = "none") -> Data:
    return _bend(call, x, curves.GELU if approximate == "none" else curves.GELU_TANH)


@smooth("softplus", any_axis=True)
def _softplus(call: Call, x: Data, beta: float = 1.0, threshold: float = 20.0) -> Data:
    return _bend(call, x, curves.softplus(call.number(beta), call.number(threshold)))


@smooth("elu", any_axis=True)
def _elu(call: Call, x: Data, alpha: float = 1.0, inplace: bool = False) -> Data:
    return _bend(call, x, curves.elu(call.number(alpha)))


@smooth("celu", any_axis=True)
def _celu(call: Call, x: Data, alpha: float = 1.0, inplace: bool = False) -> Data:
    return _bend(call, x, curves.celu(call.number(alpha)))


@smooth("pow", "__pow__", any_axis=True)
def _pow(call: Call, x: Data, exponent: Any) -> Data:
    number = call.number(exponent)
    if number == 1:
        return x
    if number in (0.5, -0.5, -1):
        return _bend(call, x, {0.5: curves.SQRT, -0.5: curves.RSQRT, -1.0: curves.RECIPROCAL}[number])
    if not number.is_integer() or number < 2:
        call.refuse("its exponent is neither a positive integer nor 0.5, -0.5 or -1")
    return _bend(call, x, curves.SQUARE if number == 2 else curves.power(int(number)))


# products of two values that depend on the input


def _product(call: Call, a: Data, b: Data, function: Callable[..., Tensor]) -> Data:
    return call.record(Smooth(function=Product(function)), a, b)


@smooth("mul", "multiply", "__mul__", "__rmul__", "__imul__", data=("a", "b"), any_axis=True)
def _mul(call: Call, a: Any, b: Any) -> Any:
    if not (isinstance(a, Data) and isinstance(b, Data)):
        return RULES["mul"].function(call, a, b)
    if a is b:
        return _bend(call, a, curves.SQUARE)
    same_layout(call, a, b)
    return _product(call, a, b, torch.mul)


@smooth("div", "divide", "true_divide", "truediv", "__truediv__", "__itruediv__", data=("a", "b"), any_axis=True)
def _div(call: Call, a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    if not isinstance(b, Data) or rounding_mode is not None:
        return RULES["div"].function(call, a, b, rounding_mode=rounding_mode)
    return _mul(call, a, _bend(call, b, curves.RECIPROCAL))


@smooth("matmul", "bmm", "__matmul__", "__rmatmul__", data=("a", "b"))
def _matmul(call: Call, a: Any, b: Any) -> Any:
    if not (isinstance(a, Data) and isinstance(b, Data)):
        return RULES["matmul"].function(call, a, b)
    if a.ndim != b.ndim or a.ndim < 3:
        call.refuse_row_mixing()
    return _product(call, a, b, torch.matmul)


# layers composed of the above


def _normalized(call: Call, x: Data, dims: list[int], eps: float, *, centered: bool) -> Data:
    """x / sqrt(mean(x^2) + eps) along dimensions of a row; x - mean(x) in place of x if ``centered``."""
    if centered:
        x = call.affine(Fixed(_without_mean, (dims,)), x, shape=x.shape)
    spread = call.affine(Fixed(torch.mean, (dims, True)), _bend(call, x, curves.SQUARE))
    spread = call.affine(Fixed(torch.add, (eps,)), spread)
    return _product(call, x, _bend(call, spread, curves.at_least(curves.RSQRT, eps)), torch.mul)


def _without_mean(x: Tensor, dims: list[int]) -> Tensor:
    return x - x.mean(dims, keepdim=True)


def _scaled(call: Call, x: Data, weight: Tensor | None, bias: Tensor | None, shape: tuple[int, ...] | None) -> Data:
    for constant, name in ((weight, "mul"), (bias, "add")):
        if constant is not None:
            x = RULES[name].function(call, x, constant if shape is None else constant.reshape(shape))
    return x


@smooth("layer_norm")
def _layer_norm(
    call: Call, x: Data, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Data:  # fmt: skip
    count = len(tuple(normalized_shape)) if isinstance(normalized_shape, list | tuple | torch.Size) else 1
    dims = list(range(x.ndim - count, x.ndim))
    return _scaled(call, _normalized(call, x, dims, call.number(eps), centered=True), weight, bias, None)


@smooth("rms_norm")
def _rms_norm(
    call: Call, x: Data, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Data:
    dims = list(range(x.ndim - len(tuple(normalized_shape)), x.ndim))
    small = torch.finfo(call.recorder.model_dtype).eps if eps is None else call.number(eps)
    return _scaled(call, _normalized(call, x, dims, small, centered=False), weight, None, None)


@smooth("group_norm")
def _group_norm(
    call: Call, x: Data, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Data:  # fmt: skip
    channels, *rest = x.shape
    groups = call.affine(Fixed(_reshaped, ((num_groups, channels // num_groups, *rest),)), x)
    even = _normalized(call, groups, list(range(2, groups.ndim)), call.number(eps), centered=True)
    back = call.affine(Fixed(_reshaped, (x.shape,)), even)
    return _scaled(call, back, weight, bias, (channels, *[1] * len(rest)))


def _reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x.reshape(len(x), *shape)


@smooth("softmax")
def _softmax(call: Call, x: Data, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Data:
    call.check_real_dtype(dtype)
    if dim is None:
        call.refuse("its dimension is not given")
    axis = call.row_dim(x, dim) + 1
    n = x.shape[axis - 1]
    if n <= _PAIRWISE_SOFTMAX:
        differences = call.affine(Fixed(_differences, (axis,)), x)
        total = call.affine(Fixed(torch.sum, (axis,)), _bend(call, differences, curves.EXP))
        return _bend(call, total, curves.at_least(curves.RECIPROCAL, 1.0))  # one of the summands is exp(0)
    powers = _bend(call, call.affine(Fixed(_without_mean, ([axis],)), x, shape=x.shape), curves.EXP)
    total = call.affine(Fixed(torch.sum, ([axis], True)), powers)
    return _product(call, powers, _bend(call, total, curves.RECIPROCAL), torch.mul)


def _differences(x: Tensor, axis: int) -> Tensor:
    """x_j - x_i at [..., j, i, ...]."""
    return x.unsqueeze(axis + 1) - x.unsqueeze(axis)


@smooth("scaled_dot_product_attention", data=("query", "key", "value"))
def _attention(
    call: Call, query: Any, key: Any, value: Any, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if attn_mask is not None or is_causal or enable_gqa:
        call.refuse("it has a mask or shares heads")
    if dropout_p:
        _dropout(call, query, dropout_p)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else call.number(scale)
    flipped = call.affine(Fixed(torch.transpose, (-2, -1)), key)
    scores = call.affine(Fixed(torch.mul, (factor,)), _matmul(call, query, flipped))
    return _matmul(call, _softmax(call, scores, -1), value)
