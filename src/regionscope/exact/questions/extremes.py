"""The smallest and the largest value of a linear function of the outputs, on a slice and on each of its regions.

The function is affine on a region, so both are attained at vertices, and looking at these is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.geometry import Slice
from regionscope.geometry.ragged import owners
from regionscope.types import Reading


@dataclass(frozen=True, eq=False)
class RegionExtremes:
    """Extremes on each activation region.

    min, max: (r,). vertex_of_min, vertex_of_max: (r,) indices into ``Partition.vertices`` of points where they are
    attained.
    """

    slice: Slice
    vertices: Tensor
    min: Tensor
    max: Tensor
    vertex_of_min: Tensor
    vertex_of_max: Tensor

    def __repr__(self) -> str:
        return f"RegionExtremes(regions={len(self.max)})"

    @property
    def argmin(self) -> Tensor:
        """An input at which each region has its minimum (r, *input_shape), computed on every access."""
        return self.slice.embed(self.vertices[self.vertex_of_min])

    @property
    def argmax(self) -> Tensor:
        """An input at which each region has its maximum (r, *input_shape), computed on every access."""
        return self.slice.embed(self.vertices[self.vertex_of_max])


@dataclass(frozen=True, eq=False)
class Extremes:
    """Extremes of a linear function of the outputs on a slice.

    min, max: the smallest and the largest value. argmin, argmax: an input (*input_shape,) at which each is attained.
        coords_of_min, coords_of_max: the same points (k,) in slice coordinates.
    by_region: extremes on each region. values: (v,) the function at the vertices. weights: (c,) those of the outputs.
    """

    min: float
    max: float
    argmin: Tensor
    argmax: Tensor
    coords_of_min: Tensor
    coords_of_max: Tensor
    by_region: RegionExtremes
    values: Tensor
    weights: Tensor

    def __repr__(self) -> str:
        return f"Extremes(min={self.min:.6g}, max={self.max:.6g}, regions={len(self.by_region.max)})"

    def readings(self) -> tuple[Reading, ...]:
        """The maximum, and the minimum."""
        return ("", self.max, None), ("min", self.min, None)


def extremes(
    slice: Slice, vertices: Tensor, outputs: Tensor, corners: Tensor, offsets: Tensor, weights: Tensor
) -> Extremes:
    """Extremes of ``outputs @ weights``; arguments as in ``Partition``, weights (c,)."""
    values = outputs.double() @ weights.to(outputs.device)
    low, high = int(values.argmin()), int(values.argmax())
    of = owners(offsets, len(corners))
    at_corner = values[corners]
    lowest, place_of_lowest = _by_region(at_corner, of, len(offsets) - 1)
    highest, place_of_highest = _by_region(-at_corner, of, len(offsets) - 1)
    regions = RegionExtremes(slice, vertices, lowest, -highest, corners[place_of_lowest], corners[place_of_highest])
    points = slice.embed(vertices[[low, high]])
    return Extremes(
        float(values[low]), float(values[high]), points[0], points[1], vertices[low], vertices[high], regions, values,
        weights,
    )  # fmt: skip


def _by_region(at_corner: Tensor, of: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The smallest value of each region (n,) and the first of its corners that has it."""
    lowest = at_corner.new_full((n,), torch.inf).scatter_reduce_(0, of, at_corner, "amin")
    places = (at_corner == lowest[of]).nonzero()[:, 0]
    first = torch.full((n,), len(of), device=of.device).scatter_reduce_(0, of[places], places, "amin")
    return lowest, first
