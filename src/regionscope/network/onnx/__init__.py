"""ONNX files read as ``nn.Module``s; start at ``read``.

- ``file``: bytes to a checked graph and its constants, with nothing read outside the folder.
- ``table``: what an operator sees (``Node``) and how it is registered. ``operators/``: one file per family.
- ``network``: the module that runs the nodes. ``reference``: the same file in the ONNX reference evaluator.
"""

from regionscope.network.onnx.network import OnnxNetwork
from regionscope.network.onnx.read import read_onnx
from regionscope.network.onnx.reference import reference_outputs

__all__ = ["OnnxNetwork", "read_onnx", "reference_outputs"]
