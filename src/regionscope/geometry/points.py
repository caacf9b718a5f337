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
from regionscope.tolerance import RANK_RATIO

_LARGEST = 1e100  # of a coordinate: volumes of more overflow
PointLike = Tensor | np.ndarray[Any, Any] | Sequence[Any]


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
        if numbers is None:
            raise SliceError(f"Expected {what} to hold real numbers, got None. Pass an input.")
        if array.dtype.kind in "cSU":
            kind = "complex numbers" if array.dtype.kind == "c" else "text"
            raise SliceError(f"Expected {what} to hold real numbers, got {kind}. Pass real numbers.")
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
    if (largest := float(value.abs().max())) > _LARGEST:
        raise SliceError(
            f"Expected {what} to hold numbers of at most {_LARGEST:g}, got {largest:g}, for which sizes overflow. "
            "Use another unit."
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


def read_radius(radius: float | Sequence[float] | Tensor | np.ndarray[Any, Any], k: int) -> Tensor:
    """One radius for each of k directions (k,), from one number or k."""
    values = read_numbers(radius, "radius")
    if values.shape not in ((1,), (k,)):
        raise SliceError(f"Expected one radius or {k}, one for each direction, got {len(values)}. Pass one number.")
    if bool((values <= 0).any()):
        raise SliceError(f"Expected radius to be larger than 0, got {values.tolist()}. Pass positive numbers.")
    return values.expand(k).clone()


def check_distinct(points: Tensor) -> None:
    """Raise when two of the points (n, *shape) cannot be told apart: nearer than ``RANK_RATIO`` of their norm."""
    flat = points.flatten(1)
    norms = flat.norm(dim=1)
    for i in range(len(flat)):
        for j in range(i):
            if float((flat[i] - flat[j]).norm()) <= RANK_RATIO * float(torch.maximum(norms[i], norms[j])):
                raise SliceError(f"Expected distinct points, got the same point at {j} and {i}. Remove one of them.")


def spacing(points: object) -> float:
    """Relative distance of neighbouring numbers in the type of the points: 1.2e-7 in float32.

    0 for float64, integers and lists of numbers, which are taken as exact.
    """
    given = points if isinstance(points, list | tuple) else [points]
    spacings = [torch.finfo(part.dtype).eps for part in given if isinstance(part, Tensor) and part.is_floating_point()]
    arrays = [part for part in given if isinstance(part, np.ndarray) and part.dtype.kind == "f"]
    spacings += [float(np.finfo(part.dtype).eps) for part in arrays]
    return max((eps for eps in spacings if eps > torch.finfo(torch.float64).eps), default=0.0)


def rounding_of_differences(points: Tensor, spacing: float) -> Tensor:
    """By how much rounding may change each entry of x_i - x_0 (n - 1, *shape), where an entry is off by its spacing."""
    sizes = points.abs()
    return spacing * (sizes[1:] + sizes[0])


def check_rank(directions: Tensor, what: str, *, rounding: Tensor) -> None:
    """Raise when the directions (k, *shape) are linearly dependent within ``RANK_RATIO`` or their rounding."""
    flat = directions.flatten(1)
    k, d = flat.shape
    if k > d:
        raise SliceError(
            f"Expected inputs of at least {k} entries for {what}, got {d}. Use a slice of fewer dimensions."
        )
    singular = torch.linalg.svdvals(flat)
    if float(singular[-1]) <= RANK_RATIO * float(singular[0]):
        rank = int((singular > RANK_RATIO * singular[0]).sum())
        raise SliceError(
            f"Expected {what} to span {counted(k, 'dimension')}, got {rank}. Move them apart, or use a slice of "
            "fewer dimensions."
        )
    if float(singular[-1]) > float(rounding.norm()):  # the cheap bound of what rounding does to a singular value
        return
    left, singular, right = torch.linalg.svd(flat, full_matrices=False)
    rank = int((singular > _rounding_of_singular(left, right, rounding.flatten(1))).sum())
    if rank < k:
        raise SliceError(
            f"Expected {what} to span {counted(k, 'dimension')}, got {rank} up to rounding. Move them apart, use a "
            "slice of fewer dimensions, or compute them in float64."
        )


def orthonormal_frame(flat: Tensor, dim: int | None, rounding: Tensor, *, advice: str = "") -> Tensor:
    """Orthonormal rows (k, d) spanning the differences of the points (n, d), known up to ``rounding`` (n - 1, d).

    advice: what to do where they span another number of dimensions.
    """
    n, d = flat.shape
    offsets = flat[1:] - flat[0]
    norms = flat.norm(dim=1).max()
    left, singular, axes = torch.linalg.svd(offsets, full_matrices=False)
    floor = torch.maximum(RANK_RATIO * torch.maximum(singular[0], norms), _rounding_of_singular(left, axes, rounding))
    rank = int((singular > floor).sum())
    if rank == 0:
        raise SliceError(f"Expected at least two distinct points, got {n} times the same point. Pass different ones.")
    wanted = min(n - 1, d) if dim is None else dim
    if rank != wanted:
        raise SliceError(
            f"Expected points that span {counted(wanted, 'dimension')}, got {n} points that span {rank}. "
            + (advice or f"Pass dim={rank}.")
        )
    if rank == d:
        return torch.eye(d, dtype=torch.float64, device=flat.device)
    if n == rank + 1:
        columns, upper = torch.linalg.qr(offsets.T)
        frame: Tensor = (columns * torch.sign(torch.diagonal(upper))).T.contiguous()
        return frame
    principal: Tensor = axes[:rank].contiguous()
    return principal


def _rounding_of_singular(left: Tensor, right: Tensor, rounding: Tensor) -> Tensor:
    """By how much a change of each entry by at most ``rounding`` (n, d) moves the singular values (m,), to first order.

    A singular value is u^T A v for its vectors u and v, so that it moves by at most |u|^T rounding |v|. A bound by
    norms would refuse small slices around large inputs, whose other entries are the same at all points.
    """
    return ((left.abs().T @ rounding) * right.abs()).sum(1)
