"""Neighbourhoods of a point: the hull of vertices x + o_j, given by their offsets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regionscope.errors import InputError

__all__ = ["LARGEST_CUBE", "Pass", "Shape", "count_vertices", "offsets", "passes"]

Shape = Literal["cross-polytope", "hypercube"]

LARGEST_CUBE = 12  # a cube of P dimensions has 2^P vertices


def count_vertices(shape: Shape, dims: int) -> int:
    """2 P for the cross-polytope, 2^P for the cube.

    >>> count_vertices("cross-polytope", 25), count_vertices("hypercube", 3)
    (50, 8)
    """
    _check(shape, dims)
    return 2 * dims if shape == "cross-polytope" else 2**dims


def offsets(shape: Shape, frames: Tensor, radius: float) -> Tensor:
    """New offsets (m, n, d) of the vertices from the point, for frames (n, P, d) of orthonormal directions.

    Cross-polytope: ± radius · v_p, in the order +v_1 .. +v_P, -v_1 .. -v_P. Hypercube: radius / sqrt(P) · sum ± v_p,
    whose diagonal has length 2 radius. Both have their vertices at distance ``radius`` from the point.
    """
    directions = frames.transpose(0, 1)
    dims = len(directions)
    _check(shape, dims)
    if shape == "cross-polytope":
        scaled = directions * radius
        return torch.cat([scaled, -scaled])
    one = torch.tensor([1.0, -1.0], dtype=frames.dtype, device=frames.device)
    signs = torch.cartesian_prod(*[one] * dims).reshape(-1, dims)
    return torch.einsum("mp,pnd->mnd", signs * (radius / math.sqrt(dims)), directions)


@dataclass(frozen=True, eq=False)
class Pass:
    """Vertices (m, n, d) around n points, and their offsets (m, 1, d) where these are the same for all points."""

    vertices: Tensor
    offsets: Tensor | None


def passes(shape: Shape, points: Tensor, frames: Tensor, radius: float, at_once: int) -> Iterator[Pass]:
    """The vertices around points (n, d) for frames (1 or n, P, d), ``at_once`` of them at a time."""
    dims = frames.shape[1]
    if len(frames) == 1 and len(points) > 1:
        for part in offsets(shape, frames, radius).split(at_once):
            yield Pass(part + points, part)
    elif shape == "cross-polytope" and at_once >= 2 * dims:
        # The hull is the largest tensor of all, so it is written once.
        directions = frames.transpose(0, 1)
        vertices = points.new_empty(2 * dims, *points.shape)
        torch.add(points, directions, alpha=radius, out=vertices[:dims])
        torch.sub(points, directions, alpha=radius, out=vertices[dims:])
        yield Pass(vertices, None)
    else:
        for part in offsets(shape, frames, radius).split(at_once):
            yield Pass(part.add_(points), None)


def _check(shape: Shape, dims: int) -> None:
    if shape not in ("cross-polytope", "hypercube"):
        raise InputError(f'hull is {shape!r}; it must be "cross-polytope" or "hypercube".')
    if shape == "hypercube" and dims > LARGEST_CUBE:
        raise InputError(
            f"A hypercube of {dims} dimensions has 2^{dims} vertices; up to dims = {LARGEST_CUBE} is accepted. The "
            "cross-polytope has only 2 * dims."
        )
