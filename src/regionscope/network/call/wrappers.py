"""The network inside the wrappers of torch and Lightning, and the state of our own wrappers."""

from __future__ import annotations

from typing import Any

from torch import nn

_LAYERS = ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules")


def unwrapped(module: nn.Module) -> nn.Module:
    """The network inside ``torch.compile``, data-parallel wrappers and Lightning Fabric, with its own layer names. The
    mixed precision of Fabric is left out.
    """
    while (inner := inside_wrapper(module)) is not None:
        module = inner
    return module


def inside_wrapper(module: nn.Module) -> nn.Module | None:
    """The module that one wrapper holds; None for any other module."""
    if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return module.module  # type: ignore[no-any-return]
    if type(module).__name__ == "_FabricModule":  # without importing Lightning
        return module._original_module  # type: ignore[return-value]
    inner = getattr(module, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else None


def shared_state(module: nn.Module, **fields: Any) -> dict[str, Any]:
    """The ``__dict__`` of a module that has the layers of ``module`` under their names, and these fields."""
    return {**nn.Module().__dict__, **fields, **{name: module.__dict__[name] for name in _LAYERS}}
