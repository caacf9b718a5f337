"""Orthonormal frames of random directions in input space."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regionscope.checks import is_whole
from regionscope.errors import InputError

__all__ = ["check_dims", "draw_frames", "orthonormal_frames"]


def orthonormal_frames(
    input_shape: Sequence[int],
    dims: int = 25,
    *,
    points: int | None = None,
    seed: int = 0,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """P = ``dims`` random orthonormal directions: the Q of a QR decomposition of a Gaussian matrix (Haar distributed).

    One frame (P, *input_shape) for all points, or one for each of ``points`` points: (points, P, *input_shape). Keep
    the result and pass it as ``frames=`` at every step of a training, and the curve has no noise from the directions.
    The same seed gives the same frames on every device; a ``generator`` moves on from call to call. Cost: a QR of (d,
    P) a frame.

    >>> frame = orthonormal_frames((3, 4), dims=2)
    >>> torch.allclose(frame.flatten(1) @ frame.flatten(1).T, torch.eye(2), atol=1e-6)
    True
    """
    d = math.prod(input_shape)
    check_dims(dims, d)
    source = generator if generator is not None else torch.Generator().manual_seed(seed)
    frames = draw_frames(1 if points is None else points, dims, d, source, dtype)
    frames = frames.reshape(len(frames), dims, *input_shape)
    return frames[0] if points is None else frames


def draw_frames(n: int, dims: int, d: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """The next n frames (n, P, d) of the generator. Drawing 3 and then 4 gives the same frames as drawing 7.

    The Gaussians are always drawn in float32, one point at a time, so that neither the batch nor the dtype of the model
    changes them.
    """
    check_dims(dims, d)
    device = generator.device
    draw = [torch.randn(d, dims, generator=generator, device=device, dtype=torch.float32) for _ in range(n)]
    if not draw:
        return torch.empty(0, dims, d, dtype=dtype, device=device)
    exact = dtype if dtype == torch.float64 else torch.float32  # QR knows no half precision
    q = torch.linalg.qr(torch.stack(draw).to(exact))[0]
    frames: Tensor = q.transpose(1, 2).contiguous().to(dtype)
    return frames


def check_dims(dims: int, d: int) -> None:
    """Refuse numbers of directions that an input of d numbers does not have."""
    if not is_whole(dims) or dims > d:
        raise InputError(
            f"dims is {dims}, and an input has {d} number(s); orthonormal directions need 1 <= dims <= {d}."
        )
