"""Activations: the piecewise-linear ones, which exact instruments take, and the smooth ones for sampled instruments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from regionscope.network.onnx.operators.arithmetic import of_many
from regionscope.network.onnx.table import Node, Step, applied, must_fit, operator, plain


@operator("Relu")
def _relu(node: Node) -> Step:
    return Step(nn.ReLU(), (0,))


@operator("LeakyRelu")
def _leaky(node: Node) -> Step:
    return Step(nn.LeakyReLU(float(node.get("alpha", 0.01))), (0,))


@operator("PRelu")
def _prelu(node: Node) -> Step:
    """max(x, 0) + slope * min(x, 0), with the broadcasting of ONNX."""
    slope = node.constant(1, "slope")
    if slope.numel() == 1:
        return Step(nn.LeakyReLU(float(slope)), (0,))
    return applied(node, _sloped)


def _sloped(x: Any, slope: Any) -> Any:
    must_fit(np.broadcast_shapes(x.shape, slope.shape))
    return torch.relu(x) - slope * torch.relu(-x)


@operator("Clip")
def _clip(node: Node) -> Step:
    bounds = []
    for i, name in ((1, "min"), (2, "max")):
        given = node.get(name)
        if given is None and node.has(i):
            given = node.constant(i, name).reshape(-1)[0].item()
        if given == (math.inf if name == "min" else -math.inf):
            node.error(f"its {name} is {given}, so that every value is infinite")
        bounds.append(None if given is None or not math.isfinite(given) else float(given))
    return applied(node, _clamped, takes=(0,), low=bounds[0], high=bounds[1])


def _clamped(x: Any, *, low: float | None, high: float | None) -> Any:
    return x if low is None and high is None else torch.clamp(x, low, high)


plain(
    {
        "Abs": torch.abs,
        "Sign": torch.sign,
        "Sigmoid": torch.sigmoid,
        "Tanh": torch.tanh,
        "Erf": torch.erf,
        "Softplus": F.softplus,
    }
)


of_many("Max", torch.maximum)
of_many("Min", torch.minimum)


@operator("HardSigmoid")
def _hard_sigmoid(node: Node) -> Step:
    slope, offset = float(node.get("alpha", 0.2)), float(node.get("beta", 0.5))
    return applied(node, _hard, slope=slope, offset=offset)


def _hard(x: Any, *, slope: float, offset: float) -> Any:
    return torch.clamp(x * slope + offset, 0.0, 1.0)


@operator("Elu")
def _elu(node: Node) -> Step:
    return applied(node, F.elu, alpha=float(node.get("alpha", 1.0)))


@operator("Gelu")
def _gelu(node: Node) -> Step:
    return applied(node, F.gelu, approximate=str(node.get("approximate", "none")))


@operator("Softmax", "LogSoftmax")
def _softmax(node: Node) -> Step:
    """Along one dimension; before opset 13 along all dimensions from ``axis`` on, taken together."""
    later = node.opset >= 13
    (axis,) = node.lifted([int(node.get("axis", -1 if later else 1))])
    function = F.log_softmax if node.kind == "LogSoftmax" else F.softmax
    return applied(node, _softmax_along, softmax=function, axis=axis, together=not later)


def _softmax_along(x: Any, *, softmax: Callable[..., Any], axis: int, together: bool) -> Any:
    if not together or axis in (-1, x.ndim - 1):
        return softmax(x, axis)
    flat = x.flatten(axis if axis >= 0 else axis + x.ndim)
    return softmax(flat, -1).reshape(x.shape)
