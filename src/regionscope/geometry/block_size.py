"""How many rows of an array to work on at a time."""

from __future__ import annotations

import torch

_CPU_BYTES = 2 << 20  # stays in the caches
_GPU_BYTES = 512 << 20  # every block waits for the device once, so few large ones


def rows_at_a_time(row_bytes: int, device: torch.device | str) -> int:
    """Rows of a block that suits the device, at least one.

    >>> rows_at_a_time(1 << 20, torch.device("cpu"))
    2
    """
    kind = getattr(device, "type", device)  # that of a NumPy array is the word "cpu"
    return max(1, (_CPU_BYTES if kind == "cpu" else _GPU_BYTES) // max(1, row_bytes))
