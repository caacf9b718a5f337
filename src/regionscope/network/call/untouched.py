"""Run a user's model and leave no trace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from inspect import isfunction
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.network.call.draws import Draws
from regionscope.network.call.precision import full_precision
from regionscope.network.call.wrappers import unwrapped
from regionscope.network.private_copy import runnable_copy

Model = TypeVar("Model")

_WATCHED_CALLS = 1  # the first ones; watching each operation of all calls would take longer than a small network


@contextmanager
def untouched(
    model: Model, *, device: torch.device | None = None, precise: bool = True, copy: bool = True, widened: bool = False
) -> Iterator[Model]:
    """Context with a private copy of ``model`` to run: eval mode, no gradients, full float32. The model does not
    change.

    The copy is a snapshot: it keeps the weights of the moment at which the context is entered, while another thread may
    continue to train the model. Changes that the copy makes to its buffers and attributes are lost. The user's hooks
    are part of the forward pass (weight normalisation and pruning use them) and run on the modules of the copy.
    Compiled, data-parallel and mixed-precision wrappers are left out. Torch's global random state is restored, unless
    another thread may have drawn from it. ``torch.inference_mode`` is switched off inside, since ``torch.enable_grad``
    has no effect in it.

    model: an ``nn.Module``; other objects are not copied, and functions are wrapped.
    device: device whose random state is restored besides that of the CPU; the model's own by default.
    precise: whether to disable TensorFloat-32 (see ``full_precision``); False keeps the user's setting.
    copy: whether to copy a module; False for one that is a private copy in eval mode already and is not used
    afterwards.
    widened: whether a module in half precision runs in float32, where its weights are the same numbers.
    Cost: a copy of the parameters and buffers.
    """
    module = unwrapped(model) if isinstance(model, nn.Module) else nn.Module()
    place = device_and_dtype(module)[0] if device is None else device
    precision = full_precision() if precise else nullcontext()
    originals = chain(module.parameters(), module.buffers()) if copy else ()
    first_calls = _FirstCalls(place, frozenset(map(id, originals)))
    # Leaving inference mode brings gradients back, so they are switched off after it.
    with torch.inference_mode(False), torch.no_grad(), precision:
        if isinstance(model, nn.Module):
            private: Any = runnable_copy(model) if copy else module
            if widened and device_and_dtype(private)[1] in (torch.float16, torch.bfloat16):
                private.float()
            private.__dict__["_compiled_call_impl"] = partial(
                first_calls.call, private._call_impl
            )  # calling it runs this
        else:
            private = partial(first_calls.call, model) if isfunction(model) else model
        try:
            yield private
        finally:
            if isinstance(private, nn.Module):
                private.__dict__["_compiled_call_impl"] = None  # else a reference cycle keeps the copy in memory
            first_calls.put_back()


class _FirstCalls(Draws):
    """Watches the first calls of the copy, and all calls of one that draws random numbers.

    An operation by which a forward pass would train the user's own module instead of running the copy is refused.
    originals: ids of the module's tensors. They are reached only by a way that the copy does not know. Without any, and
    without other threads, the states of the generators before and after the call tell whether it has drawn.
    """

    def __init__(self, device: torch.device, originals: frozenset[int]) -> None:
        super().__init__(device)
        self._originals = originals
        self._left = _WATCHED_CALLS

    def call(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What ``forward(*args, **kwargs)`` returns."""
        if self._left == 0 and not self.happened:
            return forward(*args, **kwargs)
        if not self._originals and not self.happened and threading.active_count() == 1:
            with self.compare():
                result = forward(*args, **kwargs)
            if threading.active_count() > 1:  # the next call is watched
                return result
        else:
            with self:
                result = forward(*args, **kwargs)
        self._left = max(0, self._left - 1)
        return result

    def look(self, func: Any, args: Any) -> None:
        if any(id(value) in self._originals for value in args) and func._schema.is_mutable:
            raise InputError(
                "Expected a model that reaches its layers through self, got one that changes a layer through "
                "another object, such as a global one. Read the layer through self."
            )


@contextmanager
def same_modes(model: nn.Module) -> Iterator[None]:
    """Restore the train or eval mode of every module of ``model`` on exit."""
    modes = [(part, part.training) for part in model.modules()]
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def device_and_dtype(model: nn.Module, *, like: Tensor | None = None) -> tuple[torch.device, torch.dtype]:
    """Device and dtype of the first floating-point parameter, or else buffer.

    If there is none, those of ``like``; without ``like``, the CPU and torch's default dtype.
    """
    for tensor in chain(model.parameters(), model.buffers(), () if like is None else (like,)):
        if tensor.is_meta:
            raise InputError("Expected weights with values, got weights on the device meta. Load them first.")
        if tensor.is_floating_point():
            return tensor.device, tensor.dtype
    return torch.device("cpu"), torch.get_default_dtype()
