"""Float32 that is float32."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

# Settings that torch keeps for the whole process, held by several threads at a time.


class ProcessWide:
    """A context that the first thread enters and the last one leaves.

    Each thread for itself would save and restore the setting of another one, which could stay for good.
    """

    def __init__(self, context: Callable[[], AbstractContextManager[Any]]) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._inside = 0
        self._entered: AbstractContextManager[Any] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._entered = self._context()
                self._entered.__enter__()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._entered is not None:
                self._entered.__exit__(None, None, None)
                self._entered = None


@contextmanager
def full_precision() -> Iterator[None]:
    """Context without TensorFloat-32 and without an outer autocast.

    TensorFloat-32, PyTorch's default for convolutions, keeps 10 bits of a product, autocast 7 or 10. With so few bits
    the labels of points near a boundary are noise: refined counts find regions that do not exist, and exact breakpoints
    move. The user's settings are restored on exit. TensorFloat-32 is a setting of the whole process: other threads also
    compute in full float32 until the last of these contexts exits.
    """
    with _off_for_all, torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


@contextmanager
def _ieee() -> Iterator[None]:
    switches = _switches()
    before = [getattr(place, name) for place, name, _ in switches]
    try:
        for place, name, off in switches:
            setattr(place, name, off)
        yield
    finally:
        for (place, name, _), value in zip(switches, before, strict=True):
            _put_back(place, name, value)


_off_for_all = ProcessWide(_ieee)


def _switches() -> list[tuple[Any, str, Any]]:
    """Where torch keeps the setting: object, attribute, and its value for off.

    From torch 2.9 on there is one attribute for each kind of operation; reading the older flags is an error once the
    user has set one of these, and writing them overturns the setting of ``torch.set_float32_matmul_precision``.
    """
    backends: Any = torch.backends  # its stubs do not know all of them
    if hasattr(backends.cuda.matmul, "fp32_precision"):
        cudnn, mkldnn = backends.cudnn, backends.mkldnn
        places = (backends.cuda.matmul, cudnn.conv, cudnn.rnn, mkldnn.matmul, mkldnn.conv, mkldnn.rnn)
        return [(place, "fp32_precision", "ieee") for place in places]
    return [(_Matmul(), "precision", "highest"), (backends.cudnn, "allow_tf32", False)]


class _Matmul:
    """``torch.set_float32_matmul_precision`` as an attribute; the older flag knows only two of its three values."""

    @property
    def precision(self) -> str:
        return torch.get_float32_matmul_precision()

    @precision.setter
    def precision(self, value: str) -> None:
        torch.set_float32_matmul_precision(value)


def _put_back(place: Any, name: str, value: Any) -> None:
    """Set it to follow the setting above it where that gives the same, so that it goes on following."""
    if name == "fp32_precision":
        setattr(place, name, "none")
    if getattr(place, name) != value:
        setattr(place, name, value)
