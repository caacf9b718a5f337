"""How near to zero counts as zero: a share of the largest value that a unit takes on a few points of the slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.exact.budget import Budget, corner_inputs
from regionscope.geometry import Slice
from regionscope.geometry.arrays import as_tensors
from regionscope.geometry.blocks import rows_at_a_time
from regionscope.network import Cuts, Kink, Program, Thresholds, Values
from regionscope.tolerance import LEAST, Tolerance

__all__ = ["at_vertices", "probe_points", "snapped_signs", "zero_tolerances_of"]

_PROBES = 16  # beside the corners
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

    Cost: the corners run to the first nonlinearity, where the values of the other points are combined from theirs; from
    there on all points run.
    """
    rows, sizes = max(1, budget.inputs(program) // 2), [len(piece.corners) for piece in slices]
    order: list[int] = []
    blocks: list[list[tuple[Tensor, Tensor]]] = []
    for n_corners in sorted(set(sizes)):
        weights, mine = _probe_weights(n_corners), [i for i, n in enumerate(sizes) if n == n_corners]
        step = max(1, rows // len(weights))
        for start in range(0, len(mine), step):
            own = mine[start : start + step]
            corners = corner_inputs(program, [slices[i] for i in own])
            parts = [
                _magnitudes(program, corners, part.to(program.device, program.dtype))
                for part in weights.split(len(weights) if len(own) > 1 else rows)
            ]
            blocks.append(_joined(parts, lambda x: torch.stack(x).amax(0)) if len(parts) > 1 else parts[0])
            order += own
    largest = blocks[0]  # of each layer (slices,), of each of its units (slices, units)
    if len(blocks) > 1:
        place = torch.tensor(order, device="cpu").argsort().to(program.device)
        largest = _joined(blocks, lambda x: torch.cat(x)[place])
    if not all(bool(torch.isfinite(layer).all()) for layer, _ in largest):
        raise InputError(
            "Expected finite values on the slice, got NaN or infinite values. Use a smaller slice, or check the "
            "weights."
        )
    zero_tolerances = [
        (tolerance.zero * torch.minimum(units, layer.reshape(-1, *[1] * (units.ndim - 1)))).clamp(min=LEAST)
        for layer, units in largest
    ]
    if program.kinks and program.kinks[-1].kind == "argmax":  # it compares the outputs themselves
        zero_tolerances[-1] = zero_tolerances[-2].reshape(len(slices), -1).amax(1)
    return zero_tolerances


def at_vertices(zero_tolerance: Tensor, slice_id: Tensor) -> Tensor:
    """``zero_tolerance`` (slices, ...) of one kink for the slice of each vertex, (v, ...)."""
    if len(zero_tolerance) == 1:
        return zero_tolerance.expand(len(slice_id), *zero_tolerance.shape[1:])
    return zero_tolerance.index_select(0, as_tensors(slice_id))


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
            alive = tolerance > LEAST
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
    return _probe_weights(len(corners)) @ corners


def _probe_weights(n_corners: int) -> Tensor:
    """Weights (p, m) of the m corners in each probe point."""
    weights = torch.empty(_PROBES, n_corners, dtype=torch.float64, device="cpu")
    weights.exponential_(generator=torch.Generator().manual_seed(0))
    return torch.cat([torch.eye(n_corners, dtype=torch.float64, device="cpu"), weights / weights.sum(1, keepdim=True)])


def _joined(
    parts: Sequence[list[tuple[Tensor, Tensor]]], join: Callable[[tuple[Tensor, ...]], Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """One list of pairs from several, joined place by place."""
    found = []
    for pairs in zip(*parts, strict=True):
        layers, units = zip(*pairs, strict=True)
        found.append((join(layers), join(units)))
    return found


def _magnitudes(program: Program, corners: Tensor, weights: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The largest value of a layer on the probe points of each slice (s,), and that of its units (s, units), or (s,)
    where units are compared with each other; at each nonlinearity, and of the outputs. At least a share of the terms
    that are added up. corners: inputs (s * m, *input_shape); weights: (p, m) of the probe points.

    The size of these terms is estimated by perturbing all values by a relative ``shake``, up or down at random: a sum
    changes by that share of its terms, whether they cancel or not. For the layer only the values just before it are
    perturbed. For a unit those of all layers are, so that it is not mistaken for more than rounding. A unit that is off
    adds its rounding at the fold all the same.
    """
    shake = float(torch.finfo(program.dtype).eps) ** 0.5
    generator = torch.Generator().manual_seed(0)
    n_slices = len(corners) // weights.shape[1]

    def changes(value: Tensor) -> Tensor:
        """Up or down by ``shake`` for each number of a row."""
        up = torch.randint(0, 2, value.shape[1:], generator=generator, device="cpu", dtype=torch.bool).to(value.device)
        return up.to(value.dtype).mul_(2 * shake).sub_(shake)

    def size(value: Tensor, moved: Tensor) -> Tensor:
        rows = torch.maximum(value.abs(), (value - moved).abs() * (_CANCELLED / shake))
        return rows.reshape(n_slices, len(weights), -1).amax(1)

    def combined(value: Tensor) -> Tensor:
        rows = weights.to(value.dtype) @ value.reshape(2 * n_slices, weights.shape[1], -1)
        plain, moved = rows.reshape(2, -1, *value.shape[1:])
        return torch.cat([plain, moved, moved])

    begun = program.begin(torch.cat([corners, corners * (1 + changes(corners))]))
    live = {name: combined(value) for name, value in begun.items()}
    found = []
    for kink in program.kinks:
        cuts = kink.cuts(live)
        plain, moved, drifted = cuts.values.chunk(3)
        layer = size(plain, moved).amax(1)
        found.append((layer, size(plain, drifted) if isinstance(cuts, Thresholds) else layer))
        if kink.kind == "argmax":  # changes no value
            break
        live = _behind(kink, live, cuts, changes)
    plain, moved, _ = program.outputs(live).chunk(3)
    outputs = size(plain, moved).amax(1)
    return [*found, (outputs, outputs)]


def _behind(kink: Kink, live: Values, cuts: Cuts, changes: Callable[[Tensor], Tensor]) -> Values:
    """The values behind a kink in three versions, one after another: plain, moved from the plain ones, moved on."""
    first = kink.instructions[0]
    units = cuts.values if isinstance(cuts, Thresholds) else cuts.values[:, cuts.groups].abs().amax(-1)
    before: list[Values] = []
    noise = [torch.zeros_like(units[: len(units) // 3])]
    for version in (0, 2):
        own = {name: value.chunk(3)[version] for name, value in live.items()}
        before.append({name: x * (1 + changes(x)) if x.is_floating_point() else x for name, x in own.items()})
        own_units = units.chunk(3)[version]
        noise.append(_OFF * own_units * changes(own_units))

    def fold(*inputs: Tensor) -> Tensor:
        found = first.function(*inputs)
        return found + torch.cat(noise).reshape(found.shape)

    noisy = replace(kink, instructions=(replace(first, function=fold, into=None), *kink.instructions[1:]))
    joined = {name: torch.cat([value.chunk(3)[0], *(each[name] for each in before)]) for name, value in live.items()}
    return noisy.advance(joined, consume=True)
