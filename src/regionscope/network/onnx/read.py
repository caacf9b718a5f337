"""``read_onnx``: a file as a module. Constants are folded, shapes are checked by running the graph once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.checks import read_path, unknown_name
from regionscope.errors import InputError
from regionscope.formatting import described
from regionscope.network.onnx import operators  # noqa: F401  (importing them fills the table)
from regionscope.network.onnx.file import Graph, dimensions, onnx_library, read_graph, read_tensor
from regionscope.network.onnx.network import OnnxNetwork
from regionscope.network.onnx.table import MOST_ENTRIES, OPERATORS, Node, Step, Unsupported, must_fit, reading

QUANTISED = frozenset(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"))
QUANTISED |= {"ConvInteger", "MatMulInteger", "QGemm", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QAttention"}
_LAYOUT = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Split", "Concat", "Gather")
_FAILURES = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError)


def read_onnx(
    path: str | PathLike[str], *, input_shape: tuple[int, ...] | None = None, output: str | int | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> OnnxNetwork:  # fmt: skip
    """An ``nn.Module`` from an ``.onnx`` or ``.onnx.gz`` file with one free input; the module returns one output.

    Exact functions accept it if it is piecewise affine, sampled functions always. Dimension 0 of the input is the batch
    if its size is 1 or open; otherwise, and for inputs with one dimension, the file describes a single input and a
    batch dimension is added. Rows run one at a time where the graph moves or removes a batch of 1. A matrix that is
    almost all zeros is stored sparsely. Operators are read from opset 7 on.

    input_shape: shape of one input without the batch dimension, where the file leaves sizes open.
    output: name or index of the output, where the file has several; nodes that only others need are left out.
    inputs: values of further inputs by name, as the file declares them: ``inputs={"mask": array}``. They stay fixed.

    Raises ``InputError`` for a missing, damaged or unsupported file; the message names the node, the operator and the
    opset. External data is read only from the folder of the file. Needs the extra ``onnx``. Cost: one copy of the
    weights and a few forward passes.
    """
    graph = read_graph(read_path(path))
    token = reading.set(True)
    try:
        with torch.no_grad():
            return _Reading(graph, input_shape, output, _fixed(graph, inputs or {})).network()
    finally:
        reading.reset(token)


class _Reading:
    """A graph on its way to a module: values that do not depend on the input are computed here, once."""

    def __init__(
        self, graph: Graph, input_shape: tuple[int, ...] | None, output: str | int | None, fixed: dict[str, Tensor]
    ) -> None:
        self.graph = graph
        self.constants = graph.constants | fixed
        name, shape, lift, self.open = _input(graph, input_shape, fixed)
        self.output = _output(graph, output)
        self.nodes = list(graph.proto.node)
        if len(graph.proto.output) > 1:
            self.nodes = _needed(self.nodes, self.output.name)
        self.lift = lift
        self.result = OnnxNetwork(
            shape, path=graph.path, external=graph.external, digest=graph.digest, batch_axis=not lift,
            opset=graph.opset, input_name=name, output_name=self.output.name, fixed=fixed,
        )  # fmt: skip
        self.read = {read for proto in self.nodes for read in proto.input} | {self.output.name}
        self.precision = _precision(graph, name)
        generator = torch.Generator().manual_seed(0)
        self.probe = torch.rand((1, *shape), generator=generator, dtype=self.precision)
        self.values: dict[str, Any] = {name: self.probe}

    def network(self) -> OnnxNetwork:
        for i, proto in enumerate(self.nodes):
            self._read(proto, i)
        output = self.output
        if output.name not in self.values:
            raise InputError(
                f"Expected an output that depends on the input, got {output.name!r} in {self.graph.path}. "
                "Export the model with the output that you want to study."
            )
        self._check_shape(output)
        self.result.close()
        self._choose_rows()
        return self.result.eval()

    def _read(self, proto: Any, i: int) -> None:
        name = str(proto.name or (proto.output[0] if proto.output else f"{proto.op_type}_{i}"))
        if proto.op_type in QUANTISED:
            raise InputError(
                f"Expected a network that computes with real numbers, got {proto.op_type} in node {name!r} of "
                f"{self.graph.path}: a quantised network rounds its values, which makes them jump. Read the file "
                "that it was made from, or pass a function that runs it to region_count()."
            )
        if proto.domain not in ("", "ai.onnx", "ai.onnx.ml") or proto.op_type not in OPERATORS:
            kind = f"{proto.domain}.{proto.op_type}".lstrip(".")
            raise InputError(
                f"Node {name!r} is the operator {kind} (opset {self.graph.opset}), which read_onnx does not know. "
                f"Export the model with others, or pass the torch module. Known are {', '.join(sorted(OPERATORS))}."
            )
        for read in proto.input:
            if read and read not in self.constants and read not in self.values:
                raise InputError(
                    f"Node {name!r} ({proto.op_type}, opset {self.graph.opset}) reads {read!r}, which no earlier node "
                    "writes. The graph is cyclic or damaged; export it again."
                )
        data = any(read in self.values for read in proto.input)
        node = Node(
            name=name, kind=proto.op_type, opset=self.graph.opset,
            attributes={attribute.name: _attribute(attribute, self.graph.path.parent) for attribute in proto.attribute},
            inputs=tuple(proto.input), constants=tuple(self._constant(read, data) for read in proto.input),
            n_outputs=sum(1 for name in proto.output if name),
            n_read=max((j for j, name in enumerate(proto.output, 1) if name and name in self.read), default=0),
            lift=self.lift if data else 0, rank=self._rank(proto), literal=not (data and self.open),
        )  # fmt: skip
        step = _step(node)
        made = self._run(node, step)
        for written in proto.output:
            if written in self.values or written in self.constants:
                node.error(f"it writes {written!r} a second time")
        if not data or (node.kind == "Shape" and self.lift):  # without a batch dimension, a shape is known
            self.constants.update(zip(proto.output, made, strict=False))
            return
        reads = tuple(node.inputs[j] for j in step.takes)
        for read in reads:
            if read in self.constants:
                self.result.store(read, self._in_precision(self.constants[read]))
        self.result.add(name, step.module, reads, tuple(proto.output))
        self.values.update(zip(proto.output, made, strict=False))

    def _constant(self, name: str, data: bool) -> Tensor | None:
        """A constant as a node reads it, None for a value that depends on the input."""
        constant = self.constants.get(name)
        return self._in_precision(constant) if data and constant is not None else constant

    def _in_precision(self, constant: Tensor) -> Tensor:
        """Real numbers that meet the input, in the one precision of the network."""
        return constant.to(self.precision) if constant.is_floating_point() else constant

    def _rank(self, proto: Any) -> int:
        """Number of dimensions of the first input in the file."""
        first = proto.input[0] if proto.input else ""
        if first in self.values:
            return int(self.values[first].ndim) - self.lift
        return self.constants[first].ndim if first in self.constants else 0

    def _run(self, node: Node, step: Step) -> tuple[Any, ...]:
        """The outputs of one node."""
        names = [node.inputs[j] for j in step.takes]
        data = any(name in self.values for name in node.inputs)
        given: list[Any] = [self.values[name] if name in self.values else self._constant(name, data) for name in names]
        try:
            made = _outputs(step.module(*given))
            for out in made:
                must_fit(out.shape)
            return made
        except InputError:
            raise
        except Unsupported as error:
            node.error(str(error))
        except _FAILURES as error:
            shapes = ", ".join(str(tuple(x.shape)) for x in given)
            node.error(f"inputs of shape {shapes} do not fit ({described(error).rstrip('.')})")

    def _check_shape(self, output: Any) -> None:
        shape = tuple(self.values[output.name].shape)[self.lift :]
        declared = tuple(dimensions(output))
        if output.type.tensor_type.HasField("shape") and (
            len(declared) != len(shape)
            or any(size not in (None, 0, actual) for size, actual in zip(declared, shape, strict=True))
        ):
            raise InputError(
                f"Expected an output of shape {declared}, as {self.graph.path} declares, got {shape}. Export it again."
            )

    def _choose_rows(self) -> None:
        """Run many rows at once if that gives what the file says for each of them, otherwise one row at a time."""
        network, x = self.result, torch.cat([self.probe, 1 - self.probe])
        literal = alone = self._run_each_row(x)
        network.set_literal(False)
        if alone is None:  # a graph with an open batch that cannot run on one row alone
            alone = torch.cat([network.run_row(row) for row in x.split(1)])
        try:
            network.row_by_row = not all(_close(network._run(x[:n]), alone[:n]) for n in (2, 1))
        except (InputError, *_FAILURES):
            network.row_by_row = True
        network.set_literal(network.row_by_row)
        if network.row_by_row and literal is None:
            raise InputError(
                f"Expected a graph that treats each row of a batch alone, got {self.graph.path}, which mixes them. "
                "Export the model with a fixed batch of 1."
            )

    def _run_each_row(self, x: Tensor) -> Tensor | None:
        """The outputs of the file for each row alone; None if it cannot run on one."""
        self.result.set_literal(True)
        try:
            return torch.cat([self.result.run_row(row) for row in x.split(1)])
        except (InputError, *_FAILURES):
            return None


def _close(a: Tensor, b: Tensor) -> bool:
    size = float(b.abs().nan_to_num(0.0, 0.0).max()) if b.numel() else 0.0
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-4 * size, equal_nan=True)


def _fixed(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
    """The values of further inputs, checked against what the file declares."""
    declared = {value.name: value for value in graph.proto.input if value.name not in graph.constants}
    fixed = {}
    for name, given in inputs.items():
        if name not in declared:
            raise unknown_name(f"inputs to name inputs of {graph.path}", name, list(declared))
        kind = declared[name].type.tensor_type.elem_type
        numbers = np.asarray(given, dtype=onnx_library().helper.tensor_dtype_to_np_dtype(kind))
        sizes = tuple(dimensions(declared[name]))
        if len(sizes) != numbers.ndim or any(a not in (None, 0, b) for a, b in zip(sizes, numbers.shape, strict=True)):
            raise InputError(
                f"Expected an array of shape {sizes} for the input {name!r} of {graph.path}, got {numbers.shape}. "
                "Pass one as the file declares it."
            )
        fixed[name] = torch.from_numpy(numbers.copy())
    return fixed


def _input(
    graph: Graph, given: tuple[int, ...] | None, fixed: Mapping[str, Tensor]
) -> tuple[str, tuple[int, ...], int, bool]:
    """Name of the only free input, its shape without the batch, 1 where the batch has to be added, and whether its
    size is open.
    """
    inputs = [value for value in graph.proto.input if value.name not in (*graph.constants, *fixed)]
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs) or "none"
        raise InputError(
            f"Expected one free input, got {names} in {graph.path}. Fix the others with inputs={{name: array}}, or "
            "export the network with one input."
        )
    sizes = tuple(dimensions(inputs[0]))
    lift = int(len(sizes) == 1 or (len(sizes) > 0 and sizes[0] not in (None, 0, 1)))
    row = sizes if lift else sizes[1:]
    if given is not None:
        fits = not row or (len(row) == len(given) and all(a in (None, b) for a, b in zip(row, given, strict=True)))
        if not fits:
            raise InputError(
                f"Expected an input_shape that fits {row}, got {given}. "
                "Change the sizes that the file fixes, or leave input_shape out."
            )
        row = tuple(given)
    known = tuple(size for size in row if size is not None and size > 0)
    if not row or known != row or math.prod(known) > MOST_ENTRIES:
        raise InputError(
            f"Expected an input of known shape, got {sizes} in {graph.path}. Pass input_shape=... without the batch."
        )
    return inputs[0].name, known, lift, not lift and sizes[:1] != (1,)


def _output(graph: Graph, chosen: str | int | None) -> Any:
    """The output with this name or index; None for the only one."""
    outputs = {value.name: value for value in graph.proto.output}
    names = list(outputs)
    if chosen is None and len(names) == 1:
        return outputs[names[0]]
    if isinstance(chosen, int) and not isinstance(chosen, bool) and -len(names) <= chosen < len(names):
        return outputs[names[chosen]]
    if isinstance(chosen, str) and chosen in outputs:
        return outputs[chosen]
    got = "none" if chosen is None else repr(chosen)
    raise InputError(
        f"Expected output to be one of {', '.join(map(repr, names))}, the outputs of {graph.path}, or an index up to "
        f"{len(names) - 1}, got {got}. Choose it with output=, or export the network with one output."
    )


def _needed(nodes: Sequence[Any], output: str) -> list[Any]:
    """The nodes, in their order, on which the output depends."""
    needed, kept = {output}, []
    for proto in reversed(nodes):
        if needed.intersection(proto.output):
            needed.update(proto.input)
            kept.append(proto)
    return kept[::-1]


def _precision(graph: Graph, name: str) -> torch.dtype:
    """float64 if the file computes with the input in it, else float32.

    An input of whole numbers, such as a uint8 image, must become real before anything but its layout changes: other
    operators, such as a division, round whole numbers.
    """
    types = onnx_library().TensorProto
    kind = next(value.type.tensor_type.elem_type for value in graph.proto.input if value.name == name)
    real = (types.FLOAT, types.DOUBLE)
    whole, rounding = {name}, False  # values of whole numbers, and whether something else than their layout changes
    for node in graph.proto.node:
        if whole.isdisjoint(node.input) or node.op_type == "Shape":
            continue
        if node.op_type in _LAYOUT:
            whole.update(node.output)
        elif node.op_type != "Cast" or all(entry.i not in real for entry in node.attribute if entry.name == "to"):
            rounding = True
    if kind not in (types.UNDEFINED, *real) and rounding:
        got = types.DataType.Name(kind) if kind in types.DataType.values() else str(kind)
        raise InputError(
            f"Expected an input of float32 or float64 numbers, got {got} for {name!r} in {graph.path}. Export the "
            "network with a float input."
        )
    values, kinds = {name}, {kind}
    for node in graph.proto.node:
        if node.op_type != "Shape" and values.intersection(node.input):
            values.update(node.output)
            kinds.update(
                attribute.i for attribute in node.attribute if node.op_type == "Cast" and attribute.name == "to"
            )
    return torch.float64 if types.DOUBLE in kinds else torch.float32


def _step(node: Node) -> Step:
    try:
        step = OPERATORS[node.kind](node)
    except InputError:
        raise
    except (*_FAILURES, MemoryError) as error:
        node.error(f"its inputs or attributes are damaged ({error})")
    if not all(map(node.has, step.takes)):
        node.error("one of its inputs is missing")
    return step


def _outputs(made: Any) -> tuple[Any, ...]:
    return tuple(made) if isinstance(made, tuple | list) else (made,)


def _attribute(proto: Any, folder: Path) -> Any:
    """The value of an attribute; a tensor becomes a torch tensor, a subgraph stays as it is and is never run."""
    onnx = onnx_library()
    if proto.type == onnx.AttributeProto.TENSOR:
        return read_tensor(proto.t, folder)
    value = onnx.helper.get_attribute_value(proto)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
