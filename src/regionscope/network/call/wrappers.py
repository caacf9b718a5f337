"""The network inside the wrappers of torch and Lightning, and the state of our own wrappers."""

from __future__ import annotations

from typing import Any

from torch import nn

_LAYERS = ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules")


def unwrapped(module: nn.Module) -> nn.Module:
    """The network inside ``torch.compile``, data-parallel wrappers and Lightning Fabric, with its own layer names. The
    mixed precision of Fabric is left out.
    """
    while True:
        if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
            module = module.module
        elif type(module).__name__ == "_FabricModule":  # without importing Lightning
            module = module._original_module  # type: ignore[assignment]
        elif isinstance(getattr(module, "_orig_mod", None), nn.Module):
            module = module._orig_mod  # type: ignore[assignment]
        else:
            return module


def shared_state(module: nn.Module, **fields: Any) -> dict[str, Any]:
    """The ``__dict__`` of a module that has the layers of ``module`` under their names, and these fields."""
    return {**nn.Module().__dict__, **fields, **{name: module.__dict__[name] for name in _LAYERS}}
