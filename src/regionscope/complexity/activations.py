"""Which torch functions have a fold or a zero, and where.

A function is known by its name, so that ``F.relu``, ``torch.relu``, ``x.relu()``, ``torch.relu_`` and ``nn.ReLU``
(which calls one of them) are the same to us. Activations with pieces come from the table in ``network/activations``;
smooth ones are listed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regionscope.network.activations import ACTIVATIONS, thresholds


@dataclass(frozen=True)
class Folds:
    """The pre-activations ``values``, each of which folds (or vanishes) at every number in ``at``."""

    values: Tensor
    at: tuple[float, ...]


# Folds where there are folds; for smooth functions the zero of the pre-activation, as in Humayun et al. 2023. A GELU
# written out calls erf, erfc or ndtr of ±x or x / sqrt(2), or tanh of a polynomial that has the sign of x: once each.
# Left out: sin and cos, which have many zeros and mostly encode positions; sign, which would count a second time beside
# abs; exp, which is also a part of a softmax.
_AT_ZERO = (
    *("elu", "selu", "celu", "gelu", "silu", "mish", "softplus"),
    *("tanh", "sigmoid", "special_expit", "logsigmoid", "log_sigmoid", "softsign", "tanhshrink"),
    *("erf", "erfc", "special_erf", "special_erfc", "special_ndtr", "atan", "arctan", "asinh", "arcsinh"),
)
_FIXED: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(_AT_ZERO, (0.0,)),
    "hardswish": (-3.0, 3.0),
}

# Operations whose outputs are units when an activation follows, and that "linear_outputs" counts when none does.
LINEAR: dict[str, type[torch.nn.Module]] = {
    "linear": torch.nn.Linear,
    "conv1d": torch.nn.Conv1d,
    "conv2d": torch.nn.Conv2d,
    "conv3d": torch.nn.Conv3d,
    "conv_transpose1d": torch.nn.ConvTranspose1d,
    "conv_transpose2d": torch.nn.ConvTranspose2d,
    "conv_transpose3d": torch.nn.ConvTranspose3d,
}

_POOLS: dict[str, Callable[..., Any]] = {
    "max_pool1d": functional.max_pool1d_with_indices,
    "max_pool2d": functional.max_pool2d_with_indices,
    "max_pool3d": functional.max_pool3d_with_indices,
    "adaptive_max_pool1d": functional.adaptive_max_pool1d_with_indices,
    "adaptive_max_pool2d": functional.adaptive_max_pool2d_with_indices,
    "adaptive_max_pool3d": functional.adaptive_max_pool3d_with_indices,
}
MAX_POOLS = {**_POOLS, **{f"{name}_with_indices": pool for name, pool in _POOLS.items()}}

# Attention and normalisation have no fold. What counts as a fold of theirs is stated in ``attention_winners`` and
# ``normalised``; they are counted only where the user asks for it.
ATTENTION = ("scaled_dot_product_attention", "multi_head_attention_forward", "softmax")
NORMS = ("layer_norm", "rms_norm")


def operation(function: Callable[..., Any]) -> str:
    """The name of a torch function; ``relu_`` works in place and is ``relu`` all the same.

    >>> operation(torch.relu_), operation(torch.Tensor.relu), operation(functional.relu)
    ('relu', 'relu', 'relu')
    """
    name = str(getattr(function, "__name__", ""))
    return name if name.startswith("__") else name.rstrip("_")


def argument(args: Sequence[Any], kwargs: Mapping[str, Any], index: int, *names: str, default: Any = None) -> Any:
    """The argument at position ``index``, or under one of its names."""
    if len(args) > index:
        return args[index]
    return next((kwargs[name] for name in names if name in kwargs), default)


def folds(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    """The pre-activations that this call receives and where they fold; None when the call is not an activation."""
    if op in _FIXED:
        return _folds(argument(args, kwargs, 0, "input", "self"), _FIXED[op])
    if op in ACTIVATIONS:
        options = {name: value for name, value in kwargs.items() if name not in ("input", "self")}
        return _folds(argument(args, kwargs, 0, "input", "self"), thresholds(op, *args[1:], **options))
    return _WITH_ARGUMENTS[op](args, kwargs) if op in _WITH_ARGUMENTS else None


def winners(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """Which entry is the largest in each window of a max-pooling call: indices with the shape of its output."""
    options = {name: value for name, value in kwargs.items() if name not in ("return_indices", "input")}
    value = argument(args, kwargs, 0, "input")
    indices: Tensor = MAX_POOLS[op](value, *args[1:], **options, return_indices=True)[1]
    return indices


def attention_winners(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """Which key has the largest weight for each query: (b, queries, heads), or with fewer axes where a softmax has.

    A row of attention folds where this key changes, as a window of max-pooling does where its largest entry changes.
    """
    return for_each_head(_largest, func, args, kwargs)


def attention_rows(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """Some number for each row of attention, in the shape of ``attention_winners``, which takes longer."""
    if operation(func) != "scaled_dot_product_attention":
        return for_each_head(lambda scores: scores[..., 0], func, args, kwargs)
    query: Tensor = argument(args, kwargs, 0, "query")
    key: Tensor = argument(args, kwargs, 1, "key")
    rows: Tensor
    if _in_one_product(query, key):
        rows, _ = torch.broadcast_tensors(query[..., 0], key[..., :1, 0])
        return rows
    heads = max(query.shape[-3], key.shape[-3])
    queries, keys = (_heads(values, range(heads), heads)[..., 0] for values in (query, key))
    rows, _ = torch.broadcast_tensors(queries, keys[..., :1])
    return rows.movedim(-1, 1)


def for_each_head(
    reduce: Callable[[Tensor], Tensor], func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Tensor:
    """(b, queries, heads), where ``reduce`` makes (b, queries) of the scores (b, queries, keys) of a head.

    The largest score belongs to the largest weight. Heads that torch computes together come in one call, as
    (b, heads, queries, keys).
    """
    op = operation(func)
    if op == "softmax":
        dim = argument(args, kwargs, 1, "dim", default=-1)
        counts = reduce(argument(args, kwargs, 0, "input", "self").movedim(dim, -1))
    elif op == "multi_head_attention_forward":
        named = {**dict(zip(_MHA, args[15:], strict=False)), **kwargs, "need_weights": True}
        counts = reduce(func(*args[:15], **{**named, "average_attn_weights": False})[1])
    else:
        return _dot_products(reduce, args, kwargs)
    return counts.movedim(-1, 1) if counts.ndim > 2 else counts


def scale_to_weights(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> float | None:
    """The number by which the scores that ``for_each_head`` passes on are the logits of the weights of attention.

    None where attention is not softmax(scale · scores) @ value for each head (a mask, dropout, shared heads), or torch
    computes it faster than from scores that are known (in half precision and on a GPU) or returns it in another layout
    (values that are wider than keys).
    """
    if operation(func) != "scaled_dot_product_attention" or kwargs.get("enable_gqa"):
        return None
    query, key, value = (argument(args, kwargs, index, name) for index, name in enumerate(("query", "key", "value")))
    if argument(args, kwargs, 3, "attn_mask") is not None or argument(args, kwargs, 4, "dropout_p", default=0.0):
        return None
    alike = query.ndim == 4 and query.shape[:2] == key.shape[:2] and key.shape == value.shape
    if not alike or query.device.type != "cpu" or query.dtype not in (torch.float32, torch.float64):
        return None
    scale = _scale(query, args, kwargs)
    return scale if scale > 0 else None


def _scale(query: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]) -> float:
    """What scaled dot-product attention multiplies the products of queries and keys by."""
    given: float | None = argument(args, kwargs, 6, "scale")
    return float(query.shape[-1]) ** -0.5 if given is None else given


def normalised(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Tensor]:
    """The output of a normalisation, and what it divides by the spread: x minus its mean for LayerNorm, x for RMSNorm.

    An entry of a normalisation folds where this changes sign: its output has the same sign before scale and shift.
    """
    values: Tensor = argument(args, kwargs, 0, "input")
    if operation(func) != "layer_norm":
        return func(*args, **kwargs), values
    shape, eps = argument(args, kwargs, 1, "normalized_shape"), argument(args, kwargs, 4, "eps", default=1e-5)
    weight, bias = argument(args, kwargs, 2, "weight"), argument(args, kwargs, 3, "bias")
    output, mean, _ = torch.native_layer_norm(values, shape, weight, bias, eps)
    return output, values - mean


# Arguments of multi_head_attention_forward after the first 15.
_MHA: tuple[str, ...] = (
    "need_weights",
    "attn_mask",
    "use_separate_proj_weight",
    "q_proj_weight",
    "k_proj_weight",
    "v_proj_weight",
)
_MHA += ("static_k", "static_v", "average_attn_weights", "is_causal")


def _dot_products(reduce: Callable[[Tensor], Tensor], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """``for_each_head`` of scaled dot-product attention, with as many heads at a time as take no more memory than the
    queries.
    """
    query, key = argument(args, kwargs, 0, "query"), argument(args, kwargs, 1, "key")
    scale, mask = _scale(query, args, kwargs), argument(args, kwargs, 3, "attn_mask")
    same_order = mask is None or mask.dtype == torch.bool
    if scale > 0 and query.element_size() > 2 and same_order:
        scale = 1.0  # the order of the scores is the same, up to rounding
    if argument(args, kwargs, 5, "is_causal", default=False):
        mask = query.new_full((query.shape[-2], key.shape[-2]), -torch.inf).triu_(1)
    elif mask is not None and mask.dtype == torch.bool:
        mask = query.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)

    def reduced(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        # On a CPU, MKL multiplies by columns that lie in rows three times as fast, which is worth the copy.
        scores = query @ (key.mT.contiguous() if key.device.type == "cpu" else key.mT)
        scores = scores if scale == 1.0 else scores.mul_(scale)
        return reduce(scores if mask is None else scores.add_(mask))

    if _in_one_product(query, key):
        return reduced(query, key, mask)
    heads = max(query.shape[-3], key.shape[-3])
    step = max(1, heads * query.shape[-1] // max(1, key.shape[-2]))
    parts = [range(start, min(start + step, heads)) for start in range(0, heads, step)]
    products = [reduced(*(_heads(values, part, heads) for values in (query, key, mask))) for part in parts]
    return (products[0] if len(products) == 1 else torch.cat(products, -2)).movedim(-1, 1)


def _in_one_product(query: Tensor, key: Tensor) -> bool:
    """Whether queries and keys have no axis of heads, so that one product does. Learnt queries may have no batch."""
    return query.ndim < 4 and key.ndim < 4


def _heads(values: Any, part: range, heads: int) -> Any:
    """(..., rows, columns) of some heads, which may share them."""
    if values is None or values.ndim < 3 or values.shape[-3] == 1:
        return values
    if values.shape[-3] == heads:
        return values[..., part.start : part.stop, :, :]
    return values[..., [i * values.shape[-3] // heads for i in part], :, :]


def _largest(values: Tensor) -> Tensor:
    """The place of the first of the largest entries along the last axis."""
    array = fast_array(values)
    return values.argmax(-1) if array is None else torch.from_numpy(np.asarray(array.argmax(-1)))


def fast_array(values: Tensor) -> np.ndarray[Any, Any] | None:
    """The same memory as a NumPy array on a CPU, where NumPy's reductions are faster than torch's; else None."""
    known = values.dtype in (torch.float32, torch.float64, torch.int64)
    return values.detach().numpy() if known and values.device.type == "cpu" else None


def _folds(values: Any, places: Sequence[Any]) -> Folds | None:
    numbers = tuple(float(t) for t in places if isinstance(t, int | float) and math.isfinite(t))
    return Folds(values, numbers) if isinstance(values, Tensor) and numbers else None


def _clamp(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    values = argument(args, kwargs, 0, "input")
    return _folds_at_bounds(values, argument(args, kwargs, 1, "min"), argument(args, kwargs, 2, "max"))


def _clamp_on_one_side(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    return _folds_at_bounds(argument(args, kwargs, 0, "input"), argument(args, kwargs, 1, "min", "max"))


def _folds_at_bounds(values: Tensor, *bounds: Any) -> Folds | None:
    """bounds: numbers or tensors, or None for no bound."""
    given = [bound for bound in bounds if bound is not None]
    if any(isinstance(bound, Tensor) for bound in given):  # every unit has its own
        return _folds(torch.stack(torch.broadcast_tensors(*(values - bound for bound in given)), -1), (0.0,))
    return _folds(values, given)


def _glu(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    """a * sigmoid(b): the gate b is what has a zero."""
    values = argument(args, kwargs, 0, "input")
    return _folds(values.chunk(2, dim=argument(args, kwargs, 1, "dim", default=-1))[1], (0.0,))


def _larger(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    """max(a, b) and min(a, b) fold where a = b."""
    first, second = argument(args, kwargs, 0, "input"), argument(args, kwargs, 1, "other")
    return _folds(first - second, (0.0,)) if isinstance(first, Tensor) and isinstance(second, Tensor) else None


_WITH_ARGUMENTS: dict[str, Callable[[Sequence[Any], Mapping[str, Any]], Folds | None]] = {
    "clamp": _clamp,
    "clip": _clamp,
    "clamp_min": _clamp_on_one_side,
    "clamp_max": _clamp_on_one_side,
    "glu": _glu,
    "maximum": _larger,
    "minimum": _larger,
    "fmax": _larger,
    "fmin": _larger,
    "max": _larger,
    "min": _larger,
}

# For messages: what is counted, and what bends or folds its argument and is not counted.
COUNTED = (
    "ReLU and its family, ELU, SELU, CELU, GELU, SiLU, Mish, softplus, tanh, sigmoid, softsign, erf, atan, asinh, abs, "
    "hard and shrinking activations, clamp, threshold, glu, and the maximum or minimum of two tensors"
)
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
_NOT_COUNTED = (
    *("sin", "cos", "tan", "sinc", "exp", "expm1", "pow", "square", "sqrt", "log", "log1p", "reciprocal"),
    *("sign", "heaviside", "where", "gt", "ge", "lt", "le", "masked_fill", "amax", "amin"),
    *_RECURRENT,
)


def nothing_to_count(called: Collection[str], more: str) -> str:
    """The sentences for a forward pass without activations. called: its functions. more: what options would add."""
    others = [name for name in _NOT_COUNTED if name in called]
    reason = f"only {', '.join(others)}, which {'are' if len(others) > 1 else 'is'} not counted" if others else "none"
    fused = [name for name in others if name in _RECURRENT]
    advice = "Write the fused recurrent cell with torch functions, or use" if fused else "Use one of these, or"
    return (
        f"Expected at least one activation that is counted in the forward pass, got {reason}{more}. "
        f"Counted are {COUNTED}. {advice} region_count(), which accepts any network."
    )


# Functions that are more than "other" to an observer; "addmm" may be a linear layer.
OBSERVED = frozenset(
    (*_FIXED, *ACTIVATIONS, *_WITH_ARGUMENTS, *LINEAR, *MAX_POOLS, *ATTENTION, *NORMS, "addmm", "batch_norm")
)
