"""Counting sign changes: for every unit, the lowest and the highest value over the vertices of each hull."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.complexity.activations import (
    LINEAR,
    OBSERVED,
    Folds,
    fast_array,
    operation,
    winners,
)
from regionscope.complexity.forward_observer import ForwardObserver, ObservedCall, tensors
from regionscope.complexity.layers import Layer
from regionscope.complexity.neighbourhoods import VertexBatch
from regionscope.errors import InputError

Values = Tensor | np.ndarray[Any, Any]
_COLUMNS = 1 << 11  # numbers that fit the first cache of a core a few times
_VIEWS = {"flatten", "reshape", "view", "size", "dim", "__len__", "numel", "is_floating_point"}
"""Functions that do not read the numbers of a tensor, as long as it need not be copied."""


class SignChanges(ForwardObserver):
    """Ranges of all units of ``layers`` around some points, gathered over one or more passes of their vertices.

    A pass holds vertex j of point i in row j * n + i: the reduction over vertices then runs along memory, which is far
    faster than along a middle axis.
    """

    def __init__(self, model: nn.Module, layers: Sequence[Layer]) -> None:
        super().__init__(model)
        self._layers = {layer.name: layer for layer in layers}
        self._counts: dict[str, Tensor] = {}
        self._ranges: dict[str, tuple[Values, Values]] = {}  # of the parts before the last one
        self._at: dict[str, tuple[float, ...]] = {}
        self._points = self._vertices = torch.empty(0, device="cpu")
        self._batch = VertexBatch(0, self._points.clone)
        self._version = self._m = 0
        self._last = False  # whether this pass takes the last vertices
        self._spared = True  # as long as the model passes its input to linear layers alone
        self._placed = False  # whether NaN stands in place of the vertices, in this pass
        self._read = False  # whether anything but a linear layer has taken it

    def counts(self, points: Tensor, batches: Iterable[VertexBatch], shape: Sequence[int]) -> dict[str, Tensor]:
        """How many units of each layer fold inside the hull of each of the points (n, d).

        (n, positions) for layers that work on tokens, (n, 1) for others. Every vertex of the batches is an input of
        ``shape``.
        """
        self._points, parts, totals = points, list(batches), None
        if self._spared and all(part.made_of is not None for part in parts):
            totals = self._without_vertices(parts, shape)
            self._spared = totals is not None
        if totals is None:
            totals = self._over(parts, lambda part: part.make().reshape(-1, *shape))
            if _any_nan(totals):
                name = next(name for name, counts in totals.items() if _any_nan({name: counts}))
                raise InputError(
                    f"Expected finite values, got NaN at '{name}'. Check the weights of the layers before it."
                )
        self._vertices, self._batch = points, VertexBatch(0, points.clone)  # the hull is not needed any more
        return totals

    def _without_vertices(self, parts: Sequence[VertexBatch], shape: Sequence[int]) -> dict[str, Tensor] | None:
        """The counts without the vertices, which linear layers do not read (see ``_affine``); None if others do.

        NaN takes their place, without memory of its own. What reads it below Python gives NaN as well.
        """
        n, place = len(self._points), self._points.new_full((), math.nan)
        self._placed, self._read = True, False
        try:
            counts = self._over(parts, lambda part: place.expand(part.m * n, *shape))
        except Exception:  # noqa: BLE001  (whatever is wrong with the model itself comes again)
            return None
        finally:
            self._placed = False
        return None if self._read or _any_nan(counts) else counts

    def _over(self, parts: Sequence[VertexBatch], inputs: Callable[[VertexBatch], Tensor]) -> dict[str, Tensor]:
        """The counts after a pass over the inputs of each part, -1 where NaN came."""
        self._counts, self._ranges = {}, {}
        for part in parts:
            self._batch, self._m, self._last = part, part.m, part is parts[-1]
            self._vertices = inputs(part)
            self._version = self._vertices._version
            self.forward(self._vertices)
        counts, self._counts = self._counts, {}
        return {name: counts[name] for name in self._layers}

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        op = operation(func)
        if not self._placed and op not in OBSERVED:
            return func(*args, **(kwargs or {}))
        if not self._placed or op in _VIEWS:
            return super().__torch_function__(func, types, args, kwargs)
        taken = sum(map(self._is_vertices, tensors((args, kwargs))))
        if taken and op != "__get__" and not (op in LINEAR and taken == 1 and self._of_vertices(args)):
            self._read = True
            raise _ReadsVertices
        result = super().__torch_function__(func, types, args, kwargs)
        self._read |= op == "__get__" and taken > 0 and isinstance(result, Tensor)  # else a shape or a device
        return result

    def _is_vertices(self, value: Tensor) -> bool:
        return value.data_ptr() == self._vertices.data_ptr() != 0

    def at_activation(self, call: ObservedCall, folds: Folds) -> Any:
        if call.name in self._layers:  # before the call, which may work in place
            self._at[call.name] = folds.at
            self._gather(call.name, folds.values)
        return call.run()

    def at_max_pool(self, call: ObservedCall) -> Any:
        if call.name in self._layers:
            self._gather(call.name, winners(call.op, call.args, call.kwargs))
        return call.run()

    def at_linear(self, call: ObservedCall) -> Any:
        made_of = self._batch.made_of
        if made_of is not None and self._of_vertices(call.args):
            output = self._affine(made_of, call.func, call.args, call.kwargs)
        else:
            output = call.run()
        if call.name in self._layers:
            self._at[call.name] = (0.0,)
            self._gather(call.name, output)
        return output

    def _of_vertices(self, args: Any) -> bool:
        """Whether the call takes the vertices as the model got them, or reshaped."""
        if not args or not isinstance(args[0], Tensor):
            return False
        value, vertices = args[0], self._vertices
        if not self._is_vertices(value) or value.shape.numel() != vertices.shape.numel():
            return False
        in_order = value.is_contiguous() or not any(value.stride())  # NaN in place of the vertices has no strides
        unchanged = value._version == self._version and in_order and value.dtype == vertices.dtype
        return unchanged and value.shape[0] == len(vertices)

    def _affine(self, offsets: Tensor, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        """A linear or convolution layer on all vertices, W(x + o) + b = (W x + b) + W o.

        That is m + n rows instead of m n where all points have the same offsets, and half of them where each has its
        own steps up and down.
        """
        shape = args[0].shape[1:]
        at_points: Tensor = func(self._points.reshape(-1, *shape), *args[1:], **kwargs)
        if len(args) > 2:
            args = (*args[:2], None, *args[3:])
        else:
            kwargs = {**kwargs, "bias": None}
        at_offsets: Tensor = func(offsets.reshape(-1, *shape), *args[1:], **kwargs)
        if self._batch.steps is None:
            return (at_points + at_offsets[:, None]).flatten(0, 1)
        along = at_offsets.unflatten(0, offsets.shape[:2]).transpose(0, 1)
        changes = at_points.new_empty(self._m, *at_points.shape)
        torch.add(at_points, along, alpha=self._batch.radius, out=changes[: len(along)])
        torch.sub(at_points, along, alpha=self._batch.radius, out=changes[len(along) :])
        return changes.flatten(0, 1)

    def _gather(self, name: str, values: Tensor) -> None:
        m, n = self._m, len(self._points)
        self._merge(name, *_extremes(self._layers[name].rows(values, m * n).reshape(m, n, -1)))

    def _merge(self, name: str, low: Values, high: Values) -> None:
        """Count once all vertices are known, and let the ranges go: arrays that stay until the end of a pass would lie
        in the gaps that larger ones have left, which could not be used again.
        """
        before = self._ranges.pop(name, None)
        if before is not None:
            xp = _library(low)
            low, high = xp.minimum(before[0], low), xp.maximum(before[1], high)
        if self._last:
            self._counts[name] = self._count(name, low, high)
        else:
            self._ranges[name] = low, high

    def _count(self, name: str, low: Values, high: Values) -> Tensor:
        """(n, positions); -1 where there is a NaN."""
        layer, xp = self._layers[name], _library(low)
        shape = len(low), layer.positions or 1, -1
        if layer.role == "max_pool":
            counts = xp.not_equal(low, high).reshape(shape).sum(2)
        else:
            cut = reduce(add, (((low < t) & (high > t)).reshape(shape).sum(2) for t in self._at[name]))
            counts = xp.where(xp.isnan(low).reshape(shape).any(2), -1, cut)
        return counts if isinstance(counts, Tensor) else torch.from_numpy(counts)


class _ReadsVertices(Exception):
    """Ends a forward pass in which NaN stands in place of the vertices."""


def _any_nan(counts: Mapping[str, Tensor]) -> bool:
    return bool(torch.cat([count.flatten() for count in counts.values()]).lt(0).any())


def _library(values: Values) -> Any:
    """NumPy or torch, which share the names of many functions."""
    return torch if isinstance(values, Tensor) else np


def _extremes(values: Tensor) -> tuple[Values, Values]:
    """The least and the largest entry of (m, n, units) over the first axis.

    On a CPU, NumPy reduces some columns at a time, whose results stay in the first cache: several times as fast as
    torch's reduction over the axis. What it returns costs less to count as arrays, too.
    """
    array = fast_array(values)
    if array is None:
        return values.amin(0), values.amax(0)
    columns = array.reshape(len(array), -1)
    low, high = np.empty((2, *columns.shape[1:]), dtype=columns.dtype)
    for start in range(0, columns.shape[1], _COLUMNS):
        part = slice(start, start + _COLUMNS)
        np.minimum.reduce(columns[:, part], out=low[part])
        np.maximum.reduce(columns[:, part], out=high[part])
    return low.reshape(array.shape[1:]), high.reshape(array.shape[1:])
