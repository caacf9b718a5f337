"""What a test compares before and after a model has run."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch
from torch import nn


def snapshot(model: nn.Module) -> list[object]:
    buffers = [(name, id(value)) for part in model.modules() for name, value in part._buffers.items()]
    state = [(name, value.tolist(), value._version) for name, value in model.state_dict().items()]
    return [buffers, state, [part.training for part in model.modules()], torch.get_rng_state().tolist()]


def in_another_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
