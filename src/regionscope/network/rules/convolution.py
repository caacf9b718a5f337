"""Convolutions in float64: in blocks of rows on the CPU, as matrix products on a GPU (see also ``winograd``); one
kernel for each channel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

THREAD_BYTES = 2**20
"""Bytes of temporary memory a thread may use at a time."""
KEPT_BYTES = 2**25
"""Bytes of the largest piece of memory that allocators keep for reuse."""


def in_row_blocks(
    function: Callable[..., Tensor], row_bytes: int, *, block_bytes: int = THREAD_BYTES
) -> Callable[..., Tensor]:
    """``function(x, *constants)`` on a few rows at a time, where a row needs ``row_bytes`` of temporary memory.

    In float64 on the CPU, torch unrolls the windows of all rows into one matrix before it multiplies: nine times the
    input for a 3x3 kernel, which for a large batch leaves the cache and dwarfs all other memory. The results are the
    same bits. Cost: half the time of one call on 200 rows of a 32-64 channel layer, and bounded memory.

    block_bytes: temporary memory at most, as far as one row allows: of each thread on the CPU, of all on a GPU.
    """
    return partial(_run, function=function, block=max(1, block_bytes // max(1, row_bytes)))


def _run(x: Tensor, *constants: Tensor | None, function: Callable[..., Tensor], block: int) -> Tensor:
    block *= torch.get_num_threads() if x.device.type == "cpu" else 1
    rows, x = x.shape[0], x.reshape(-1).view(x.shape)  # channels that lie together in memory stay so, and take longer
    if rows <= block:
        return function(x, *constants)
    if torch.is_grad_enabled() and x.requires_grad:  # the backward pass of each write into ``out`` copies all of it
        return torch.cat([function(some, *constants) for some in x.split(block)])
    first = function(x[:block], *constants)
    out = first.new_empty((rows, *first.shape[1:]))
    out[:block] = first
    for start in range(block, rows, block):
        out[start : start + block] = function(x[start : start + block], *constants)
    return out


def in_strips(line_bytes: int, *, kernel: int, stride: Sequence[int], padding: Sequence[int]) -> Callable[..., Tensor]:
    """``F.conv2d`` on some lines of its output at a time, each of which needs ``line_bytes`` of temporary memory.

    For images that need more than ``KEPT_BYTES``: memory that is new takes longer than the product. The results are the
    same bits. kernel: its height. Cost: a third to a half of the time of one call.
    """
    function = partial(functional.conv2d, stride=tuple(stride), padding=(0, padding[1]))
    height = max(1, 2 * THREAD_BYTES // line_bytes)
    return partial(_strips, function=function, height=height, reach=kernel, stride=stride[0], padding=padding[0])


def _strips(
    x: Tensor, *constants: Tensor | None,
    function: Callable[..., Tensor], height: int, reach: int, stride: int, padding: int,
) -> Tensor:  # fmt: skip
    lines = (x.shape[2] + 2 * padding - reach) // stride + 1
    strips = []
    for start in range(0, lines, height):
        first = start * stride - padding
        last = (min(start + height, lines) - 1) * stride - padding + reach
        strip = x[:, :, max(first, 0) : last]
        if first < 0 or last > x.shape[2]:
            strip = functional.pad(strip, (0, 0, max(-first, 0), max(last - x.shape[2], 0)))
        strips.append(function(strip, *constants))
    return torch.cat(strips, 2)


def conv2d_by_product(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: Sequence[int], padding: Sequence[int]
) -> Tensor:
    """``F.conv2d`` as one matrix product over patches whose channels lie together in memory.

    In float64 on an H200, cuDNN's convolutions reach 8 to 15 TFLOP/s and this one 14 to 26.
    """
    high, wide = padding
    rows = functional.pad(x.permute(0, 2, 3, 1), (0, 0, wide, wide, high, high)).contiguous()
    patches = rows.unfold(1, weight.shape[2], stride[0]).unfold(2, weight.shape[3], stride[1])
    n, height, width = patches.shape[:3]
    matrix = patches.permute(0, 1, 2, 4, 5, 3).reshape(n * height * width, -1)
    kernel = weight.permute(2, 3, 1, 0).reshape(-1, weight.shape[0])
    product = matrix @ kernel if bias is None else torch.addmm(bias, matrix, kernel)
    return product.reshape(n, height, width, -1).permute(0, 3, 1, 2).contiguous()


def conv2d_of_channels(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """``F.conv2d`` with one kernel for each channel (depthwise), as a sum of shifted images.

    In float64 on the CPU, torch calls a matrix product for each channel. Cost: a third of that for two rows of 144
    channels of 16 x 16, a tenth for 960 channels of 2 x 2, and four fifths for 64 rows.
    """
    high, wide = padding
    images = functional.pad(x, (wide, wide, high, high)) if high or wide else x
    steps = [(i, j) for i in range(weight.shape[2]) for j in range(weight.shape[3])]
    reach = [size - gap * (k - 1) for size, gap, k in zip(images.shape[2:], dilation, weight.shape[2:], strict=True)]
    out: Tensor | None = None if bias is None else bias[:, None, None]
    for i, j in steps:
        top, left = i * dilation[0], j * dilation[1]
        shifted = images[:, :, top : top + reach[0] : stride[0], left : left + reach[1] : stride[1]]
        kernel = weight[:, 0, i, j, None, None]
        if out is None:
            out = shifted * kernel
        elif (i, j) == (0, 0):
            out = torch.addcmul(out, shifted, kernel)
        else:
            out.addcmul_(shifted, kernel)
    assert out is not None
    return out
