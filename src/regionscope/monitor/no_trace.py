"""Measure a model in the middle of its training and leave everything as it was, whatever the measure does."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from torch import nn

from regionscope.network import Draws, full_precision, runnable_copy


@contextmanager
def no_trace(model: nn.Module, *, gradients: bool = False) -> Iterator[nn.Module]:
    """Context with a private copy of ``model`` in eval mode, without gradients and with full float32 precision.

    The model itself does not change, so another thread may continue to train it. The copy has the weights of the moment
    at which the context is entered, and the user's hooks, but no compiled code.

    gradients: whether to copy gradients too. Use it only in the thread that trains: a concurrent backward pass in
        another thread crashes torch.
    Cost: a copy of the weights, and of their gradients if requested.
    """
    # Leaving inference mode brings gradients back, so they are switched off after it.
    with torch.inference_mode(False), torch.no_grad(), full_precision():
        private = runnable_copy(model)
        if gradients:
            for own, copied in zip(model.parameters(), private.parameters(), strict=True):
                copied.grad = None if own.grad is None else own.grad.detach().clone()
        yield private


@contextmanager
def same_randomness(device: torch.device | None = None, *, watch: bool = True) -> Iterator[Draws | None]:
    """Restore the random generators of Python, NumPy and torch (CPU and all CUDA devices in use) on exit.

    The generators belong to the whole process. If other threads exist, those of torch are restored only if no other
    thread has drawn from them. To detect this, each operation is watched, which takes up to three times as long. For
    Python and NumPy this cannot be detected; if other threads exist, they are restored in the main thread only.

    device: if other threads exist, the device whose generator is restored besides that of the CPU.
    watch: whether to watch operations if other threads exist; otherwise torch's generators are not restored then.
    Returns the recorded draws, or None if there are no other threads.
    """
    draws = None if threading.active_count() == 1 else Draws(device or torch.device("cpu"))
    python, array = random.getstate(), np.random.get_state()  # noqa: NPY002 - the legacy state is what users share
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices, enabled=draws is None):
        try:
            with draws if draws is not None and watch else nullcontext():
                yield draws
        finally:
            if draws is not None and watch:
                draws.put_back()
            if draws is None or threading.current_thread() is threading.main_thread():
                random.setstate(python)
                np.random.set_state(array)  # noqa: NPY002
