"""How near to zero counts as zero: a share of the largest value that a unit takes on a few points of the slice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce

import numpy as np
import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.exact.budget import Budget, corner_inputs
from regionscope.geometry import Slice
from regionscope.geometry import arrays as xp
from regionscope.geometry.block_size import rows_at_a_time
from regionscope.network import FoldSites, Kink, Maxima, Program, Thresholds, Values
from regionscope.tolerance import SMALLEST_TOLERANCE, Tolerance

_PROBES = 16  # beside the corners
_OUT_OF_REACH = 16.0  # times its variation: a value that is farther from its fold comes there nowhere on the slice
_DISPARATE = 2.0**8  # times the inputs, or the values of an earlier layer: some larger ones may be out of reach
_ENOUGH = 8  # probe points at a time, to see how far a value is from its threshold
_CANCELLED = 2.0**-5  # times tolerance.zero: 64 units of rounding of what a layer adds up
_OFF = 2.0**-4  # of that: 4 units of rounding of what a unit adds at its fold, where it is off on all probe points
_SHAKEN = 6  # of the probe points beside the corners: where the values are perturbed
_KEPT = 1 << 14  # random numbers that are drawn once; the rest is drawn in every call


@dataclass(frozen=True)
class LineProbes:
    """What ``zero_tolerances_of`` has computed for one line, and what need not be computed again.

    outputs: blocks (p, c) of the outputs at the probe points. corner_values: those of ``Program.begin`` at the ends.
    """

    outputs: list[Tensor] = field(default_factory=list)
    corner_values: Values = field(default_factory=dict)


def zero_tolerances_of(
    program: Program, slices: Sequence[Slice], tolerance: Tolerance, budget: Budget, probes: LineProbes | None = None
) -> list[Tensor]:
    """How near to zero counts as zero: ``tolerance.zero`` times the largest value on probe points.

    One tensor for each kink: (slices, units) where units are compared with thresholds, (slices,) where they are
    compared with each other. The last one, (slices,), belongs to the outputs.

    The probe points are the corners of the slice and fixed pseudo-random convex combinations of them, so the scale does
    not depend on how the work is cut into pieces. A unit whose terms cancel takes a share of their size, since its
    values are rounding; so does one that adds up nothing but the rounding of earlier layers. Scaling a unit up and the
    weights that read it down changes nothing.

    probes: for one line, filled with what its probe points give.

    Cost: the corners run to the first nonlinearity, where the values of the other points are combined from theirs; from
    there on all points run.
    """
    rows, all_corners = max(1, budget.inputs(program) // 2), [slice.corners for slice in slices]
    sizes = list(map(len, all_corners))
    order: list[int] = []
    blocks: list[list[tuple[Tensor, Tensor]]] = []
    for n_corners in sorted(set(sizes)):
        weights, mine = _probe_weights(n_corners), [i for i, n in enumerate(sizes) if n == n_corners]
        step = max(1, rows // len(weights))
        for start in range(0, len(mine), step):
            own = mine[start : start + step]
            corners = corner_inputs(program, [slices[i] for i in own], [all_corners[i] for i in own])
            parts, at_once = [], len(weights) if len(own) > 1 else rows
            for first in range(0, len(weights), at_once):
                part = weights[first : first + at_once].to(program.device, program.dtype)
                shaken = min(len(part), max(0, n_corners + _SHAKEN - first))
                parts.append(_magnitudes(program, corners, part, shaken, probes))
            blocks.append(_joined(parts, lambda x: reduce(xp.maximum, x)) if len(parts) > 1 else parts[0])
            order += own
    found = blocks[0]  # of each layer (slices,), of each of its units (slices, units)
    if len(blocks) > 1:
        place = xp.numpy_on_cpu(torch.tensor(order, device="cpu").argsort().to(program.device))
        found = _joined(blocks, lambda x: xp.take(xp.cat(x), place))
    if not bool((xp.cat([layer for layer, _ in found]) < math.inf).all()):
        raise InputError(
            "Expected finite values on the slice, got NaN or infinite values. Use a smaller slice, or check the "
            "weights."
        )
    zero_tolerances = []
    for layer, units in found:
        size = xp.minimum(units, layer.reshape(-1, *[1] * (units.ndim - 1)))
        zero_tolerances.append(xp.as_tensors((tolerance.zero * size).clip(min=SMALLEST_TOLERANCE)))
    if program.kinks and program.kinks[-1].kind == "argmax":  # it compares the outputs themselves
        zero_tolerances[-1] = zero_tolerances[-2].reshape(len(slices), -1).amax(1)
    return zero_tolerances


def at_vertices(zero_tolerance: Tensor, slice_id: Tensor) -> Tensor:
    """``zero_tolerance`` (slices, ...) of one kink for the slice of each vertex, (v, ...)."""
    if len(zero_tolerance) == 1:
        return zero_tolerance.expand(len(slice_id), *zero_tolerance.shape[1:])
    return zero_tolerance.index_select(0, xp.as_tensors(slice_id))


def snapped_signs(cuts: FoldSites, zero_tolerance: Tensor) -> Tensor:
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
            alive = tolerance > SMALLEST_TOLERANCE
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
    found = []
    for pairs in zip(*parts, strict=True):
        layers, units = zip(*pairs, strict=True)
        found.append((join(layers), join(units)))
    return found


@dataclass(frozen=True)
class _Versions:
    """The rows of all values: plain at the ``points`` of each slice, one slice after another, then moved and drifted at
    the first ``shaken`` of them.
    """

    n_slices: int
    points: int
    shaken: int

    def plain(self, rows: Tensor) -> Tensor:
        """(s, points, n) of the flattened rows."""
        return rows[: self.n_slices * self.points].reshape(self.n_slices, self.points, rows.shape[1])

    def perturbed(self, rows: Tensor) -> Tensor:
        """(2, s, shaken, n)."""
        return rows[self.n_slices * self.points :].reshape(2, self.n_slices, self.shaken, rows.shape[1])

    def starts(self, rows: Tensor) -> Tensor:
        """(2, s, shaken, n): from which values the next moved and drifted ones come, the plain and the drifted ones."""
        return xp.cat([self.plain(rows)[None, :, : self.shaken], self.perturbed(rows)[1:]])


@np.errstate(all="ignore")
def _magnitudes(
    program: Program, corners: Tensor, weights: Tensor, shaken: int, probes: LineProbes | None
) -> list[tuple[Tensor, Tensor]]:
    """The largest value of a layer on the probe points of each slice (s,), and that of its units (s, units), or (s,)
    where units are compared with each other; at each nonlinearity, and of the outputs. At least a share of the terms
    that are added up. corners: inputs (s * m, *input_shape); weights: (p, m) of the probe points.

    The size of these terms is estimated at the first ``shaken`` points, by perturbing all values by a relative
    ``shake``, up or down at random: a sum changes by that share of its terms, whether they cancel or not. For the layer
    only the values just before it are perturbed. For a unit those of all layers are, so that it is not mistaken for
    more than rounding. A unit that is off adds its rounding at the fold all the same. All values stand in three
    versions one after another: plain, moved from the plain ones just before the layer, and drifted.
    """
    shakes = _Shakes(program)
    versions = _Versions(len(corners) // weights.shape[1], len(weights), shaken)

    def sizes(value: Tensor) -> tuple[Tensor, Tensor]:
        """Of each column, for the moved and the drifted version: (s, n)."""
        rows = _flat(value)
        plain = versions.plain(rows)
        top = xp.largest(abs(plain), 1)
        if not shaken:
            return top, top
        apart = xp.largest(abs(versions.perturbed(rows) - plain[:, :shaken]), 2) * (_CANCELLED / shakes.size)
        return xp.maximum(apart[0], top), xp.maximum(apart[1], top)

    live = _values_at_probes(program, corners, weights, shakes, versions, probes)
    found, usual = [], xp.largest(abs(xp.numpy_on_cpu(corners).reshape(versions.n_slices, -1)), 1)
    for kink in program.kinks:
        cuts = kink.cuts(live)
        moved, drifted = sizes(cuts.values)
        layer, in_reach = xp.largest(moved, 1), None
        huge = layer > (0.0 if kink.kind == "argmax" else _DISPARATE) * usual
        if (versions.points >= _ENOUGH or isinstance(cuts, Maxima)) and bool(huge.any()):
            in_reach = _in_reach(cuts, versions.plain(xp.numpy_on_cpu(cuts.values)), ~huge)
            if isinstance(cuts, Maxima):
                layer = xp.largest((moved[:, xp.numpy_on_cpu(cuts.groups)] * in_reach).reshape(len(moved), -1), 1)
        usual = xp.minimum(usual, layer)
        found.append((layer, xp.maximum(moved, drifted) if isinstance(cuts, Thresholds) else layer))
        if kink.kind == "argmax":  # changes no value
            break
        live = _behind(kink, live, cuts, in_reach, shakes, versions)
    last = program.outputs(live)
    if probes is not None:
        probes.outputs.append(last[: len(weights)])
    outputs = xp.largest(sizes(last)[0], 1)
    return [*found, (outputs, outputs)]


def _values_at_probes(
    program: Program, corners: Tensor, weights: Tensor, shakes: _Shakes, versions: _Versions, probes: LineProbes | None
) -> Values:
    """All versions of the values before the first nonlinearity, combined from those at the corners."""

    def combined(plain: Tensor, moved: Tensor) -> Tensor:
        pairs = ((weights, plain), (weights[: versions.shaken], moved))
        shape = versions.n_slices, weights.shape[1], -1
        mixed = [(own.to(x.dtype) @ x.reshape(shape)).view(-1, *x.shape[1:]) for own, x in pairs]
        return torch.cat([*mixed, mixed[1]])

    changed = corners * (1 + xp.as_tensors(shakes.draw(math.prod(program.input_shape)))).view(program.input_shape)
    if len(corners) > 2:
        both = torch.cat([corners, changed])
        pairs = {name: value.chunk(2) for name, value in program.begin(both, shaken=len(corners)).items()}
    else:  # MKL multiplies two rows by a matrix twice in a third of the time that it takes for four
        first, second = program.begin(corners), program.begin(changed, shaken=len(changed))
        pairs = {name: (value, second[name]) for name, value in first.items()}
        if probes is not None:
            probes.corner_values.update(first)
    return {name: combined(*pair) for name, pair in pairs.items()}


def _in_reach(cuts: FoldSites, values: Tensor, all_of: Tensor) -> Tensor:
    """Whether each value may come to a fold on its slice, from those at the probe points (s, p, n). all_of: (s,) slices
    of which all are taken to.

    (s, n) for values that are compared with thresholds, (s, groups, m) for candidates of a maximum. A value that is
    always much farther from its threshold, or behind the largest one, than it varies is out of reach, such as one that
    is masked by a very negative number: its rounding moves no fold. So are candidates that are all equal, and one that
    no other reaches, if other groups have folds.
    """
    if isinstance(cuts, Thresholds):
        nearest = reduce(xp.minimum, (-xp.largest(-abs(values - at), 1) for at in cuts.at))
        return (nearest <= _OUT_OF_REACH * _variation(values)) | all_of[:, None]
    candidates = values[:, :, xp.numpy_on_cpu(cuts.groups)]
    top = xp.largest(candidates, 3)[..., None]
    lag = top - candidates
    near = -xp.largest(-lag, 1) <= _OUT_OF_REACH * (_variation(candidates) + _variation(top))
    contested = (near & (xp.largest(lag, 1) > 0)).any(-1)
    contested |= ~contested.any(-1)[:, None]
    return (near & contested[..., None]) | all_of[:, None, None]


def _variation(values: Tensor) -> Tensor:
    """The largest value minus the smallest one, over the probe points (s, p, ...)."""
    return xp.largest(values, 1) + xp.largest(-values, 1)


class _Shakes:
    """Random changes of about ``size``, the square root of the rounding unit; the same ones for the same network."""

    def __init__(self, program: Program) -> None:
        self.size = float(torch.finfo(program.dtype).eps) ** 0.5
        self.dtype, self.device = program.dtype, program.device
        self.used, self.generator = 0, torch.Generator().manual_seed(1)
        self.kept = xp.numpy_on_cpu(_kept(self.dtype, self.size).to(self.device))

    def draw(self, n: int) -> Tensor:
        """(n,): 0.5 to 1.5 times ``size``, up or down.

        Two terms that cancel would still cancel if both changed by the same share.
        """
        start, self.used = self.used, self.used + n
        if self.used <= _KEPT:
            return self.kept[start : self.used]
        return xp.numpy_on_cpu(_drawn(n, self.dtype, self.size, self.generator).to(self.device))


def _drawn(n: int, dtype: torch.dtype, size: float, generator: torch.Generator) -> Tensor:
    drawn = torch.empty(n, dtype=dtype, device="cpu").uniform_(-1, 1, generator=generator)
    return drawn.add_(drawn.sign(), alpha=0.5).mul_(size)


@cache
def _kept(dtype: torch.dtype, size: float) -> Tensor:
    """The changes of a small network; not to be written to."""
    return _drawn(_KEPT, dtype, size, torch.Generator().manual_seed(0))


def _flat(value: Tensor) -> Tensor:
    """(v, n) of values (v, ...)."""
    return xp.numpy_on_cpu(value).reshape(len(value), -1)


def _behind(
    kink: Kink, live: Values, cuts: FoldSites, in_reach: Tensor | None, shakes: _Shakes, versions: _Versions
) -> Values:
    """The three versions of the values behind a kink: plain, moved from the plain ones, moved on."""
    noise = versions.starts(xp.numpy_on_cpu(cuts.values))
    if isinstance(cuts, Maxima):
        noise = abs(noise[..., xp.numpy_on_cpu(cuts.groups)])
    if in_reach is not None:
        noise = noise * in_reach[:, None]
    if isinstance(cuts, Maxima):
        noise = xp.largest(noise, -1)
    flat = {name: _flat(value) for name, value in live.items()}
    real = [name for name, value in live.items() if value.is_floating_point()]
    changes = shakes.draw(2 * (sum(flat[name].shape[1] for name in real) + noise.shape[-1])).reshape(2, 1, 1, -1)
    before, end = {}, 0
    for name, rows in flat.items():
        found, starts = xp.empty_like(rows), versions.starts(rows)
        versions.plain(found)[:] = versions.plain(rows)
        if name in real:
            starts *= 1 + changes[..., end : end + rows.shape[1]]
            end += rows.shape[1]
        versions.perturbed(found)[:] = starts
        before[name] = xp.as_tensors(found).view(live[name].shape)
    noise *= changes[..., end:] * _OFF
    return kink.advance(before, consume=True, noise=xp.as_tensors(noise))
