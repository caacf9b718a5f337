"""Counting sign changes: for every unit, the lowest and the highest value over the vertices of each hull."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from regionscope.complexity.activations import LINEAR, Folds, attention_winners, centred, operation, winners
from regionscope.complexity.forward_observer import ForwardObserver
from regionscope.complexity.layers import Layer
from regionscope.complexity.neighbourhoods import VertexBatch

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
        self._ranges: dict[str, tuple[Tensor, Tensor]] = {}
        self._at: dict[str, tuple[float, ...]] = {}
        self._points = self._vertices = torch.empty(0, device="cpu")
        self._batch = VertexBatch(0, self._points.clone)
        self._version = self._m = 0
        self._spared = True  # as long as the model passes its input to linear layers alone
        self._read = False  # whether it has not, in this pass

    def counts(self, points: Tensor, batches: Iterable[VertexBatch], shape: Sequence[int]) -> dict[str, Tensor]:
        """How many units of each layer fold inside the hull of each of the points (n, d), -1 where NaN came.

        (n, positions) for layers that work on tokens, (n, 1) for others. Every vertex of the batches is an input of
        ``shape``.
        """
        self._ranges = {}
        self._points = points
        for each in batches:
            self._batch, self._m = each, each.m
            known = dict(self._ranges)
            if not (self._spared and (each.offsets is not None or each.steps is not None) and self._without(shape)):
                self._ranges = known
                self._run(each.vertices.reshape(-1, *shape))
        self._vertices, self._batch = points, VertexBatch(0, points.clone)  # the hull is not needed any more
        return {name: self._count(name) for name in self._layers}

    def _run(self, vertices: Tensor) -> None:
        self._vertices, self._version, self._read = vertices, vertices._version, False
        self.forward(vertices)

    def _without(self, shape: Sequence[int]) -> bool:
        """Run without the vertices, which linear layers do not read (see ``_affine``); whether that was right.

        NaN takes their place, without memory of its own. What reads it below Python gives NaN as well.
        """
        place = self._points.new_full((), math.nan).expand(self._m * len(self._points), *shape)
        try:
            self._run(place)
        except Exception:  # noqa: BLE001  (whatever is wrong with the model itself comes again)
            self._spared = False
            return False
        self._spared = not self._read and not any(bool((low != low).any()) for low, _ in self._ranges.values())
        return self._spared

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        op, taken = operation(func), 0
        if self._spared and not self._read and op not in _VIEWS:
            taken = sum(isinstance(x, Tensor) and self._is_vertices(x) for x in tree_leaves((args, kwargs)))
        result = super().__torch_function__(func, types, args, kwargs)
        only_linear = op in LINEAR and taken == 1 and self._of_vertices(args)
        of_no_number = op == "__get__" and not isinstance(result, Tensor)
        self._read |= taken > 0 and not (only_linear or of_no_number)
        return result

    def _is_vertices(self, value: Tensor) -> bool:
        return value.data_ptr() == self._vertices.data_ptr() != 0

    def _count(self, name: str) -> Tensor:
        layer = self._layers[name]
        low, high = (ends.reshape(len(ends), layer.positions or 1, -1) for ends in self._ranges[name])
        if layer.role in ("max_pool", "attention"):
            return (low != high).sum(2)
        cut = sum(
            (((low < t) & (high > t)).sum(2) for t in self._at[name]), torch.zeros((), dtype=torch.int64, device="cpu")
        )
        return torch.where((low != low).any(2), -1, cut)

    def at_activation(
        self, name: str, kind: type[nn.Module] | None, found: Folds, func: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        if name in self._layers:  # before the call, which may work in place
            self._at[name] = found.at
            self._gather(name, found.values)
        return func(*args, **kwargs)

    def at_max_pool(
        self, name: str, kind: type[nn.Module] | None, func: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        if name in self._layers:
            self._gather(name, winners(func.__name__, args, kwargs))
        return func(*args, **kwargs)

    def at_attention(
        self, name: str, kind: type[nn.Module] | None, func: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        if name in self._layers:
            self._gather(name, attention_winners(func, args, kwargs))
        return func(*args, **kwargs)

    def at_norm(self, name: str, kind: type[nn.Module] | None, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if name in self._layers:
            self._at[name] = (0.0,)
            self._gather(name, centred(operation(func), args, kwargs))
        return func(*args, **kwargs)

    def at_linear(
        self, name: str, kind: type[nn.Module] | None, func: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        made_of = self._batch.offsets if self._batch.steps is None else self._batch.steps
        if made_of is not None and self._of_vertices(args):
            output = self._affine(made_of, func, args, kwargs)
        else:
            output = func(*args, **kwargs)
        if name in self._layers:
            self._at[name] = (0.0,)
            self._gather(name, output)
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
        found = at_points.new_empty(self._m, *at_points.shape)
        torch.add(at_points, along, alpha=self._batch.radius, out=found[: len(along)])
        torch.sub(at_points, along, alpha=self._batch.radius, out=found[len(along) :])
        return found.flatten(0, 1)

    def _gather(self, name: str, values: Tensor) -> None:
        layer = self._layers[name]
        m, n = self._m, len(self._points)
        over = layer.rows(values, m * n).reshape(m, n, -1)
        low, high = _over_first(over, torch.minimum), _over_first(over, torch.maximum)
        if name in self._ranges:
            before = self._ranges[name]
            low, high = torch.minimum(before[0], low), torch.maximum(before[1], high)
        self._ranges[name] = low, high


def _over_first(values: Tensor, extreme: Callable[..., Tensor]) -> Tensor:
    """The least or largest entry over the first axis, for ``torch.minimum`` or ``torch.maximum``.

    On a CPU, halving the axis by whole blocks is three times as fast as torch's reduction over it.
    """
    if values.device.type != "cpu":
        return values.amin(0) if extreme is torch.minimum else values.amax(0)
    while len(values) > 1:
        half = len(values) // 2
        first = extreme(values[:half], values[half : 2 * half])
        if len(values) % 2:
            extreme(first[0], values[-1], out=first[0])
        values = first
    return values[0]
