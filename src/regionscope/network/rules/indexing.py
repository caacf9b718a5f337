"""Rules that take parts of a tensor and put parts together: index, split, cat, stack, fixed masks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regionscope.network.operations import Fixed
from regionscope.network.record import RULES, Call, Data, Rule, rule
from regionscope.network.rules.arithmetic import aligned, same_layout
from regionscope.network.rules.shapes import sizes_of

# indexing


@rule("getitem", "__getitem__", view=True, any_axis=True)
def _getitem(call: Call, x: Data, index: Any) -> Data:
    entries = list(index) if isinstance(index, tuple) else [index]
    taken = sum(_span(entry) for entry in entries)
    fill = [slice(None)] * (x.ndim - taken)
    dots = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    place = dots[0] if dots else len(entries)
    entries[place : place + len(dots)] = fill
    physical: list[Any] = [slice(None)]
    dim, axis = 0, x.axis
    for entry in entries:
        if entry is not None and dim <= x.axis < dim + _span(entry):
            if not _is_everything(entry):
                call.refuse_row_mixing()
        else:
            physical.extend(_as_indices(entry))
            if dim <= x.axis:
                axis += 1 if entry is None else -1 if isinstance(entry, int) else 0
                if isinstance(entry, Tensor | list):
                    call.refuse_row_mixing()
        dim += _span(entry)
    constants = tuple(entry.to(call.recorder.device) for entry in physical if isinstance(entry, Tensor))
    index = [Ellipsis if isinstance(entry, Tensor) else entry for entry in physical]
    run = partial(_taken, index=index)
    return call.affine(run, x, axis=axis, constants=constants, memory="fresh" if constants else "view")


def _taken(x: Tensor, *constants: Tensor, index: list[Any]) -> Tensor:
    """``x`` at ``index``, in which each ``...`` stands for the next of the constants."""
    tensors = iter(constants)
    return x[tuple(next(tensors) if entry is Ellipsis else entry for entry in index)]


def _span(entry: Any) -> int:
    """How many dimensions an index entry takes up."""
    if entry is None or entry is Ellipsis:
        return 0
    return entry.dim() if isinstance(entry, Tensor) and entry.dtype == torch.bool else 1


def _is_everything(entry: Any) -> bool:
    return isinstance(entry, slice) and entry.start in (None, 0) and entry.stop is None and entry.step in (None, 1)


def _as_indices(entry: Any) -> list[Any]:
    if isinstance(entry, list):
        entry = torch.tensor(entry, device="cpu")
    if isinstance(entry, Tensor):
        if entry.dtype == torch.bool:
            return list(entry.nonzero(as_tuple=True))
        return [int(entry)] if entry.dim() == 0 else [entry]
    return [entry]


@rule("narrow", view=True, any_axis=True)
def narrow(call: Call, x: Data, dim: int, start: int, length: int) -> Data:
    physical = call.row_dim(x, dim) + 1
    return call.affine(Fixed(torch.narrow, (physical, start, length)), x, memory="view")


@rule("select", view=True, any_axis=True)
def select(call: Call, x: Data, dim: int, index: int) -> Data:
    row = call.row_dim(x, dim)
    return call.affine(Fixed(torch.select, (row + 1, index)), x, axis=x.axis - (row < x.axis), memory="view")


@rule("index_select", when="the indices are constants")
def index_select(call: Call, x: Data, dim: int, index: Tensor) -> Data:
    physical = call.row_dim(x, dim) + 1
    return call.affine(partial(_at, dim=physical), x, constants=(index.to(call.recorder.device),))


def _at(x: Tensor, index: Tensor, *, dim: int) -> Tensor:
    return x.index_select(dim, index)


@rule("unbind", view=True, any_axis=True)
def _unbind(call: Call, x: Data, dim: int = 0) -> tuple[Data, ...]:
    return tuple(select(call, x, dim, i) for i in range(x.shape[call.row_dim(x, dim)]))


def _pieces(call: Call, x: Data, dim: int, sizes: list[int]) -> tuple[Data, ...]:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(narrow(call, x, dim, start, size) for start, size in zip(starts, sizes, strict=True))


@rule("split", "split_with_sizes", view=True, any_axis=True)
def _split(call: Call, x: Data, split_size_or_sections: Any, dim: int = 0) -> tuple[Data, ...]:
    length = x.shape[call.row_dim(x, dim)]
    if isinstance(split_size_or_sections, list | tuple):
        sizes = [int(size) for size in split_size_or_sections]
        if sum(sizes) != length:
            call.refuse_shapes(f"sizes {sizes} do not add up to {length}", x)
        return _pieces(call, x, dim, sizes)
    step = int(split_size_or_sections)
    return _pieces(call, x, dim, [min(step, length - start) for start in range(0, length, step)])


@rule("chunk", view=True, any_axis=True)
def _chunk(call: Call, x: Data, chunks: int, dim: int = 0) -> tuple[Data, ...]:
    return _split(call, x, math.ceil(x.shape[call.row_dim(x, dim)] / chunks), dim)


@rule("tensor_split", view=True, any_axis=True)
def _tensor_split(call: Call, x: Data, indices_or_sections: Any, dim: int = 0) -> tuple[Data, ...]:
    length = x.shape[call.row_dim(x, dim)]
    sizes = [part.shape[0] for part in torch.empty(length, device="meta").tensor_split(indices_or_sections)]
    return _pieces(call, x, dim, sizes)


@rule(torch.Tensor.unfold, view=True)
def _unfold(call: Call, x: Data, dimension: int, size: int, step: int) -> Data:
    physical = call.row_dim(x, dimension) + 1
    return call.affine(Fixed(torch.Tensor.unfold, (physical, size, step)), x, memory="shared")


@rule("flip")
def _flip(call: Call, x: Data, *dims: Any) -> Data:
    physical = [call.row_dim(x, dim) + 1 for dim in sizes_of(dims)]
    return call.affine(Fixed(torch.flip, (physical,)), x)


@rule("roll")
def _roll(call: Call, x: Data, shifts: Any, dims: Any = None) -> Data:
    if dims is None:
        call.refuse_row_mixing()
    physical = [call.row_dim(x, dim) + 1 for dim in sizes_of((dims,))]
    return call.affine(Fixed(torch.roll, (sizes_of((shifts,)), physical)), x)


# joining


def _joined(call: Call, tensors: Any, function: Callable[..., Tensor], axis: int) -> Data:
    """``function`` of the list of all parts; constant parts are repeated for each row."""
    parts = list(tensors)
    datas = [part for part in parts if isinstance(part, Data)]
    for data in datas[1:]:
        same_layout(call, datas[0], data)
    for part in parts:
        if isinstance(part, Tensor) and part.dim() != datas[0].ndim:
            call.refuse_shapes(f"it is joined with a constant of shape {tuple(part.shape)}", datas[0])
    constants = tuple(aligned(call, datas[0], part) for part in parts if isinstance(part, Tensor))
    run = partial(_join, function=function, is_data=[isinstance(part, Data) for part in parts])
    return call.affine(run, *datas, axis=axis, constants=constants)


def _join(*tensors: Tensor, function: Callable[..., Tensor], is_data: list[bool]) -> Tensor:
    """``tensors``: the parts that depend on the input, then the constant ones."""
    n, rows = sum(is_data), tensors[0].shape[0]
    moving, fixed = iter(tensors[:n]), iter(tensors[n:])
    return function([next(moving) if d else _repeated(next(fixed), rows) for d in is_data])


def _repeated(constant: Tensor, rows: int) -> Tensor:
    return constant.expand(rows, *constant.shape[1:])


@rule("cat", "concat", "concatenate", data=("tensors",), any_axis=True)
def cat(call: Call, tensors: Any, dim: int = 0, *, axis: int | None = None) -> Data:
    tensors = [part for part in tensors if not isinstance(part, Data) or part.numel] or tensors
    first = _first(tensors)
    physical = call.row_dim(first, dim if axis is None else axis) + 1
    if len(tensors) == 1:
        return first
    return _joined(call, tensors, Fixed(torch.cat, (physical,)), first.axis)


@rule("hstack", data=("tensors",))
def _hstack(call: Call, tensors: Any) -> Data:
    return cat(call, tensors, 1)


@rule("stack", data=("tensors",), any_axis=True)
def stack(call: Call, tensors: Any, dim: int = 0) -> Data:
    first = _first(tensors)
    if not -first.ndim - 1 <= dim <= first.ndim:
        call.refuse_shapes(f"dimension {dim} is out of range", first)
    dim %= first.ndim + 1
    before = dim <= first.axis
    physical = (dim if before else dim - 1) + 1
    return _joined(call, tensors, Fixed(torch.stack, (physical,)), first.axis + before)


def _first(tensors: Any) -> Data:
    return next(part for part in tensors if isinstance(part, Data))


# constants with the shape of a value


def _filled(name: str) -> Rule:
    def run(call: Call, x: Data, *args: Any, **kwargs: Any) -> Data | Tensor:
        like = torch.empty(x.seen_shape, dtype=call.recorder.dtype, device=call.recorder.device)
        function = getattr(torch, name, None) or getattr(torch.Tensor, name)
        filled: Tensor = function(like, *args, **kwargs)
        if call.recorder.jumps and x.axis == 0 and filled.dim() and len(filled) == 1 and not bool(filled.any()):
            return call.affine(partial(_zeros, shape=filled.shape[1:]), x)  # which largest entries are written into
        return filled

    return Rule(run, frozenset({"x"}), view=False, any_axis=True)


def _zeros(x: Tensor, *, shape: tuple[int, ...]) -> Tensor:
    return x.new_zeros((len(x), *shape))


def is_empty(call: Call, x: Data) -> bool:
    """Whether a value was made as zeros."""
    made = next((step.operation.function for step in call.recorder.steps if step.output is x), None)
    return isinstance(made, partial) and made.func is _zeros


for _name in ("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "new_tensor"):
    RULES[_name] = _filled(_name)
