"""Reading a user's points: tensors, arrays or nested sequences become one float64 tensor, or a clear sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.checks import unreadable
from regionscope.errors import SliceError
from regionscope.tolerance import Tolerance

__all__ = ["PointLike", "check_distinct", "check_rank", "read_numbers", "read_point", "read_points"]

PointLike = Tensor | np.ndarray[Any, Any] | Sequence[Any]

RANK = Tolerance.of(torch.float64).rank


def read_point(point: PointLike, what: str) -> Tensor:
    """A detached float64 copy of ``point``; a CUDA tensor keeps its device."""
    value = _float64(point, what)
    if value.ndim == 0:
        raise SliceError(f"{what} is a single number; an input has at least one axis, for instance [0.5].")
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
        raise SliceError(f"{what} cannot be read as an array of real numbers ({reason}).") from reason


def _finite(value: Tensor, what: str) -> Tensor:
    if value.numel() == 0:
        raise SliceError(f"{what} has shape {tuple(value.shape)} and holds no numbers.")
    if not bool(torch.isfinite(value).all()):
        raise SliceError(f"{what} holds NaN or infinite values; a slice needs finite inputs.")
    return value


def read_points(points: Sequence[PointLike] | Tensor | np.ndarray[Any, Any], what: str, least: int) -> Tensor:
    """Points of one shape as a tensor (n, *shape); ``what`` names one of them, ``least`` is the smallest n."""
    if isinstance(points, Tensor) and (refused := unreadable(points)):
        raise SliceError(f"Expected {what}s of real numbers, got {refused}")
    if not hasattr(points, "__len__"):
        raise SliceError(f"Expected {what}s as a sequence of inputs, got {type(points).__name__}.")
    if len(points) < least:
        raise SliceError(f"{len(points)} {what}(s) came; at least {least} are needed.")
    read = [read_point(point, f"{what} {i}") for i, point in enumerate(points)]
    for i, point in enumerate(read):
        if point.shape != read[0].shape:
            raise SliceError(
                f"{what} 0 has shape {tuple(read[0].shape)} but {what} {i} has shape {tuple(point.shape)}; "
                "all of a slice must have the shape of one input."
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
                raise SliceError(f"points {j} and {i} are the same; a slice needs distinct points.")


def check_rank(directions: Tensor, what: str) -> None:
    """Raise when the directions (k, *shape) are linearly dependent within ``Tolerance.rank``."""
    flat = directions.flatten(1)
    k, d = flat.shape
    if k > d:
        raise SliceError(f"{what} ask for {k} dimensions, but an input has only {d} number(s); take at most {d}.")
    singular = torch.linalg.svdvals(flat)
    if float(singular[-1]) <= RANK * float(singular[0]):
        rank = int((singular > RANK * singular[0]).sum())
        raise SliceError(
            f"{what} span only {rank} of {k} dimension(s), so the slice has lost rank; "
            "move them apart or take a slice of fewer dimensions."
        )
