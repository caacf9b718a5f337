"""Files without a batch dimension, and files that move or drop a batch dimension of 1, against the onnx package."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regionscope as rs
from onnx_graphs import constant, node, write
from regionscope.network.onnx import reference_outputs

pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")


@dataclass(frozen=True)
class File:
    """Nodes (operator, inputs, outputs, attributes) from x of this shape to y. ``exact``: trace must accept it."""

    name: str
    shape: tuple[Any, ...]
    nodes: list[tuple[Any, ...]]
    constants: dict[str, Any] = field(default_factory=dict)
    output: tuple[Any, ...] | None = None
    exact: bool = True
    opset: int = 17

    def write(self, folder: Path) -> Path:
        made = [node(*each[:3], **(each[3] if len(each) > 3 else {})) for each in self.nodes]
        return write(folder / "net.onnx", made, self.constants, self.shape, opset=self.opset, output=self.output)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def one(kind: str, *inputs: str, **attributes: Any) -> list[tuple[Any, ...]]:
    return [(kind, ["x", *inputs], ["y"], attributes)]


def normal(n: int) -> dict[str, Any]:
    return {"s": constant(n), "b": constant(n, seed=1), "m": constant(n, seed=2), "v": constant(n, seed=3, low=0.1)}


MOST_OF_EACH = ("ReduceMax", ["x"], ["a"], {"axes": [0], "keepdims": 0})
GEMM = [("Gemm", ["x", "w", "b"], ["y"])]
WITHOUT_BATCH = [
    File("gemm-column", (3, 4), GEMM, {"w": constant(4, 3), "b": constant(3, 1)}, (3, 3)),
    File("gemm-row", (3, 4), GEMM, {"w": constant(4, 3), "b": constant(1, 3)}, (3, 3)),
    File("gemm-vector", (3, 4), GEMM, {"w": constant(4, 3), "b": constant(3)}, (3, 3)),
    File("gemm-number", (3, 4), GEMM, {"w": constant(4, 3), "b": constant(1, 1)}, (3, 3)),
    File("gemm-matrix", (3, 4), GEMM, {"w": constant(4, 3), "b": constant(3, 3)}, (3, 3)),
    *[
        File(f"batch-norm-{'x'.join(map(str, shape))}", shape, one("BatchNormalization", *"sbmv"), normal(n), shape)
        for shape, n in (((3, 3), 3), ((3, 4), 4), ((3, 3, 4), 3), ((2, 3, 4, 5), 3))
    ],
    File("conv", (2, 3, 8), one("Conv", "w", "b", pads=[1, 0]), {"w": constant(4, 3, 3), "b": constant(4)}, (2, 4, 7)),
    File("conv-groups", (2, 4, 5, 6), one("Conv", "w", group=2), {"w": constant(6, 2, 3, 2)}, (2, 6, 3, 5)),
    File("conv-transpose", (2, 3, 4), one("ConvTranspose", "w", "b"), {"w": constant(3, 2, 3), "b": constant(2)}),
    File("conv-transpose-cut", (2, 2, 4), one("ConvTranspose", "w", "b", pads=[2, 0]),
         {"w": constant(2, 2, 3), "b": constant(2)}),
    File("conv-of-one-image", (3, 5, 6), [("Unsqueeze", ["x", "a"], ["u"]), ("Conv", ["u", "w"], ["c"]),
         ("Relu", ["c"], ["r"]), ("Squeeze", ["r", "a"], ["y"])], {"w": constant(4, 3, 3, 2), "a": ints(0)}, (4, 3, 5)),
    File("max-pool", (2, 3, 8), one("MaxPool", kernel_shape=[2], strides=[2]), {}, (2, 3, 4)),
    File("max-pool-one-sided", (3, 1, 7), one("MaxPool", kernel_shape=[3], strides=[2], pads=[1, 0])),
    File("average-pool", (2, 3, 4, 4), one("AveragePool", kernel_shape=[2, 2], pads=[1, 1, 0, 0]), {}, (2, 3, 4, 4)),
    File("global-average-pool", (2, 3, 4), one("GlobalAveragePool"), {}, (2, 3, 1)),
    File("resize", (2, 3, 4), one("Resize", "", "s", mode="nearest"), {"s": np.float32([1, 1, 2])}, (2, 3, 8)),
    File("resize-to", (2, 3, 4), one("Resize", "", "", "s", mode="nearest"), {"s": ints(2, 3, 8)}, (2, 3, 8)),
    File("gemm-of-data", (3, 3), [MOST_OF_EACH, ("Gemm", ["x", "w", "a"], ["y"])], {"w": constant(3, 3)}, exact=False),
    File("gemm-from-the-left", (4, 3), [("Gemm", ["w", "x", "b"], ["y"])], {"w": constant(5, 4), "b": constant(5, 1)}),
    *[
        File(f"matmul-{'x'.join(map(str, shape))}-{'x'.join(map(str, w))}-{''.join(order)}", shape,
             [("MatMul", order, ["y"])], {"w": constant(*w)}, out, exact)
        for shape, w, order, out, exact in (
            ((4,), (4,), ["x", "w"], (), False), ((4,), (4,), ["w", "x"], (), False),
            ((4,), (2, 4, 5), ["x", "w"], (2, 5), False), ((4,), (2, 5, 4), ["w", "x"], (2, 5), False),
            ((3, 4), (4,), ["x", "w"], (3,), True), ((4, 3), (4,), ["w", "x"], (3,), False),
            ((3, 4), (2, 4, 5), ["x", "w"], (2, 3, 5), True), ((4, 3), (2, 5, 4), ["w", "x"], (2, 5, 3), True),
            ((2, 3, 4), (2, 4, 5), ["x", "w"], (2, 3, 5), True),
        )
    ],
    File("matmul-of-data", (3, 3), [MOST_OF_EACH, ("MatMul", ["x", "a"], ["y"])], {}, (3,), False),
    File("matmul-of-vectors", (4,), [("MatMul", ["x", "x"], ["y"])], {}, (), False),
    *[
        File(f"{kind}-of-two-ranks", (3, 3), [MOST_OF_EACH, (kind, ["a", "x"], ["y"])], {}, (3, 3))
        for kind in ("Add", "Sub", "Sum", "Max", "Min")
    ],
    *[
        File(f"{kind}-of-three", (3,), [(kind, ["x", "c", "d"], ["y"])], {"c": constant(3, 1), "d": constant(2, 1, 3)},
             (2, 3, 3), kind == "Sum")
        for kind in ("Sum", "Max", "Min")
    ],
    File("div", (3, 3), one("Div", "c"), {"c": constant(3, 1, low=0.1)}, (3, 3)),
    File("prelu", (3, 3), one("PRelu", "s"), {"s": constant(3, 1)}, (3, 3)),
    File("softmax", (3, 4), one("Softmax", axis=0), {}, (3, 4), False),
    File("softmax-last", (3, 4), one("Softmax"), {}, (3, 4), False),
    File("layer-norm", (3, 4), one("LayerNormalization", "s", axis=0), {"s": constant(3, 4)}, (3, 4), False),
    File("reduce", (3, 4), one("ReduceMax", axes=[0], keepdims=0), {}, (4,)),
    File("reduce-from-the-end", (3, 4), one("ReduceSum", "a"), {"a": ints(-2)}, (1, 4)),
    File("reduce-all", (3, 4), one("ReduceMean", keepdims=0), {}, (), False),
    File("reduce-a-number", (3,), [("ReduceMax", ["x"], ["a"], {"keepdims": 0}), ("ReduceSum", ["a"], ["y"])], {}, (),
         False),
    File("squeeze-a-number", (3,), [("ReduceMax", ["x"], ["a"], {"keepdims": 0}), ("Squeeze", ["a"], ["y"])], {}, (),
         False),
    File("squeeze", (3, 1, 2), one("Squeeze"), {}, (3, 2)),
    File("unsqueeze", (3, 4), one("Unsqueeze", "a"), {"a": ints(-3, 0)}, (1, 1, 3, 4)),
    File("flatten", (2, 3, 4), one("Flatten"), {}, (2, 12)),
    File("flatten-all", (2, 3, 4), one("Flatten", axis=0), {}, (1, 24)),
    File("flatten-vector", (3,), one("Flatten"), {}, (3, 1)),
    File("reshape-zero", (2, 3, 4), one("Reshape", "s"), {"s": ints(0, -1)}, (2, 12)),
    File("reshape-one", (2, 3), one("Reshape", "s"), {"s": ints(1, -1)}, (1, 6)),
    File("transpose", (2, 3, 4), one("Transpose", perm=[2, 0, 1]), {}, (4, 2, 3)),
    File("expand", (3, 1), one("Expand", "s"), {"s": ints(2, 1, 4)}, (2, 3, 4)),
    File("tile", (2, 3), one("Tile", "t"), {"t": ints(2, 1)}, (4, 3)),
    File("concat", (2, 3), [("Concat", ["x", "x"], ["y"], {"axis": 0})], {}, (4, 3)),
    File("split", (3, 2), [("Split", ["x", "s"], ["y", "rest"], {"axis": 0})], {"s": ints(1, 2)}, (1, 2)),
    File("slice", (3, 4), one("Slice", "s", "e"), {"s": ints(1, -2), "e": ints(3, 4)}, (2, 2)),
    File("slice-backwards", (3, 4), one("Slice", *"seat"), {"s": ints(2), "e": ints(-9), "a": ints(-2), "t": ints(-1)}),
    File("gather", (3, 4), one("Gather", "i"), {"i": ints(2, 0)}, (2, 4)),
    File("gather-last", (3, 4), one("Gather", "i", axis=-1), {"i": np.array([[1, -1]])}, (3, 1, 2)),
    File("pad", (2, 3), one("Pad", "p"), {"p": ints(1, 0, 0, 2)}, (3, 5)),
    File("pad-edge", (2, 3), one("Pad", "p", mode="reflect"), {"p": ints(0, 2, 0, 1)}, (2, 6)),
    File("shape", (2, 3), [("Shape", ["x"], ["s"]), ("ConstantOfShape", ["s"], ["c"]), ("Add", ["x", "c"], ["y"])]),
]  # fmt: skip


SQUEEZE = ("Squeeze", ["x"], ["a"])
FIRST = {"start": ints(0), "end": ints(1), "axis": ints(0)}
FOLDED_BACK = [
    ("Reshape", ["x", "s"], ["a"]),
    ("MatMul", ["a", "w"], ["b"]),
    ("Reshape", ["b", "t"], ["c"]),
    ("ReduceMax", ["c"], ["y"], {"axes": [1], "keepdims": 0}),
]
BATCH_OF_ONE = [
    File("squeeze-at-the-end", (1, 4), [("Relu", ["x"], ["r"]), ("Squeeze", ["r"], ["y"])], {}, (4,)),
    File("squeeze-one-number", (1, 4), [("MatMul", ["x", "w"], ["m"]), ("Squeeze", ["m"], ["y"])],
         {"w": constant(4, 1)}, ()),
    File("squeeze-then-linear", (1, 4), [SQUEEZE, ("MatMul", ["a", "w"], ["y"])], {"w": constant(4, 3)}, (3,)),
    File("squeeze-then-left", (1, 4), [SQUEEZE, ("MatMul", ["w", "a"], ["y"])], {"w": constant(3, 4)}, (3,), False),
    File("squeeze-then-max", (1, 4), [SQUEEZE, ("ReduceMax", ["a"], ["y"], {"axes": [0], "keepdims": 0})], {}, (),
         False),
    File("squeeze-then-slice", (1, 4), [SQUEEZE, ("Slice", ["a", *FIRST], ["b"]),
         ("ReduceSum", ["b", "m"], ["y"], {"keepdims": 0})], {**FIRST, "m": ints(-1)}, (), False),
    File("squeeze-then-gather", (1, 4), [SQUEEZE, ("Gather", ["a", "i"], ["y"])], {"i": ints(2, 0)}, (2,), False),
    File("squeeze-then-unsqueeze", (1, 4), [SQUEEZE, ("Unsqueeze", ["a", "i"], ["b"]), ("Flatten", ["b"], ["y"])],
         {"i": ints(1)}, (4, 1), False),
    File("squeeze-an-image", (1, 1, 3, 4), [SQUEEZE, ("ReduceMax", ["a"], ["y"], {"axes": [0], "keepdims": 0})], {},
         (4,), False),
    File("reshape-back", (1, 4), FOLDED_BACK, {"s": ints(4, 1), "t": ints(1, -1), "w": constant(1, 3)}, (1,), False),
    File("reshape-back-fully", (1, 4), FOLDED_BACK, {"s": ints(4, 1), "t": ints(1, 12), "w": constant(1, 3)}, (1,),
         False),
    File("join-and-reshape", (1, 4), [("Concat", ["x", "x"], ["a"], {"axis": 0}), ("Reshape", ["a", "t"], ["y"])],
         {"t": ints(1, -1)}, (1, 8), False),
    File("layer-norm-by-row", (1, 3, 3), one("LayerNormalization", "s", "b"), {"s": constant(3, 1), "b": constant(3)},
         exact=False),
    File("constant-squeeze", (1, 4), [("Squeeze", ["c"], ["d"]), ("Gather", ["d", "i"], ["e"]),
         ("Mul", ["x", "e"], ["y"])],
         {"c": constant(1, 3), "i": ints(2)}, (1, 4)),
]  # fmt: skip
OPEN_BATCH = [
    File("open-squeeze", ("n", 1, 3), [("Relu", ["x"], ["r"]), ("Squeeze", ["r"], ["y"])], {}, ("n", 3)),
    File("open-reshape", ("n", 2, 3), one("Reshape", "s"), {"s": ints(-1, 6)}, ("n", 6)),
    File("open-size", ("n", 3), [("Shape", ["x"], ["s"]), ("Gather", ["s", "i"], ["n"]), ("Squeeze", ["n"], ["q"]),
         ("Unsqueeze", ["q", "i"], ["u"]), ("Concat", ["u", "t"], ["z"], {"axis": 0}), ("Reshape", ["x", "z"], ["y"])],
         {"i": ints(0), "t": ints(3, 1)}, ("n", 3, 1)),
    File("open-token", ("n", 2, 4), [("Shape", ["x"], ["s"]), ("Gather", ["s", "zero"], ["n"]),
         ("Concat", ["n", "same"], ["z"], {"axis": 0}), ("Equal", ["z", "minus"], ["e"]),
         ("Where", ["e", "ones", "z"], ["w"]), ("Expand", ["token", "w"], ["t"]),
         ("Concat", ["t", "x"], ["j"], {"axis": 1}), ("Relu", ["j"], ["y"])],
         {"zero": ints(0), "same": ints(-1, -1), "minus": ints(-1, -1, -1), "ones": ints(1, 1, 1),
          "token": constant(1, 1, 4)}, ("n", 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("file", [*WITHOUT_BATCH, *BATCH_OF_ONE, *OPEN_BATCH], ids=lambda file: file.name)
def test_a_file_is_read_as_it_is_written(file: File, tmp_path: Path) -> None:
    network = pickle.loads(pickle.dumps(rs.read_onnx(file.write(tmp_path))))
    for rows in (3, 2, 1):
        x = torch.randn(rows, *network.input_shape, generator=torch.Generator().manual_seed(rows))
        wanted = reference_outputs(network, x)
        with torch.no_grad():
            torch.testing.assert_close(network(x).reshape(rows, -1), wanted, rtol=1e-5, atol=1e-5)
        try:
            found = rs.trace(network, network.input_shape)(x)
        except rs.RegionscopeError:
            assert not file.exact
        else:
            torch.testing.assert_close(found.reshape(rows, -1).float(), wanted, rtol=1e-5, atol=1e-5)


def test_batch_normalization_of_a_vector_has_one_channel(tmp_path: Path) -> None:
    nodes = [node("BatchNormalization", ["x", "s", "b", "m", "v"], epsilon=0.0)]
    constants = {name: np.array([value], np.float32) for name, value in zip("sbmv", (3, 1, 2, 4), strict=True)}
    network = rs.read_onnx(write(tmp_path / "net.onnx", nodes, constants, [4]))
    assert network(torch.tensor([[2.0, 4, 6, 8]])).tolist() == [[1, 4, 7, 10]]
    with pytest.raises(rs.InputError, match="do not fit"):
        rs.read_onnx(write(tmp_path / "net.onnx", nodes, normal(4), [4]))


@pytest.mark.parametrize(("kind", "wanted"), [("GlobalAveragePool", [3, 11]), ("GlobalMaxPool", [4, 12])])
def test_a_global_pool_without_a_batch_keeps_the_channels(kind: str, wanted: list[int], tmp_path: Path) -> None:
    nodes = [node(kind, ["x"], ["a"]), node("ReduceSum", ["a", "axes"], keepdims=0)]
    network = rs.read_onnx(write(tmp_path / "net.onnx", nodes, {"axes": ints(1, 2)}, [2, 2, 2]))
    assert network(torch.arange(8.0).reshape(1, 2, 2, 2)).tolist() == [wanted]


@pytest.mark.parametrize("name", ["squeeze-at-the-end", "squeeze-then-linear", "open-squeeze", "open-size"])
def test_rows_that_stay_apart_run_together(name: str, tmp_path: Path) -> None:
    (file,) = (file for file in [*BATCH_OF_ONE, *OPEN_BATCH] if file.name == name)
    assert not rs.read_onnx(file.write(tmp_path)).row_by_row


def test_an_open_batch_that_fails_on_one_row_runs_on_many(tmp_path: Path) -> None:
    """With one row, Squeeze would remove the batch, and there is no dimension 1 to join."""
    nodes = [("Squeeze", ["x"], ["a"]), ("Concat", ["a", "a"], ["b"], {"axis": 1})]
    network = rs.read_onnx(File("", ("n", 1, 3), [*nodes, ("Relu", ["b"], ["y"])]).write(tmp_path))
    x = torch.randn(2, 1, 3)
    assert torch.equal(network(x), torch.relu(torch.cat([x[:, 0], x[:, 0]], 1)))
    mixing = [*nodes, ("ReduceMax", ["b"], ["y"], {"axes": [0], "keepdims": 1})]
    with pytest.raises(rs.InputError, match=r"mixes them\. Export the model with a fixed batch of 1"):
        rs.read_onnx(File("", ("n", 1, 3), mixing).write(tmp_path))


SIZES_ALONE = r"it takes real numbers, and is supported for whole numbers, such as sizes, alone\."
REFUSED = [
    (File("equal", (1, 3), [("Equal", ["x", "c"], ["e"]), ("Cast", ["e"], ["y"], {"to": 1})], {"c": constant(3)}),
     SIZES_ALONE),
    (File("conv of one image", (3, 5, 6), one("Conv", "w"), {"w": constant(4, 3, 2, 2)}), "4 dimensions, got 3"),
    (File("max-pool of one image", (3, 5, 6), one("MaxPool", kernel_shape=[2, 2])), "4 dimensions, got 3"),
    (File("one number", (1, 2), one("Relu"), {}, ()), r"output of shape \(\), as .* declares, got \(1, 2\)"),
    *[(File(kind, (3, 1), one(kind, "a"), {"a": ints(-4)}), r"dimensions \[-4\] do not fit")
      for kind in ("ReduceSum", "Squeeze", "Unsqueeze")],
    (File("indices", (3,), [("Cast", ["x"], ["i"], {"to": 7}), ("Gather", ["c", "i"], ["y"], {"axis": 1})],
          {"c": constant(2, 5)}), "its indices may depend on the input only where"),
    (File("two images", (1, 3, 4), [("Concat", ["x", "x"], ["a"], {"axis": 0}),
                                    ("Resize", ["a", "", "", "s"], ["y"], {"mode": "nearest"})],
          {"s": ints(1, 3, 8)}), "not whole multiples"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "sentence"), REFUSED, ids=lambda value: getattr(value, "name", ""))
def test_a_file_that_does_not_fit_is_refused(file: File, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(rs.InputError, match=sentence):
        rs.read_onnx(file.write(tmp_path))
