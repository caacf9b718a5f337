"""Which entries a pooling window or a reduction takes its maximum over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def per_dim(value: Any, spatial: int) -> list[int]:
    """A size given once or for each spatial dimension, as a list."""
    items = [int(item) for item in value] if isinstance(value, list | tuple) else [int(value)]
    return items * spatial if len(items) == 1 else items


def pooling_positions(size: int, out: int, kernel: int, stride: int, padding: int, dilation: int) -> Tensor:
    """(out, kernel) positions along one dimension; those in the padding repeat the window's first valid one."""
    positions = (
        torch.arange(out, device="cpu")[:, None] * stride
        - padding
        + torch.arange(kernel, device="cpu")[None, :] * dilation
    )
    valid = (positions >= 0) & (positions < size)
    first = positions.gather(1, valid.to(torch.int8).argmax(dim=1, keepdim=True))
    return torch.where(valid, positions, first)


def adaptive_positions(size: int, out: int) -> Tensor:
    """(out, longest window) positions of adaptive pooling along one dimension; shorter windows repeat their first."""
    starts = [i * size // out for i in range(out)]
    ends = [math.ceil((i + 1) * size / out) for i in range(out)]
    longest = max(end - start for start, end in zip(starts, ends, strict=True))
    positions = torch.tensor(starts, device="cpu")[:, None] + torch.arange(longest, device="cpu")[None, :]
    return torch.where(
        positions < torch.tensor(ends, device="cpu")[:, None], positions, torch.tensor(starts, device="cpu")[:, None]
    )


def window_groups(shape: tuple[int, ...], positions: Sequence[Tensor]) -> Tensor:
    """(w, m) flat indices into a row of ``shape`` = (channels, *spatial): all windows, in the order of the output."""
    spatial = len(positions)
    channels = math.prod(shape[:-spatial])
    index = torch.zeros((1,) * (2 * spatial), dtype=torch.long, device="cpu")
    for d, places in enumerate(positions):
        view = [1] * (2 * spatial)
        view[d], view[spatial + d] = places.shape
        index = index * shape[len(shape) - spatial + d] + places.reshape(view)
    flat = index.reshape(math.prod(p.shape[0] for p in positions), -1)
    offsets = torch.arange(channels, device="cpu")[:, None, None] * math.prod(shape[-spatial:])
    return (offsets + flat[None]).reshape(-1, flat.shape[1])


def reduction_groups(shape: tuple[int, ...], dims: Sequence[int]) -> Tensor:
    """(w, m) flat indices into a row of ``shape``: the entries along ``dims`` for each remaining position."""
    index = torch.arange(math.prod(shape), device="cpu").reshape(shape)
    kept = [d for d in range(len(shape)) if d not in dims]
    width = math.prod(shape[d] for d in dims)
    return index.permute(*kept, *dims).reshape(-1, width).contiguous()
