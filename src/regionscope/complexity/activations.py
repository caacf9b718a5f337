"""Which torch functions are nonlinearities with a kink or a zero, and where.

A function is known by its name, so that ``F.relu``, ``torch.relu``, ``x.relu()``, ``torch.relu_`` and ``nn.ReLU``
(which calls one of them) are the same to us. To add an activation, add one line to a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


def _clamp_one(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    return _folds(argument(args, kwargs, 0, "input"), (argument(args, kwargs, 1, "min", "max"),))


def _threshold(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Folds | None:
    return _folds(argument(args, kwargs, 0, "input"), (argument(args, kwargs, 1, "threshold"),))


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
    "clamp_min": _clamp_one,
    "clamp_max": _clamp_one,
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
