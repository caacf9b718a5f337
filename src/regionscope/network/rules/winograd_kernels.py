"""The transformations of ``winograd`` as Triton kernels: a program for some tiles of a channel, a thread for a tile.

Import this file only where Triton is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

TILES = 128  # of a program
WARPS = 4


def tiles_of(x: Tensor, padding: Sequence[int], shape: Sequence[int], m: int, b: Any) -> Tensor:
    """See ``winograd.tiles_of``."""
    (n, c), down, across = x.shape[:2], -(-shape[2] // m), -(-shape[3] // m)
    out = x.new_empty(((m + 2) ** 2, c, n * down * across))
    _split[triton.cdiv(out.shape[2], TILES), c](
        x, out, *x.stride(), *x.shape[2:], *padding, down, across, out.shape[2],
        matrix=b, m=m, block=TILES, num_warps=WARPS,
    )  # fmt: skip
    return out


def join_tiles(tiles: Tensor, bias: Tensor, out: Tensor, m: int, a: Any) -> None:
    """See ``winograd.join_tiles``."""
    (o, height, width), n_tiles = out.shape[1:], tiles.shape[2]
    _join[triton.cdiv(n_tiles, TILES), o](
        tiles, bias, out, height, width, -(-height // m), -(-width // m), n_tiles,
        matrix=a, m=m, block=TILES, num_warps=WARPS,
    )  # fmt: skip


@triton.jit
def _combined(matrix: tl.constexpr, i: tl.constexpr, n: tl.constexpr, values):
    """Entry i of ``matrix @ values``, n numbers of each thread."""
    total = matrix[i][0] * values[0]
    for k in tl.static_range(1, n):
        if matrix[i][k] != 0:
            total += matrix[i][k] * values[k]
    return total


@triton.jit
def _split(
    x, out, row, channel, line, step, height, width, high, wide,
    down, across, n_tiles, matrix: tl.constexpr, m: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    t: tl.constexpr = m + 2
    c, channels = tl.program_id(1), tl.num_programs(1)
    tile = tl.program_id(0) * block + tl.arange(0, block)
    top, left = tile // across % down * m - high, tile % across * m - wide
    start = x + tile // (across * down) * row + c * channel
    columns = ()
    for j in tl.static_range(t):
        column = ()
        for i in tl.static_range(t):
            inside = (tile < n_tiles) & (top + i >= 0) & (top + i < height) & (left + j >= 0) & (left + j < width)
            column = column + (tl.load(start + (top + i) * line + (left + j) * step, mask=inside, other=0.0),)
        done = ()
        for i in tl.static_range(t):
            done = done + (_combined(matrix, i, t, column),)
        columns = columns + (done,)
    for i in tl.static_range(t):
        line_of_tile = ()
        for j in tl.static_range(t):
            line_of_tile = line_of_tile + (columns[j][i],)
        for j in tl.static_range(t):
            to = out + ((i * t + j) * channels + c) * n_tiles + tile
            tl.store(to, _combined(matrix, j, t, line_of_tile), mask=tile < n_tiles)


@triton.jit
def _join(
    tiles, bias, out, height, width, down, across, n_tiles,
    matrix: tl.constexpr, m: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    t: tl.constexpr = m + 2
    c, channels = tl.program_id(1), tl.num_programs(1)
    tile = tl.program_id(0) * block + tl.arange(0, block)
    top, left = tile // across % down * m, tile % across * m
    start = out + (tile // (across * down) * channels + c) * height * width
    shift = tl.load(bias + c)
    columns = ()
    for j in tl.static_range(t):
        column = ()
        for i in tl.static_range(t):
            column = column + (tl.load(tiles + ((i * t + j) * channels + c) * n_tiles + tile, mask=tile < n_tiles),)
        done = ()
        for i in tl.static_range(m):
            done = done + (_combined(matrix, i, t, column),)
        columns = columns + (done,)
    for i in tl.static_range(m):
        line_of_tile = ()
        for j in tl.static_range(t):
            line_of_tile = line_of_tile + (columns[j][i],)
        for j in tl.static_range(m):
            inside = (tile < n_tiles) & (top + i < height) & (left + j < width)
            to = start + (top + i) * width + left + j
            tl.store(to, _combined(matrix, j, t, line_of_tile) + shift, mask=inside)
