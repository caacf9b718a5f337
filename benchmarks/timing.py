"""The seconds of one call, by the clock and by the processor."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch

__all__ = ["Seconds", "busy_seconds", "call_seconds", "timed"]

T = TypeVar("T")


class Seconds(NamedTuple):
    """Seconds by the clock, and seconds of the processor, all threads together."""

    clock: float
    processor: float


def timed(work: Callable[[], T], device: torch.device | str = "cpu") -> tuple[T, Seconds]:
    """What ``work`` returns, and its seconds. On a GPU, until the GPU is idle again."""
    on_gpu = torch.device(device).type == "cuda"
    if on_gpu:
        torch.cuda.synchronize(device)
    start, busy = time.perf_counter(), time.process_time()
    result = work()
    if on_gpu:
        torch.cuda.synchronize(device)
    return result, Seconds(time.perf_counter() - start, time.process_time() - busy)


def call_seconds(work: Callable[[], object], device: torch.device | str = "cpu") -> Seconds:
    """The seconds of ``work``, and of freeing what it returns."""

    def run() -> None:
        work()

    return timed(run, device)[1]


def busy_seconds(work: Callable[[], object], device: torch.device | str = "cpu") -> float:
    """The same as one number: by the clock on a GPU, else of the processor, which other programs disturb less."""
    took = call_seconds(work, device)
    return took.clock if torch.device(device).type == "cuda" else took.processor
