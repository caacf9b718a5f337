"""Which torch functions are nonlinearities with a kink or a zero, and where.

A function is known by its name, so that ``F.relu``, ``torch.relu``, ``x.relu()``, ``torch.relu_`` and ``nn.ReLU``
(which calls one of them) are the same to us. To add an activation, add one line to a table; its
rule for exact regions is in ``network/rules/activations.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Folds:
    """The pre-activations ``values``, each of which folds (or vanishes) at every number in ``at``."""

    values: Tensor
    at: tuple[float, ...]


# Kinks where there are kinks; for smooth functions the zero of the pre-activation, as in Humayun et al. 2023.
_AT_ZERO = (
    *("relu", "leaky_relu", "prelu", "rrelu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus"),
    *("tanh", "sigmoid", "special_expit", "logsigmoid", "log_sigmoid", "softsign", "tanhshrink"),
    *("abs", "absolute", "__abs__"),
)
_FIXED: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(_AT_ZERO, (0.0,)),
    "relu6": (0.0, 6.0),
    "hardswish": (-3.0, 3.0),
    "hardsigmoid": (-3.0, 3.0),
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

# Attention and normalisation have no kink. What counts as a fold of theirs is stated in ``attention_winners`` and
# ``centred``; they are counted only where the user asks for it.
ATTENTION = ("scaled_dot_product_attention", "multi_head_attention_forward", "softmax")
NORMS = ("layer_norm", "rms_norm")


def operation(function: Callable[..., Any]) -> str:
    """The name of a torch function; ``relu_`` works in place and is ``relu`` all the same.

    >>> operation(torch.relu_), operation(torch.Tensor.relu), operation(functional.relu)
    ('relu', 'relu', 'relu')
    """
    name = str(getattr(function, "__name__", ""))
    return name if name.startswith("__") else name.rstrip("_")


def argument(args: Sequence[Any], kwargs: Mapping[str, Any], at: int, *names: str, default: Any = None) -> Any:
    """The argument at position ``at``, or under one of its names."""
    if len(args) > at:
        return args[at]
    return next((kwargs[name] for name in names if name in kwargs), default)


def folds(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    """The pre-activations that this call receives and where they fold; None when the call is not an activation."""
    if op in _FIXED:
        return _folds(argument(args, kwargs, 0, "input", "self"), _FIXED[op])
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
    op = operation(func)
    if op == "softmax":
        dim = argument(args, kwargs, 1, "dim", default=-1)
        found = _largest(argument(args, kwargs, 0, "input", "self"), dim)
    elif op == "multi_head_attention_forward":
        named = {**dict(zip(_MHA, args[15:], strict=False)), **kwargs, "need_weights": True}
        found = func(*args[:15], **{**named, "average_attn_weights": False})[1].argmax(-1)
    else:
        return _dot_product_winners(args, kwargs)
    return found.movedim(-1, 1) if found.ndim > 2 else found


def centred(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """What a normalisation divides by the spread: x minus its mean for LayerNorm, x for RMSNorm.

    An entry of a normalisation folds where this changes sign: its output has the same sign before scale and shift.
    """
    values: Tensor = argument(args, kwargs, 0, "input")
    dims = tuple(range(-len(argument(args, kwargs, 1, "normalized_shape")), 0))
    return values - values.mean(dims, keepdim=True) if op == "layer_norm" else values


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


def _dot_product_winners(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """``attention_winners`` of scaled dot-product attention, head by head.

    The product of queries and keys then needs no copy of either, and the scores of a head fit the caches of a CPU.
    """
    query, key = argument(args, kwargs, 0, "query"), argument(args, kwargs, 1, "key")
    scale = argument(args, kwargs, 6, "scale")
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    mask = argument(args, kwargs, 3, "attn_mask")
    mask = query.new_zeros(()) if mask is None else mask
    if argument(args, kwargs, 5, "is_causal", default=False):
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    if mask.dtype == torch.bool:
        mask = query.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)
    if query.ndim < 4 and query.shape[:-2] == key.shape[:-2]:
        return _row_winners(query, key, mask, scale)
    heads = max(query.shape[-3], key.shape[-3])
    parts = ([_head(values, i, heads) for values in (query, key, mask)] for i in range(heads))
    return torch.stack([_row_winners(query, key, mask, scale) for query, key, mask in parts], -1).movedim(-2, 1)


def _head(values: Tensor, i: int, heads: int) -> Tensor:
    """(..., rows, columns) of head i, which it may share with others."""
    return values if values.ndim < 3 else values.select(-3, i * values.shape[-3] // heads)


def _row_winners(query: Tensor, key: Tensor, mask: Tensor, scale: float) -> Tensor:
    """(..., queries): the key with the largest score; ``mask`` is added to the scores."""
    return _largest((query @ key.mT).mul_(scale).add_(mask))


def _largest(values: Tensor, dim: int = -1) -> Tensor:
    """The place of the first of the largest entries along an axis."""
    array = fast_array(values)
    return values.argmax(dim) if array is None else torch.from_numpy(np.asarray(array.argmax(dim)))


def fast_array(values: Tensor) -> np.ndarray[Any, Any] | None:
    """The same memory as a NumPy array on a CPU, where NumPy's reductions are faster than torch's; else None."""
    known = values.dtype in (torch.float32, torch.float64, torch.int64)
    return values.detach().numpy() if known and values.device.type == "cpu" else None


def _folds(values: Any, at: Sequence[Any]) -> Folds | None:
    numbers = tuple(float(t) for t in at if isinstance(t, int | float) and math.isfinite(t))
    return Folds(values, numbers) if isinstance(values, Tensor) and numbers else None


def _hardtanh(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    low = argument(args, kwargs, 1, "min_val", default=-1.0)
    high = argument(args, kwargs, 2, "max_val", default=1.0)
    return _folds(argument(args, kwargs, 0, "input"), (low, high))


def _clamp(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    values = argument(args, kwargs, 0, "input")
    given = argument(args, kwargs, 1, "min"), argument(args, kwargs, 2, "max")
    bounds = [bound for bound in given if bound is not None]
    if any(isinstance(bound, Tensor) for bound in bounds):  # every unit has its own
        return _folds(torch.stack(torch.broadcast_tensors(*(values - bound for bound in bounds)), -1), (0.0,))
    return _folds(values, bounds)


def _threshold(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    return _folds(argument(args, kwargs, 0, "input"), (argument(args, kwargs, 1, "threshold", "min", "max"),))


def _shrink(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    edge = argument(args, kwargs, 1, "lambd", default=0.5)
    return _folds(argument(args, kwargs, 0, "input"), (-edge, edge))


def _glu(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    """a * sigmoid(b): the gate b is what has a zero."""
    values = argument(args, kwargs, 0, "input")
    return _folds(values.chunk(2, dim=argument(args, kwargs, 1, "dim", default=-1))[1], (0.0,))


def _larger(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    """max(a, b) and min(a, b) fold where a = b."""
    first, second = argument(args, kwargs, 0, "input"), argument(args, kwargs, 1, "other")
    return _folds(first - second, (0.0,)) if isinstance(first, Tensor) and isinstance(second, Tensor) else None


_WITH_ARGUMENTS: dict[str, Callable[[Sequence[Any], Mapping[str, Any]], Folds | None]] = {
    "hardtanh": _hardtanh,
    "clamp": _clamp,
    "clip": _clamp,
    "clamp_min": _threshold,
    "clamp_max": _threshold,
    "threshold": _threshold,
    "_threshold": _threshold,  # what torch calls F.threshold inside
    "hardshrink": _shrink,
    "softshrink": _shrink,
    "glu": _glu,
    "maximum": _larger,
    "minimum": _larger,
    "max": _larger,
    "min": _larger,
}
