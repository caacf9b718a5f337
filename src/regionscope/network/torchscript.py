"""TorchScript modules, such as ``torch.jit.load`` returns, as modules that run the same steps in Python."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.errors import UntraceableModel
from regionscope.network.exported import function_of

_ADVICE = "Pass the Python module that it was made from, or export that with torch.export or to ONNX."


def _same(value: Any, *_: Any) -> Any:
    return value


def _listed(*values: Any) -> list[Any]:
    return list(values)


def _grouped(*values: Any) -> tuple[Any, ...]:
    return values


def _method(name: str, value: Any, *args: Any, **named: Any) -> Any:
    return getattr(value, name)(*args, **named)


def _convolution(*args: Any) -> Any:
    return function_of("convolution")(*args[:9])  # without the settings of cuDNN


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *settings: Any) -> Any:
    return nn.functional.batch_norm(x, mean, variance, weight, bias, *settings[:3])


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "prim::ListConstruct": _listed, "prim::TupleConstruct": _grouped, "aten::__getitem__": operator.getitem,
    "aten::__is__": operator.is_, "aten::__isnot__": operator.is_not, "aten::__not__": operator.not_,
    "aten::len": len, "aten::_convolution": _convolution, "aten::batch_norm": _batch_norm,
    **{f"aten::{name}": partial(_method, name) for name in ("size", "dim")},
    **dict.fromkeys(
        # casts do nothing, since the whole network is computed in one precision
        ("prim::NumToTensor", "prim::data", "prim::unchecked_cast", "aten::Int", "aten::Bool", "aten::Float",
         "aten::ScalarImplicit", "aten::list", "aten::to", "aten::contiguous", "aten::detach", "aten::dropout"), _same),
}  # fmt: skip


def _operator(node: Any, kind: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function of an ATen operator, and the defaults of its arguments by name alone."""
    name, taken = kind.removeprefix("aten::"), node.schema().partition("->")[0]
    if "Tensor" not in taken and hasattr(operator, name):  # of numbers
        return getattr(operator, name), {}
    overload = taken.partition("(")[0].partition(".")[2] or "default"
    target = getattr(getattr(torch.ops.aten, name, None), overload, None)
    if target is None:
        raise UntraceableModel(f"Expected a script of torch functions, got {kind!r}. {_ADVICE}")
    named = {argument.name: argument.default_value for argument in target._schema.arguments if argument.kwarg_only}
    return function_of(name) or partial(_method, name), named


def _names(values: Any) -> tuple[str, ...]:
    return tuple(value.debugName() for value in values)


@dataclass(frozen=True)
class _Step:
    """``writes = function(*reads, **named)``; a condition or a loop runs its blocks.

    named: argument, the name of its value, and its default.
    """

    kind: str
    function: Callable[..., Any] | None
    reads: tuple[str, ...]
    named: tuple[tuple[str, str, Any], ...]
    writes: tuple[str, ...]
    blocks: tuple[_Block, ...]


@dataclass(frozen=True)
class _Block:
    """inputs: names that are set before the steps run; outputs: names that hold the results behind them."""

    inputs: tuple[str, ...]
    steps: tuple[_Step, ...]
    outputs: tuple[str, ...]


class ScriptNetwork(nn.Module):
    """The steps of a script in eval mode, with its weights and other constants as buffers.

    Conditions and loops run as in Python, so that they may depend on shapes. The script itself is not changed.
    """

    def __init__(self, script: torch.jit.ScriptModule) -> None:
        super().__init__()
        with torch.no_grad():
            frozen = torch.jit.freeze(copy.deepcopy(script).eval(), optimize_numerics=False)
        self.constants: dict[str, Any] = {}
        self.tensors: dict[str, str] = {}
        graph: Any = frozen.graph
        self.block = self._read(graph, list(graph.inputs())[1:])
        self.eval()

    def _read(self, block: Any, inputs: list[Any]) -> _Block:
        steps = []
        for node in block.nodes():
            kind = node.kind()
            if kind != "prim::Constant":
                steps.append(self._step(node, kind))
                continue
            name, value = node.output().debugName(), node.output().toIValue()
            if isinstance(value, Tensor):
                self.tensors[name] = name.replace(".", "_")
                self.register_buffer(self.tensors[name], value.detach().clone())
            else:
                self.constants[name] = value
        return _Block(_names(inputs), tuple(steps), _names(block.outputs()))

    def _step(self, node: Any, kind: str) -> _Step:
        blocks = tuple(self._read(block, list(block.inputs())) for block in node.blocks())
        reads, function, defaults = _names(node.inputs()), _FUNCTIONS.get(kind), dict[str, Any]()
        if kind.startswith("aten::") and function is None:
            function, defaults = _operator(node, kind)
        first = len(reads) - len(defaults)
        named = tuple(
            (name, source, default) for source, (name, default) in zip(reads[first:], defaults.items(), strict=True)
        )
        return _Step(kind, function, reads[:first], named, _names(node.outputs()), blocks)

    def forward(self, *inputs: Tensor) -> Any:
        tensors = {name: getattr(self, buffer) for name, buffer in self.tensors.items()}
        values = {**self.constants, **tensors, **dict(zip(self.block.inputs, inputs, strict=True))}
        results = self._run(self.block, values)
        return results[0] if len(results) == 1 else tuple(results)

    def _run(self, block: _Block, values: dict[str, Any]) -> list[Any]:
        for step in block.steps:
            read = [values[name] for name in step.reads]
            if step.function is not None:
                named = {name: values[source] for name, source, default in step.named if values[source] != default}
                results = [step.function(*read, **named)]
            elif step.kind == "prim::If":
                results = self._run(step.blocks[not read[0]], values)
            elif step.kind == "prim::Loop":
                results = self._loop(step.blocks[0], values, *read)
            elif step.kind in ("prim::TupleUnpack", "prim::ListUnpack"):
                results = [read[0][i] for i in range(len(step.writes))]
            elif step.kind == "prim::RaiseException":
                raise ValueError(read[0])
            elif step.kind == "aten::warn":
                results = []
            else:
                raise UntraceableModel(f"Expected a script of torch functions, got a step {step.kind!r}. {_ADVICE}")
            values.update(zip(step.writes, results, strict=True))
        return [values[name] for name in block.outputs]

    def _loop(self, block: _Block, values: dict[str, Any], most: int, go: Any, *carried: Any) -> list[Any]:
        results: list[Any] = list(carried)
        for i in range(most):
            if not go:
                break
            values.update(zip(block.inputs, [i, *results], strict=True))
            go, *results = self._run(block, values)
        return results
