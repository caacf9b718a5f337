"""Reshape, Flatten, Transpose, Squeeze, Unsqueeze, Expand: the same entries in another layout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from regionscope.network.onnx.table import MOST_ENTRIES, Node, Step, applied, operator


def integers(values: Any) -> list[int]:
    """A list of sizes, from a tensor of integers or a list."""
    return [int(n) for n in (values.reshape(-1).tolist() if isinstance(values, Tensor) else values)]


def _has_batch(x: Any, literal: bool) -> bool:
    """Whether dimension 0 is the batch; integers are sizes, and have none."""
    return not literal and x.is_floating_point()


@operator("Reshape")
def _reshape(node: Node) -> Step:
    return applied(node, _reshaped, lift=node.lift, keep_zero=bool(node.get("allowzero", 0)), literal=node.literal)


def _reshaped(x: Any, shape: Any, *, lift: int, keep_zero: bool, literal: bool) -> Any:
    """Where dimension 0 is the batch, a shape that says 1 for it, as files with a fixed batch do, holds for any number
    of inputs.
    """
    wanted = integers(shape)
    if not keep_zero:
        wanted = [x.shape[i + lift] if size == 0 else size for i, size in enumerate(wanted)]
    if lift:
        return x.reshape(x.shape[0], *wanted)
    if _has_batch(x, literal) and wanted and wanted[0] == 1 and x.ndim > 0 and x.shape[0] != 1:
        wanted[0] = x.shape[0]
    return x.reshape(wanted)


@operator("Flatten")
def _flatten(node: Node) -> Step:
    return applied(node, _flattened, axis=int(node.get("axis", 1)), lift=node.lift)


def _flattened(x: Any, *, axis: int, lift: int) -> Any:
    rank = x.ndim - lift
    axis = axis + rank if axis < 0 else axis
    before, after = x.shape[lift : lift + axis], x.shape[lift + axis :]
    if not lift and axis == 1:
        return x.reshape(x.shape[0], math.prod(after))
    return x.reshape(*x.shape[:lift], math.prod(before), math.prod(after))


@operator("Transpose")
def _transpose(node: Node) -> Step:
    order = node.get("perm")
    if order is not None:
        order = [*range(node.lift), *node.lifted(int(axis) for axis in order)]
    return applied(node, _permuted, order=order, lift=node.lift)


def _permuted(x: Any, *, order: list[int] | None, lift: int) -> Any:
    return x.permute(order if order is not None else [*range(lift), *reversed(range(lift, x.ndim))])


@operator("Squeeze")
def _squeeze(node: Node) -> Step:
    return applied(node, _squeezed, takes=(0,), axes=node.axes(1), lift=node.lift, literal=node.literal)


def _squeezed(x: Any, *, axes: list[int] | None, lift: int, literal: bool) -> Any:
    if axes is None:
        axes = [axis for axis in range(1 if _has_batch(x, literal) else lift, x.ndim) if x.shape[axis] == 1]
    gone = sorted({axis % x.ndim for axis in axes})
    if any(x.shape[axis] != 1 for axis in gone):
        raise ValueError(f"dimensions {gone} of a value of shape {tuple(x.shape)} are not of size 1")
    for axis in reversed(gone):
        x = x.squeeze(axis)
    return x


@operator("Unsqueeze")
def _unsqueeze(node: Node) -> Step:
    axes = node.axes(1, more=True)
    if axes is None:
        node.error("it has no axes")
    return applied(node, _unsqueezed, takes=(0,), axes=axes)


def _unsqueezed(x: Any, *, axes: list[int]) -> Any:
    rank = x.ndim + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


@operator("Expand")
def _expand(node: Node) -> Step:
    return applied(node, _expanded, lift=node.lift)


def _expanded(x: Any, shape: Any, *, lift: int) -> Any:
    wanted = integers(shape)
    if math.prod(wanted) > MOST_ENTRIES:
        raise ValueError(f"shape {wanted} would fill the memory")
    if lift:
        x = x.reshape(x.shape[0], *[1] * (len(wanted) + 1 - x.ndim), *x.shape[1:])
    full = np.broadcast_shapes(tuple(x.shape), tuple(wanted))
    return x.expand(full)
