"""How near to zero counts as zero: a share of the largest value that a unit takes on a few points of the slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.exact.budget import Budget, inputs_of
from regionscope.geometry import Slice
from regionscope.geometry.blocks import rows_at_a_time
from regionscope.network import Cuts, Kink, Program, Thresholds, Values
from regionscope.tolerance import Tolerance

__all__ = ["at_vertices", "probe_points", "snapped_signs", "zero_tolerances_of"]

_PROBES = 16  # beside the corners
_LEAST = torch.finfo(torch.float64).tiny  # the tolerance of a unit that is zero on all probe points
_CANCELLED = 2.0**-5  # times tolerance.zero: 64 units of rounding of what a layer adds up
_OFF = 2.0**-4  # of that: 4 units of rounding of what a unit adds at its fold, where it is off on all probe points


def zero_tolerances_of(program: Program, slices: Sequence[Slice], tolerance: Tolerance, budget: Budget) -> list[Tensor]:
    """How near to zero counts as zero: ``tolerance.zero`` times the largest value on probe points.

    One tensor for each kink: (slices, units) where units are compared with thresholds, (slices,) where they are
    compared with each other. The last one, (slices,), belongs to the outputs.

    The probe points are the corners of the slice and fixed pseudo-random convex combinations of them, so the scale does
    not depend on how the work is cut into pieces. A unit whose terms cancel takes a share of their size, since its
    values are rounding; so does one that adds up nothing but the rounding of earlier layers. Scaling a unit up and the
    weights that read it down changes nothing.
    """
    probes = [probe_points(piece.corners.cpu()) for piece in slices]
    counts = torch.tensor([len(coords) for coords in probes], device="cpu")
    slice_id = torch.arange(len(slices), device="cpu").repeat_interleave(counts)
    rows = budget.inputs(program)
    largest: list[tuple[Tensor, Tensor]] = []  # of each layer (slices,), of each of its units (slices, units)
    for coords, own in zip(torch.cat(probes).split(rows), slice_id.split(rows), strict=True):
        found = _magnitudes(program, inputs_of(program, slices, coords, own))
        if not largest:
            largest = [(a.new_zeros(len(slices)), b.new_zeros(len(slices), *b.shape[1:])) for a, b in found]
        own = own.to(program.device)
        for (layer, units), (of_layer, of_units) in zip(largest, found, strict=True):
            layer.scatter_reduce_(0, own, of_layer, "amax")
            units.scatter_reduce_(0, own.reshape(-1, *[1] * (units.ndim - 1)).expand_as(of_units), of_units, "amax")
    if not all(bool(torch.isfinite(layer).all()) for layer, _ in largest):
        raise InputError(
            "Expected finite values on the slice, got NaN or infinite values. Use a smaller slice, or check the "
            "weights."
        )
    zero_tolerances = [
        (tolerance.zero * torch.minimum(units, layer.reshape(-1, *[1] * (units.ndim - 1)))).clamp(min=_LEAST)
        for layer, units in largest
    ]
    if program.kinks and program.kinks[-1].kind == "argmax":  # it compares the outputs themselves
        zero_tolerances[-1] = zero_tolerances[-2].reshape(len(slices), -1).amax(1)
    return zero_tolerances


def at_vertices(zero_tolerance: Tensor, slice_id: Tensor) -> Tensor:
    """``zero_tolerance`` (slices, ...) of one kink for the slice of each vertex, (v, ...)."""
    if len(zero_tolerance) == 1:
        return zero_tolerance.expand(len(slice_id), *zero_tolerance.shape[1:])
    return zero_tolerance[slice_id]


def snapped_signs(cuts: Cuts, zero_tolerance: Tensor) -> Tensor:
    """The vertex of each value that counts as zero: (n,) rows of ``cuts``, once for each value.

    zero_tolerance: (v,) or (v, units). A value may be zero after rounding alone, so zeros count too, but for units that
    are zero on all probe points. Of candidates for a maximum, those count that lag a little behind the largest one,
    except where a ReLU before it left zeros and the rounding of its own fold. If there is none, and no two folds fall
    together on an edge, every sign was decided beyond rounding.
    """
    found = []
    columns = cuts.values.shape[1] if isinstance(cuts, Thresholds) else cuts.groups.numel()
    step = rows_at_a_time(columns * cuts.values.element_size(), cuts.values.device)
    for start in range(0, len(cuts.values), step):
        block, tolerance = cuts.values[start : start + step], zero_tolerance[start : start + step]
        if isinstance(cuts, Thresholds):
            tolerance = tolerance.reshape(len(block), -1)
            alive = tolerance > _LEAST
            hidden = [((block - at).abs() <= tolerance) & alive for at in cuts.at]
        else:
            candidates, tolerance = block[:, cuts.groups], tolerance[:, None, None]
            top = candidates.amax(-1, keepdim=True)
            off = (candidates == 0) & (top <= tolerance)
            hidden = [(candidates < top) & (top - candidates <= tolerance) & ~off]
        found += [each.nonzero()[:, 0] + start for each in hidden]
    return torch.cat(found) if found else torch.empty(0, dtype=torch.int64, device=zero_tolerance.device)


def probe_points(corners: Tensor) -> Tensor:
    """The corners (m, k) and fixed points between them."""
    weights = torch.empty(_PROBES, len(corners), dtype=torch.float64, device="cpu")
    weights.exponential_(generator=torch.Generator().manual_seed(0))
    return torch.cat([corners, (weights / weights.sum(1, keepdim=True)) @ corners])


def _magnitudes(program: Program, inputs: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The largest value of a layer at each input (n,), and the value of its units (n, units), or (n,) where units are
    compared with each other; at each nonlinearity, and of the outputs. At least a share of the terms that are added up.

    The size of these terms is estimated by perturbing all values by a relative ``shake``, up or down at random: a sum
    changes by that share of its terms, whether they cancel or not. For the layer only the values just before it are
    perturbed. For a unit those of all layers are, so that it is not mistaken for more than rounding. A unit that is off
    adds its rounding at the fold all the same.
    """
    shake = float(torch.finfo(program.dtype).eps) ** 0.5
    generator = torch.Generator().manual_seed(0)

    def shaken(value: Tensor) -> Tensor:
        if not value.is_floating_point():
            return value
        up = torch.randint(0, 2, value.shape[1:], generator=generator, device="cpu", dtype=torch.bool).to(value.device)
        return torch.where(up, value * (1 + shake), value * (1 - shake))

    def behind(kink: Kink, values: Values, cuts: Cuts) -> Values:
        first = kink.instructions[0]
        units = cuts.values if isinstance(cuts, Thresholds) else cuts.values[:, cuts.groups].abs().amax(-1)

        def fold(*inputs: Tensor) -> Tensor:
            found = first.function(*inputs)
            return found + _OFF * (shaken(units) - units).reshape(found.shape)

        noisy = replace(kink, instructions=(replace(first, function=fold, into=None), *kink.instructions[1:]))
        return noisy.advance({name: shaken(value) for name, value in values.items()}, consume=True)

    def size(value: Tensor, moved: Tensor) -> Tensor:
        return torch.maximum(value.abs(), (value - moved).abs() * (_CANCELLED / shake)).flatten(1)

    values, moved = program.begin(inputs), program.begin(shaken(inputs))
    drifted, found = dict(moved), []
    for kink in program.kinks:
        cuts, cuts_moved, cuts_drifted = (kink.cuts(each) for each in (values, moved, drifted))
        layer = size(cuts.values, cuts_moved.values).amax(1)
        units = size(cuts.values, cuts_drifted.values) if isinstance(cuts, Thresholds) else layer
        found.append((layer, units))
        if kink.kind == "argmax":  # changes no value
            break
        moved, drifted = behind(kink, values, cuts), behind(kink, drifted, cuts)
        values = kink.advance(values, consume=True)
    outputs = size(program.outputs(values), program.outputs(moved)).amax(1)
    return [*found, (outputs, outputs)]
