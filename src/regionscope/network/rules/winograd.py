"""Convolutions with 3 x 3 kernels in float64 on a GPU by Winograd's algorithm: 16 products in place of 36.

A tile of 2 x 2 outputs needs a tile of 4 x 4 inputs. With the matrices A, B and G below,

    tile of outputs = A [(G kernel G') * (B tile B')] A',

where * multiplies entry by entry and sums over the channels: 16 products of matrices, channels times tiles. Lavin and
Gray 2016, section 4.1.

Rounding. A and B are 0, 1 or -1, and an output adds up entries of its own window only, as a direct sum does. So a unit
whose window is zero has exactly the value of its bias. With tiles of 4 x 4 outputs, which take 0.75 to 0.81 times as
long for a layer on an H200, it would have rounding errors of the pixels beside its window: units on black pixels would
lose their sign. But an output multiplies each entry of its window by sums of weights, not by one weight. With the unit
of rounding u, c channels and s the sum of the sizes of all these products (|A|, |B|, |G|, |x| and |kernel| in place of
A, B, G, x and kernel) and of the bias, its error is at most (c + 15) u s to first order: 2 u s for B, 8 u s for G,
c u s for the products and their sum, 4 u s for A and u s for the bias. ``rounding`` estimates its usual size.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.util import find_spec

import torch
from torch import Tensor
from torch.nn import functional

Coefficients = tuple[tuple[float, ...], ...]
_A: Coefficients = ((1, 1, 1, 0), (0, 1, -1, -1))
_B: Coefficients = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
_G: Coefficients = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
_FEW_CHANNELS = 32  # below, the transformations take longer than the products that they save
_WORKSPACE_BYTES = 2**29  # bytes of transformed tiles at a time, as far as one row allows


def suits(device: torch.device, weight: Tensor, stride: Sequence[int]) -> bool:
    """Whether to compute a convolution with this weight (o, c, height, width) here."""
    if min(weight.shape[:2]) < _FEW_CHANNELS or tuple(weight.shape[2:]) != (3, 3) or set(stride) != {1}:
        return False
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    return without_single_zeros(weight) and _runs_on(device)


def without_single_zeros(weight: Tensor, *_: Tensor) -> bool:
    """Whether no kernel has zeros among its weights, other than zeros alone.

    Such a kernel is summed directly: products that are exactly zero there are not zero here.
    """
    zero = (weight == 0).flatten(2)
    return bool((zero.all(2) == zero.any(2)).all())


@cache
def _runs_on(device: torch.device) -> bool:
    """Whether Triton can compile the kernels for this device, and they compute a small convolution right.

    Triton needs a C compiler, a folder to write to, and a GPU that is not too old.
    """
    draw, shapes = torch.Generator().manual_seed(0), ((2, 2, 5, 6), (2, 2, 3, 3), (2,))
    x, weight, bias = (torch.rand(s, generator=draw, dtype=torch.float64, device="cpu").to(device) for s in shapes)
    direct = partial(functional.conv2d, padding=(1, 0))
    try:
        outputs = conv2d_winograd(x, weight, bias, padding=(1, 0), function=direct)
        torch.testing.assert_close(outputs, direct(x, weight, bias), rtol=0, atol=1e-12)
    except Exception as error:  # noqa: BLE001 - Triton and its compilers raise errors of many kinds
        reason = f"{type(error).__name__}: {str(error).rstrip('.')}"
        warnings.warn(
            f"Expected Triton to compile and run kernels on {device}, got {reason}. Float64 convolutions give the same "
            "results without them, but take up to three times as long. Install a C compiler or a Triton for this GPU.",
            stacklevel=2,
        )
        return False
    return True


def conv2d_winograd(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, padding: Sequence[int], function: Callable[..., Tensor]
) -> Tensor:
    """``F.conv2d`` with kernels (o, c, 3, 3).

    function: computes the same directly. It is used on a CPU, where certificates read the layer, and where the result
    is differentiated.
    """
    if not x.is_cuda or (torch.is_grad_enabled() and x.requires_grad):
        return function(x, weight, bias)
    from regionscope.network.rules import winograd_kernels as fast

    return tiled(x, spread(weight), bias, padding, fast.tiles_of, fast.join_tiles)


def tiled(
    x: Tensor, kernels: Tensor, bias: Tensor | None, padding: Sequence[int],
    split: Callable[..., Tensor], join: Callable[..., None], workspace: int = _WORKSPACE_BYTES,
) -> Tensor:  # fmt: skip
    """The convolution of x (n, c, ...) with ``spread`` kernels (16, o, c), some rows at a time.

    split, join: ``tiles_of`` and ``join_tiles``, or their fast twins in ``winograd_kernels``.
    """
    (n, c), o = x.shape[:2], kernels.shape[1]
    height, width = (size + 2 * pad - 2 for size, pad in zip(x.shape[2:], padding, strict=True))
    out, shift = x.new_empty((n, o, height, width)), x.new_zeros(o) if bias is None else bias.contiguous()
    row_bytes = 16 * (c + o) * -(-height // 2) * -(-width // 2) * x.element_size()
    step = max(1, workspace // row_bytes)
    for start in range(0, n, step):
        some = out[start : start + step]
        join(kernels @ split(x[start : start + step], padding, some.shape), shift, some)
    return out


def spread(weight: Tensor, g: Coefficients = _G) -> Tensor:
    """G kernel G' of all kernels (o, c, 3, 3): (16, o, c)."""
    matrix = weight.new_tensor(g)
    return (torch.kron(matrix, matrix) @ weight.reshape(-1, 9).T).view(16, *weight.shape[:2])


def tiles_of(x: Tensor, padding: Sequence[int], shape: Sequence[int], b: Coefficients = _B) -> Tensor:
    """B tile B' for all tiles: (16, c, tiles), of x (n, c, ...) for an output of this shape. Slow twin."""
    (high, wide), (height, width) = padding, x.shape[2:]
    down, across = (-(-size // 2) * 2 + 2 for size in shape[2:])
    padded = functional.pad(x, (wide, across - width - wide, high, down - height - high))
    tiles, matrix = padded.unfold(2, 4, 2).unfold(3, 4, 2), x.new_tensor(b)
    return torch.einsum("nchwij->ijcnhw", matrix @ tiles @ matrix.T).reshape(16, x.shape[1], -1)


def join_tiles(tiles: Tensor, bias: Tensor, out: Tensor, a: Coefficients = _A) -> None:
    """Write A tile A' + bias for all tiles (16, o, tiles) to ``out`` (n, o, height, width). Slow twin."""
    n, o, height, width = out.shape
    grid, matrix = tiles.view(4, 4, o, n, -(-height // 2), -(-width // 2)), tiles.new_tensor(a)
    outputs = torch.einsum("ki,lj,ijonhw->nohkwl", matrix, matrix, grid).flatten(4).flatten(2, 3)
    torch.add(outputs[:, :, :height, :width], bias[:, None, None], out=out)


def rounding(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, padding: Sequence[int]) -> Tensor:
    """Size of the rounding errors of ``conv2d_winograd`` in units of rounding: the root of the sum of the squares of
    all products that an output adds up, which is at most the ``s`` above.
    """
    a, b, g = (tuple(tuple(map(abs, row)) for row in matrix) for matrix in (_A, _B, _G))

    def split(some: Tensor, padding: Sequence[int], shape: Sequence[int]) -> Tensor:
        return tiles_of(some, padding, shape, b).square_()

    kernels, shift = spread(weight.abs(), g).square_(), None if bias is None else bias.square()
    return tiled(x.abs(), kernels, shift, padding, split, partial(join_tiles, a=a)).sqrt_()
