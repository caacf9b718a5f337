"""Look at a model in the middle of its training and leave everything as it was, whatever the looking does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.network import full_precision, same_modes


@contextmanager
def no_trace(model: nn.Module) -> Iterator[None]:
    """Inside: eval mode and no gradients. Afterwards, bit for bit: weights, gradients, buffers, modes, all randomness.

    What is not protected: new attributes and hooks that the code inside puts on the model. Cost: a copy of the weights
    and of their gradients.
    """
    # Leaving inference mode brings gradients back, so they are switched off after it.
    with same_randomness(), torch.inference_mode(False), torch.no_grad(), full_precision(), same_modes(model):
        buffers = [(part._buffers, dict(part._buffers)) for part in model.modules()]
        kept = [_Kept.of(value) for value in (*model.parameters(), *model.buffers())]
        try:
            for part in model.modules():
                part.training = False
            yield
        finally:
            for own, before in buffers:
                own.update(before)
            for each in kept:
                each.put_back()


@contextmanager
def same_randomness() -> Iterator[None]:
    """Afterwards the generators of Python, NumPy and torch (CPU and all CUDA devices in use) stand where they stood."""
    python, array = random.getstate(), np.random.get_state()  # noqa: NPY002 - the legacy state is what users share
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(array)  # noqa: NPY002


@dataclass(frozen=True, eq=False)
class _Kept:
    """A parameter or buffer with copies of its value and gradient.

    Values are compared and not only their version counters, because writing through ``.data`` does not count.
    """

    tensor: Tensor
    data: Tensor
    value: Tensor
    version: int | None
    trained: bool
    gradient: Tensor | None
    gradient_value: Tensor | None

    @staticmethod
    def of(tensor: Tensor) -> _Kept:
        gradient = tensor.grad if tensor.is_leaf else None
        copy = None if gradient is None else gradient.detach().clone()
        version = _version(tensor)
        return _Kept(tensor, tensor.data, tensor.detach().clone(), version, tensor.requires_grad, gradient, copy)

    def put_back(self) -> None:
        """Write only what has changed, so that autograd sees no new version of an untouched weight."""
        tensor = self.tensor
        if tensor.data_ptr() != self.data.data_ptr() or tensor.dtype != self.data.dtype:
            tensor.data = self.data
        if _version(tensor) != self.version or not _same(tensor, self.value):
            with torch.inference_mode(tensor.is_inference()), torch.no_grad():
                tensor.copy_(self.value)
        if not tensor.is_leaf:
            return
        if tensor.requires_grad != self.trained:
            tensor.requires_grad_(self.trained)
        if self.gradient is not None and self.gradient_value is not None:
            tensor.grad = self.gradient
            if not _same(self.gradient, self.gradient_value):
                self.gradient.copy_(self.gradient_value)
        else:
            tensor.grad = None


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether both hold the same numbers; NaN is the same as NaN."""
    return torch.equal(a, b) or (a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all()))


def _version(tensor: Tensor) -> int | None:
    """How often the tensor was written to; unknown for tensors made in inference mode."""
    return None if tensor.is_inference() else tensor._version
