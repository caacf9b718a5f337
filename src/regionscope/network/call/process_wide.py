"""Settings that torch keeps for the whole process, held by several threads at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


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
