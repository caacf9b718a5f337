"""The transformations of ``winograd`` as Triton kernels: a program for some tiles of a channel, a thread for a tile.

Triton comes with the CUDA builds of torch. Without it this module can be imported, but not used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# A program has a thread for each tile. Of 64 to 256 tiles, these were the fastest on an H200, by 5% for a whole segment
# of ResNet18 over 128 tiles and 4 warps (both measured with kernels for tiles of 4 x 4 outputs).
TILES = 256
WARPS = 8


def tiles_of(x: Tensor, padding: Sequence[int], shape: Sequence[int]) -> Tensor:
    """See ``winograd.tiles_of``."""
    (n, c), down, across = x.shape[:2], -(-shape[2] // 2), -(-shape[3] // 2)
    out = x.new_empty((16, c, n * down * across))
    with torch.cuda.device_of(x):  # Triton starts kernels on the current device
        _split[triton.cdiv(out.shape[2], TILES), c](
            x, out, *x.stride(), *x.shape[2:], *padding, down, across, out.shape[2], TILES, num_warps=WARPS
        )
    return out


def join_tiles(tiles: Tensor, bias: Tensor, out: Tensor) -> None:
    """See ``winograd.join_tiles``; ``out`` is contiguous."""
    (o, height, width), n_tiles = out.shape[1:], tiles.shape[2]
    with torch.cuda.device_of(out):
        _join[triton.cdiv(n_tiles, TILES), o](
            tiles, bias, out, height, width, -(-height // 2), -(-width // 2), n_tiles, TILES, num_warps=WARPS
        )


def _kernel(function: Callable[..., Any]) -> Any:
    """Compiled once: by default Triton compiles again for arguments that are 1 or multiples of 16."""
    if triton is None:
        return function
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return triton.jit(function, do_not_specialize=names[:-1])


def _part(function: Callable[..., Any]) -> Any:
    """A function that kernels call."""
    return function if triton is None else triton.jit(function)


@_part
def _spread(a, b, c, d):
    """B times a column."""
    return a - c, b + c, c - b, b - d


@_part
def _gathered(a, b, c, d):
    """A times a column."""
    return a + b + c, b - c - d


@_part
def _spread_line(start, left, step, width, inside):
    """B times four entries of a line of the input, with zeros beyond its border."""
    position = start + left * step
    a = tl.load(position, mask=inside & (left >= 0) & (left < width), other=0.0)
    b = tl.load(position + step, mask=inside & (left >= -1) & (left < width - 1), other=0.0)
    c = tl.load(position + 2 * step, mask=inside & (left >= -2) & (left < width - 2), other=0.0)
    d = tl.load(position + 3 * step, mask=inside & (left >= -3) & (left < width - 3), other=0.0)
    return _spread(a, b, c, d)


@_part
def _store_spread(to, step, known, a, b, c, d):
    """Store B times a column of the tile, ``step`` apart."""
    a, b, c, d = _spread(a, b, c, d)
    tl.store(to, a, mask=known)
    tl.store(to + step, b, mask=known)
    tl.store(to + 2 * step, c, mask=known)
    tl.store(to + 3 * step, d, mask=known)


@_kernel
def _split(
    x, out, row, channel, line, step, height, width, high, wide, down, across, n_tiles, block: tl.constexpr
):  # fmt: skip
    c, channels = tl.program_id(1).to(tl.int64), tl.num_programs(1)
    tile = tl.program_id(0) * block + tl.arange(0, block)
    known = tile < n_tiles
    top, left = tile // across % down * 2 - high, tile % across * 2 - wide
    start = x + (tile // (across * down)).to(tl.int64) * row + c * channel + top * line
    a0, a1, a2, a3 = _spread_line(start, left, step, width, known & (top >= 0) & (top < height))
    b0, b1, b2, b3 = _spread_line(start + line, left, step, width, known & (top >= -1) & (top < height - 1))
    c0, c1, c2, c3 = _spread_line(start + 2 * line, left, step, width, known & (top >= -2) & (top < height - 2))
    d0, d1, d2, d3 = _spread_line(start + 3 * line, left, step, width, known & (top >= -3) & (top < height - 3))
    entry = channels * n_tiles.to(tl.int64)  # from an entry of the tile to the next one
    to = out + c * n_tiles + tile
    _store_spread(to, 4 * entry, known, a0, b0, c0, d0)
    _store_spread(to + entry, 4 * entry, known, a1, b1, c1, d1)
    _store_spread(to + 2 * entry, 4 * entry, known, a2, b2, c2, d2)
    _store_spread(to + 3 * entry, 4 * entry, known, a3, b3, c3, d3)


@_part
def _gathered_column(start, step, known):
    """A times a column of the tile, ``step`` apart."""
    a = tl.load(start, mask=known)
    b = tl.load(start + step, mask=known)
    c = tl.load(start + 2 * step, mask=known)
    d = tl.load(start + 3 * step, mask=known)
    return _gathered(a, b, c, d)


@_kernel
def _join(tiles, bias, out, height, width, down, across, n_tiles, block: tl.constexpr):
    c, channels = tl.program_id(1).to(tl.int64), tl.num_programs(1)
    tile = tl.program_id(0) * block + tl.arange(0, block)
    known = tile < n_tiles
    entry = channels * n_tiles.to(tl.int64)
    start = tiles + c * n_tiles + tile
    a0, a1 = _gathered_column(start, 4 * entry, known)
    b0, b1 = _gathered_column(start + entry, 4 * entry, known)
    c0, c1 = _gathered_column(start + 2 * entry, 4 * entry, known)
    d0, d1 = _gathered_column(start + 3 * entry, 4 * entry, known)
    top_left, top_right = _gathered(a0, b0, c0, d0)
    low_left, low_right = _gathered(a1, b1, c1, d1)
    top, left, shift = tile // across % down * 2, tile % across * 2, tl.load(bias + c)
    to = out + ((tile // (across * down)).to(tl.int64) * channels + c) * height * width + top * width + left
    right, below = known & (left + 1 < width), known & (top + 1 < height)
    tl.store(to, top_left + shift, mask=known)
    tl.store(to + 1, top_right + shift, mask=right)
    tl.store(to + width, low_left + shift, mask=below)
    tl.store(to + width + 1, low_right + shift, mask=right & below)
