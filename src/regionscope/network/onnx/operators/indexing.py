"""Concat, Split, Slice, Gather, Pad: parts of values, and values put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regionscope.network.onnx.operators.arithmetic import lifts
from regionscope.network.onnx.operators.shapes import integers
from regionscope.network.onnx.table import MOST_ENTRIES, Node, Step, applied, must_fit, operator


@operator("Concat")
def _concat(node: Node) -> Step:
    (axis,) = node.lifted([int(node.get("axis", 0))])
    return applied(node, _joined, axis=axis, lifts=lifts(node) if node.lift else None)


def _joined(*parts: Any, axis: int, lifts: list[int] | None) -> Any:
    """``lifts``: 1 for each part that carries the batch of a lifted graph, 0 for a constant, which every row gets."""
    if lifts is not None:
        rows = next(part.shape[0] for part, lift in zip(parts, lifts, strict=True) if lift)
        parts = tuple(part if lift else part.expand(rows, *part.shape) for part, lift in zip(parts, lifts, strict=True))
    must_fit((sum(part.numel() for part in parts),))
    return torch.cat(parts, axis)


@operator("Split")
def _split(node: Node) -> Step:
    (axis,) = node.lifted([int(node.get("axis", 0))])
    sizes = node.get("split")
    if sizes is None and node.has(1):
        sizes = node.numbers(1, "split")
    return applied(node, _parts, takes=(0,), axis=axis, sizes=sizes, count=node.n_outputs)


def _parts(x: Any, *, axis: int, sizes: Sequence[int] | None, count: int) -> Any:
    if sizes is None:
        whole = -(-x.shape[axis] // count)
        sizes = [min(whole, x.shape[axis] - start) for start in range(0, x.shape[axis], whole)]
    if len(sizes) != count or min(sizes) < 0:
        raise ValueError(f"sizes {list(sizes)} do not fit {count} outputs")
    return torch.split(x, list(sizes), axis)


@operator("Slice")
def _slice(node: Node) -> Step:
    """Starts and ends may follow from a shape, so they are read when the node runs."""
    if node.opset >= 10:
        return applied(node, _cut_by_inputs, lift=node.lift, given=[node.has(i) for i in range(5)])
    starts, ends = list(node.get("starts", [])), list(node.get("ends", []))
    return applied(node, _cut, starts=starts, ends=ends, axes=node.get("axes"), steps=None, lift=node.lift)


def _cut_by_inputs(x: Any, *inputs: Any, lift: int, given: list[bool]) -> Any:
    numbers = iter(inputs)
    starts, ends, axes, steps = (integers(next(numbers)) if wanted else None for wanted in given[1:])
    return _cut(x, starts=starts or [], ends=ends or [], axes=axes, steps=steps, lift=lift)


def _cut(
    x: Any, *, starts: list[int], ends: list[int], axes: Sequence[int] | None, steps: list[int] | None, lift: int
) -> Any:
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if 0 in steps:
        raise ValueError("a step is 0")
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = axis + lift if axis >= 0 else axis
        size = x.shape[axis]
        # ONNX clamps an end below -size to "before the first entry", which Python's slice cannot spell.
        places = range(size)[slice(start, end if step > 0 or end >= -size else None, step)]
        if places == range(size):
            continue
        if step == 1:
            x = x.narrow(axis, places.start, len(places))
        else:
            x = torch.index_select(x, axis, torch.tensor(list(places), device=x.device))
    return x


@operator("Gather")
def _gather(node: Node) -> Step:
    if node.lift and not node.is_constant(1):
        node.error("its indices may depend on the input only where the input has a batch dimension")
    (axis,) = node.lifted([int(node.get("axis", 0))])
    return applied(node, _gathered, axis=axis)


def _gathered(x: Any, index: Tensor, *, axis: int) -> Any:
    axis = axis % x.ndim
    size = x.shape[axis]
    flat = index.reshape(-1)
    if bool(((flat < -size) | (flat >= size)).any()):
        raise IndexError(f"an index lies outside a dimension of size {size}")
    must_fit((*x.shape[:axis], flat.numel(), *x.shape[axis + 1 :]))
    taken = torch.index_select(x, axis, flat % size)
    return taken.reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])


@operator("GatherElements")
def _gather_elements(node: Node) -> Step:
    (axis,) = node.lifted([int(node.get("axis", 0))])
    node.constant(1, "indices")
    return applied(node, _elements, axis=axis, lift=node.lift)


def _elements(x: Any, index: Tensor, *, axis: int, lift: int) -> Any:
    index = index[None] if lift else index
    rows = (x.shape[0], *index.shape[1:]) if len(index) == 1 else index.shape
    size = x.shape[axis % x.ndim]
    return torch.gather(x, axis % x.ndim, (index % size).expand(rows))


@operator("GatherND")
def _gather_nd(node: Node) -> Step:
    node.constant(1, "indices")
    return applied(node, _at_places, batch=int(node.get("batch_dims", 0)) + node.lift, lift=node.lift)


def _at_places(x: Any, index: Tensor, *, batch: int, lift: int) -> Any:
    """Entries of ``x`` behind its first ``batch`` dimensions, at the places in the last dimension of ``index``."""
    if batch - lift > 1 or (lift and batch > 1):
        raise ValueError("more than one batch dimension is not supported")
    places = index[0] if batch - lift else index
    return x[(*[slice(None)] * batch, *places.unbind(-1))]


@operator("TopK")
def _topk(node: Node) -> Step:
    """In order, and so for ``sorted=0`` too, where the order is open."""
    (axis,) = node.lifted([int(node.get("axis", -1))])
    (k,) = node.numbers(1, "k")
    return applied(node, torch.topk, takes=(0,), k=k, dim=axis, largest=bool(node.get("largest", 1)))


@operator("Pad")
def _pad(node: Node) -> Step:
    widths = node.get("pads", node.get("paddings"))
    widths = node.numbers(1, "pads") if widths is None else [int(n) for n in widths]
    value = node.get("value", 0.0)
    if node.has(2):
        value = node.constant(2, "value").reshape(-1)[0].item()
    axes = node.numbers(3, "axes") if node.has(3) else None
    mode = str(node.get("mode", "constant"))
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}
    if mode not in modes:
        node.error(f"its mode is {mode!r}; {', '.join(modes)} are supported")
    if max([abs(n) for n in widths], default=0) > MOST_ENTRIES:
        node.error(f"its pads {widths} would fill the memory")
    options = {"widths": widths, "axes": axes, "mode": modes[mode], "value": float(value)}
    return applied(node, _padded, takes=(0,), lift=node.lift, **options)


def _padded(x: Any, *, widths: list[int], axes: list[int] | None, mode: str, value: float, lift: int) -> Any:
    if axes is not None:
        rank, (begins, ends) = x.ndim - lift, (widths[: len(axes)], widths[len(axes) :])
        widths = [0] * (2 * rank)
        for axis, begin, end in zip(axes, begins, ends, strict=True):
            widths[axis % rank], widths[rank + axis % rank] = begin, end
    n = len(widths) // 2
    if len(widths) != 2 * n or n != x.ndim - lift:
        raise ValueError(f"pads {widths} do not fit a value with {x.ndim} dimensions")
    pairs = [(widths[i], widths[n + i]) for i in range(n)]
    while pairs and pairs[0] == (0, 0):
        pairs.pop(0)
    must_fit(size + sum(pair) for size, pair in zip(x.shape[x.ndim - len(pairs) :], pairs, strict=True))
    flat = [width for pair in reversed(pairs) for width in pair]
    return F.pad(x, flat, mode, value if mode == "constant" else None) if flat else x


@operator("Tile")
def _tile(node: Node) -> Step:
    return applied(node, _tiled, lift=node.lift)


def _tiled(x: Any, times: Any, *, lift: int) -> Any:
    must_fit([x.numel(), *integers(times)])
    return x.repeat(*[1] * lift, *integers(times))
