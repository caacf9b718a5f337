"""The affine map of every region on the slice, from the values at its corners."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regionscope.geometry.ragged import owners
from regionscope.network import Program, full_precision
from regionscope.tolerance import SLOPE_ROUNDING, TINY


@dataclass(frozen=True)
class AffineMaps:
    """outputs = constant + coords @ slope, region by region.

    slope: (r, k, c); constant: (r, c); noise: (r,) how much rounding may shift a slope, given how thin the region is.
    error: of an output by rounding, to which ``noise`` belongs.
    extent: largest distance between vertices along an axis; size: largest absolute output.
    """

    slope: Tensor
    constant: Tensor
    noise: Tensor
    error: float
    extent: float
    size: float

    def __repr__(self) -> str:
        r, k, c = self.slope.shape
        return f"AffineMaps(regions={r}, dim={k}, outputs={c})"


def widest_simplex(vertices: Tensor, corners: Tensor, offsets: Tensor) -> Tensor:
    """k + 1 corners of each region (r, k + 1) that span it well: each the farthest from the span of those before."""
    of = owners(offsets, len(corners))
    chosen = [corners[offsets[:-1]]]
    origin = vertices[chosen[0]]
    rest = vertices[corners] - origin[of]
    index = torch.arange(len(corners), device=corners.device)
    for _ in range(vertices.shape[1]):
        distance = (rest * rest).sum(1)
        longest = distance.new_zeros(len(offsets) - 1).scatter_reduce(0, of, distance, "amax")
        is_longest = distance == longest[of]
        first = torch.full_like(offsets[:-1], len(corners)).scatter_reduce(0, of[is_longest], index[is_longest], "amin")
        chosen.append(corners[first])
        axis = rest[first] / longest.sqrt().clamp(min=torch.finfo(rest.dtype).tiny)[:, None]
        along = axis[of]
        rest = rest - (rest * along).sum(1, keepdim=True) * along
    return torch.stack(chosen, 1)


def affine_maps(vertices: Tensor, outputs: Tensor, corners: Tensor, offsets: Tensor) -> AffineMaps:
    """Maps from k + 1 well-spread corners of each region. Cost: in proportion to the number of corners."""
    r, k = len(offsets) - 1, vertices.shape[1]
    eps = torch.finfo(outputs.dtype).eps
    outputs = outputs.double()
    size = float(outputs.abs().max()) if len(outputs) else 0.0
    extent = float((vertices.amax(0) - vertices.amin(0)).max())
    simplex = widest_simplex(vertices, corners, offsets)
    origin = vertices[simplex[:, 0]]
    frame = vertices[simplex[:, 1:]] - origin[:, None]  # (r, k, k), rows are directions
    rise = outputs[simplex[:, 1:]] - outputs[simplex[:, :1]]  # (r, k, c)
    if k == 1:
        inverse = 1 / frame
    elif k == 2:
        (a, b), (c, d) = frame[:, 0].unbind(1), frame[:, 1].unbind(1)
        inverse = torch.stack([d, -b, -c, a], 1).view(r, 2, 2) / (a * d - b * c)[:, None, None]
    else:
        inverse = torch.linalg.pinv(frame)
    slope = inverse @ rise
    constant = outputs[simplex[:, 0]] - (origin[:, None] @ slope)[:, 0]
    error = 64 * eps * size
    noise = (error * inverse.abs().sum((1, 2))).nan_to_num(nan=math.inf)  # corners that are the same in float64
    return AffineMaps(slope, constant, noise, error, extent, size)


def with_derivatives(
    maps: AffineMaps, points: Tensor, outputs: Tensor, derivatives: Callable[[Tensor], Tensor]
) -> AffineMaps:
    """The same with slopes of thin regions, where rounding shifts differences of values, from ``derivatives``.

    points (r, k), outputs (r, c): in the middle of each region. Cost: that of the derivatives of the thin regions.
    """
    thin = (maps.noise * maps.extent > SLOPE_ROUNDING * maps.size).nonzero()[:, 0]
    if not len(thin):
        return maps
    slope, constant = maps.slope.clone(), maps.constant.clone()
    slope[thin] = derivatives(thin)
    constant[thin] = outputs[thin] - (points[thin, None] @ slope[thin])[:, 0]
    return replace(maps, slope=slope, constant=constant)


def different_maps(maps: AffineMaps, pairs: Tensor, *, rounding: float) -> Tensor:
    """For pairs of neighbours (n, 2): whether their slopes differ by more than rounding of the outputs explains.

    rounding: absolute error of an output. In a thin region it moves the slopes far, so equal slopes cannot be told from
    different ones there; and slopes that look equal may differ by little.
    """
    different = torch.zeros(len(pairs), dtype=torch.bool, device=pairs.device)
    step = max(1, (1 << 22) // max(1, maps.slope[0].numel())) if len(maps.slope) else 1
    # The rounded coordinate of a corner moves its output by the steepest slope there, also for flat regions beside it.
    steepest = float(maps.slope.abs().max()) if len(maps.slope) else 0.0
    rounding = max(rounding, 16 * torch.finfo(torch.float64).eps * maps.extent * steepest)
    moved = maps.noise * (1 + rounding / max(maps.error, TINY))
    for start in range(0, len(pairs), step):
        rows = slice(start, start + step)
        left, right = pairs[rows].T
        difference = (maps.slope[left] - maps.slope[right]).abs().amax((1, 2))
        size = torch.maximum(maps.slope[left].abs(), maps.slope[right].abs()).amax((1, 2))
        different[rows] = difference > moved[left] + moved[right] + SLOPE_ROUNDING * size
    return different


def maps_at(program: Program, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The affine maps around these inputs: Jacobians (n, c, *input_shape) and constants (n, c), by backward passes."""
    inputs = inputs.to(program.device).requires_grad_(True)
    with torch.enable_grad(), full_precision():
        outputs = program.differentiable(inputs)
        rows = [torch.autograd.grad(column.sum(), inputs, retain_graph=True)[0] for column in outputs.unbind(1)]
    jacobian = torch.stack(rows, 1)
    linear = (jacobian.flatten(2) * inputs.detach().flatten(1)[:, None]).sum(-1)
    return jacobian, outputs.detach() - linear
