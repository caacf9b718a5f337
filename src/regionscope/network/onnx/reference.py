"""The same file in the reference evaluator of the ``onnx`` package, in float32: an independent witness."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.extras import import_extra
from regionscope.network.onnx.file import external_tensors, onnx_library, read_graph, read_tensor
from regionscope.network.onnx.network import OnnxNetwork


def reference_outputs(network: OnnxNetwork, inputs: Tensor) -> Tensor:
    """(v, c) outputs of ``onnx.reference.ReferenceEvaluator`` in float32 at (v, *input_shape), one row at a time.

    The file is read again and must be the one that the network comes from.
    """
    evaluator = import_extra("onnx.reference", who="Confirming a result needs", library="onnx", extra="onnx")
    onnx, graph = onnx_library(), read_graph(network.path)
    if graph.digest != network.digest:
        raise InputError(
            f"Expected the file that the network was read from, got a changed {network.path}. Read the file again."
        )
    for tensor in external_tensors(graph.model):  # the evaluator takes no other constants than those in the model
        numbers = read_tensor(tensor, graph.path.parent).numpy()
        tensor.CopyFrom(onnx.numpy_helper.from_array(numbers, tensor.name))
    run = evaluator.ReferenceEvaluator(graph.model, new_ops=[_batch_normalization()] if graph.opset < 14 else [])
    rows = inputs.detach().cpu().to(torch.float32).numpy()
    outputs = []
    for row in rows:
        given = row[None] if network.batch_axis else row
        fixed = {name: value.numpy() for name, value in network.fixed.items()}
        (out,) = run.run([network.output_name], {network.input_name: given, **fixed})
        outputs.append(torch.from_numpy(np.ascontiguousarray(out)).reshape(-1))
    return torch.stack(outputs)


def _batch_normalization() -> Any:
    """BatchNormalization before opset 14: the file format says that one output means inference, but the evaluator
    normalises by the batch all the same (onnx 1.23).
    """
    op_run = import_extra("onnx.reference.op_run", who="Confirming a result needs", library="onnx", extra="onnx")

    def run(_self: Any, x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float = 1e-5, **_: Any) -> Any:
        shape = (-1, *[1] * (x.ndim - 2))
        factor = scale / np.sqrt(var + np.float32(epsilon))
        return (((x - mean.reshape(shape)) * factor.reshape(shape) + bias.reshape(shape)).astype(x.dtype),)

    return type("BatchNormalization", (op_run.OpRun,), {"op_domain": "", "_run": run})
