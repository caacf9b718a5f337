"""Rules for piecewise-linear operations: the activations of the table, and maxima of two values or of groups."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regionscope.network.activations import ACTIVATIONS, Activation, Form, clamped
from regionscope.network.operations import Fixed, Groups, Jump, Maxima, Pieces, Thresholds
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


# folds at fixed values of single entries: every entry of the table


def _activation(call: Call, x: Data, form: Form | None) -> Data:
    if form is None:
        return x
    jumps = form.pieces is not None and form.pieces.jumps
    if (form.refused or jumps) and not (jumps and call.recorder.jumps):
        call.refuse(form.refused or "it jumps")
    if form.pieces is None:
        assert form.function is not None
        return call.affine(form.function, x, entrywise=True)
    for number in form.pieces.numbers:
        call.number(number)
    n, constants = x.numel, tuple(map(call.constant, form.constants))
    return call.fold(
        form.function or form.pieces, x, shape=None if constants else x.shape,  # constants may not fit
        constants=constants, in_place=form.in_place, compare=partial(_thresholds, n=n, at=form.pieces.at),
        pieces=Jump(partial(_on_pieces, table=form.pieces)) if jumps else form.pieces, n_units=len(form.pieces.at) * n,
        entrywise=True,
    )  # fmt: skip


def _on_pieces(x: Tensor, *, pieces: Tensor, table: Pieces) -> Tensor:
    piece = pieces.reshape(len(x), len(table.at), -1).sum(1).reshape(x.shape)
    slopes, shifts = (torch.tensor(row, dtype=x.dtype, device=x.device) for row in (table.slopes, table.shifts))
    return slopes[piece] * x + shifts[piece]


def _thresholds(x: Tensor, *constants: Tensor, n: int, at: tuple[float, ...]) -> Thresholds:
    return Thresholds(x.reshape(x.shape[0], n), at)


def activated(call: Call, x: Data, name: str, *args: Any) -> Data:
    """An activation of the table, with the arguments behind its input."""
    return _activation(call, x, ACTIVATIONS[name].form(*args))


def _rule_of(entry: Activation) -> None:
    def recorded(call: Call, x: Data, *args: Any, **kwargs: Any) -> Data:
        return _activation(call, x, entry.form(*args, **kwargs))

    first, second, *_ = inspect.signature(recorded).parameters.values()
    positional = [p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in (first, second)]
    signature = inspect.Signature([*positional, *inspect.signature(entry.form).parameters.values()])
    recorded.__signature__ = signature  # type: ignore[attr-defined]
    rule(*entry.names, any_axis=entry.any_axis, sidewise="relu" in entry.names)(recorded)


for _entry in dict.fromkeys(ACTIVATIONS.values()):
    _rule_of(_entry)


@rule("clamp", "clip", data=("x", "min", "max"), any_axis=True)
def _clamp(call: Call, x: Any, min: Any = None, max: Any = None) -> Data:
    if not isinstance(min, Data | Tensor) and not isinstance(max, Data | Tensor):
        return _activation(call, x, clamped(min, max))
    if isinstance(x, Tensor) and isinstance(min, Tensor):  # the upper bound alone depends on the input
        return larger(call, torch.maximum(x, min), max, largest=False)
    low = x if min is None else larger(call, x, min, largest=True)
    return low if max is None else larger(call, low, max, largest=False)


rule("clamp_min", data=("x", "min"), any_axis=True)(lambda call, x, min: _clamp(call, x, min=min))
rule("clamp_max", data=("x", "max"), any_axis=True)(lambda call, x, max: _clamp(call, x, max=max))


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
            return _activation(call, x, clamped(level) if largest else clamped(high=level))
        operands, constants = (x,), (bound,)
    n = math.prod(shape)
    in_place = partial(_into_first, function=function) if shape == x.shape else None
    return call.fold(
        function, *operands, constants=constants, in_place=in_place, compare=partial(_difference, n=n),
        pieces=Pieces((0.0,), (0.0, 1.0) if largest else (1.0, 0.0), adds_second=True), n_units=n,
        entrywise=True,
    )  # fmt: skip


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
    return call.fold(
        reduce, x, axis=axis, constants=(groups,), compare=compare, pieces=Groups(1.0 if largest else -1.0),
        n_units=groups.shape[0],
    )  # fmt: skip


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
