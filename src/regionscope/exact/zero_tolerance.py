"""How near to zero counts as zero: a share of the largest value that a unit takes on a few points of the slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.exact.budget import Budget, corner_inputs
from regionscope.geometry import Slice
from regionscope.geometry.arrays import as_tensors
from regionscope.geometry.blocks import rows_at_a_time
from regionscope.network import Cuts, Kink, Program, Thresholds, Values
from regionscope.tolerance import LEAST, Tolerance

_PROBES = 16  # beside the corners
_CANCELLED = 2.0**-5  # times tolerance.zero: 64 units of rounding of what a layer adds up
_OFF = 2.0**-4  # of that: 4 units of rounding of what a unit adds at its fold, where it is off on all probe points


def zero_tolerances_of(
    program: Program, slices: Sequence[Slice], tolerance: Tolerance, budget: Budget, seen: list[Tensor] | None = None
) -> list[Tensor]:
    """How near to zero counts as zero: ``tolerance.zero`` times the largest value on probe points.

    One tensor for each kink: (slices, units) where units are compared with thresholds, (slices,) where they are
    compared with each other. The last one, (slices,), belongs to the outputs.

    The probe points are the corners of the slice and fixed pseudo-random convex combinations of them, so the scale does
    not depend on how the work is cut into pieces. A unit whose terms cancel takes a share of their size, since its
    values are rounding; so does one that adds up nothing but the rounding of earlier layers. Scaling a unit up and the
    weights that read it down changes nothing.

    seen: where the outputs at the probe points are added, (p, c) for one slice.

    Cost: the corners run to the first nonlinearity, where the values of the other points are combined from theirs; from
    there on all points run.
    """
    rows, sizes = max(1, budget.inputs(program) // 2), [len(slice.corners) for slice in slices]
    order: list[int] = []
    blocks: list[list[tuple[Tensor, Tensor]]] = []
    for n_corners in sorted(set(sizes)):
        weights, mine = _probe_weights(n_corners), [i for i, n in enumerate(sizes) if n == n_corners]
        step = max(1, rows // len(weights))
        for start in range(0, len(mine), step):
            own = mine[start : start + step]
            corners = corner_inputs(program, [slices[i] for i in own])
            parts = [
                _magnitudes(program, corners, part.to(program.device, program.dtype), seen)
                for part in weights.split(len(weights) if len(own) > 1 else rows)
            ]
            blocks.append(_joined(parts, lambda x: torch.stack(x).amax(0)) if len(parts) > 1 else parts[0])
            order += own
    largest = blocks[0]  # of each layer (slices,), of each of its units (slices, units)
    if len(blocks) > 1:
        place = torch.tensor(order, device="cpu").argsort().to(program.device)
        largest = _joined(blocks, lambda x: torch.cat(x)[place])
    if not bool(torch.stack([layer for layer, _ in largest]).isfinite().all()):
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


def _magnitudes(
    program: Program, corners: Tensor, weights: Tensor, seen: list[Tensor] | None
) -> list[tuple[Tensor, Tensor]]:
    """The largest value of a layer on the probe points of each slice (s,), and that of its units (s, units), or (s,)
    where units are compared with each other; at each nonlinearity, and of the outputs. At least a share of the terms
    that are added up. corners: inputs (s * m, *input_shape); weights: (p, m) of the probe points.

    The size of these terms is estimated by perturbing all values by a relative ``shake``, up or down at random: a sum
    changes by that share of its terms, whether they cancel or not. For the layer only the values just before it are
    perturbed. For a unit those of all layers are, so that it is not mistaken for more than rounding. A unit that is off
    adds its rounding at the fold all the same. All values stand in three versions one after another: plain, moved from
    the plain ones just before the layer, and drifted.
    """
    shakes = _Shakes(program)
    n_slices = len(corners) // weights.shape[1]

    def sizes(value: Tensor) -> Tensor:
        """Of each column, for the moved and the drifted version: (2, s, n)."""
        rows = value.reshape(3, n_slices, len(weights), -1)
        apart = rows[1:].sub(rows[0]).abs_().amax(2).mul_(_CANCELLED / shakes.size)
        return torch.maximum(apart, rows[0].abs().amax(1), out=apart)

    def combined(plain: Tensor, moved: Tensor) -> Tensor:
        mixed = [weights.to(x.dtype) @ x.reshape(n_slices, weights.shape[1], -1) for x in (plain, moved, moved)]
        return torch.cat(mixed).view(-1, *plain.shape[1:])

    changed = corners * (1 + shakes.draw(1, corners[0].numel())).view_as(corners[:1])
    if len(corners) > 2:
        begun = {name: value.chunk(2) for name, value in program.begin(torch.cat([corners, changed])).items()}
    else:  # MKL multiplies two rows by a matrix twice in a third of the time that it takes for four
        plain, moved = program.begin(corners), program.begin(changed)
        begun = {name: (value, moved[name]) for name, value in plain.items()}
    live = {name: combined(*pair) for name, pair in begun.items()}
    found = []
    for kink in program.kinks:
        cuts = kink.cuts(live)
        moved, drifted = sizes(cuts.values)
        layer = moved.amax(1)
        found.append((layer, torch.maximum(moved, drifted) if isinstance(cuts, Thresholds) else layer))
        if kink.kind == "argmax":  # changes no value
            break
        live = _behind(kink, live, cuts, shakes)
    last = program.outputs(live)
    if seen is not None:
        seen.append(last.chunk(3)[0])
    outputs = sizes(last)[0].amax(1)
    return [*found, (outputs, outputs)]


class _Shakes:
    """Random changes of about ``size``, the square root of the rounding unit; the same ones for the same network."""

    def __init__(self, program: Program) -> None:
        self.size = float(torch.finfo(program.dtype).eps) ** 0.5
        self.dtype, self.device = program.dtype, program.device
        self.generator = torch.Generator().manual_seed(0)

    def draw(self, *shape: int) -> Tensor:
        """0.5 to 1.5 times ``size``, up or down.

        Two terms that cancel would still cancel if both changed by the same share.
        """
        drawn = torch.empty(shape, dtype=self.dtype, device="cpu").uniform_(-1, 1, generator=self.generator)
        return drawn.add_(drawn.sign(), alpha=0.5).mul_(self.size).to(self.device)


def _behind(kink: Kink, live: Values, cuts: Cuts, shakes: _Shakes) -> Values:
    """The three versions of the values behind a kink: plain, moved from the plain ones, moved on."""
    units = cuts.values if isinstance(cuts, Thresholds) else cuts.values[:, cuts.groups].abs().amax(-1)
    real = [name for name, value in live.items() if value.is_floating_point()]
    counts = [live[name][0].numel() for name in real]
    changes = shakes.draw(2, sum(counts) + units.shape[1])
    before = {
        name: torch.cat([value.chunk(3)[i] for i in (0, 0, 2)]) for name, value in live.items() if name not in real
    }
    for name, factor in zip(real, (1 + changes).split([*counts, units.shape[1]], 1), strict=False):
        rows = live[name].reshape(3, -1, *live[name].shape[1:])
        found = torch.empty_like(rows, memory_format=torch.contiguous_format)
        found[0] = rows[0]
        torch.mul(rows[::2], factor.reshape(2, 1, *rows.shape[2:]), out=found[1:])
        before[name] = found.view_as(live[name])
    noise = units.reshape(3, -1, units.shape[1])[::2] * changes[:, None, sum(counts) :].mul(_OFF)
    return kink.advance(before, consume=True, noise=noise)
