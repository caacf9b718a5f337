"""The operators by family. Importing them fills the table."""

from regionscope.network.onnx.operators import (
    activations,
    arithmetic,
    constants,
    indexing,
    layers,
    pooling,
    shapes,
)

__all__ = ["activations", "arithmetic", "constants", "indexing", "layers", "pooling", "shapes"]
