"""Constant, ConstantOfShape, Shape, Equal, Identity, Dropout, Cast: values that do not change, and sizes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.network.onnx.file import onnx_library
from regionscope.network.onnx.operators.shapes import integers
from regionscope.network.onnx.table import MOST_ENTRIES, Node, Step, Unsupported, applied, operator, plain


class _Stored(nn.Module):
    value: Tensor

    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.register_buffer("value", value)

    def forward(self) -> Tensor:
        return self.value


@operator("Constant")
def _constant(node: Node) -> Step:
    kinds = {"value_float": torch.float32, "value_floats": torch.float32}
    kinds |= {"value_int": torch.int64, "value_ints": torch.int64}
    for name, value in node.attributes.items():
        if name == "value":
            return Step(_Stored(value), ())
        if name in kinds:
            return Step(_Stored(torch.tensor(value, dtype=kinds[name])), ())
    node.error("it has no value")


@operator("ConstantOfShape")
def _constant_of_shape(node: Node) -> Step:
    value = node.get("value")
    fill = torch.zeros(1) if value is None else value.reshape(-1)
    if fill.numel() != 1:
        node.error("its value must be one number")
    return applied(node, _filled, fill=fill[0].item(), kind=str(fill.dtype).removeprefix("torch."))


def _filled(shape: Any, *, fill: float, kind: str) -> Tensor:
    sizes = integers(shape)
    if any(size < 0 for size in sizes) or math.prod(sizes) > MOST_ENTRIES:
        raise ValueError(f"shape {sizes} is not one that fits into memory")
    dtype: torch.dtype = getattr(torch, kind)
    return torch.full(sizes, fill, dtype=dtype)


@operator("Shape")
def _shape(node: Node) -> Step:
    return applied(node, _sizes, start=int(node.get("start", 0)), end=node.get("end"), lift=node.lift)


def _sizes(x: Any, *, start: int, end: int | None, lift: int) -> Tensor:
    return torch.tensor(list(x.shape)[lift:][slice(start, end)], dtype=torch.int64)


def _whole(*values: Any) -> None:
    if any(value.is_floating_point() for value in values):
        raise Unsupported("it takes real numbers, and is supported for whole numbers, such as sizes, alone")


def _equal(a: Any, b: Any) -> Any:
    _whole(a, b)
    return a == b


plain({"Equal": _equal})  # torch exports Tensor.expand with it


@operator("Identity")
def _identity(node: Node) -> Step:
    return Step(nn.Identity(), (0,))


@operator("Dropout")
def _dropout(node: Node) -> Step:
    if node.is_constant(2) and bool(node.constant(2, "training mode").any()):
        node.error("it is random; export the network in eval mode")
    if node.n_read > 1:
        node.error("its mask is not supported")
    return Step(nn.Identity(), (0,))


@operator("Cast")
def _cast(node: Node) -> Step:
    onnx = onnx_library().TensorProto
    kinds = {onnx.FLOAT: "float32", onnx.DOUBLE: "float64", onnx.INT64: "int64", onnx.INT32: "int32"}
    kind = kinds.get(int(node.get("to", 0)))
    if kind is None:
        node.error("it casts to a type other than float32, float64, int32 and int64")
    return applied(node, _as_kind, kind=kind)


def _as_kind(x: Any, *, kind: str) -> Any:
    """A cast between real numbers is left out: the network computes in one precision."""
    dtype: torch.dtype = getattr(torch, kind)
    return x if x.is_floating_point() and dtype.is_floating_point else x.to(dtype)
