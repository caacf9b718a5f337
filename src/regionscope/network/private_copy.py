"""A private copy of a module to read: eval mode, the program's dtype and device, no hooks. The original stays as is."""

from __future__ import annotations

import types
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from regionscope.checks import unreadable
from regionscope.errors import InputError

_CONTAINERS = (list, tuple, dict, OrderedDict)


def private_copy(module: nn.Module, dtype: torch.dtype, device: torch.device) -> tuple[nn.Module, dict[int, nn.Module]]:
    """The tree of ``module`` copied: floating-point tensors cast to ``dtype``, eval mode, user hooks left out.

    Hooks do not fire and so cannot change the result; the pre-forward hooks by which torch itself computes a weight
    (the older weight_norm and spectral_norm, pruning) are evaluated once, for the weight as it stands. Also returns
    the copy of each module by the id of the original, for forwards that reach an original through a closure. Cost: one
    copy of the parameters.
    """
    _check_tensors(module)
    with torch.no_grad():
        copier = _Copier(dtype, device)
        copied: nn.Module = copier.value(module)
    return copied, {key: value for key, value in copier.done.items() if isinstance(value, nn.Module)}


def _check_tensors(module: nn.Module) -> None:
    for noun, tensors in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
        for name, tensor in tensors:
            if nn.parameter.is_lazy(tensor):
                raise InputError(f"{noun} '{name}' has no shape yet; run the module once on data to initialise it.")
            if refused := unreadable(tensor):
                raise InputError(f"Expected {noun} '{name}' to hold real numbers, got {refused}")
            if tensor.is_floating_point() and not bool(tensor.detach().isfinite().all()):
                raise InputError(f"{noun} '{name}' holds NaN or infinity; exact regions need finite weights.")


class _Copier:
    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype = dtype
        self.device = device
        self.done: dict[int, Any] = {}
        self.kept: list[Any] = []  # keeps the originals alive, so that their ids stay theirs

    def value(self, value: Any) -> Any:
        """The copy of ``value``; equal objects stay equal (tied weights, shared layers)."""
        if id(value) in self.done:
            return self.done[id(value)]
        if isinstance(value, nn.Module):
            return self._module(value)
        if isinstance(value, Tensor):
            return self._remember(value, self._tensor(value))
        if type(value) in _CONTAINERS:
            return self._container(value)
        if isinstance(value, types.MethodType) and isinstance(value.__self__, nn.Module):
            return types.MethodType(value.__func__, self.value(value.__self__))
        return value

    def _remember(self, original: Any, copied: Any) -> Any:
        self.kept.append(original)
        self.done[id(original)] = copied
        return copied

    def _tensor(self, tensor: Tensor) -> Tensor:
        dtype = self.dtype if tensor.is_floating_point() else tensor.dtype
        copied = tensor.detach().to(device=self.device, dtype=dtype, copy=True)
        return nn.Parameter(copied, requires_grad=False) if isinstance(tensor, nn.Parameter) else copied

    def _container(self, container: Any) -> Any:
        if isinstance(container, tuple):
            return self._remember(container, tuple(self.value(item) for item in container))
        if isinstance(container, list):
            items: list[Any] = self._remember(container, [])
            items.extend(self.value(item) for item in container)
            return items
        entries: dict[Any, Any] = self._remember(container, type(container)())
        for key, item in container.items():
            entries[key] = self.value(item)
        return entries

    def _module(self, module: nn.Module) -> nn.Module:
        copied: nn.Module = self._remember(module, object.__new__(type(module)))
        state = copied.__dict__
        for key, item in module.__dict__.items():
            is_hooks = isinstance(item, dict) and key.startswith("_") and key.endswith(("_hooks", "_always_called"))
            state[key] = type(item)() if is_hooks else self.value(item)
        for key in [key for key in state if key.endswith("hooks_with_kwargs")]:
            state[key] = OrderedDict()
        state["training"] = False
        for hook in module._forward_pre_hooks.values():
            self._weight_of_hook(hook, copied)
        return copied

    def _weight_of_hook(self, hook: Any, copied: nn.Module) -> None:
        if isinstance(hook, WeightNorm):
            copied.__dict__[hook.name] = hook.compute_weight(copied)
        elif isinstance(hook, SpectralNorm):
            copied.__dict__[hook.name] = hook.compute_weight(copied, do_power_iteration=False)
        elif isinstance(hook, BasePruningMethod):
            copied.__dict__[hook._tensor_name] = hook.apply_mask(copied)
