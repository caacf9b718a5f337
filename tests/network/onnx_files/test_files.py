"""Whole files: the real networks of the benchmarks, and files that are damaged or hostile."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import regionscope as rs
from onnx_graphs import MODELS, constant, needs_models, node, relu_network, save, write
from regionscope.cli import app
from regionscope.network.onnx import file, reference_outputs, table

onnx = pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")
pytestmark = pytest.mark.usefixtures("stored")
FILES = sorted(MODELS.glob("*/onnx/*.onnx.gz")) if MODELS else []


@needs_models
@pytest.mark.slow
def test_real_networks_agree_with_the_reference_evaluator(tmp_path: Path) -> None:
    assert len(FILES) == 105
    for path in FILES:
        model = onnx.load_model_from_string(gzip.decompress(path.read_bytes()))
        network = rs.read_onnx(save(model, tmp_path / "net.onnx"))
        x = torch.randn(2, *network.input_shape, generator=torch.Generator().manual_seed(0))
        wanted = reference_outputs(network, x)
        with torch.no_grad():
            torch.testing.assert_close(
                network(x).reshape(2, -1), wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()), msg=path.name
            )


@needs_models
def test_a_transformer_is_read_and_refused_by_exact_instruments() -> None:
    assert MODELS is not None
    network = rs.read_onnx(next((MODELS / "vit_2023" / "onnx").glob("*.gz")))
    with pytest.raises(rs.NotPiecewiseAffine):
        rs.trace(network, network.input_shape)


def test_folds_are_named_after_the_nodes(tmp_path: Path) -> None:
    network = rs.read_onnx(relu_network(tmp_path / "net.onnx", [2, 8, 8, 3]))
    part = rs.linear_regions(network, rs.Box.between(-1, 1, (2,)))
    part.check()
    assert list(part.by_layer) == ["my_Relu", "my_Relu_2"]
    assert rs.local_complexity(network, torch.zeros(1, 2), dims=2).total.shape == (1,)


def test_inputs_of_another_shape_are_refused(tmp_path: Path) -> None:
    network = rs.read_onnx(relu_network(tmp_path / "net.onnx", [4, 5, 2]))
    for call in (lambda x: network(x), lambda x: rs.linear_regions(network, rs.Segment(x[0], x[1]))):
        with pytest.raises(rs.InputError, match=r"inputs of shape \(v, 4\) for net.onnx, got \(v, 1, 4\)"):
            call(torch.rand(2, 1, 4))


def test_gzipped_files_are_read(tmp_path: Path) -> None:
    plain = relu_network(tmp_path / "net.onnx", [2, 4, 2])
    packed = tmp_path / "net.onnx.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    x = torch.randn(3, 2)
    assert torch.equal(rs.read_onnx(plain)(x), rs.read_onnx(packed)(x))


def test_an_unknown_operator_names_node_operator_and_opset(tmp_path: Path) -> None:
    path = write(tmp_path / "net.onnx", [node("Sin", ["x"])], {}, [1, 2])
    with pytest.raises(rs.InputError, match=r"'my_Sin' is the operator Sin \(opset 17\)"):
        rs.read_onnx(path)


def two_headed(folder: Path) -> Path:
    """An MLP with the output y, and a second output that only an unknown operator makes."""
    path = relu_network(folder / "two.onnx", [2, 8, 3])
    model = onnx.load(path)
    model.graph.node.extend([node("Relu", ["y"], ["folded"]), node("Sin", ["folded"], ["other"])])
    model.graph.output.append(onnx.helper.make_tensor_value_info("other", onnx.TensorProto.FLOAT, None))
    return save(model, path)


def test_one_of_several_outputs_is_read_alone(tmp_path: Path) -> None:
    alone = rs.read_onnx(relu_network(tmp_path / "net.onnx", [2, 8, 3]))
    path, square = two_headed(tmp_path), rs.Box.between(-1, 1, (2,))
    expected = rs.linear_regions(alone, square)
    for output in ("y", 0, -2):
        part = rs.linear_regions(rs.read_onnx(path, output=output), square)
        assert list(part.by_layer) == list(expected.by_layer)
        assert torch.equal(part.vertices, expected.vertices)
    assert torch.equal(rs.read_onnx(alone.path, output="y")(torch.ones(1, 2)), alone(torch.ones(1, 2)))
    for wrong, got in ((None, "none"), ("z", "'z'"), (2, "2")):
        with pytest.raises(rs.InputError, match=rf"Expected output to be one of 'y', 'other', .* got {got}\. Choose"):
            rs.read_onnx(path, output=wrong)
    with pytest.raises(rs.InputError, match="operator Sin"):
        rs.read_onnx(path, output="other")


def test_the_command_line_chooses_an_output(tmp_path: Path) -> None:
    words = ["regions", "--model", str(two_headed(tmp_path)), "--box", "-1", "1", "--json"]
    counts = [json.loads(CliRunner().invoke(app, [*words, "--head", each]).stdout) for each in ("y", "0")]
    assert counts[0]["linear_regions"] == counts[1]["linear_regions"] > 1
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert "Expected --head to be one of 'y', 'other'" in " ".join(refused.stderr.split())


def test_open_sizes_need_an_input_shape(tmp_path: Path) -> None:
    path = write(tmp_path / "net.onnx", [node("Relu", ["x"])], {}, ["n", 3, "height", "width"])
    with pytest.raises(rs.InputError, match="input_shape"):
        rs.read_onnx(path)
    assert rs.read_onnx(path, input_shape=(3, 4, 5))(torch.zeros(2, 3, 4, 5)).shape == (2, 3, 4, 5)
    with pytest.raises(rs.InputError, match="fits"):
        rs.read_onnx(path, input_shape=(1, 4, 5))


def test_a_file_of_another_kind_is_no_onnx_file(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text("[data]\nname = 'digits'\n")
    torch.save({"weight": torch.zeros(2)}, tmp_path / "net.pt")
    for name in ("grid.toml", "net.pt"):
        with pytest.raises(rs.InputError, match=rf"{name}, which is not an ONNX file"):
            rs.read_onnx(tmp_path / name)


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    whole = relu_network(tmp_path / "net.onnx", [2, 4, 2]).read_bytes()
    damaged = tmp_path / "damaged.onnx"
    for end in range(0, len(whole), 7):
        damaged.write_bytes(whole[:end])
        with pytest.raises(rs.InputError):
            rs.read_onnx(damaged)


def test_changed_bytes_give_an_error_or_a_network(tmp_path: Path) -> None:
    whole = relu_network(tmp_path / "net.onnx", [2, 4, 2]).read_bytes()
    damaged = tmp_path / "damaged.onnx"
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        content = bytearray(whole)
        content[random.integers(len(content))] = random.integers(256)
        damaged.write_bytes(bytes(content))
        try:
            assert isinstance(rs.read_onnx(damaged), torch.nn.Module)
        except rs.InputError:
            refused += 1
    assert refused > 20


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "LARGEST_FILE", 1000)
    packed = tmp_path / "net.onnx.gz"
    packed.write_bytes(gzip.compress(bytes(100_000)))
    with pytest.raises(rs.InputError, match="unpacked"):
        rs.read_onnx(packed)


@pytest.mark.parametrize(
    ("nodes", "constants", "shape", "message"),
    [
        ([("Relu", ["b"], ["a"]), ("Relu", ["a"], ["b"]), ("Add", ["x", "b"], ["y"])], {}, [1, 2], "cyclic"),
        ([("Relu", ["x"], ["y"]), ("Relu", ["x"], ["y"])], {}, [1, 2], "second time"),
        ([("MatMul", ["x", "w"], ["y"])], {"w": constant(3, 2)}, [1, 2], "do not fit"),
        ([("ConstantOfShape", ["s"], ["c"]), ("Add", ["x", "c"], ["y"])],
         {"s": np.array([10**6, 10**6])}, [1, 2], "memory"),
        ([("MatMul", ["a", "b"], ["c"]), ("Add", ["x", "c"], ["y"])],
         {"a": np.zeros((10**5, 1), np.float32), "b": np.zeros((1, 10**5), np.float32)}, [1, 2], "fill the memory"),
        ([("Concat", [a] * 2**10, [b], 1) for a, b in ("xa", "ab", "by")], {}, [1, 2], "fill the memory"),
        ([("Add", ["x", "a"], ["y"])], {"a": np.zeros((10**5, 1, 1), np.float32)}, [1, 10**4], "fill the memory"),
        ([("Tile", ["x", "t"], ["y"])], {"t": np.array([1, 10**12])}, [1, 2], "cannot be read"),
        ([("Expand", ["x", "t"], ["y"])], {"t": np.array([10**9, 10**9, 2])}, [1, 2], "cannot be read"),
        ([("Relu", ["w"], ["y"])], {"w": constant(1, 2)}, [1, 2], "depends on the input"),
        ([("Relu", ["x"], ["z"])], {}, [1, 2], "depends on the input"),
        ([("Relu", [], ["z"]), ("Add", ["x", "z"], ["y"])], {}, [1, 2], "my_Relu.*is missing"),
        ([("MatMul", ["x", "w"], ["y"])], {"w": constant(2, 2) * np.float32("nan")}, [1, 2], "'w', got NaN"),
    ],
    ids=["cycle", "rewritten", "misfit", "enormous", "outer-product", "doubling", "broadcast", "tiles", "expand",
         "constant", "unwritten", "no-inputs", "nan"],
)  # fmt: skip
def test_a_hostile_graph_is_refused(nodes: Any, constants: Any, shape: Any, message: str, tmp_path: Path) -> None:
    made = [node(*each[:3], **({"axis": each[3]} if len(each) > 3 else {})) for each in nodes]
    path = write(tmp_path / "net.onnx", made, constants, shape)
    with pytest.raises(rs.InputError, match=message):
        rs.read_onnx(path)


def test_many_rows_are_not_taken_for_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = rs.read_onnx(write(tmp_path / "net.onnx", [node("Add", ["x", "a"])], {"a": constant(4)}, [1, 4]))
    monkeypatch.setattr(table, "MOST_ENTRIES", 10)
    assert network(torch.zeros(100, 4)).shape == (100, 4)


def test_a_tensor_that_lies_about_its_shape_is_refused(tmp_path: Path) -> None:
    path = relu_network(tmp_path / "net.onnx", [2, 4, 2])
    model = onnx.load(path)
    for dims in ([10**6, 10**6], [-2, 4], [3, 4]):
        model.graph.initializer[0].dims[:] = dims
        path.write_bytes(model.SerializeToString())
        with pytest.raises(rs.InputError):
            rs.read_onnx(path)


def with_external(path: Path, location: str, **entries: str) -> Path:
    model = onnx.load(path, load_external_data=False)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.ClearField("external_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_is_read_from_the_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    inside = relu_network(folder / "net.onnx", [2, 4, 2])
    wanted = rs.read_onnx(inside)(torch.ones(1, 2))
    weights = onnx.load(inside).graph.initializer[0].raw_data
    (folder / "weights.bin").write_bytes(b"12" + weights)
    (tmp_path / "secret.bin").write_bytes(weights)
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    with_external(inside, "weights.bin", offset="2", length=str(len(weights)))
    assert torch.equal(rs.read_onnx(inside)(torch.ones(1, 2)), wanted)
    for location in ("../secret.bin", str(tmp_path / "secret.bin"), "link.bin", "", "weights.bin\0"):
        with_external(inside, location, offset="0", length=str(len(weights)))
        with pytest.raises(rs.InputError, match="Move the data into the folder"):
            rs.read_onnx(inside)
    with_external(inside, "weights.bin", offset="30", length=str(len(weights)))
    with pytest.raises(rs.InputError, match="bytes"):
        rs.read_onnx(inside)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_or_a_device_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    for path in (tmp_path / "pipe.onnx", Path(os.devnull)):
        with pytest.raises(rs.InputError, match="not a regular file"):
            rs.read_onnx(path)


def test_a_file_that_changed_confirms_nothing(tmp_path: Path) -> None:
    network = rs.read_onnx(relu_network(tmp_path / "net.onnx", [2, 4, 2]))
    relu_network(tmp_path / "net.onnx", [2, 4, 2], seed=5)
    with pytest.raises(rs.InputError, match="changed"):
        reference_outputs(network, torch.zeros(1, 2))


def test_a_constant_of_a_node_is_read_from_beside_the_file(tmp_path: Path) -> None:
    value = constant(1, 2)
    nodes = [node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(value)), node("Add", ["x", "c"])]
    path, x = write(tmp_path / "net.onnx", nodes, {}, [1, 2]), torch.zeros(1, 2)
    model = onnx.load(path)
    onnx.save_model(
        model, path, save_as_external_data=True, location="c.data", size_threshold=0, convert_attribute=True
    )
    network = rs.read_onnx(path)
    assert (tmp_path / "c.data").exists()
    assert torch.equal(network(x), torch.from_numpy(value))
    assert torch.equal(reference_outputs(network, x), torch.from_numpy(value))
