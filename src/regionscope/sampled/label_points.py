"""Points of slices through a classifier, a batch at a time; inputs are built on the model's device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.geometry import Slice
from regionscope.sampled.labels import INVALID, Labeller
from regionscope.sampled.lattice import corners_and_directions


def label_lattice(labeller: Labeller, slices: Sequence[Slice], units: Tensor) -> Tensor:
    """Labels (s, p) int64 on the CPU of the points ``units`` (p, k) of every slice.

    Inputs are built in the model's precision (float32 for half precision); no more than a batch of them exists at once.
    """
    shape = slices[0].input_shape
    corners, places = _placed(labeller, slices, units)
    parts: list[Tensor] = []
    slices_per_call = max(1, labeller.rows // max(len(units), 1))  # whole slices in one batch, or parts of one slice
    for block in corners.split(slices_per_call):
        labels = [
            labeller(_points(block[:, None], chunk[None]).reshape(-1, *shape).to(labeller.dtype)).reshape(
                len(block), -1
            )
            for chunk in places.split(labeller.rows)
        ]
        parts.append(torch.cat(labels, 1))
    return _valid(torch.cat(parts).cpu())


def label_points(labeller: Labeller, slices: Sequence[Slice], slice_id: Tensor, units: Tensor) -> Tensor:
    """Labels (m,) int64 on the CPU of single points: ``units`` (m, k) of the slices ``slice_id`` (m,)."""
    shape = slices[0].input_shape
    corners, places = _placed(labeller, slices, units)
    slice_id = slice_id.to(labeller.device)
    parts = [
        labeller(_points(corners[mine], chunk).reshape(-1, *shape).to(labeller.dtype))
        for mine, chunk in zip(slice_id.split(labeller.rows), places.split(labeller.rows), strict=True)
    ]
    return _valid(torch.cat(parts).cpu())


def _placed(labeller: Labeller, slices: Sequence[Slice], units: Tensor) -> tuple[Tensor, Tensor]:
    working = labeller.dtype if labeller.dtype.itemsize >= 4 else torch.float32
    return corners_and_directions(slices).to(labeller.device, working), units.to(labeller.device, working)


def _points(corners: Tensor, units: Tensor) -> Tensor:
    """Inputs (..., d) = corner + sum of unit times direction, for corners (..., 1 + k, d) and units (..., k).

    Added up entry by entry and not as a matrix product: the same bits in every batch, and no TF32 or autocast.
    """
    points = torch.addcmul(corners[..., 0, :], units[..., :1], corners[..., 1, :])
    for i in range(1, units.shape[-1]):
        points.addcmul_(units[..., i : i + 1], corners[..., i + 1, :])
    return points


def _valid(labels: Tensor) -> Tensor:
    invalid = int((labels == INVALID).sum())
    if invalid:
        raise InputError(
            f"Expected finite outputs, got NaN for {invalid} of {labels.numel()} points of a slice. Check the "
            "weights, or use a smaller slice."
        )
    return labels
