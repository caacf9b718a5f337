"""Types of numbers, and outputs that nobody reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regionscope as rs
from onnx_graphs import constant, node, write
from regionscope.network.onnx import reference_outputs

onnx = pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")
NORM = {"s": constant(3), "b": constant(3, seed=1), "m": constant(3, seed=2), "v": constant(3, low=0.5)}


def declared(path: Path, kind: int) -> Path:
    """The same file with an input of another type."""
    model = onnx.load_model(path)
    model.graph.input[0].type.tensor_type.elem_type = kind
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("kind", ["INT64", "UINT8", "FLOAT16", "BOOL"])
def test_an_input_that_is_not_real_is_refused(kind: str, tmp_path: Path) -> None:
    """The file divides whole numbers and rounds; real numbers would not be rounded."""
    path = write(tmp_path / "a.onnx", [node("Div", ["x", "two"])], {"two": np.array([2], np.int64)}, [1, 4])
    with pytest.raises(rs.InputError, match=f"Expected an input of float32 or float64 numbers, got {kind} for 'x'"):
        rs.read_onnx(declared(path, onnx.TensorProto.DataType.Value(kind)))


def test_whole_numbers_that_become_real_at_once_are_read(tmp_path: Path) -> None:
    nodes = [node("Cast", ["x"], ["r"], to=onnx.TensorProto.FLOAT), node("Gemm", ["r", "w"])]
    path = write(tmp_path / "a.onnx", nodes, {"w": constant(4, 3)}, [1, 4])
    network = rs.read_onnx(declared(path, onnx.TensorProto.UINT8))
    assert torch.allclose(network(torch.ones(1, 4)), torch.from_numpy(constant(4, 3)).sum(0))


def test_a_uint8_image_may_change_its_layout_first(tmp_path: Path) -> None:
    nodes = [node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), node("Cast", ["t"], ["r"], to=onnx.TensorProto.FLOAT),
             node("Flatten", ["r"], ["f"]), node("Gemm", ["f", "w"])]  # fmt: skip
    path = write(tmp_path / "a.onnx", nodes, {"w": constant(6, 3)}, [1, 2, 3])
    network, x = rs.read_onnx(declared(path, onnx.TensorProto.UINT8)), torch.arange(12.0).reshape(2, 2, 3)
    assert torch.allclose(network(x), x.transpose(1, 2).flatten(1) @ torch.from_numpy(constant(6, 3)))


def test_further_inputs_are_fixed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.onnx", [node("Mul", ["x", "mask"], ["h"]), node("Relu", ["h"])], {}, [1, 3])
    model = onnx.load(path)
    model.graph.input.append(onnx.helper.make_tensor_value_info("mask", onnx.TensorProto.FLOAT, [1, 3]))
    path.write_bytes(model.SerializeToString())
    network = rs.read_onnx(path, inputs={"mask": [[1.0, 0.0, -2.0]]})
    x = torch.randn(4, 3)
    assert torch.equal(network(x), torch.relu(x * torch.tensor([1.0, 0.0, -2.0])))
    assert torch.equal(reference_outputs(network, x), network(x))
    assert rs.trace(network, (3,)).n_units == 3
    with pytest.raises(rs.InputError, match=r"one free input, got x, mask .* inputs=\{name: array\}"):
        rs.read_onnx(path)
    with pytest.raises(rs.InputError, match=r"shape \(1, 3\) for the input 'mask' .* got \(3,\)"):
        rs.read_onnx(path, inputs={"mask": [1.0, 0.0, -2.0]})
    with pytest.raises(rs.InputError, match="Did you mean 'mask'"):
        rs.read_onnx(path, inputs={"masks": [[1.0]]})


def test_a_file_is_measured_up_to_a_value(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["h"]), node("Neg", ["h"], ["n"]), node("Exp", ["n"])]
    network = rs.read_onnx(write(tmp_path / "a.onnx", nodes, {}, [1, 3]))
    shorter, x = rs.select_output(network, module="n"), torch.randn(4, 3)
    assert torch.equal(shorter(x), -torch.relu(x))
    assert torch.equal(reference_outputs(shorter, x), shorter(x))
    assert torch.equal(network(x), torch.exp(shorter(x)))
    with pytest.raises(rs.InputError, match="a value of the file that depends on the input, got 'm'"):
        rs.select_output(network, module="m")


def test_whole_numbers_that_stay_whole_are_refused(tmp_path: Path) -> None:
    nodes = [node("Cast", ["x"], ["i"], to=onnx.TensorProto.INT64), node("Div", ["i", "two"], ["h"]),
             node("Cast", ["h"], ["y"], to=onnx.TensorProto.FLOAT)]  # fmt: skip
    path = write(tmp_path / "a.onnx", nodes, {"two": np.array([2], np.int64)}, [1, 4])
    with pytest.raises(rs.InputError, match="got INT32 for 'x'"):
        rs.read_onnx(declared(path, onnx.TensorProto.INT32))


def test_the_size_of_an_input_of_whole_numbers_may_be_read(tmp_path: Path) -> None:
    nodes = [node("Cast", ["x"], ["r"], to=onnx.TensorProto.FLOAT), node("Shape", ["x"], ["s"]),
             node("Reshape", ["r", "s"], ["q"]), node("Relu", ["q"])]  # fmt: skip
    path = write(tmp_path / "a.onnx", nodes, {}, [1, 4])
    assert rs.read_onnx(declared(path, onnx.TensorProto.INT64))(torch.ones(2, 4)).tolist() == [[1.0] * 4] * 2


def test_an_output_without_a_name_is_not_read(tmp_path: Path) -> None:
    """Clip leaves out its lower end, by an empty name as well."""
    nodes = [node("Dropout", ["x"], ["d", ""]), node("Clip", ["d", "", "high"])]
    path = write(tmp_path / "a.onnx", nodes, {"high": np.array(0.5, np.float32)}, [1, 4])
    assert rs.read_onnx(path)(torch.ones(1, 4)).tolist() == [[0.5] * 4]


def test_a_network_that_computes_partly_in_float64_has_one_precision(tmp_path: Path) -> None:
    to = onnx.TensorProto
    nodes = [
        node("Gemm", ["x", "a"], ["h"]), node("Cast", ["h"], ["d"], to=to.DOUBLE), node("Gemm", ["d", "b"], ["g"]),
        node("Cast", ["g"], ["f"], to=to.FLOAT), node("Relu", ["f"]),
    ]  # fmt: skip
    weights = {"a": constant(4, 5), "b": constant(5, 3, seed=1).astype(np.float64)}
    network = rs.read_onnx(write(tmp_path / "a.onnx", nodes, weights, [1, 4]))
    x = torch.from_numpy(constant(6, 4, seed=2))
    assert {p.dtype for p in network.parameters()} == {torch.float64}
    assert torch.allclose(network(x.double()), reference_outputs(network, x).double(), atol=1e-6)
    assert rs.region_count(network, x, slices=3, method="exact").n == 3


@pytest.mark.parametrize(("opset", "attributes"), [(9, {}), (13, {}), (15, {"training_mode": 1})])
def test_batch_normalization_in_training_is_refused(opset: int, attributes: dict[str, Any], tmp_path: Path) -> None:
    """Before opset 14, five outputs mean that the node normalises by the batch."""
    outputs = ["y", "mean", "var", "saved_mean", "saved_var"] if opset < 14 else ["y", "mean", "var"]
    nodes = [node("BatchNormalization", ["x", *NORM], outputs, **attributes)]
    with pytest.raises(rs.InputError, match="normalises by the batch"):
        rs.read_onnx(write(tmp_path / "a.onnx", nodes, NORM, [1, 3, 4], opset=opset))


@pytest.mark.parametrize(("kind", "options"), [("Dropout", {}), ("MaxPool", {"kernel_shape": [2, 2]})])
def test_a_second_output_that_nobody_reads_does_not_matter(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    network = rs.read_onnx(write(tmp_path / "a.onnx", [node(kind, ["x"], ["y", "more"], **options)], {}, [1, 1, 4, 4]))
    x = torch.from_numpy(constant(2, 1, 4, 4))
    wanted = x if kind == "Dropout" else torch.nn.functional.max_pool2d(x, 2, 1)
    assert torch.equal(network(x), wanted)
    used = [node(kind, ["x"], ["h", "more"], **options), node("Cast", ["more"], to=onnx.TensorProto.FLOAT)]
    with pytest.raises(rs.InputError, match="supported"):
        rs.read_onnx(write(tmp_path / "b.onnx", used, {}, [1, 1, 4, 4]))


@pytest.mark.parametrize(("name", "bound"), [("min", np.inf), ("max", -np.inf)])
def test_a_clip_to_infinity_is_refused(name: str, bound: float, tmp_path: Path) -> None:
    inputs = ["x", "end", ""] if name == "min" else ["x", "", "end"]
    with pytest.raises(rs.InputError, match=f"its {name} is -?inf"):
        rs.read_onnx(write(tmp_path / "a.onnx", [node("Clip", inputs)], {"end": np.float32(bound)}, [1, 4]))


@pytest.mark.parametrize(
    ("shape", "appended", "axis"),
    [((4,), (3,), 0), ((6, 5), (2, 5), 0), ((6, 5), (6, 2), -1), ((3, 6, 5), (3, 6, 1), 2)],
)
def test_a_constant_is_appended_without_a_batch(
    shape: tuple[int, ...], appended: tuple[int, ...], axis: int, tmp_path: Path
) -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("Concat", ["c", "x", "r"], axis=axis)]
    network = rs.read_onnx(write(tmp_path / "a.onnx", nodes, {"c": constant(*appended)}, shape))
    x = torch.from_numpy(constant(7, *shape, seed=1))
    for n in (1, 2, 7):
        assert torch.equal(network(x[:n]).reshape(n, -1), reference_outputs(network, x[:n]))
    part = rs.linear_regions(network, rs.Segment(x[0], x[1]))
    part.check()
    assert part.n_linear_regions == 1 + int(((x[0] > 0) != (x[1] > 0)).sum())


def test_quantised_operators_are_named(tmp_path: Path) -> None:
    nodes = [node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), node("DequantizeLinear", ["q", "s", "z"])]
    with pytest.raises(rs.InputError, match=r"DynamicQuantizeLinear .*: a quantised network rounds .* jump"):
        rs.read_onnx(write(tmp_path / "net.onnx", nodes, {}, [1, 4]))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_quantised_file_is_named(dtype: type, tmp_path: Path) -> None:
    weights = {"w": np.ones((4, 3), dtype), "scale": np.float32(0.1)}
    nodes = [node("DequantizeLinear", ["w", "scale"], ["d"]), node("MatMul", ["x", "d"])]
    with pytest.raises(rs.InputError, match=r"INT8 in tensor 'w': the file holds a quantised network.*region_count"):
        rs.read_onnx(write(tmp_path / "net.onnx", nodes, weights, [1, 4]))
