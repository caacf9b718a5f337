"""Rules that move entries to and from constant places: gather, scatter_add, index_add, scatter_reduce.

A graph network adds up, averages or takes the largest of the messages at each node. The indices of a graph are
constants; they may be repeated for each row of the batch.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from regionscope.network.record import Call, Data, rule
from regionscope.network.rules.activations import extreme_along
from regionscope.network.rules.arithmetic import Operand, aligned
from regionscope.network.rules.indexing import cat, index_select
from regionscope.network.rules.shapes import reshaped


def _for_one_row(call: Call, index: Tensor, ndim: int) -> Tensor:
    """The indices (*shape) of one row, from those of a batch of one."""
    if index.dim() != ndim or index.shape[0] != 1:
        call.refuse_row_mixing()
    return index[0].to(call.recorder.device)


@rule("gather", "take_along_dim", when="the indices are constants")
def _gather(call: Call, x: Data, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Data:
    if isinstance(dim, Tensor):  # the order of take_along_dim
        dim, index = index, dim
    places = _for_one_row(call, index, x.ndim)
    return call.affine(partial(_gathered, dim=call.row_dim(x, dim) + 1), x, constants=(places,))


def _gathered(x: Tensor, index: Tensor, *, dim: int) -> Tensor:
    return x.gather(dim, index.expand(x.shape[0], *index.shape))


def _start(call: Call, x: Operand, src: Operand) -> tuple[tuple[Data, ...], tuple[Tensor, ...]]:
    """What is added to: a value, or a constant in the layout of the rows of ``src``."""
    if isinstance(x, Data):
        return (x,), ()
    assert isinstance(src, Data)
    return (), (aligned(call, src, x),)


@rule("scatter_add", data=("x", "src"), when="the indices are constants")
def _scatter_add(call: Call, x: Operand, dim: int, index: Tensor, src: Operand) -> Data:
    return _added(call, x, dim, index, src, 1.0)


def _added(call: Call, x: Operand, dim: int, index: Tensor, src: Operand, factor: float) -> Data:
    first = x if isinstance(x, Data) else src
    assert isinstance(first, Data)
    places = _for_one_row(call, index, first.ndim)
    given = [call.constant(value) if isinstance(value, Tensor) else value for value in (x, src)]
    inputs = [value for value in given if isinstance(value, Data)]
    constants = [value for value in given if isinstance(value, Tensor)]
    run = partial(
        _scattered,
        dim=call.row_dim(first, dim) + 1,
        is_data=[isinstance(value, Data) for value in given],
        factor=factor,
    )
    return call.affine(run, *inputs, constants=(places, *constants))


def _scattered(*tensors: Tensor, dim: int, is_data: list[bool], factor: float) -> Tensor:
    """tensors: the inputs, the indices, and what of base and source is constant."""
    rows, n = tensors[0].shape[0], sum(is_data)
    inputs, index, constants = iter(tensors[:n]), tensors[n], iter(tensors[n + 1 :])
    base, src = (next(inputs) if data else (part := next(constants)).expand(rows, *part.shape[1:]) for data in is_data)
    return base.scatter_add(dim, index.expand(rows, *index.shape), src if factor == 1 else src * factor)


@rule("index_add", data=("x", "source"), when="the indices are constants")
def _index_add(call: Call, x: Operand, dim: int, index: Tensor, source: Operand, *, alpha: float = 1) -> Data:
    shape = source.seen_shape if isinstance(source, Data) else source.shape  # type: ignore[union-attr]
    return _added(call, x, dim, _spread(index, shape, dim), source, call.number(alpha))


def _spread(index: Tensor, shape: tuple[int, ...], dim: int) -> Tensor:
    """Indices along one dimension, for all entries of a shape."""
    return index.reshape([-1 if d == dim % len(shape) else 1 for d in range(len(shape))]).expand(shape)


@rule("scatter_reduce", data=("x", "src"), when="the indices are constants; sum, mean, amax, amin")
def _scatter_reduce(
    call: Call, x: Operand, dim: int, index: Tensor, src: Operand, reduce: str, *, include_self: bool = True
) -> Data:
    first = x if isinstance(x, Data) else src
    assert isinstance(first, Data)
    places, row = _for_one_row(call, index, first.ndim), call.row_dim(first, dim)
    shape = x.shape if isinstance(x, Data) else tuple(x.shape[1:])  # type: ignore[union-attr]
    target = torch.arange(torch.Size(shape).numel(), device=places.device).reshape(shape)
    target = target.gather(row, places)  # the entry that each entry of the source goes to
    if reduce not in ("sum", "mean", "amax", "amin"):
        call.refuse(f"its reduction is {reduce!r}; sum, mean, amax and amin are accepted")
    count = torch.bincount(target.flatten(), minlength=torch.Size(shape).numel()).reshape(shape)
    keeps = torch.ones_like(count) if include_self else (count == 0).to(count.dtype)
    if reduce in ("sum", "mean"):
        kept = _times(call, x, keeps)
        total = _added(call, kept, dim, index, src, 1.0)
        return total if reduce == "sum" else _times(call, total, (count + keeps).double().reciprocal())
    return _largest_at(call, x, src, target, keeps, largest=reduce == "amax")


def _times(call: Call, x: Operand, factor: Tensor) -> Any:
    factor = call.constant(factor)[None]
    return call.affine(torch.mul, x, constants=(factor,), entrywise=True) if isinstance(x, Data) else x * factor


def _largest_at(call: Call, x: Operand, src: Operand, target: Tensor, keeps: Tensor, *, largest: bool) -> Data:
    """The largest of the entries of ``src`` with the same target, and of the entry of ``x`` there where it is kept."""
    n = keeps.numel()
    groups = [[i] if keep else [] for i, keep in enumerate(keeps.flatten().tolist())]
    used = torch.arange(torch.Size(target.shape).numel(), device="cpu")
    for i, place in zip((n + used).tolist(), target.flatten().tolist(), strict=True):
        groups[place].append(i)
    longest = max(map(len, groups))
    table = torch.tensor([group + group[:1] * (longest - len(group)) for group in groups], device="cpu")
    flat = [_flat(call, part, shape) for part, shape in ((x, keeps.shape), (src, target.shape))]
    taken = index_select(call, cat(call, flat, 1), 1, table.flatten())
    most = extreme_along(call, reshaped(call, taken, tuple(table.shape)), -1, largest=largest)
    return reshaped(call, most, tuple(keeps.shape))


def _flat(call: Call, part: Operand, shape: tuple[int, ...]) -> Any:
    """One dimension for a row, of the entries that are indexed."""
    inside = tuple(slice(size) for size in shape)
    if isinstance(part, Data):
        if part.shape != tuple(shape):
            part = call.affine(partial(_inside, index=inside), part)
        return reshaped(call, part, (part.numel,))
    assert isinstance(part, Tensor)
    return part[(slice(None), *inside)].flatten(1)


def _inside(x: Tensor, *, index: tuple[slice, ...]) -> Tensor:
    return x[(slice(None), *index)]
