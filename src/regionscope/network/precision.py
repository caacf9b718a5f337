"""Float32 that is float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["full_precision", "tensor_float"]


@contextmanager
def full_precision() -> Iterator[None]:
    """Without TensorFloat-32 for a while: it keeps 10 bits of a product, and is PyTorch's default for convolutions.

    Which side of a boundary a nearby point lies on is noise then: refined counts find regions that are not there, and
    exact breakpoints move. The user's own setting is back afterwards.
    """
    with _with(allowed=False):
        yield


@contextmanager
def tensor_float() -> Iterator[None]:
    """With TensorFloat-32 for a while: several times as fast, to three digits."""
    with _with(allowed=True):
        yield


@contextmanager
def _with(*, allowed: bool) -> Iterator[None]:
    matmul, convolution = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, convolution.allow_tf32
    matmul.allow_tf32 = convolution.allow_tf32 = allowed
    try:
        yield
    finally:
        matmul.allow_tf32, convolution.allow_tf32 = before
