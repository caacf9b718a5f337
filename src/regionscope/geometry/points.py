"""Reading a user's points: tensors, arrays or nested sequences become one float64 tensor, or a clear sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.checks import unreadable
from regionscope.errors import SliceError
from regionscope.formatting import counted
from regionscope.tolerance import Tolerance

PointLike = Tensor | np.ndarray[Any, Any] | Sequence[Any]

RANK = Tolerance.of(torch.float64).rank


def read_point(point: PointLike, what: str) -> Tensor:
    """A detached float64 copy of ``point``; a CUDA tensor keeps its device."""
    value = _float64(point, what)
    if value.ndim == 0:
        raise SliceError(
            f"Expected {what} to have at least one axis, such as [0.5], got a single number. "
            "Write it as a list with one entry."
        )
    return _finite(value, what)


def read_numbers(numbers: float | PointLike, what: str) -> Tensor:
    """A detached float64 copy (n,) of one number, or of all the numbers of an array; a CUDA tensor keeps its device."""
    return _finite(_float64(numbers, what).reshape(-1), what)


def _float64(numbers: float | PointLike, what: str) -> Tensor:
    try:
        if isinstance(numbers, Tensor):
            if refused := unreadable(numbers):
                raise SliceError(f"Expected {what} to hold real numbers, got {refused}")
            return numbers.detach().to(torch.float64).clone()
        array = np.asarray(numbers)
        if array.dtype.kind in "cSU":
            found = "complex numbers" if array.dtype.kind == "c" else "text"
            raise SliceError(f"Expected {what} to hold real numbers, got {found}. Pass real numbers.")
        return torch.from_numpy(array.astype(np.float64))
    except SliceError:
        raise
    except (TypeError, ValueError, RuntimeError) as reason:
        if isinstance(numbers, tuple) and len(numbers) == 2 and np.ndim(numbers[1]) == 0:
            raise SliceError(
                f"Expected {what} to be an array of real numbers, got a pair. Pass the input alone."
            ) from None
        raise SliceError(
            f"Expected {what} to be an array of real numbers, got values that cannot be read ({reason}). "
            "Pass a tensor, a NumPy array or a list of numbers."
        ) from reason


def _finite(value: Tensor, what: str) -> Tensor:
    if value.numel() == 0:
        raise SliceError(
            f"Expected {what} to hold numbers, got the empty shape {tuple(value.shape)}. "
            "Pass a point with at least one entry."
        )
    if not bool(torch.isfinite(value).all()):
        raise SliceError(
            f"Expected {what} to be finite, got NaN or infinite values. "
            "Replace them, for example with torch.nan_to_num()."
        )
    return value


def read_points(points: Sequence[PointLike] | Tensor | np.ndarray[Any, Any], what: str, least: int) -> Tensor:
    """Points of one shape as a tensor (n, *shape); ``what`` names one of them, ``least`` is the smallest n."""
    if isinstance(points, Tensor) and (refused := unreadable(points)):
        raise SliceError(f"Expected {what}s of real numbers, got {refused}")
    if not (hasattr(points, "__len__") and (hasattr(points, "__iter__") or hasattr(points, "__getitem__"))):
        raise SliceError(
            f"Expected {what}s as a sequence of inputs, got {type(points).__name__}. "
            "Pass a list of points, or a tensor whose first axis runs over points, such as data.inputs[:3]."
        )
    if len(points) < least:
        raise SliceError(f"Expected at least {counted(least, what)}, got {len(points)}. Pass {least} or more.")
    read = [read_point(point, f"{what} {i}") for i, point in enumerate(points)]
    for i, point in enumerate(read):
        if point.shape != read[0].shape:
            raise SliceError(
                f"Expected {what}s of one shape, got {tuple(read[0].shape)} for {what} 0 and {tuple(point.shape)} for "
                f"{what} {i}. "
                f"Reshape the {what}s to one shape."
            )
    device = next((point.device for point in read if point.device.type != "cpu"), read[0].device)
    return torch.stack([point.to(device) for point in read])


def check_distinct(points: Tensor) -> None:
    """Raise when two of the points (n, *shape) cannot be told apart: nearer than ``Tolerance.rank`` of their norm."""
    flat = points.flatten(1)
    norms = flat.norm(dim=1)
    for i in range(len(flat)):
        for j in range(i):
            if float((flat[i] - flat[j]).norm()) <= RANK * float(torch.maximum(norms[i], norms[j])):
                raise SliceError(f"Expected distinct points, got the same point at {j} and {i}. Remove one of them.")


def check_rank(directions: Tensor, what: str) -> None:
    """Raise when the directions (k, *shape) are linearly dependent within ``Tolerance.rank``."""
    flat = directions.flatten(1)
    k, d = flat.shape
    if k > d:
        raise SliceError(
            f"Expected inputs of at least {k} entries for {what}, got {d}. Use a slice of fewer dimensions."
        )
    singular = torch.linalg.svdvals(flat)
    if float(singular[-1]) <= RANK * float(singular[0]):
        rank = int((singular > RANK * singular[0]).sum())
        raise SliceError(
            f"Expected {what} to span {counted(k, 'dimension')}, got {rank}. Move them apart, or use a slice of "
            "fewer dimensions."
        )
