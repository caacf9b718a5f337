"""Bytes to a checked ONNX graph: a damaged or hostile file gets an error, and nothing outside its folder is read."""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.extras import import_extra

LARGEST_FILE = 2**31 - 1  # bytes of one protobuf message
OLDEST_OPSET = 7  # the first with the broadcasting of NumPy


@dataclass(frozen=True)
class Graph:
    """A parsed file: the protobuf model, its opset, its constants by name, where it comes from, the files beside it
    with external data, and the SHA-256 of its unpacked content and external data.
    """

    model: Any
    opset: int
    constants: dict[str, Tensor]
    path: Path
    external: tuple[Path, ...]
    digest: str

    @property
    def proto(self) -> Any:
        """The graph of the model."""
        return self.model.graph


def onnx_library() -> Any:
    """The ``onnx`` package, or an error that names the extra."""
    return import_extra("onnx", who="Reading ONNX files needs", library="onnx", extra="onnx")


def read_bytes(path: Path) -> bytes:
    """The content of an .onnx or .onnx.gz file, unpacked."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(
                f"Expected an .onnx or .onnx.gz file, got {path}, which is not a regular file. Check the path."
            )
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"Expected an ONNX file below 2 GiB, got {path}. Store its weights as external data.")
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as stream:
            content = stream.read(LARGEST_FILE + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Expected an .onnx or .onnx.gz file, got {path}: {reason}. Check the path.") from error
    if len(content) > LARGEST_FILE:
        raise InputError(f"Expected at most 2 GiB when unpacked, got more from {path}. Check where it comes from.")
    return content


def read_graph(path: Path) -> Graph:
    """Parse the file and load its constants."""
    onnx = onnx_library()
    content = read_bytes(path)
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # the protobuf library decides which type a damaged message raises
        raise InputError(
            f"Expected an ONNX model, got {path}, which is not an ONNX file, or a damaged one. Pass a file that "
            "torch.onnx.export wrote, or export it again."
        ) from error
    if not model.graph.node or not model.graph.output:
        raise InputError(f"Expected an ONNX model with nodes and outputs, got {path} without. Export it again.")
    opset = next((opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")), 0)
    if opset < OLDEST_OPSET:
        raise InputError(f"Expected opset {OLDEST_OPSET} or later, got {opset} in {path}. Export it again.")
    constants = {tensor.name: read_tensor(tensor, path.parent) for tensor in model.graph.initializer}
    if model.graph.sparse_initializer:
        raise InputError(f"Expected dense initializers, got a sparse one in {path}. Export it again without.")
    digest, beside = hashlib.sha256(content), dict[Path, None]()
    for tensor in external_tensors(model):
        digest.update(_external(tensor, path.parent))
        beside[path.parent / _entries(tensor)["location"]] = None
    return Graph(model, opset, constants, path, tuple(beside), digest.hexdigest())


def external_tensors(model: Any) -> list[Any]:
    """The constants of a model whose numbers are in files beside it."""
    tensors = chain(model.graph.initializer, (entry.t for node in model.graph.node for entry in node.attribute))
    return [tensor for tensor in tensors if tensor.data_location == tensor.EXTERNAL]


def read_tensor(tensor: Any, folder: Path) -> Tensor:
    """A stored tensor; its bytes must be as many as its shape says, and external ones lie inside ``folder``."""
    onnx = onnx_library()
    wanted = {
        onnx.TensorProto.FLOAT: np.float32,
        onnx.TensorProto.DOUBLE: np.float64,
        onnx.TensorProto.INT64: np.int64,
        onnx.TensorProto.INT32: np.int32,
        onnx.TensorProto.BOOL: np.bool_,
    }
    if tensor.data_type not in wanted:
        kind = tensor.data_type
        named = onnx.TensorProto.DataType.Name(kind) if kind in onnx.TensorProto.DataType.values() else str(kind)
        if named.removeprefix("U") in ("INT8", "INT4", "INT2"):
            raise InputError(
                f"Expected float32 weights, got {named} in tensor {tensor.name!r}: the file holds a quantised network, "
                "whose values jump. Read the file that it was made from, or pass a function that runs it to "
                "region_count()."
            )
        raise InputError(
            f"Expected float32, float64, int32, int64 or bool, got {named} in tensor {tensor.name!r}. Convert it first."
        )
    dtype = np.dtype(wanted[tensor.data_type])
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape) or math.prod(shape) * dtype.itemsize > 4 * LARGEST_FILE:
        raise InputError(
            f"Expected a tensor that fits into memory, got shape {shape} for {tensor.name!r}. Export the model again."
        )
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        array = np.frombuffer(_external(tensor, folder), dtype=dtype.newbyteorder("<"))
    else:
        try:
            array = onnx.numpy_helper.to_array(tensor).reshape(-1)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"Expected {math.prod(shape)} numbers in tensor {tensor.name!r}, got other content: {error}. "
                "Export the model again."
            ) from error
    if array.size != math.prod(shape):
        raise InputError(
            f"Expected {math.prod(shape)} numbers in tensor {tensor.name!r}, got {array.size}. Export the model again."
        )
    if dtype.kind == "f" and bool(np.isnan(array).any()):
        raise InputError(f"Expected numbers in tensor {tensor.name!r}, got NaN. Train the network again.")
    return torch.from_numpy(np.array(array, dtype=dtype).reshape(shape))


def _external(tensor: Any, folder: Path) -> bytes:
    """The bytes of external data, from a file that lies in the folder of the model."""
    entries = _entries(tensor)
    location = entries.get("location", "")
    root = folder.resolve()
    named = isinstance(location, str) and location and "\0" not in location  # protobuf gives damaged text as bytes
    path = (root / location).resolve() if named else None
    if path is None or Path(location).is_absolute() or not path.is_relative_to(root):
        raise InputError(
            f"Expected external data inside {root}, got {location!r} for tensor {tensor.name!r}. "
            "Move the data into the folder of the model."
        )
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
        size = path.stat().st_size
        if not path.is_file() or offset < 0 or offset + max(length, 0) > size or size > 16 * LARGEST_FILE:
            raise InputError(
                f"Expected {length} bytes at {offset} in {path.name}, which has {size}, for tensor {tensor.name!r}. "
                "Copy the whole data file beside the model."
            )
        with path.open("rb") as stream:
            stream.seek(offset)
            content: bytes = stream.read(length)
        return content
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"The external data {location!r} of tensor {tensor.name!r} cannot be read: {error}. "
            "Copy the data file beside the model."
        ) from error


def _entries(tensor: Any) -> dict[str, Any]:
    """Where the external data of a tensor is: its location, offset and length, as far as they are given."""
    return {entry.key: entry.value for entry in tensor.external_data}


def dimensions(value: Any) -> Iterator[int | None]:
    """The declared sizes of an input or output; None where a size is symbolic, negative or missing."""
    for size in value.type.tensor_type.shape.dim:
        yield size.dim_value if size.WhichOneof("value") == "dim_value" and size.dim_value >= 0 else None
