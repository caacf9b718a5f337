"""Run a user's model and leave no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain

import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.network.call.precision import full_precision


@contextmanager
def untouched(model: object, *, device: torch.device | None = None, precise: bool = True) -> Iterator[None]:
    """Inside: eval mode, no gradients, full float32. Afterwards: modes, buffers and the global random state as before.

    Buffers come back even if the model writes to them in eval mode. Hooks that the user has put on the model are part
    of its forward pass (weight normalisation and pruning live there) and do run. ``torch.inference_mode`` is left
    for a while: its tensors count no versions, and ``torch.enable_grad`` could not bring gradients back.

    model: what is not an ``nn.Module`` has neither modes nor buffers; the rest holds for it too.
    device: whose random state is kept beside that of the CPU; the model's own by default.
    precise: without TensorFloat-32 (see ``full_precision``); False leaves the user's setting.
    Cost: a copy of the buffers.
    """
    module = model if isinstance(model, nn.Module) else nn.Module()
    place = home(module)[0] if device is None else device
    randomness = torch.random.fork_rng(devices=[place] if place.type == "cuda" else [])
    precision = full_precision() if precise else nullcontext()
    # Leaving inference mode brings gradients back, so they are switched off after it.
    with torch.inference_mode(False), torch.no_grad(), randomness, precision, same_modes(module), _same_buffers(module):
        for part in module.modules():
            part.training = False
        yield


@contextmanager
def same_modes(model: nn.Module) -> Iterator[None]:
    """Afterwards every module of ``model`` is in train or eval mode as it was, each in its own."""
    modes = [(part, part.training) for part in model.modules()]
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def home(model: nn.Module, *, like: Tensor | None = None) -> tuple[torch.device, torch.dtype]:
    """Device and dtype of the first floating-point parameter, or else buffer.

    Where there is none, those of ``like``; without it the CPU and torch's default dtype.
    """
    for tensor in chain(model.parameters(), model.buffers(), () if like is None else (like,)):
        if tensor.is_meta:
            raise InputError("The model's weights are on the device meta, without values; load them first.")
        if tensor.is_floating_point():
            return tensor.device, tensor.dtype
    return torch.device("cpu"), torch.get_default_dtype()


@contextmanager
def _same_buffers(model: nn.Module) -> Iterator[None]:
    """Afterwards every buffer is the tensor that it was and holds what it held."""
    kept = [
        (part, name, tensor, _Copy.of(tensor)) for part in model.modules() for name, tensor in part._buffers.items()
    ]
    try:
        yield
    finally:
        for part, name, tensor, copy in kept:
            part._buffers[name] = tensor
            if copy is not None:
                copy.put_back()


class _Copy:
    """What a tensor holds, and whether it is still that."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor, self._value = tensor, tensor.detach().clone()
        self._version = None if tensor.is_inference() else tensor._version  # of inference tensors nobody counts it

    @staticmethod
    def of(tensor: Tensor | None) -> _Copy | None:
        """None where there is nothing to copy: no tensor, or that of a lazy layer, which has no shape before a run."""
        return None if tensor is None or nn.parameter.is_lazy(tensor) else _Copy(tensor)

    def put_back(self) -> None:
        """Write only what was written to: autograd is to see no new version of the other tensors."""
        if self._version is None:
            with torch.inference_mode():  # nowhere else can it be written to
                self._tensor.copy_(self._value)
        elif self._tensor._version != self._version:
            self._tensor.copy_(self._value)
