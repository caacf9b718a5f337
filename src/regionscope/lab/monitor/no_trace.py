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
    """A private copy of ``model`` in eval mode; meanwhile no gradients are computed, and float32 is in full precision.

    The model itself is never switched or written to, so another thread may go on training it. The copy keeps the
    weights of the moment at which the context is entered, and the user's hooks. Compiled code is left out of it.

    gradients: whether the copy gets the gradients too. Only for the thread that trains: torch does not survive a
        backward pass of another thread meanwhile.
    Cost: a copy of the weights, and of their gradients if wanted.
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

    They belong to the whole process. Beside other threads, those of torch are put back only if this thread alone has
    drawn from them; to know that, each operation is watched, in up to three times the time. For Python and
    NumPy this cannot be known; beside other threads these are put back in the main thread only.

    device: beside other threads, the device whose generator is put back beside that of the CPU.
    watch: whether operations are watched beside other threads; without it torch's generators stay as they are there.
    Returns what has been noted, or None if there are no other threads.
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
