"""The network inside the wrappers of torch, and the state of our own wrappers."""

from __future__ import annotations

from typing import Any

from torch import nn

_LAYERS = ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules")


def unwrapped(module: nn.Module) -> nn.Module:
    """The network inside ``torch.compile`` and data-parallel wrappers: the same function, with its own layer names."""
    while True:
        if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
            module = module.module
        elif isinstance(getattr(module, "_orig_mod", None), nn.Module):
            module = module._orig_mod  # type: ignore[assignment]
        else:
            return module


def shared_state(module: nn.Module, **fields: Any) -> dict[str, Any]:
    """The ``__dict__`` of a module that has the layers of ``module`` under their names, and these fields."""
    return {**nn.Module().__dict__, **fields, **{name: module.__dict__[name] for name in _LAYERS}}
