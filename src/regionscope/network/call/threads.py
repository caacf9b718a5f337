"""How many threads torch uses for a piece of work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_FEW_BYTES = 1 << 20  # of live values


@contextmanager
def threads_for(n_bytes: int) -> Iterator[None]:
    """One thread for work on few bytes, where a second one costs more than it saves; otherwise as many as before."""
    threads = torch.get_num_threads()
    if threads == 1 or n_bytes >= _FEW_BYTES:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
