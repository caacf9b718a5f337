"""A device made of CPU memory that refuses to mix with the CPU, as a GPU does.

What runs on it has told every tensor where to live. It answers to ``torch.device("lazy")``, a name that torch knows and
this machine has no use for.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["FAR", "far_device", "moved"]

FAR = torch.device("lazy:0")
_CROSSING = {"aten::copy_", "aten::_to_copy"}  # what may read one device and write the other
_INDEXING = {"aten::index", "aten::index_put_", "aten::_index_put_impl_"}  # CUDA takes indices from the CPU


class Far(Tensor):
    """A tensor that says it is elsewhere; ``raw`` holds its numbers."""

    raw: Tensor

    @staticmethod
    def __new__(cls, raw: Tensor) -> Far:
        layout = (
            {"strides": raw.stride(), "storage_offset": raw.storage_offset()} if raw.layout == torch.strided else {}
        )
        made = Tensor._make_wrapper_subclass(cls, raw.size(), dtype=raw.dtype, device=FAR, **layout)
        made.raw = raw
        return made

    def tolist(self) -> Any:
        return self.raw.tolist()

    def __getitem__(self, index: Any) -> Tensor:
        return super().__getitem__(Far(torch.tensor(index)) if isinstance(index, list) else index)

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _call(op, args, kwargs or {})


class _Watch(TorchDispatchMode):
    """Lets tensors be made there."""

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        return _call(op, args, kwargs) if _is_far(kwargs.get("device")) else op(*args, **kwargs)


@contextmanager
def far_device() -> Iterator[None]:
    """While it lasts, there is such a device."""
    plain, relative = torch.tensor, Tensor.new_tensor

    def tensor(data: Any, *, device: Any = None, **kind: Any) -> Tensor:
        return Far(plain(data, device="cpu", **kind)) if _is_far(device) else plain(data, device=device, **kind)

    def new_tensor(self: Tensor, data: Any, **kind: Any) -> Tensor:
        return Far(relative(self.raw, data, **kind)) if isinstance(self, Far) else relative(self, data, **kind)

    with patch.object(torch, "tensor", tensor), patch.object(Tensor, "new_tensor", new_tensor), _Watch():
        yield


def moved(model: nn.Module) -> nn.Module:
    """A copy of the model whose weights lie there."""
    model = copy.deepcopy(model)
    for module in model.modules():
        for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            module._parameters.pop(name, None)
            module.register_buffer(name, Far(tensor.detach()))
    return model


def _is_far(device: Any) -> bool:
    return device is not None and torch.device(device).type == FAR.type


def _call(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run the operation on the numbers, and say of the results that they are there."""
    name = op.name().split(".")[0]
    tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    there = [x for x in tensors if isinstance(x, Far)]
    here = [x for x in tensors if not isinstance(x, Far) and x.ndim]
    if there and here and name not in _CROSSING | _INDEXING:
        raise RuntimeError(f"{name} mixes devices: of shape {[tuple(x.shape) for x in here]} on the CPU")
    out = op(*tree_map(_numbers, args), **tree_map(_numbers, kwargs))
    known = {id(x.raw): x for x in there} | {id(x): x for x in here}
    goes_there = _is_far(kwargs["device"]) if kwargs.get("device") is not None else bool(there)

    def wrapped(x: Any) -> Any:
        if not isinstance(x, Tensor) or not goes_there:
            return known.get(id(x), x)
        return known[id(x)] if isinstance(known.get(id(x)), Far) else Far(x)

    return args[0] if name == "aten::copy_" else tree_map(wrapped, out)


def _numbers(x: Any) -> Any:
    if isinstance(x, Far):
        return x.raw
    return torch.device("cpu") if isinstance(x, torch.device) and _is_far(x) else x
