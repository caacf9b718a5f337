"""Rules for continuous piecewise-linear operations. To add an activation, add one rule here.

Each rule says how to apply the operation and where it folds: ``Thresholds`` on single entries, ``Maxima`` over groups.
For a torch function that is new here, also name it in ``network/refuse`` (the list that users see), in
``complexity/activations`` (local complexity) and in ``certificate/steps`` (proofs).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regionscope.network.operations import Fixed, Maxima, Thresholds
from regionscope.network.record import Call, Data, Refused, rule
from regionscope.network.refuse import INDICES
from regionscope.network.rules.arithmetic import Operand, aligned, reduced_axis, row_dims, same_layout
from regionscope.network.rules.windows import (
    adaptive_positions,
    per_dim,
    pooling_positions,
    reduction_groups,
    window_groups,
)

Function = Callable[..., Tensor]


# folds at fixed values of single entries


def _folds_at(
    call: Call, x: Data, at: tuple[float, ...], function: Function, in_place: Function | None, *constants: Tensor
) -> Data:
    n = x.numel
    compare = partial(_thresholds, n=n, at=at)
    shape = None if constants else x.shape  # constants may not fit
    return call.fold(
        function, x, shape=shape, constants=constants, in_place=in_place, compare=compare, n_units=len(at) * n,
        entrywise=True,
    )  # fmt: skip


def _thresholds(x: Tensor, *constants: Tensor, n: int, at: tuple[float, ...]) -> Thresholds:
    return Thresholds(x.reshape(x.shape[0], n), at)


@rule("relu", any_axis=True)
def relu(call: Call, x: Data, inplace: bool = False) -> Data:
    return _folds_at(call, x, (0.0,), torch.relu, torch.relu_)


@rule("leaky_relu", any_axis=True)
def leaky_relu(call: Call, x: Data, negative_slope: float = 0.01, inplace: bool = False) -> Data:
    slope = call.number(negative_slope)
    if slope == 1:
        return x
    return _folds_at(call, x, (0.0,), Fixed(F.leaky_relu, (slope,)), Fixed(F.leaky_relu_, (slope,)))


@rule("rrelu", any_axis=True)
def _rrelu(
    call: Call, x: Data, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Data:
    if training:
        call.refuse("it is random here: pass training=self.training, so that its slope is fixed in eval mode")
    return leaky_relu(call, x, (lower + upper) / 2)


@rule("prelu")
def _prelu(call: Call, x: Data, weight: Tensor) -> Data:
    return _folds_at(call, x, (0.0,), torch.prelu, None, call.constant(weight))


@rule("relu6", any_axis=True)
def _relu6(call: Call, x: Data, inplace: bool = False) -> Data:
    return _clamped(call, x, 0.0, 6.0)


@rule("hardtanh", any_axis=True)
def _hardtanh(call: Call, x: Data, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Data:
    return _clamped(call, x, min_val, max_val)


@rule("threshold", any_axis=True)
def _threshold(call: Call, x: Data, threshold: float, value: float, inplace: bool = False) -> Data:
    if float(threshold) != float(value):
        call.refuse(f"it jumps from {float(value):g} to {float(threshold):g} at its threshold; equal ones are accepted")
    return _clamped(call, x, threshold, None)


def _clamped(call: Call, x: Data, low: float | None, high: float | None) -> Data:
    """min(max(x, low), high); a bound of None or infinity on the open side does not fold."""
    lower = -math.inf if low is None else float(low)
    upper = math.inf if high is None else float(high)
    bounds = tuple(
        call.number(bound) for bound, open_end in ((lower, -math.inf), (upper, math.inf)) if bound != open_end
    )
    if not bounds:
        return x
    if lower >= upper:
        return call.affine(Fixed(torch.full_like, (upper,)), x, entrywise=True)
    return _folds_at(call, x, bounds, Fixed(torch.clamp, (lower, upper)), Fixed(torch.clamp_, (lower, upper)))


@rule("clamp", "clip", data=("x", "min", "max"), any_axis=True)
def _clamp(call: Call, x: Any, min: Any = None, max: Any = None) -> Data:
    if not isinstance(min, Data | Tensor) and not isinstance(max, Data | Tensor):
        return _clamped(call, x, min, max)
    if isinstance(x, Tensor) and isinstance(min, Tensor):  # the upper bound alone depends on the input
        return larger(call, torch.maximum(x, min), max, largest=False)
    low = x if min is None else larger(call, x, min, largest=True)
    return low if max is None else larger(call, low, max, largest=False)


rule("clamp_min", data=("x", "min"), any_axis=True)(lambda call, x, min: _clamp(call, x, min=min))
rule("clamp_max", data=("x", "max"), any_axis=True)(lambda call, x, max: _clamp(call, x, max=max))


@rule("abs", "absolute", "__abs__", any_axis=True)
def absolute(call: Call, x: Data) -> Data:
    return _folds_at(call, x, (0.0,), torch.abs, torch.abs_)


@rule("hardsigmoid", any_axis=True)
def _hardsigmoid(call: Call, x: Data, inplace: bool = False) -> Data:
    return _folds_at(call, x, (-3.0, 3.0), ramp, _ramp_in_place)


def ramp(x: Tensor) -> Tensor:
    """Written out, because on CUDA torch multiplies by a sixth rounded to float32, whatever the dtype."""
    return (x + 3).clamp_(0, 6).div_(6)


def _ramp_in_place(x: Tensor) -> Tensor:
    return x.add_(3).clamp_(0, 6).div_(6)


@rule("softshrink", any_axis=True)
def _softshrink(call: Call, x: Data, lambd: float = 0.5) -> Data:
    bound = call.number(lambd)
    if bound == 0:
        return x
    return _folds_at(call, x, (-bound, bound), Fixed(F.softshrink, (bound,)), None)


# the larger or smaller of two


def larger(call: Call, a: Operand, b: Operand, *, largest: bool) -> Data:
    """max(a, b) or min(a, b), entry by entry; it folds where a == b."""
    x, other = (a, b) if isinstance(a, Data) else (b, a)
    assert isinstance(x, Data)
    function = torch.maximum if largest else torch.minimum
    if isinstance(other, Data):
        same_layout(call, x, other)
        shape = np.broadcast_shapes(x.shape, other.shape)
        operands: tuple[Data, ...] = (x, other)
        constants: tuple[Tensor, ...] = ()
    else:
        bound = aligned(call, x, other)
        shape = np.broadcast_shapes(x.shape, bound.shape[1:])
        level = bound.flatten()[0].item() if bound.numel() else 0.0
        if shape == x.shape and bool((bound == level).all()):
            return _clamped(call, x, level if largest else None, None if largest else level)
        operands, constants = (x,), (bound,)
    n = math.prod(shape)
    compare = partial(_difference, n=n)
    in_place = partial(_into_first, function=function) if shape == x.shape else None
    return call.fold(
        function, *operands, constants=constants, in_place=in_place, compare=compare, n_units=n, entrywise=True
    )


def _difference(a: Tensor, b: Tensor, *, n: int) -> Thresholds:
    return Thresholds((a - b).reshape(a.shape[0], n), (0.0,))


def _into_first(a: Tensor, b: Tensor, *, function: Function) -> Tensor:
    return function(a, b, out=a)


rule("maximum", "fmax", data=("a", "b"), any_axis=True)(partial(larger, largest=True))
rule("minimum", "fmin", data=("a", "b"), any_axis=True)(partial(larger, largest=False))


# the largest or smallest of a group


class MaxResult(NamedTuple):
    """What ``torch.max(x, dim)`` returns; the indices jump and may not be used."""

    values: Any
    indices: Any


def largest_of(call: Call, x: Data, groups: Tensor, function: Function, *, largest: bool = True, axis: int) -> Data:
    if groups.shape[1] == 1:
        return call.affine(function, x, axis=axis)
    groups = groups.to(call.recorder.device)
    compare = partial(_maxima, n=x.numel, largest=largest)
    reduce = partial(without_groups, function=function)
    return call.fold(reduce, x, axis=axis, constants=(groups,), compare=compare, n_units=groups.shape[0])


def _maxima(x: Tensor, groups: Tensor, *, n: int, largest: bool) -> Maxima:
    flat = x.reshape(x.shape[0], n)
    return Maxima(flat if largest else -flat, groups)


def without_groups(x: Tensor, groups: Tensor, *, function: Function) -> Tensor:
    return function(x)


def extreme_along(call: Call, x: Data, dim: Any = None, keepdim: bool = False, *, largest: bool) -> Data:
    dims = row_dims(call, x, dim)
    physical = [d + 1 for d in dims]
    function = torch.amax if largest else torch.amin
    groups = reduction_groups(x.shape, dims)
    axis = reduced_axis(x, dims, keepdim)
    return largest_of(call, x, groups, Fixed(function, (physical, keepdim)), largest=largest, axis=axis)


def _extreme(
    call: Call, x: Operand, other: Any = None, keepdim: bool = False, *, dim: Any = None, largest: bool
) -> Any:
    if isinstance(other, Data | Tensor) or not isinstance(x, Data):
        return larger(call, x, other, largest=largest)
    along = other if dim is None else dim
    return MaxResult(extreme_along(call, x, along, keepdim, largest=largest), Refused(INDICES))


for _most, _name in ((True, "max"), (False, "min")):
    rule(_name, data=("x", "other"), any_axis=True)(partial(_extreme, largest=_most))
    rule(f"a{_name}", any_axis=True)(partial(extreme_along, largest=_most))


# max-pooling


def _pooling_rules(spatial: int) -> None:
    @rule(f"max_pool{spatial}d")
    def _max_pool(
        call: Call,
        x: Data,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Data:
        call.check_spatial_dims(x, spatial)
        if return_indices:
            call.refuse(INDICES)
        kernel, pads, gaps = (per_dim(value, spatial) for value in (kernel_size, padding, dilation))
        steps = per_dim(stride, spatial) if stride not in (None, [], ()) else kernel
        function = Fixed(_torch_pool, (f"max_pool{spatial}d", kernel, steps, pads, gaps, ceil_mode))
        out = function(torch.zeros((1, *x.shape), device="cpu")).shape[2:]
        sizes = zip(x.shape[1:], out, kernel, steps, pads, gaps, strict=True)
        groups = window_groups(x.shape, [pooling_positions(*numbers) for numbers in sizes])
        return largest_of(call, x, groups, function, axis=0)

    @rule(f"adaptive_max_pool{spatial}d")
    def _adaptive_max_pool(call: Call, x: Data, output_size: Any, return_indices: bool = False) -> Data:
        call.check_spatial_dims(x, spatial)
        if return_indices:
            call.refuse(INDICES)
        wanted = list(output_size) if isinstance(output_size, list | tuple) else [output_size] * spatial
        out = [size if goal is None else int(goal) for size, goal in zip(x.shape[1:], wanted, strict=True)]
        positions = [adaptive_positions(size, goal) for size, goal in zip(x.shape[1:], out, strict=True)]
        function = Fixed(_torch_pool, (f"adaptive_max_pool{spatial}d", out))
        return largest_of(call, x, window_groups(x.shape, positions), function, axis=0)


def _torch_pool(x: Tensor, name: str, *args: Any) -> Tensor:
    """Called by name: torch defines its max-poolings as nested functions, which cannot be pickled."""
    return getattr(F, name)(x, *args)  # type: ignore[no-any-return]


for _spatial in (1, 2, 3):
    _pooling_rules(_spatial)
