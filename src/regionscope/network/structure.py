"""What a module consists of apart from the numbers in its weights."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from torch import nn

Structure = tuple[tuple[Any, ...], ...]
_NO_SETTINGS = frozenset(("training", "name_or_path"))  # the second is the folder that Hugging Face read a model from
_NO_SETTINGS |= {"_is_hf_initialized", "_weight_conversions", "_use_kernels"}  # how Hugging Face read it
_NO_SETTINGS |= {"_compiled_call_impl", *vars(nn.Module())}
_PRINTED_TYPES = (int, float, str, tuple, list, torch.dtype, torch.device, type(None))


def only_torch(module: nn.Module) -> bool:
    """Whether all forwards are those of torch.nn, which use neither the time nor a counter of their own."""
    return all(type(m).__module__.startswith("torch.nn.") and "forward" not in vars(m) for m in module.modules())


def structure_of(module: nn.Module) -> Structure | None:
    """Names, types and settings of all layers, names and shapes of all weights; None for forwards of your own.

    Two modules of equal structure compute the same function of their input and their weights in eval mode.
    """
    if not only_torch(module):
        return None
    layers = [
        (path, kind.__module__, kind.__qualname__, *((key, _shown(value)) for key, value in settings.items()))
        for path, kind, settings in layers_of(module)
    ]
    tensors = chain(module.named_parameters(), module.named_buffers())
    return (*layers, *((name, tuple(tensor.shape)) for name, tensor in tensors))


def layers_of(module: nn.Module, *, hidden: bool = False) -> Iterator[tuple[str, type[nn.Module], dict[str, Any]]]:
    """Path, type and settings of all layers.

    hidden: whether attributes of a layer's own class whose names start with an underscore are settings too.
    """
    for path, m in module.named_modules(remove_duplicate=False):
        names = (name for name in vars(m) if name not in _NO_SETTINGS and (hidden or not name.startswith("_")))
        yield path, type(m), {name: vars(m)[name] for name in names}


def _shown(value: Any) -> str:
    if isinstance(value, _PRINTED_TYPES):
        return repr(value)
    return getattr(value, "__qualname__", type(value).__qualname__)
