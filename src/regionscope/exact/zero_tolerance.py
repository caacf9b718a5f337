"""How near to zero counts as zero: a share of the largest value that a unit takes on a few points of the slice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, reduce

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.exact.budget import Budget, corner_inputs
from regionscope.exact.magnitudes import LineProbes, magnitudes, zero_tolerance_of
from regionscope.geometry import Slice
from regionscope.geometry import arrays as xp
from regionscope.geometry.arrays import rows_at_a_time
from regionscope.network import Compared, Largest, Program, Thresholds
from regionscope.tolerance import SMALLEST_TOLERANCE, Tolerance

_PROBES = 16  # probe points of a slice, beside its corners
_PERTURBED = 6  # of these: where, as at the corners, the size of the terms of a sum is estimated


def zero_tolerances_of(
    program: Program, slices: Sequence[Slice], tolerance: Tolerance, budget: Budget, probes: LineProbes | None = None
) -> list[Tensor]:
    """How near to zero counts as zero: ``tolerance.zero`` times the largest value on probe points.

    One tensor for each fold: (slices, units) where units are compared with thresholds, (slices,) where they are
    compared with each other. The last one, (slices,), belongs to the outputs.

    The probe points are the corners of the slice and fixed pseudo-random convex combinations of them, so the scale does
    not depend on how the work is cut into pieces. A unit whose terms cancel takes a share of their size, since its
    values are rounding; so does one that adds up nothing but the rounding of earlier layers. Scaling a unit up and the
    weights that read it down changes nothing.

    probes: for one line, filled with what its probe points give.

    Cost: the corners run to the first fold that meets a slice, where the values of the other points are
    combined from theirs; from there on all points run.
    """
    rows, all_corners = max(1, budget.inputs(program) // 2), [slice.corners for slice in slices]
    sizes = list(map(len, all_corners))
    order: list[int] = []
    blocks: list[list[tuple[Tensor, Tensor]]] = []
    for n_corners in sorted(set(sizes)):
        weights, mine = _probe_weights(n_corners), [i for i, n in enumerate(sizes) if n == n_corners]
        step = max(1, rows // len(weights))
        for start in range(0, len(mine), step):
            chunk = mine[start : start + step]
            corners = corner_inputs(program, [slices[i] for i in chunk], [all_corners[i] for i in chunk])
            parts, at_once = [], len(weights) if len(chunk) > 1 else rows
            for first in range(0, len(weights), at_once):
                part = weights[first : first + at_once].to(program.device, program.dtype)
                n_perturbed = min(len(part), max(0, n_corners + _PERTURBED - first))
                largest, straight = magnitudes(program, corners, part, n_perturbed, tolerance.zero, probes)
                parts.append(largest)
                if straight:
                    break
            blocks.append(_joined(parts, lambda x: reduce(xp.maximum, x)) if len(parts) > 1 else parts[0])
            order += chunk
    tolerances = blocks[0]  # of each layer (slices,), of each of its units (slices, units)
    if len(blocks) > 1:
        place = xp.numpy_on_cpu(torch.tensor(order, device="cpu").argsort().to(program.device))
        tolerances = _joined(blocks, lambda x: xp.take(xp.cat(x), place))
    if not bool((xp.cat([layer for layer, _ in tolerances]) < math.inf).all()):
        raise InputError(
            "Expected finite values on the slice, got NaN or infinite values. Use a smaller slice, or check the "
            "weights."
        )
    zero_tolerances = []
    for layer, units in tolerances:
        zero_tolerances.append(xp.as_tensors(zero_tolerance_of(layer, units, tolerance.zero)))
    if program.folds and program.folds[-1].decides:  # it compares the outputs themselves
        zero_tolerances[-1] = zero_tolerances[-2].reshape(len(slices), -1).amax(1)
    return zero_tolerances


def at_vertices(zero_tolerance: Tensor, slice_id: Tensor) -> Tensor:
    """``zero_tolerance`` (slices, ...) of one fold for the slice of each vertex, (v, ...)."""
    if len(zero_tolerance) == 1:
        return zero_tolerance.expand(len(slice_id), *zero_tolerance.shape[1:])
    return zero_tolerance.index_select(0, xp.as_tensors(slice_id))


def snapped_signs(compared: Compared, zero_tolerance: Tensor) -> Tensor:
    """The vertex of each value that counts as zero: (n,) rows of ``compared``, once for each value.

    zero_tolerance: (v,) or (v, units). A value may be zero after rounding alone, so zeros count too, but for units that
    are zero on all probe points. Of candidates for a maximum, those count that lag a little behind the largest one,
    except where a ReLU before it left zeros and the rounding of its own fold. If there is none, and no two folds fall
    together on an edge, every sign was decided beyond rounding.
    """
    rows = []
    columns = compared.values.shape[1] if isinstance(compared, Thresholds) else compared.groups.numel()
    step = rows_at_a_time(columns * compared.values.element_size(), compared.values.device)
    for start in range(0, len(compared.values), step):
        block, tolerance = compared.values[start : start + step], zero_tolerance[start : start + step]
        if isinstance(compared, Thresholds):
            tolerance = tolerance.reshape(len(block), -1)
            alive = tolerance > SMALLEST_TOLERANCE
            hidden = [((block - threshold).abs() <= tolerance) & alive for threshold in compared.at]
        elif isinstance(compared, Largest):
            hidden = []
        else:
            candidates, tolerance = block[:, compared.groups], tolerance[:, None, None]
            top = candidates.amax(-1, keepdim=True)
            off = (candidates == 0) & (top <= tolerance)
            hidden = [(candidates < top) & (top - candidates <= tolerance) & ~off]
        rows += [part.nonzero()[:, 0] + start for part in hidden]
    return torch.cat(rows) if rows else torch.empty(0, dtype=torch.int64, device=zero_tolerance.device)


def probe_points(corners: Tensor) -> Tensor:
    """The corners (m, k) and fixed points between them."""
    return _probe_weights(len(corners)) @ corners


@cache
def _probe_weights(n_corners: int) -> Tensor:
    """Weights (p, m) of the m corners in each probe point; not to be written to."""
    weights = torch.empty(_PROBES, n_corners, dtype=torch.float64, device="cpu")
    weights.exponential_(generator=torch.Generator().manual_seed(0))
    return torch.cat([torch.eye(n_corners, dtype=torch.float64, device="cpu"), weights / weights.sum(1, keepdim=True)])


def _joined(
    parts: Sequence[list[tuple[Tensor, Tensor]]], join: Callable[[tuple[Tensor, ...]], Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """One list of pairs from several, joined place by place."""
    joined = []
    for pairs in zip(*parts, strict=True):
        layers, units = zip(*pairs, strict=True)
        joined.append((join(layers), join(units)))
    return joined
