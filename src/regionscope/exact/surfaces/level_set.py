"""``level_set``: where an output equals a value, or where two classes meet, as exact curves or an exact mesh."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import check_memory, check_progress, read_integer, read_number
from regionscope.errors import InputError, LimitReached, NotPiecewiseAffine
from regionscope.exact.budget import Budget, Record, TooManyRegions, rising
from regionscope.exact.decision import extremes_at_corners, labels_of
from regionscope.exact.linear import check_shapes, cut_slices, program_of
from regionscope.exact.questions.output_weights import Target, output_weights
from regionscope.exact.region_batch import RegionBatch
from regionscope.exact.surfaces.pruning import Levels, Pruning
from regionscope.exact.surfaces.surface import LevelSet, normals_of, ordered_corners
from regionscope.exact.zero_tolerance import zero_tolerances_of
from regionscope.geometry import Slice
from regionscope.geometry.ragged import gather_rows, mean_of_rows, owners, ranges
from regionscope.geometry.slices import read_slices
from regionscope.network import Program, full_precision, with_decision, with_level
from regionscope.network.output import Arguments, Output, select_output
from regionscope.tolerance import Tolerance
from regionscope.types import Progress, Stats

_SMOOTH = "decision_map(model, slice, value=0.0) encloses the level set of a network with smooth activations."


def level_set(
    model: nn.Module | Program,
    slice: Slice,
    *,
    value: float = 0.0,
    target: Target | None = None,
    classes: int | Sequence[int] | None = None,
    max_regions: int | None = None,
    memory: int | None = None,
    tolerance: Tolerance | None = None,
    progress: Progress | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> LevelSet:
    """The exact set where an output equals ``value``: line segments on a plane, polygons in three dimensions.

    The result is the boundary of {f < value} inside the slice. Points with f = value count as above, so it is a closed
    oriented curve or surface, except on the border of the slice. Regions on which f equals the value everywhere belong
    to the part above and are listed in ``flat``. A sheet along which f touches the value from below, with smaller
    values on both sides, bounds nothing and is left out.

    The network is followed layer by layer as in ``linear_regions``. After each layer only those regions are kept on
    which bounds of the remaining layers allow the value, so most regions away from the surface are never built.
    For networks with max-pooling or maxima, all regions are built first and filtered at the end.

    model: as in ``linear_regions``. slice: a Simplex or Box of dimension 2 or 3.
    value: level of the output. target: output to use, where there are several: an index, a pair (i, j) for output i
        minus output j, or one weight for each output.
    classes: decision boundary instead of a level: a pair (a, b) for the points where classes a and b have the largest
        outputs, or one class for the border of its decision region. The normals point out of class a.
    max_regions: number of regions at which to stop with ``LimitReached``.
    memory, tolerance, progress, output, args: as in ``linear_regions``. On a plane, regions
        are no longer dropped once their values exceed the memory.
    """
    started = time.perf_counter()
    (slice,) = read_slices(slice)
    if slice.dim not in (2, 3):
        way_out = "Use flips() on a Segment." if slice.dim == 1 else "Use a slice of fewer dimensions."
        raise InputError(f"Expected a slice of dimension 2 or 3, got {slice.dim}. {way_out}")
    if max_regions is not None:
        read_integer("max_regions", max_regions)
    check_memory(memory)
    check_progress(progress)
    try:
        program = program_of(select_output(model, output, args), [slice])
    except NotPiecewiseAffine as error:
        raise NotPiecewiseAffine(f"{error} {_SMOOTH}") from error
    check_shapes(program, [slice])
    program.require_continuous("level_set()")
    tolerance = tolerance or Tolerance.of(program.dtype)
    levels, cut = _levels(program, read_number("value", value), target, classes)
    with torch.no_grad(), full_precision():
        budget = Budget.of(program.device, memory, max_regions)
        zero_tolerances = zero_tolerances_of(cut, [slice], tolerance, budget)
        tell = None if progress is None else rising(progress)
        record = Record.start(len(cut.folds), 1, tell)
        keep = Pruning(program, slice, levels, float(zero_tolerances[-1]))
        try:
            batch = cut_slices(cut, [slice], zero_tolerances, budget, record, keep=keep)
        except TooManyRegions as limit:
            raise LimitReached(
                f"Expected at most max_regions={max_regions} regions, got more after '{cut.folds[limit.fold].name}'. "
                "Raise max_regions= or use a smaller slice."
            ) from None
        if tell is not None:
            tell(1.0)
        stats = Stats(int(record.snapped.sum()), float(zero_tolerances[-1]), time.perf_counter() - started)
        below, above, flat = _sides(batch, levels, classes, float(zero_tolerances[-1]))
        return _surface(batch, slice, below, above, flat, stats=stats, value=value, classes=classes)


def _levels(
    program: Program, value: float, target: Target | None, classes: int | Sequence[int] | None
) -> tuple[Levels, Program]:
    """The rows that vanish on the set, and the program with a last fold there."""
    c, device = program.n_outputs, program.device
    if classes is None:
        weights = output_weights(target, 1, c).to(device)
        levels = Levels(weights, torch.full((1,), -value, dtype=torch.float64, device=device), 1)
        return levels, with_level(program, weights[0], value)
    if target is not None or value != 0.0:
        raise InputError("Expected classes without value and target, got both. Give one of them.")
    chosen = _read_classes(classes, c)
    unit = torch.eye(c, dtype=torch.float64, device=device)
    rows = [unit[i] - unit[chosen[0]] for i in (chosen[1:] or range(c)) if i != chosen[0]]
    n = len(rows)
    if len(chosen) == 2:
        rows += [unit[j] - unit[i] for i in range(c) if i not in chosen for j in chosen]
    return Levels(torch.stack(rows), unit.new_zeros(len(rows)), n), with_decision(program)


def _read_classes(classes: int | Sequence[int], c: int) -> list[int]:
    chosen: list[Any] = list(classes) if isinstance(classes, Sequence) else [classes]
    for label in chosen:
        read_integer("classes", label, least=0)
    if not 1 <= len(chosen) <= 2 or len(set(chosen)) < len(chosen) or max(chosen) >= c or c < 2:
        raise InputError(
            f"Expected one class or two different ones among the {c} outputs, got {classes}. "
            "Number the classes from 0, or use value= for a network with one output."
        )
    return chosen


def _sides(
    batch: RegionBatch, levels: Levels, classes: int | Sequence[int] | None, zero_tolerance: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Masks (r,) of the regions below, above and on the level."""
    if classes is None:
        values = batch.outputs.double() @ levels.factors[0] + levels.shifts[0]
        low, high = extremes_at_corners(values, batch.corners, batch.offsets)
        below = (low < -zero_tolerance) & (-low > high)  # a crossing may come out on either side of the level
        return below, ~below, ~below & (high <= zero_tolerance)
    labels = labels_of(batch.outputs, batch.corners, batch.offsets, zero_tolerance)
    pair = classes if isinstance(classes, Sequence) else (classes,)
    below = labels == pair[0]
    return below, labels == pair[1] if len(pair) == 2 else ~below, torch.zeros_like(below)


def _surface(
    batch: RegionBatch, slice: Slice, below: Tensor, above: Tensor, flat: Tensor, *, stats: Stats, value: float,
    classes: int | Sequence[int] | None,
) -> LevelSet:  # fmt: skip
    """The walls between regions below and above, oriented, with the vertices that they use."""
    walls = batch.walls
    outside = below.new_zeros(1)
    is_below, is_above = torch.cat([below, outside])[walls.regions], torch.cat([above, outside])[walls.regions]
    chosen = (is_below & is_above.flip(1)).any(1).nonzero()[:, 0]
    inner = walls.regions[chosen].gather(1, is_below[chosen].long().argmax(1, keepdim=True))[:, 0]
    middle = _centres(batch, inner)
    index, offsets = gather_rows(walls.offsets, chosen)
    corners = walls.vertices[index]
    if slice.dim == 3:
        if not batch.in_order:
            corners, offsets = ordered_corners(walls, chosen, inner)
        normals = normals_of(batch.coords, corners, offsets)
        size = normals.norm(dim=1)
    else:
        ends = batch.coords[corners.view(-1, 2)]
        along = ends[:, 1] - ends[:, 0]
        normals = torch.stack([along[:, 1], -along[:, 0]], 1)
        size = normals.norm(dim=1)
    inwards = (normals * (batch.coords[corners[offsets[:-1]]] - middle)).sum(1) < 0
    normals[inwards] *= -1
    corners = _turned(corners, offsets, inwards)
    used, corners = torch.unique(corners, return_inverse=True)
    regions = flat.nonzero()[:, 0]
    return LevelSet(
        slice=slice,
        vertices=batch.coords[used],
        corners=corners,
        offsets=offsets,
        normals=normals / size.clamp(min=torch.finfo(size.dtype).tiny)[:, None] + 0.0,  # no -0
        flat=_centres(batch, regions),
        flat_size=float(batch.sizes[regions].sum()) * slice.scale,
        value=None if classes is not None else float(value),
        classes=None if classes is None else tuple(classes) if isinstance(classes, Sequence) else (classes,),
        n_regions=len(batch.offsets) - 1,
        stats=stats,
    )


def _centres(batch: RegionBatch, regions: Tensor) -> Tensor:
    """(n, k) the mean of the corners of these regions."""
    index, offsets = gather_rows(batch.offsets, regions)
    return mean_of_rows(batch.coords[batch.corners[index]], offsets)


def _turned(corners: Tensor, offsets: Tensor, turn: Tensor) -> Tensor:
    """The faces of the mask with their corners in the opposite order."""
    sizes = offsets.diff()
    place = ranges(torch.zeros_like(sizes), sizes)
    face = owners(offsets, len(corners))
    place = torch.where(turn[face], sizes[face] - 1 - place, place)
    return corners[offsets[face] + place]
