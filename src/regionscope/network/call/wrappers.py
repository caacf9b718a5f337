"""The network inside what torch wraps around it."""

from __future__ import annotations

from torch import nn


def unwrapped(module: nn.Module) -> nn.Module:
    """The network inside ``torch.compile`` and data-parallel wrappers: the same function, with its own layer names."""
    while True:
        if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
            module = module.module
        elif isinstance(getattr(module, "_orig_mod", None), nn.Module):
            module = module._orig_mod  # type: ignore[assignment]
        else:
            return module
