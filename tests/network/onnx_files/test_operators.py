"""Every operator of the reader against the reference evaluator of the onnx package."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regionscope as rs
from onnx_graphs import constant, node, write
from regionscope.network.onnx import reference_outputs
from regionscope.network.onnx.table import OPERATORS

pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")


@dataclass(frozen=True)
class Case:
    """A graph around one operator. ``exact``: whether exact instruments take it too."""

    kind: str
    shape: tuple[Any, ...]
    constants: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] | None = None
    opset: int = 17
    exact: bool = True
    more: tuple[Any, ...] = ()
    note: str = ""
    domain: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind}{self.note and '-' + self.note}"


I64 = np.int64


def sliced(start: int, end: int, step: int) -> dict[str, Any]:
    numbers = {"start": start, "end": end, "axis": 1, "step": step}
    return {name: np.array([value], I64) for name, value in numbers.items()}


IMAGE = (1, 3, 6, 5)
W = constant(4, 3, 3, 2)
UP = constant(3, 2, 3, 2)
CASES = [
    Case("Gemm", (1, 4), {"w": constant(4, 3), "b": constant(3, seed=1)}),
    Case("Gemm", (1, 4), {"w": constant(3, 4)}, {"transB": 1, "alpha": 0.5}, note="transposed"),
    Case("Gemm", (1, 4), {"w": constant(3, 4), "b": constant(1)}, {"transB": 1, "beta": 2.0}, note="scalar-bias"),
    Case("MatMul", (1, 4), {"w": constant(4, 3)}),
    Case("MatMul", (4,), {"w": constant(3, 4)}, inputs=("w", "x"), note="matrix-times-vector"),
    Case("MatMul", (4, 2), {"w": constant(3, 4)}, inputs=("w", "x"), note="matrix-times-matrix"),
    Case("MatMul", (1, 2, 5, 4), {"w": constant(2, 4, 3)}, note="batched"),
    Case("MatMul", (1, 2, 4), inputs=("x", "t"), more=("Transpose", ["x"], ["t"], {"perm": [0, 2, 1]}), exact=False,
         note="product-of-data"),
    Case("Conv", IMAGE, {"w": W, "b": constant(4)}, {"pads": [1, 0, 1, 0], "strides": [2, 1]}),
    Case("Conv", IMAGE, {"w": W}, {"pads": [2, 1, 0, 0], "dilations": [2, 1]}, note="unequal-pads"),
    Case("Conv", IMAGE, {"w": W}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, note="same-upper"),
    Case("Conv", IMAGE, {"w": W}, {"auto_pad": "SAME_LOWER"}, note="same-lower"),
    Case("Conv", (1, 4, 7), {"w": constant(6, 2, 3)}, {"group": 2}, note="1d-groups"),
    Case("ConvTranspose", IMAGE, {"w": UP, "b": constant(2)}, {"strides": [2, 2], "pads": [1, 0, 1, 0]}),
    Case("ConvTranspose", IMAGE, {"w": UP}, {"strides": [2, 2], "output_padding": [1, 1]}, note="longer"),
    Case("ConvTranspose", IMAGE, {"w": UP}, {"pads": [1, 0, 0, 1]}, note="unequal-pads"),
    Case("ConvTranspose", IMAGE, {"w": UP, "b": constant(2)},
         {"strides": [3, 3], "pads": [2, 0, 0, 0], "output_padding": [2, 2]}, note="longer-than-pads"),
    Case("BatchNormalization", IMAGE,
         {"s": constant(3), "b": constant(3, seed=1), "m": constant(3, seed=2), "v": constant(3, seed=3, low=0.1)}),
    Case("BatchNormalization", IMAGE,
         {"s": constant(3), "b": constant(3, seed=1), "m": constant(3, seed=2), "v": constant(3, seed=3, low=0.1)},
         {"momentum": 0.9}, opset=9, note="old"),
    Case("LayerNormalization", (1, 4, 5), {"s": constant(5), "b": constant(5, seed=1)}, {"axis": -1}, exact=False),
    *[Case(kind, (1, 2, 3), {"c": constant(2, 3, low=0.1)}) for kind in ("Add", "Sub", "Mul", "Div")],
    Case("Sub", (1, 2, 3), {"c": constant(3)}, inputs=("c", "x"), note="from-constant"),
    Case("Add", (2, 3), {"c": constant(4, 2, 3)}, note="higher-rank-without-batch"),
    Case("Add", (1, 3), inputs=("x", "x"), note="data"),
    Case("Sum", (1, 3), {"c": constant(3)}, inputs=("x", "x", "c")),
    Case("Neg", (1, 3)),
    Case("Pow", (1, 3), {"c": np.float32(2)}, exact=False),
    Case("Sqrt", (1, 3), inputs=("a",), more=("Abs", ["x"], ["a"], {}), exact=False),
    Case("Exp", (1, 3), exact=False),
    Case("Reciprocal", (1, 3), exact=False),
    Case("Relu", (1, 3)),
    Case("LeakyRelu", (1, 3), attributes={"alpha": 0.3}),
    Case("PRelu", (1, 3), {"s": constant(3)}),
    Case("PRelu", IMAGE, {"s": constant(3, 1, 1)}, note="channels"),
    Case("PRelu", (1, 3), {"s": constant(1)}, note="one-slope"),
    Case("Clip", (1, 3), {"lo": np.float32(-0.3), "hi": np.float32(0.4)}),
    Case("Clip", (1, 3), attributes={"min": -0.2, "max": 0.5}, opset=8, note="attributes"),
    Case("Clip", (1, 3), {"hi": np.float32(0.4)}, inputs=("x", "", "hi"), note="upper-alone"),
    Case("Abs", (1, 3)),
    Case("Max", (1, 3), {"c": constant(3)}),
    Case("Max", (1, 3), {"c": constant(3), "d": constant(3, seed=1)}, note="three"),
    Case("Min", (1, 3), inputs=("x", "a"), more=("Neg", ["x"], ["a"], {}), note="data"),
    Case("HardSigmoid", (1, 3)),
    *[Case(kind, (1, 3), exact=False) for kind in ("Sigmoid", "Tanh", "Erf", "Softplus", "Elu")],
    Case("Gelu", (1, 3), opset=20, exact=False),
    Case("Gelu", (1, 3), attributes={"approximate": "tanh"}, opset=20, exact=False, note="tanh"),
    Case("Softmax", (1, 2, 3), attributes={"axis": 1}, exact=False),
    Case("LogSoftmax", (1, 3), exact=False),
    Case("Sign", (1, 3), exact=False),
    Case("TopK", (1, 5), {"k": np.array([2], I64)}, {"axis": 1}),
    Case("TopK", (1, 3, 2), {"k": np.array([2], I64)}, {"axis": 1, "largest": 0}, note="smallest"),
    Case("Where", (1, 3), inputs=("c", "x", "n"), more=("Greater", ["x", "zero"], ["c"], {}),
         constants={"zero": np.float32(0), "n": np.float32(0)}),
    Case("Where", (1, 3), {"m": np.array([True, False, True]), "n": constant(3)}, inputs=("m", "x", "n"), note="mask"),
    *[Case(kind, (1, 3), {"c": np.float32(0.1)}, exact=False)
      for kind in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")],
    *[Case(kind, (1, 3), {"o": np.float32(0)}, inputs=inputs, exact=False, more=("Greater", ["x", "o"], ["c"], {}))
      for kind, inputs in (("Not", ("c",)), ("And", ("c", "c")), ("Or", ("c", "c")))],
    Case("Scaler", (1, 3), attributes={"offset": [0.5, 1.0, -1.0], "scale": [2.0, 0.5, 1.0]}, domain="ai.onnx.ml"),
    Case("Normalizer", (1, 3), attributes={"norm": "L2"}, exact=False, domain="ai.onnx.ml"),
    Case("Normalizer", (1, 3), attributes={"norm": "L1"}, exact=False, domain="ai.onnx.ml", note="L1"),
    Case("GatherElements", (1, 3, 2), {"i": np.array([[[2, -3], [0, 1]]], I64)}, {"axis": 1}),
    Case("GatherND", (1, 3, 2), {"i": np.array([[[2, 0], [0, 1]]], I64)}, {"batch_dims": 1}),
    Case("GatherND", (3, 2), {"i": np.array([[2, 0], [0, 1], [1, 1]], I64)}, note="without-batch"),
    Case("ReduceL1", (1, 2, 3), attributes={"axes": [2]}),
    Case("MaxPool", IMAGE, attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("MaxPool", IMAGE, attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}, note="padded"),
    Case("MaxPool", IMAGE, attributes={"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}, note="one-sided"),
    Case("MaxPool", (1, 1, 7), attributes={"kernel_shape": [3], "strides": [3], "pads": [2, 1], "ceil_mode": 1},
         note="window-behind-the-image"),
    Case("AveragePool", IMAGE, attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("AveragePool", IMAGE, attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, note="padded"),
    Case("AveragePool", IMAGE, attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
         note="counting-pads"),
    Case("AveragePool", IMAGE, attributes={"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]}, note="one-sided"),
    Case("GlobalAveragePool", IMAGE),
    Case("GlobalMaxPool", IMAGE),
    Case("Resize", IMAGE, {"r": np.array([], np.float32), "s": np.array([1, 1, 2, 3], np.float32)},
         {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    Case("Resize", IMAGE, {"z": np.array([1, 3, 12, 5], I64)}, {"mode": "nearest"}, ("x", "", "", "z"), note="sizes"),
    Case("Upsample", IMAGE, {"s": np.array([1, 1, 2, 2], np.float32)}, {"mode": "nearest"}, opset=9),
    Case("Reshape", (1, 6), {"s": np.array([1, 2, 3], I64)}),
    Case("Reshape", (1, 2, 3), {"s": np.array([0, -1], I64)}, note="zero-and-minus-one"),
    Case("Reshape", (6,), {"s": np.array([2, 3], I64)}, note="without-batch"),
    Case("Flatten", IMAGE),
    Case("Flatten", IMAGE, attributes={"axis": -1}, exact=False, note="last"),
    Case("Transpose", (1, 2, 3), attributes={"perm": [0, 2, 1]}),
    Case("Transpose", (2, 3), note="without-batch"),
    Case("Squeeze", (1, 1, 3), {"a": np.array([1], I64)}),
    Case("Squeeze", (1, 1, 3), attributes={"axes": [1]}, opset=11, note="attribute"),
    Case("Unsqueeze", (1, 3), {"a": np.array([1, -1], I64)}),
    Case("Expand", (1, 1, 3), {"s": np.array([1, 4, 3], I64)}),
    Case("Tile", (1, 2), {"t": np.array([1, 3], I64)}),
    Case("Concat", (1, 2), {"c": constant(1, 3)}, {"axis": 1}, exact=False, note="constant"),
    Case("Concat", (1, 2, 3), attributes={"axis": -1}, inputs=("x", "x")),
    Case("Split", (1, 6), {"s": np.array([2, 4], I64)}, {"axis": 1}),
    Case("Slice", (1, 6), sliced(1, 5, 2)),
    Case("Slice", (1, 6), sliced(4, -99, -2), note="backwards"),
    Case("Slice", (1, 6), attributes={"starts": [2], "ends": [2**62], "axes": [1]}, opset=9, note="attributes"),
    Case("Gather", (1, 6), {"i": np.array([[3, -1]], I64)}, {"axis": 1}),
    Case("Gather", (6,), {"i": np.array(2, I64)}, {"axis": 0}, exact=False, note="scalar"),
    Case("Pad", (1, 2, 3), {"p": np.array([0, 1, 0, 0, 0, 2], I64), "v": np.float32(0.7)}),
    Case("Pad", IMAGE, {"p": np.array([0, 0, 1, 1, 0, 0, 1, 0], I64)}, {"mode": "reflect"}, note="reflect"),
    Case("Pad", (1, 2, 3, 4), {"p": np.array([1, 2, 0, 1], I64), "v": np.float32(1), "a": np.array([-1, 2], I64)},
         opset=18, note="axes"),
    Case("Pad", (1, 2, 3), attributes={"pads": [0, 0, 1, 0, 0, 0], "value": 0.5}, opset=10, note="attributes"),
    Case("ReduceSum", (1, 2, 3), {"a": np.array([1], I64)}, {"keepdims": 0}),
    Case("ReduceSum", (1, 2, 3), attributes={"keepdims": 0}, exact=False, note="to-a-scalar"),
    Case("ReduceMean", (1, 2, 3), attributes={"axes": [0], "keepdims": 0}, exact=False, note="batch"),
    Case("ReduceMean", (1, 2, 3), attributes={"axes": [2]}),
    Case("ReduceMean", (1, 2, 3), {"a": np.array([1, 2], I64)}, opset=18, note="input"),
    Case("ReduceMax", (1, 2, 3), attributes={"axes": [2]}),
    Case("ReduceMin", (1, 2, 3), attributes={"axes": [2]}),
    Case("Identity", (1, 3)),
    Case("Dropout", (1, 3)),
    Case("Cast", (1, 3), attributes={"to": 1}),
]  # fmt: skip
ELSEWHERE = {"Constant", "ConstantOfShape", "Shape", "Equal"}  # of sizes


def graph_of(case: Case, path: Path) -> Path:
    inputs = ("x", *case.constants) if case.inputs is None else case.inputs
    outputs = ["y", "rest"] if case.kind in ("Split", "TopK") else ["y"]
    nodes = [node(case.more[0], case.more[1], case.more[2], **case.more[3])] if case.more else []
    domain = {"domain": case.domain} if case.domain else {}
    nodes.append(node(case.kind, inputs, outputs, **case.attributes, **domain))
    return write(path / "net.onnx", nodes, case.constants, case.shape, opset=case.opset)


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_operator_agrees_with_the_reference_evaluator(case: Case, tmp_path: Path) -> None:
    network = rs.read_onnx(graph_of(case, tmp_path))
    x = torch.randn(3, *network.input_shape, generator=torch.Generator().manual_seed(1))
    wanted = reference_outputs(network, x)
    with torch.no_grad():
        torch.testing.assert_close(network(x).reshape(3, -1), wanted, rtol=1e-5, atol=1e-6)
        for row, out in zip(x.split(1), wanted, strict=True):
            torch.testing.assert_close(network(row).reshape(-1), out, rtol=1e-5, atol=1e-6)
    if case.exact:
        program = rs.trace(network, network.input_shape)
        torch.testing.assert_close(program(x).float(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spatial", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions_agree_with_the_reference_evaluator(spatial: int, groups: int, tmp_path: Path) -> None:
    """The evaluator of onnx adds the bias of the first group to all groups; here it takes one group at a time."""
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    draw, taken = np.random.default_rng(spatial), 0
    for seed in range(30):
        stride, gap, kernel = (draw.integers(1, 4, spatial).tolist() for _ in range(3))
        begin, end, longer = (draw.integers(0, 3, spatial).tolist() for _ in range(3))
        longer = [min(add, step - 1) for add, step in zip(longer, stride, strict=True)]  # the evaluator takes no more
        options = {"strides": stride, "dilations": gap, "pads": begin + end, "output_padding": longer}
        x = constant(1, 2 * groups, *[4] * spatial, seed=seed)
        w, b = constant(2 * groups, 3, *kernel, seed=seed + 1), constant(3 * groups, seed=seed + 2) + 5

        def graph(w: Any, b: Any, groups: int, options: Any = options) -> Path:
            nodes = [node("ConvTranspose", ["x", "w", "b"], group=groups, **options)]
            return write(tmp_path / "net.onnx", nodes, {"w": w, "b": b}, [1, len(w), *[4] * spatial])

        thin = zip(stride, gap, kernel, begin, end, longer, strict=True)
        if any(3 * s + g * (k - 1) + 1 + add - b0 - b1 < 1 for s, g, k, b0, b1, add in thin):
            continue
        parts = zip(np.split(x, groups, 1), np.split(w, groups), np.split(b, groups), strict=True)
        wanted = [evaluator(str(graph(one_w, one_b, 1))).run(None, {"x": one_x})[0] for one_x, one_w, one_b in parts]
        found = rs.read_onnx(graph(w, b, groups))(torch.from_numpy(x)).detach().numpy()
        np.testing.assert_allclose(found, np.concatenate(wanted, 1), rtol=1e-5, atol=1e-5, err_msg=str(options))
        taken += 1
    assert taken > 25


def test_every_operator_has_a_case() -> None:
    assert {case.kind for case in CASES} | ELSEWHERE == set(OPERATORS)


def test_shapes_are_folded_for_any_number_of_rows(tmp_path: Path) -> None:
    """The batch size is read from the input, as exporters do, and a constant token is put in front of each row."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Constant", [], ["zero"], value_ints=[0]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Constant", [], ["two"], value_ints=[2]),
        node("Concat", ["n", "two"], ["size"], axis=0),
        node("ConstantOfShape", ["size"], ["token"]),
        node("Concat", ["token", "x"], ["y"], axis=1),
    ]
    network = rs.read_onnx(write(tmp_path / "net.onnx", nodes, {}, ["n", 3]))
    x = torch.randn(4, 3)
    assert not network.row_by_row
    assert torch.equal(network(x), torch.cat([torch.zeros(4, 2), x], 1))


def test_a_graph_with_a_fixed_batch_runs_row_by_row_where_it_must(tmp_path: Path) -> None:
    nodes = [node("Transpose", ["x"], ["t"], perm=[1, 0]), node("MatMul", ["w", "t"], ["y"])]
    network = rs.read_onnx(write(tmp_path / "net.onnx", nodes, {"w": constant(1, 3)}, [1, 3]))
    x = torch.randn(5, 3)
    torch.testing.assert_close(network(x).reshape(-1, 1), reference_outputs(network, x))
    assert network.row_by_row


def test_a_large_matrix_of_zeros_stays_sparse(tmp_path: Path) -> None:
    weight = np.zeros((512, 256), np.float32)
    weight[np.arange(512), np.arange(512) // 2] = constant(512)
    path = write(tmp_path / "net.onnx", [node("Gemm", ["x", "w", "b"])], {"w": weight, "b": constant(256)}, [1, 512])
    network = rs.read_onnx(path)
    assert sum(p.numel() for p in network.parameters()) == 512 + 256
    x = torch.randn(3, 512)
    torch.testing.assert_close(network(x), reference_outputs(network, x))
    torch.testing.assert_close(rs.trace(network, (512,))(x).float(), reference_outputs(network, x))
