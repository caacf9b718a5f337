"""ReduceSum, ReduceMean, ReduceMax, ReduceMin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from regionscope.network.onnx.table import Node, Step, applied, operator


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
