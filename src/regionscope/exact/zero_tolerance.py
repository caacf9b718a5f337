"""How near to zero counts as zero: a share of the largest value that a layer takes on a few points of the slice."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.exact.budget import Budget, inputs_of
from regionscope.geometry import Slice
from regionscope.network import Program
from regionscope.tolerance import Tolerance

__all__ = ["probe_points", "zero_scales"]

_PROBES = 16  # beside the corners
_CANCELLED = 2.0**-5  # times tolerance.zero: 64 units of rounding of what a layer adds up


def zero_scales(program: Program, slices: Sequence[Slice], tolerance: Tolerance, budget: Budget) -> Tensor:
    """How near to zero counts as zero, (kinks + 1, slices): ``tolerance.zero`` times the largest value on probe points.

    The probe points are the corners of the slice and fixed pseudo-random convex combinations of them, so the scale does
    not depend on how the work is cut into pieces. A layer whose terms cancel takes a share of their size, since its
    values are rounding. Scaling a layer up and the next one down changes neither. The last row belongs to the outputs.
    """
    probes = [probe_points(piece.corners.cpu()) for piece in slices]
    counts = torch.tensor([len(coords) for coords in probes], device="cpu")
    slice_id = torch.arange(len(slices), device="cpu").repeat_interleave(counts)
    rows = budget.inputs(program)
    scales = torch.zeros(len(program.kinks) + 1, len(slices), dtype=torch.float64, device="cpu")
    for coords, own in zip(torch.cat(probes).split(rows), slice_id.split(rows), strict=True):
        largest = _magnitudes(program, inputs_of(program, slices, coords, own)).double().cpu()
        scales.scatter_reduce_(1, own.expand_as(largest), largest, "amax")
    if not bool(torch.isfinite(scales).all()):
        raise InputError(
            "The network gives NaN or infinite values on the slice; exact regions need finite ones: "
            "use a smaller slice, or check the weights."
        )
    near = tolerance.zero * scales
    return near.clamp(min=torch.finfo(torch.float64).tiny).to(program.device)


def probe_points(corners: Tensor) -> Tensor:
    """The corners (m, k) and fixed points between them."""
    weights = torch.empty(_PROBES, len(corners), dtype=torch.float64, device="cpu")
    weights.exponential_(generator=torch.Generator().manual_seed(0))
    return torch.cat([corners, (weights / weights.sum(1, keepdim=True)) @ corners])


def _magnitudes(program: Program, inputs: Tensor) -> Tensor:
    """The largest value at each input, (kinks + 1, n): at each nonlinearity, and of the outputs; at least a share of
    the terms that are added up to it.

    How large those are is told by shaking: where every value of the layer before changes by a relative ``shake``, up or
    down by chance, a sum changes by as much of its terms, whether they cancel or not.
    """
    shake = float(torch.finfo(program.dtype).eps) ** 0.5
    generator = torch.Generator().manual_seed(0)

    def shaken(value: Tensor) -> Tensor:
        if not value.is_floating_point():
            return value
        up = torch.randint(0, 2, value.shape[1:], generator=generator, device="cpu", dtype=torch.bool).to(value.device)
        return torch.where(up, value * (1 + shake), value * (1 - shake))

    def size(value: Tensor, moved: Tensor) -> Tensor:
        change = _largest(value - moved) * (_CANCELLED / shake)
        return torch.maximum(_largest(value), change)

    values, moved = program.begin(inputs), program.begin(shaken(inputs))
    found = []
    for kink in program.kinks:
        found.append(size(kink.cuts(values).values, kink.cuts(moved).values))
        moved = kink.advance({name: shaken(value) for name, value in values.items()}, consume=True)
        values = kink.advance(values, consume=True)
    return torch.stack([*found, size(program.outputs(values), program.outputs(moved))])


def _largest(rows: Tensor) -> Tensor:
    """The largest absolute value of each row (n,)."""
    return rows.flatten(1).abs().amax(1)
