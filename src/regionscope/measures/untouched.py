"""Run a user's model and leave no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regionscope.network import full_precision

__all__ = ["home", "untouched"]


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Inside: eval mode and no gradients. Afterwards: every mode flag, buffer and the global random state as before.

    Buffers come back even if the model writes to them in eval mode. Hooks that the user has put on the model are part
    of its forward pass (weight normalisation and pruning live there) and do run. Cost: a copy of the buffers.
    """
    modes = [(module, module.training) for module in model.modules()]
    buffers = [
        (module, name, tensor, tensor.detach().clone())
        for module in model.modules()
        for name, tensor in module._buffers.items()
        if tensor is not None
    ]
    versions = [_version(tensor) for _, _, tensor, _ in buffers]
    device, _ = home(model)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), torch.no_grad(), full_precision():
        try:
            for module, _ in modes:
                module.training = False
            yield
        finally:
            for module, training in modes:
                module.training = training
            for (module, name, tensor, value), version in zip(buffers, versions, strict=True):
                module._buffers[name] = tensor
                if version is None or _version(tensor) != version:
                    tensor.copy_(value)


def home(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Device and floating dtype of the model's parameters (or else its buffers); the CPU and float32 if it has none."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            return tensor.device, tensor.dtype
    return torch.device("cpu"), torch.get_default_dtype()


def _version(tensor: Tensor) -> int | None:
    """How often the tensor was written to; unknown for tensors made in inference mode."""
    return None if tensor.is_inference() else tensor._version
