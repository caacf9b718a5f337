"""Add, Sub, Mul, Div and their kin, with the broadcasting of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from regionscope.network.onnx.table import Node, Step, applied, must_fit, operator, plain


def _binary(name: str, function: Callable[[Any, Any], Any]) -> None:
    @operator(name)
    def _read(node: Node) -> Step:
        if node.get("broadcast"):
            node.error("it uses the broadcasting of opset 6")
        return applied(node, _run, lifts=lifts(node))

    def _run(a: Any, b: Any, lifts: tuple[int, int]) -> Any:
        return function(*raised(a, b, lifts))


def lifts(node: Node) -> tuple[int, int]:
    """Which operands carry the batch of a lifted graph."""
    first, second = (0 if node.constants[i] is not None else node.lift for i in (0, 1))
    return first, second


def raised(a: Any, b: Any, lifts: tuple[int, int]) -> tuple[Any, Any]:
    """Operands of equal rank where a lifted one meets one of higher rank; the batch stays in front."""
    rank = max(x.ndim - lift for x, lift in zip((a, b), lifts, strict=True))
    x, y = (
        x.reshape(x.shape[0], *[1] * (rank - x.ndim + 1), *x.shape[1:]) if lift and x.ndim - 1 < rank else x
        for x, lift in zip((a, b), lifts, strict=True)
    )
    must_fit(np.broadcast_shapes(x.shape, y.shape))
    return x, y


_binary("Add", torch.add)
_binary("Sub", torch.sub)
_binary("Mul", torch.mul)
_binary("Pow", torch.pow)


def _divide(a: Any, b: Any) -> Any:
    if a.is_floating_point() or b.is_floating_point():
        return a / b
    return torch.div(a, b, rounding_mode="trunc")


_binary("Div", _divide)


def _add_all(*terms: Any) -> Any:
    total = terms[0]
    for term in terms[1:]:
        must_fit(np.broadcast_shapes(total.shape, term.shape))
        total = total + term
    return total


plain({"Sum": _add_all, "Neg": torch.neg, "Sqrt": torch.sqrt, "Exp": torch.exp, "Reciprocal": torch.reciprocal})
