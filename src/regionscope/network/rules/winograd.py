"""Convolutions with 3 x 3 kernels by Winograd's algorithm: fewer products for more rounding, on a GPU.

An m x m tile of the output needs a t x t tile of the input, t = m + 2. With matrices A (m, t), B (t, t) and G (t, 3),

    tile of the output = A [(G kernel G') * (B tile B')] A',

where * multiplies entry by entry and sums over the channels: t * t products of matrices (channels x tiles). For m = 4
they multiply 36 numbers where a direct sum multiplies 144. Lavin and Gray 2016; the points 0, 1, -1, 2, -1/2 as
Barabasz et al. 2020 suggest: A and B are exact in binary, and the error is two thirds of that of 0, 1, -1, 2, -2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

FEW_CHANNELS = 32  # below, the transformations take longer than the products that they save
_WORKSPACE = 2**29  # bytes of transformed tiles at a time
_POINTS = {2: (0, 1, -1), 4: (0, 1, -1, 2, Fraction(-1, 2))}

Coefficients = tuple[tuple[float, ...], ...]


@cache
def matrices(m: int) -> tuple[Coefficients, Coefficients, Coefficients]:
    """A, B and G for tiles of m x m outputs, from polynomials through the points and infinity (Toom and Cook).

    >>> matrices(2)[0]
    ((1.0, 1.0, 1.0, 0.0), (0.0, 1.0, -1.0, 1.0))
    """
    points = [Fraction(p) for p in _POINTS[m]]
    others = [[q for q in points if q != p] for p in points]
    a: list[list[Any]] = [[*(p**i for p in points), int(i == m - 1)] for i in range(m)]
    b: list[list[Any]] = [*([*_coefficients(roots), 0] for roots in others), _coefficients(points)]
    g: list[list[Any]] = [
        [p**i / prod(p - q for q in roots) for i in range(3)] for p, roots in zip(points, others, strict=True)
    ]
    return _floats(a), _floats(b), _floats([*g, [0, 0, 1]])


def _floats(rows: Iterable[Iterable[Any]]) -> Coefficients:
    return tuple(tuple(float(number) for number in row) for row in rows)


def _coefficients(roots: Sequence[Fraction]) -> list[Fraction]:
    """Those of the product of (x - root), the constant one first."""
    found = [Fraction(1)]
    for root in roots:
        found = [up - root * here for up, here in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found


def pays(device: torch.device, weight: Tensor, stride: Sequence[int]) -> bool:
    """Whether a convolution on this device should be computed here: large enough, and Triton is installed."""
    large = min(weight.shape[:2]) >= FEW_CHANNELS and tuple(weight.shape[2:]) == (3, 3)
    return large and set(stride) == {1} and device.type == "cuda" and find_spec("triton") is not None


def conv2d_winograd(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, padding: Sequence[int],
    function: Callable[..., Tensor], m: int = 4, workspace: int = _WORKSPACE,
) -> Tensor:  # fmt: skip
    """``F.conv2d`` with kernels (o, c, 3, 3), some rows at a time.

    function: computes the same directly. It is used where there is no bias, since a unit that reads nothing but zeros
    must then be exactly zero; where the result is differentiated; and on a CPU.
    """
    if bias is None or not x.is_cuda or (torch.is_grad_enabled() and x.requires_grad):
        return function(x, weight, *(() if bias is None else (bias,)))
    from regionscope.network.rules import winograd_kernels as fast

    return tiled(x, weight, bias, padding, m, fast.tiles_of, fast.join_tiles, workspace)


def tiled(
    x: Tensor, weight: Tensor, bias: Tensor, padding: Sequence[int], m: int,
    split: Callable[..., Tensor], join: Callable[..., None], workspace: int = _WORKSPACE,
) -> Tensor:  # fmt: skip
    """The convolution with the given transformations: ``tiles_of`` and ``join_tiles``, or their twins in Triton."""
    t, (n, c), o = m + 2, x.shape[:2], weight.shape[0]
    height, width = (size + 2 * pad - 2 for size, pad in zip(x.shape[2:], padding, strict=True))
    kernels, (a, b, _) = _transformed(weight, m), matrices(m)
    out = x.new_empty((n, o, height, width))
    row_bytes = t * t * (c + o) * -(-height // m) * -(-width // m) * x.element_size()
    step = max(1, workspace // row_bytes)
    for start in range(0, n, step):
        some = out[start : start + step]
        join(kernels @ split(x[start : start + step], padding, some.shape, m, b), bias, some, m, a)
    return out


def _transformed(weight: Tensor, m: int) -> Tensor:
    """G kernel G' of all kernels: (t * t, o, c)."""
    g = torch.tensor(matrices(m)[2], dtype=weight.dtype, device=weight.device)
    return (torch.kron(g, g) @ weight.reshape(-1, 9).T).view(-1, *weight.shape[:2])


def tiles_of(x: Tensor, padding: Sequence[int], shape: Sequence[int], m: int, b: Coefficients) -> Tensor:
    """B tile B' for all tiles: (t * t, c, tiles), of x (n, c, ...) and an output of this shape. Slow twin."""
    return _two_sided(b, _windows(x, padding, shape, m)).flatten(0, 1).flatten(2)


def join_tiles(tiles: Tensor, bias: Tensor, out: Tensor, m: int, a: Coefficients) -> None:
    """Write A tile A' + bias for all tiles (t * t, o, tiles) to ``out`` (n, o, height, width). Slow twin."""
    n, o, height, width = out.shape
    grid = tiles.view(m + 2, m + 2, o, n, -(-height // m), -(-width // m)).permute(3, 2, 4, 5, 0, 1)
    found = _two_sided(a, grid).permute(3, 2, 4, 0, 5, 1)
    torch.add(found.flatten(4).flatten(2, 3)[:, :, :height, :width], bias[:, None, None], out=out)


def rounding(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, padding: Sequence[int], m: int = 4) -> Tensor:
    """Size of the rounding error of ``conv2d_winograd`` in units of relative rounding: the root of the sum of the
    squares of all that an output adds up, from the whole tile of the input, even if the output reads only zeros.
    """
    height, width = (size + 2 * pad - 2 for size, pad in zip(x.shape[2:], padding, strict=True))
    found = x.new_zeros((len(x), len(weight), height, width))
    if bias is not None:
        sizes, squares = (tuple(tuple(abs(v) ** p for v in row) for row in matrices(m)[i]) for i, p in ((1, 1), (0, 2)))
        terms = tiles_of(x.abs(), padding, found.shape, m, sizes).square_()
        join_tiles(_transformed(weight, m).square() @ terms, torch.zeros_like(bias), found, m, squares)
    return found.sqrt_()


def _windows(x: Tensor, padding: Sequence[int], shape: Sequence[int], m: int) -> Tensor:
    """The tiles (n, c, down, across, t, t) of the input, with zeros beyond its border."""
    down, across = (-(-size // m) * m + 2 for size in shape[2:])
    (high, wide), (height, width) = padding, x.shape[2:]
    x = functional.pad(x, (wide, across - width - wide, high, down - height - high))
    return x.unfold(2, m + 2, m).unfold(3, m + 2, m)


def _two_sided(matrix: Coefficients, tiles: Tensor) -> Tensor:
    """``matrix @ tile @ matrix'`` of tiles (n, c, down, across, t, t), as (i, j, c, n, down, across)."""
    own = torch.tensor(matrix, dtype=tiles.dtype, device=tiles.device)
    return torch.einsum("nchwij->ijcnhw", own @ tiles @ own.T)
