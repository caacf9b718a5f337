"""Add, Sub, Mul, Div and their kin, with the broadcasting of NumPy, and the reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from regionscope.network.onnx.table import Node, Step, applied, must_fit, operator, plain


def _binary(name: str, function: Callable[[Any, Any], Any]) -> None:
    @operator(name)
    def _read(node: Node) -> Step:
        if node.get("broadcast"):
            node.error("it uses the broadcasting of opset 6")
        return applied(node, _combined, pair=function, lifts=lifts(node))


def lifts(node: Node) -> list[int]:
    """1 for each operand that carries the batch of a lifted graph, else 0."""
    return [0 if constant is not None else node.lift for constant in node.constants]


def raised(operands: Sequence[Any], lifts: Sequence[int]) -> list[Any]:
    """Operands that broadcast as in the file: a lifted one of lower rank gets ones behind its batch."""
    pairs = list(zip(operands, lifts, strict=True))
    rank = max(x.ndim - lift for x, lift in pairs)
    return [
        x.reshape(x.shape[0], *[1] * (rank - x.ndim + 1), *x.shape[1:]) if lift and x.ndim - 1 < rank else x
        for x, lift in pairs
    ]


_binary("Add", torch.add)
_binary("Sub", torch.sub)
_binary("Mul", torch.mul)
_binary("Pow", torch.pow)
_binary("Greater", torch.gt)
_binary("GreaterOrEqual", torch.ge)
_binary("Less", torch.lt)
_binary("LessOrEqual", torch.le)
_binary("And", torch.logical_and)
_binary("Or", torch.logical_or)


def _divide(a: Any, b: Any) -> Any:
    if a.is_floating_point() or b.is_floating_point():
        return a / b
    return torch.div(a, b, rounding_mode="trunc")


_binary("Div", _divide)


def of_many(kind: str, function: Callable[[Any, Any], Any]) -> None:
    """Register an operator of any number of operands."""

    @operator(kind)
    def _read(node: Node) -> Step:
        return applied(node, _combined, pair=function, lifts=lifts(node))


def _combined(*operands: Any, pair: Callable[[Any, Any], Any], lifts: list[int]) -> Any:
    total, *others = raised(operands, lifts)
    for other in others:
        must_fit(np.broadcast_shapes(total.shape, other.shape))
        total = pair(total, other)
    return total


of_many("Sum", torch.add)
plain(
    {"Neg": torch.neg, "Sqrt": torch.sqrt, "Exp": torch.exp, "Not": torch.logical_not, "Reciprocal": torch.reciprocal}
)


@operator("Where")
def _where(node: Node) -> Step:
    return applied(node, _chosen, lifts=lifts(node))


def _chosen(*operands: Any, lifts: list[int]) -> Any:
    condition, a, b = raised(operands, lifts)
    must_fit(np.broadcast_shapes(condition.shape, a.shape, b.shape))
    return torch.where(condition, a, b)


@operator("Scaler")
def _scaler(node: Node) -> Step:
    """(x - offset) * scale, of the domain ai.onnx.ml."""
    offset, scale = (torch.tensor(node.get(name, [default])) for name, default in (("offset", 0.0), ("scale", 1.0)))
    return applied(node, _rescaled, offset=offset.tolist(), scale=scale.tolist())


def _rescaled(x: Any, *, offset: list[float], scale: list[float]) -> Any:
    first, second = (torch.tensor(part, dtype=x.dtype, device=x.device) for part in (offset, scale))
    return (x - first) * second


@operator("Normalizer")
def _normalizer(node: Node) -> Step:
    """Rows divided by their norm, of the domain ai.onnx.ml."""
    orders = {"MAX": float("inf"), "L1": 1.0, "L2": 2.0}
    order = orders.get(str(node.get("norm", "MAX")))
    if order is None:
        node.error(f"its norm is {node.get('norm')!r}; {', '.join(orders)} are supported")
    return applied(node, _divided_by_norm, order=order)


def _divided_by_norm(x: Any, *, order: float) -> Any:
    return x / torch.linalg.vector_norm(x, order, dim=-1, keepdim=True)


# ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceL1.


def _reduction(kind: str, function: Callable[..., Any]) -> None:
    @operator(kind)
    def _read(node: Node) -> Step:
        axes, idle = node.axes(1), bool(node.get("noop_with_empty_axes", 0))
        if axes is None or len(axes) == 0:
            if idle:
                return applied(node, _same, takes=(0,))
            axes = None
        keep = bool(node.get("keepdims", 1))
        return applied(node, _over, takes=(0,), reduce=function, axes=axes, keep=keep, lift=node.lift)


def _over(x: Any, *, reduce: Callable[..., Any], axes: list[int] | None, keep: bool, lift: int) -> Any:
    axes = list(range(lift, x.ndim)) if axes is None else axes
    return reduce(x, axes, keep) if axes else x  # torch takes no dimensions for all of them


def _same(x: Any) -> Any:
    return x


_reduction("ReduceSum", torch.sum)
_reduction("ReduceMean", torch.mean)
_reduction("ReduceMax", torch.amax)
_reduction("ReduceMin", torch.amin)
_reduction("ReduceL1", lambda x, axes, keep: torch.sum(torch.abs(x), axes, keep))
