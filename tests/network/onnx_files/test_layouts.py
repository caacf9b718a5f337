"""Files without a batch dimension, and files that move or drop a batch dimension of 1, against the onnx package."""

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

pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")


@dataclass(frozen=True)
class File:
    """Nodes (operator, inputs, outputs, attributes) from x of this shape to y. ``exact``: whether trace accepts it."""

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


GEMM = [("Gemm", ["x", "w", "b"], ["y"])]
WITHOUT_BATCH = [
    File("gemm-column", (3, 4), GEMM, {"w": constant(4, 3), "b": constant(3, 1)}, (3, 3)),
    File("gemm-row", (3, 4), GEMM, {"w": constant(4, 3), "b": constant(1, 3)}, (3, 3)),
    File("gemm-vector", (3, 4), GEMM, {"w": constant(4, 3), "b": constant(3)}, (3, 3)),
    File("gemm-number", (3, 4), GEMM, {"w": constant(4, 3), "b": constant(1, 1)}, (3, 3)),
    File("gemm-matrix", (3, 4), GEMM, {"w": constant(4, 3), "b": constant(3, 3)}, (3, 3)),
]


@pytest.mark.parametrize("file", [*WITHOUT_BATCH], ids=lambda file: file.name)
def test_a_file_is_read_as_it_is_written(file: File, tmp_path: Path) -> None:
    network = rs.read_onnx(file.write(tmp_path))
    for rows in (3, 2, 1):
        x = torch.randn(rows, *network.input_shape, generator=torch.Generator().manual_seed(rows))
        wanted = reference_outputs(network, x)
        with torch.no_grad():
            torch.testing.assert_close(network(x).reshape(rows, -1), wanted, rtol=1e-5, atol=1e-5)
        if file.exact:
            program = rs.trace(network, network.input_shape)
            torch.testing.assert_close(program(x).reshape(rows, -1).float(), wanted, rtol=1e-5, atol=1e-5)


def test_the_bias_of_gemm_may_be_a_column(tmp_path: Path) -> None:
    path = write(tmp_path / "net.onnx", [node("Gemm", ["x", "w", "b"])],
                 {"w": np.ones((1, 2), np.float32), "b": np.array([[0], [10]], np.float32)}, [2, 1])  # fmt: skip
    assert rs.read_onnx(path)(torch.zeros(1, 2, 1)).tolist() == [[[0, 0], [10, 10]]]
