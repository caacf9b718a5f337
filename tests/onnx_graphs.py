"""Small ONNX graphs that tests build themselves, and the folder of real ones where this machine has it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MODELS = next(
    (found for parent in Path(__file__).resolve().parents if (found := parent / "shared" / "models").is_dir()), None
)
needs_models = pytest.mark.skipif(MODELS is None, reason="there is no folder shared/models with real networks")


_EXTERNAL = ContextVar("external", default=False)


@pytest.fixture(params=["inlined", "external"])
def stored(request: pytest.FixtureRequest) -> Iterator[str]:
    """Weights inside the files that a test writes, or beside them as ``torch.onnx.export`` stores them."""
    token = _EXTERNAL.set(request.param == "external")
    yield request.param
    _EXTERNAL.reset(token)


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attributes: Any) -> Any:
    """A node; the name of the graph's input is x, that of its output y."""
    onnx = pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")
    return onnx.helper.make_node(kind, list(inputs), list(outputs), name=f"my_{kind}", **attributes)


def constant(*shape: int, seed: int = 0, low: float = -1.0) -> np.ndarray[Any, Any]:
    """Fixed pseudo-random numbers."""
    return np.random.default_rng(seed).uniform(low, 1.0, shape).astype(np.float32)


def write(
    path: Path,
    nodes: Sequence[Any],
    constants: Mapping[str, Any],
    shape: Sequence[int | str | None],
    *,
    opset: int = 17,
    output: Sequence[int | str | None] | None = None,
) -> Path:
    """Write a graph from x of this shape to y."""
    onnx = pytest.importorskip("onnx", reason="reading ONNX files needs the extra onnx")
    tensors = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, output)],
        tensors,
    )
    domains = sorted({entry.domain for entry in nodes if entry.domain})
    imports = [onnx.helper.make_opsetid("", opset), *(onnx.helper.make_opsetid(name, 1) for name in domains)]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    return save(model, path)


def save(model: Any, path: Path) -> Path:
    """Write a model; see ``stored``."""
    data = path.with_name(f"{path.name}.data")
    data.unlink(missing_ok=True)  # onnx would append to it
    external = {"save_as_external_data": True, "location": data.name, "size_threshold": 0} if _EXTERNAL.get() else {}
    import onnx

    onnx.save_model(model, path, **external)
    return path


def relu_network(path: Path, sizes: Sequence[int], *, seed: int = 0) -> Path:
    """A random MLP as Gemm and Relu nodes."""
    nodes, last = [], "x"
    constants: dict[str, np.ndarray] = {}
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        constants |= {f"w{i}": constant(a, b, seed=seed + 2 * i) * 2, f"b{i}": constant(b, seed=seed + 2 * i + 1)}
        final = i == len(sizes) - 2
        nodes.append(node("Gemm", [last, f"w{i}", f"b{i}"], ["y" if final else f"h{i}"]))
        if not final:
            nodes.append(node("Relu", [f"h{i}"], [f"r{i}"]))
        last = f"r{i}"
    return write(path, nodes, constants, [1, sizes[0]])
