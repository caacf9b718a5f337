"""Programs of ``torch.export`` and graphs of ATen operators as modules that call plain torch functions."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import fx, nn
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.nn import functional as F

from regionscope.errors import InputError

OPEN_BATCH = "Export it again from an example of two or more rows with dynamic_shapes=({0: torch.export.Dim.AUTO},)."
_SHAPE_CHECKS = ("_assert", "sym_constrain", "_guards_fn")


def plain_module(module: nn.Module | ExportedProgram) -> nn.Module:
    """``module``, or the same graph with each ATen operator replaced by the torch function of its name.

    Raises ``InputError`` for an exported program whose batch dimension is fixed.
    """
    if isinstance(module, ExportedProgram):
        _check_batch(module)
        return _translated(module.module())
    if isinstance(module, fx.GraphModule) and any(isinstance(node.target, OpOverload) for node in module.graph.nodes):
        return _translated(module)
    return module


def _check_batch(program: ExportedProgram) -> None:
    names = program.graph_signature.user_inputs
    inputs = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    for node in inputs:
        shape: tuple[Any, ...] = tuple(getattr(node.meta.get("val"), "shape", ()))
        if len(shape) and isinstance(shape[0], int):
            raise InputError(
                f"Expected an exported program for any number of inputs, got one whose input {node.name!r} has the "
                f"fixed shape {shape}. {OPEN_BATCH}"
            )


def _translated(module: nn.Module) -> nn.Module:
    """A copy of the graph module that shares its weights; checks of shapes are left out."""
    assert isinstance(module, fx.GraphModule)
    changed = copy.copy(module)
    graph = copy.deepcopy(module.graph)
    for node in list(graph.nodes):
        if not node.users and node.op != "output" and any(word in str(node.target) for word in _SHAPE_CHECKS):
            graph.erase_node(node)
        elif isinstance(node.target, OpOverload):
            _translate(node)
    changed.graph = graph
    changed.recompile()
    return changed


def _translate(node: fx.Node) -> None:
    assert isinstance(node.target, OpOverload)
    name = node.target._schema.name.split("::")[-1]
    if name == "sym_size":
        node.op, node.target = "call_method", "size"
        return
    function = function_of(name)
    if function is not None:
        node.target = function
    elif hasattr(torch.Tensor, name):
        node.op, node.target = "call_method", name


def function_of(name: str) -> Any:
    """The torch function that an ATen operator is; None where there is only a method."""
    return _FUNCTIONS.get(name) or getattr(torch, name, None) or getattr(nn.functional, name, None)


def part_of(x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """``aten.slice``."""
    taken = slice(start, end, step)
    whole = range(x.shape[dim])[taken] == range(x.shape[dim])
    return x if whole else x[(slice(None),) * (dim % x.ndim) + (taken,)]


def convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, extra: Any, groups: int
) -> Any:
    """``aten.convolution``, in one to three dimensions."""
    n = len(stride)
    if transposed:
        up: Any = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
        return up(x, weight, bias, stride, padding, extra, groups, dilation)
    function: Any = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    return function(x, weight, bias, stride, padding, dilation, groups)


def batch_norm(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float) -> tuple[Any]:
    """``aten._native_batch_norm_legit_no_training``, of which only the first result is used."""
    return (F.batch_norm(x, mean, variance, weight, bias, False, momentum, eps),)


def max_pool(x: Any, *options: Any) -> tuple[Any]:
    """``aten.max_pool2d_with_indices`` without the indices."""
    return (F.max_pool2d(x, *options),)


_FUNCTIONS = {
    "slice": part_of,
    "convolution": convolution,
    "_native_batch_norm_legit_no_training": batch_norm,
    "max_pool2d_with_indices": max_pool,
}
