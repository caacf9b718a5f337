"""Rules that lay entries out anew: reshape, permute, repeat, copy. Nothing is computed here."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regionscope.network.operations import Fixed
from regionscope.network.record import Call, Data, rule

# reshaping


def reshaped(call: Call, x: Data, shape: tuple[int, ...]) -> Data:
    """``x`` with rows of ``shape``."""
    if shape == x.shape:
        return x
    return call.affine(Fixed(_rows_of, (shape,)), x, memory="view")


def _rows_of(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x.reshape((x.shape[0], *shape))


def sizes_of(sizes: tuple[Any, ...]) -> list[int]:
    flat = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes
    return [int(size) for size in flat]


@rule("view", "reshape", view=True)
def _reshape(call: Call, x: Data, *sizes: Any) -> Data:
    if sizes and isinstance(sizes[0], torch.dtype):
        call.refuse("it reads memory as another dtype")
    wanted = sizes_of(sizes)
    if wanted.count(-1) == 1:
        known = math.prod(size for size in wanted if size != -1)
        if known == 0 or x.numel % known:
            call.refuse_shapes(f"it cannot become {tuple(wanted)}", x)
        wanted[wanted.index(-1)] = x.numel // known
    if math.prod(wanted) != x.numel:
        call.refuse_shapes(f"it cannot become {tuple(wanted)}", x)
    if not wanted or wanted[0] != 1:
        call.refuse_row_mixing()
    return reshaped(call, x, tuple(wanted[1:]))


@rule("view_as", "reshape_as", data=("x", "other"), view=True)
def _reshape_as(call: Call, x: Data, other: Data | Tensor) -> Data:
    shape = other.seen_shape if isinstance(other, Data) else tuple(other.shape)
    return _reshape(call, x, shape)


@rule("flatten", view=True)
def _flatten(call: Call, x: Data, start_dim: int = 0, end_dim: int = -1) -> Data:
    start, end = (call.row_dim(x, dim) for dim in (start_dim, end_dim))
    if start > end:
        call.refuse_shapes("start_dim lies behind end_dim", x)
    return reshaped(call, x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


@rule("unflatten", view=True)
def _unflatten(call: Call, x: Data, dim: int, sizes: Any) -> Data:
    row = call.row_dim(x, dim)
    wanted = [int(size) for size in sizes]
    if wanted.count(-1) == 1:
        wanted[wanted.index(-1)] = x.shape[row] // max(1, math.prod(size for size in wanted if size != -1))
    if math.prod(wanted) != x.shape[row]:
        call.refuse_shapes(f"dimension {dim} cannot become {tuple(sizes)}", x)
    return reshaped(call, x, (*x.shape[:row], *wanted, *x.shape[row + 1 :]))


@rule("squeeze", view=True, any_axis=True)
def _squeeze(call: Call, x: Data, dim: Any = None) -> Data:
    """Without ``dim`` all dimensions of size one but the batch."""
    dims = range(x.ndim) if dim is None else [d % x.ndim for d in (dim if isinstance(dim, list | tuple) else [dim])]
    if dim is not None and x.axis in dims:
        call.refuse_row_mixing()
    gone = [d for d in dims if d != x.axis and x.seen_shape[d] == 1]
    rows = {d - (d > x.axis) for d in gone}
    shape = tuple(size for i, size in enumerate(x.shape) if i not in rows)
    return _laid_out(call, x, shape, x.axis - sum(d < x.axis for d in gone))


def _laid_out(call: Call, x: Data, shape: tuple[int, ...], axis: int) -> Data:
    if shape == x.shape and axis == x.axis:
        return x
    return call.affine(Fixed(_rows_of, (shape,)), x, axis=axis, memory="view")


@rule("unsqueeze", view=True, any_axis=True)
def unsqueeze(call: Call, x: Data, dim: int) -> Data:
    if not -x.ndim - 1 <= dim <= x.ndim:
        call.refuse_shapes(f"dimension {dim} is out of range", x)
    dim %= x.ndim + 1
    before = dim <= x.axis
    row = dim if before else dim - 1
    return _laid_out(call, x, (*x.shape[:row], 1, *x.shape[row:]), x.axis + before)


@rule("permute", view=True, any_axis=True)
def _permute(call: Call, x: Data, *dims: Any) -> Data:
    order = [dim % x.ndim for dim in sizes_of(dims)]
    if sorted(order) != list(range(x.ndim)):
        call.refuse_shapes(f"{tuple(dims)} is not a permutation of its dimensions", x)
    physical = [0, *(1 + call.row_dim(x, dim) for dim in order if dim != x.axis)]
    axis = order.index(x.axis)
    if physical == sorted(physical) and axis == x.axis:
        return x
    return call.affine(Fixed(torch.permute, (physical,)), x, axis=axis, memory="view")


@rule("transpose", "swapaxes", "swapdims", view=True, any_axis=True)
def _transpose(call: Call, x: Data, dim0: int, dim1: int) -> Data:
    order = list(range(x.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _permute(call, x, *order)


@rule("t", view=True, any_axis=True)
def _t(call: Call, x: Data) -> Data:
    return x if x.ndim < 2 else _transpose(call, x, 0, 1)


@rule("movedim", "moveaxis", view=True, any_axis=True)
def _movedim(call: Call, x: Data, source: Any, destination: Any) -> Data:
    sources = [d % x.ndim for d in (source if isinstance(source, list | tuple) else [source])]
    targets = [d % x.ndim for d in (destination if isinstance(destination, list | tuple) else [destination])]
    rest = iter(d for d in range(x.ndim) if d not in sources)
    places = dict(zip(targets, sources, strict=True))
    return _permute(call, x, *(places[d] if d in places else next(rest) for d in range(x.ndim)))


# copies, casts and other operations that leave the values as they are


@rule("detach", "detach_", "requires_grad_", view=True, any_axis=True, sidewise=True)
@rule("contiguous", "cpu", "cuda", view=True, any_axis=True, may_copy=True, sidewise=True)
def _same(call: Call, x: Data, *args: Any, **options: Any) -> Data:
    """Moves are ignored: the whole program computes on its own device."""
    return x


@rule(
    "float", "double", "half", "bfloat16", "to", "type", "type_as",
    data=("x", "other"), view=True, any_axis=True, may_copy=True, sidewise=True,
)  # fmt: skip
def _cast(call: Call, x: Data, *other: Any, **options: Any) -> Data:
    """Casts are ignored: the whole program computes in its own dtype. One that is not to real numbers is refused."""
    for target in (*other, *options.values()):
        named = getattr(torch, target.removeprefix("torch."), None) if isinstance(target, str) else target
        dtype = named if isinstance(named, torch.dtype) else getattr(named, "dtype", None)
        call.check_real_dtype(dtype)
    return x


@rule("clone", "nan_to_num", any_axis=True, sidewise=True)
def _clone(call: Call, x: Data, *args: Any, **options: Any) -> Data:
    """``nan_to_num`` changes infinite numbers alone, and a slice has none."""
    return x


@rule("is_floating_point", any_axis=True)
def _is_floating_point(call: Call, x: Data) -> bool:
    return True


@rule("numel", any_axis=True)
def _numel(call: Call, x: Data) -> int:
    return x.numel


# repeating


@rule("expand", "broadcast_to", view=True)
def _expand(call: Call, x: Data, *sizes: Any, **options: Any) -> Data:
    wanted = sizes_of(sizes)
    if len(wanted) != x.ndim or wanted[0] not in (-1, 1):
        call.refuse_row_mixing()
    if tuple(size if size != -1 else x.shape[i] for i, size in enumerate(wanted[1:])) == x.shape:
        return x
    return call.affine(Fixed(torch.Tensor.expand, (-1, *wanted[1:])), x, memory="shared")


@rule("expand_as", data=("x", "other"), view=True)
def _expand_as(call: Call, x: Data | Tensor, other: Data | Tensor) -> Any:
    if isinstance(x, Tensor):
        return x.expand(other.seen_shape) if isinstance(other, Data) else x.expand_as(other)
    return _expand(call, x, other.seen_shape if isinstance(other, Data) else other.shape)


@rule("repeat", "tile")
def _repeat(call: Call, x: Data, *sizes: Any) -> Data:
    times = sizes_of(sizes)
    if len(times) != x.ndim or times[0] != 1:
        call.refuse_row_mixing()
    return call.affine(Fixed(torch.Tensor.repeat, (times,)), x)


@rule("repeat_interleave")
def _repeat_interleave(call: Call, x: Data, repeats: int, dim: int | None = None) -> Data:
    if dim is None:
        call.refuse_row_mixing()
    physical = call.row_dim(x, dim) + 1
    return call.affine(Fixed(torch.repeat_interleave, (int(repeats), physical)), x)
