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
OBSERVED = frozenset((*_FIXED, *ACTIVATIONS, *_WITH_ARGUMENTS, *LINEAR, *MAX_POOLS, "addmm", "batch_norm"))
