"""Calling a user's model, and how much memory one more row costs in its forward pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regionscope.errors import CallFailed, InputError, RegionscopeError
from regionscope.formatting import described, first_line
from regionscope.network.exported import OPEN_BATCH

# What torch 2.6, and what newer ones say where an exported program takes another number of inputs.
_FIXED_BATCH = re.compile(r"^Expected input at .*\.shape\[0\] to be equal"), re.compile(r"^Guard failed.*size\(\)\[0\]")
_SAFETY = 2  # values kept for skip connections, and workspaces that kernels take for themselves


def call_model(function: Callable[..., Any], inputs: Any) -> Any:
    """Call the model. Raises ``CallFailed`` with the shape of the inputs if that fails."""
    try:
        return function(inputs)
    except (torch.OutOfMemoryError, RegionscopeError):
        raise
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, AssertionError) as error:
        if any(pattern.search(first_line(error)) for pattern in _FIXED_BATCH):
            raise InputError(
                f"Expected an exported program for any number of inputs, got one of a fixed number. {OPEN_BATCH}"
            ) from error
        advice = "Check the shape and the dtype of the inputs."
        if isinstance(inputs, Tensor) and inputs.ndim == 3 and inputs.is_floating_point():
            advice = f"If you passed a single image x, pass x[None]. {advice}"
        if isinstance(error, IndexError) and isinstance(inputs, Tensor) and inputs.dtype == torch.int64 and len(inputs):
            advice = (
                f"If these are token ids, pass ids below the size of the vocabulary (the largest is {inputs.max()}), "
                "and no longer contexts than the model takes."
            )
        elif "checking arguments for embedding" in str(error):
            advice = "For token ids, give the model an nn.Embedding as a module, in place of functional.embedding."
        raise CallFailed(
            f"The model failed on inputs of shape {tuple(inputs.shape)} and type {inputs.dtype}: "
            f"{described(error)} {advice}"
        ) from error


class _Watch(TorchDispatchMode):
    """Keeps the bytes of every operation, in order: what it reads and what it writes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes: list[int] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler, which takes 2 seconds, and wrap the next method

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, Tensor)]
        self.bytes.append(sum(tensor.numel() * tensor.element_size() for tensor in tensors))
        return result


def row_bytes(model: nn.Module, input_shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> int:
    """Bytes that one more input takes at the widest place of the forward pass, without gradients.

    Measured by running zeros: weights are part of an operation too, so the difference between 3 rows and 2 is taken.
    (A single row is contiguous in more places, and torch then runs other operations.) Cost: two forward passes.
    """
    seen = []
    for n in (2, 3):
        probe = torch.zeros(n, *input_shape, dtype=dtype, device=device)
        with _Watch() as watch, torch.no_grad():
            call_model(model, probe)
        seen.append(watch.bytes)
    fewer, more = seen
    input_bytes = probe[0].numel() * probe.element_size()
    # The two passes run the same operations, unless the model looks at the size of its batch.
    grown = [b - a for a, b in zip(fewer, more, strict=True)] if len(fewer) == len(more) else more
    return int(_SAFETY * max([input_bytes, *grown]))
