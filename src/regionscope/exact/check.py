"""Proof of a partition: it covers the slice, its maps are the network, and its pieces fit together.

Each function raises CheckFailed with the reason. ``Partition.check`` calls those that look at every region;
``check_sample`` runs in every computation.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from regionscope.certificate import Certificate
from regionscope.errors import CheckFailed
from regionscope.exact.affine_maps import AffineMaps
from regionscope.exact.budget import Budget, embed_on_slices
from regionscope.exact.region_batch import RegionBatch
from regionscope.exact.zero_tolerance import probe_points
from regionscope.geometry import Slice
from regionscope.geometry import arrays as xp
from regionscope.network import Program, full_precision, patterns
from regionscope.tolerance import COVERAGE_ERROR, FLAT, TINY, UNIT, Tolerance
from regionscope.types import Reading

_ADVICE = "Look for very large weights. If there are none, report the model and the slice."
_ASK = (
    "Is this the network that was measured, with the weights it had then? If it is, look for very large weights; if "
    "there are none, report the model and the slice."
)
_ROWS = 4096
_ACCURACY = Tolerance.of(torch.float64).slope
_REGIONS_PER_SAMPLE = 1000  # every computation compares one in this number of regions with the network,
_SAMPLE_BYTES = 1 << 14  # or more: as many as have live values of this size, and at least one for each slice
_GENTLE = 2.0**-10  # share of the allowed difference by which rounding of a coordinate may move an output
_CANDIDATES = 4096  # regions from which the steepest are chosen


def check_coverage(sizes: Tensor, whole: float) -> None:
    """Raise unless no region (sizes (r,)) has a negative size, and the sizes add up to that of the slice."""
    total = float(sizes.sum())
    if not abs(total - whole) <= COVERAGE_ERROR * whole:  # a NaN fails too, here and below
        raise CheckFailed(
            f"Expected the sizes of the {len(sizes)} regions to add up to {whole}, got {total}. {_ADVICE}"
        )
    if not bool((sizes >= -FLAT * whole).all()):
        raise CheckFailed(
            f"Expected no region of negative size, got {int((sizes < 0).sum())} of negative size. {_ADVICE}"
        )


def check_maps(
    maps: AffineMaps, region: Tensor, coords: Tensor, outputs: Tensor, rounding: float, accuracy: float
) -> None:
    """Raise unless the map of each region meets the network's outputs at all its corners, so that neighbours agree.

    region (n,), coords (n, k), outputs (n, c): of each corner of each region. rounding: of the outputs.
    accuracy: relative.
    """
    at_corner = maps.constant[region] + (coords[:, None] @ maps.slope[region])[:, 0]
    difference = (at_corner - outputs.double()).abs().amax(1)
    allowed = accuracy * maps.size + rounding + 16 * maps.noise[region] * maps.extent
    if not bool((difference <= allowed).all()):
        worst = int((difference - allowed).argmax())
        raise CheckFailed(
            f"Expected one affine map on region {int(region[worst])}, got one that misses the value at a corner by "
            f"{float(difference[worst]):.3g}. {_ADVICE}"
        )


def check_network(
    program: Program, slice: Slice, interior: Tensor, maps: AffineMaps, rounding: float, accuracy: float
) -> None:
    """Raise unless map and network agree at the interior point (r, k) of each region, with a different pattern in each.

    Regions thinner than rounding may share a pattern. Cost: one forward pass over the regions.
    """
    thin = maps.noise * maps.extent > accuracy * max(maps.size, TINY)
    seen: dict[bytes, int] = {}
    with torch.no_grad(), full_precision():
        for rows in torch.arange(len(interior), device=interior.device).split(_ROWS):
            start, coords = int(rows[0]), interior[rows]
            inputs = slice.embed(coords, dtype=program.dtype)
            expected = maps.constant[rows] + (coords[:, None] @ maps.slope[rows])[:, 0]
            difference = (program(inputs).to(expected) - expected).abs().amax(1)
            allowed = accuracy * maps.size + rounding + 16 * maps.noise[rows] * maps.extent
            if not bool((difference <= allowed).all()):
                worst = int((difference - allowed).argmax())
                raise CheckFailed(
                    f"Expected the map of region {start + worst} to equal the network, got a difference of "
                    f"{float(difference[worst]):.3g} at its interior point. {_ASK}"
                )
            for i, row in enumerate(patterns(program, inputs).cpu().numpy()):
                key = blake2b(row.tobytes(), digest_size=16).digest()
                if key in seen and not (thin[start + i] or thin[seen[key]]):
                    raise CheckFailed(
                        f"Expected regions of different activation patterns, got the same pattern in regions "
                        f"{seen[key]} and {start + i}. {_ASK}"
                    )
                seen.setdefault(key, start + i)


def check_decided(n_undecided: int, doubts: Certificate | None) -> None:
    """Raise if rounding leaves walls or regions open. doubts: what integers say about them."""
    if n_undecided:
        reason = "" if doubts is None else f" ({doubts})"
        raise CheckFailed(
            f"Expected signs that rounding does not hide, got {n_undecided} walls or regions that it leaves "
            f"open{reason}. Folds that meet in one point up to rounding cause this, and very large or small weights. "
            "Rescale such layers, or take a smaller slice."
        )


def warn_of_rounding(n_undecided: int) -> Reading:
    """Warn that walls or regions are undecided, and return their number as a reading."""
    warnings.warn(
        f"Rounding leaves {n_undecided} walls or regions open, and counts may be wrong there. Partition.check() names "
        "them. Rescale layers whose weights are very large or small, or take a smaller slice.",
        stacklevel=3,
    )
    return "undecided", n_undecided, None


def check_sample(
    program: Program,
    slices: Sequence[Slice],
    batch: RegionBatch,
    rounding: Tensor,
    budget: Budget,
    probe_outputs: Sequence[Tensor] = (),
) -> None:
    """Raise unless the network agrees, in the middle of some regions, with the mean of its outputs at their corners.

    probe_outputs: of a line, the outputs at its probe points. Where no slope is steep, they are compared with the maps
    instead.
    rounding: (slices,) of the outputs. Where slopes are too steep for float64 the two differ, and most of all where the
    outputs change most from one corner to another: half of the regions are chosen by that. Cost: a forward pass over
    0.1% of the regions, or over all of them where they are few and the network is small.
    """
    arrays = (batch.offsets, batch.corners, batch.coords, batch.outputs, rounding)
    offsets, corners, coords, outputs, allowed = map(xp.numpy_on_cpu, arrays)
    missed = offsets[:0]
    if probe_outputs:
        expected = xp.numpy_on_cpu(torch.cat(tuple(probe_outputs)))
        agrees, missed = _at_probes(slices[0], coords[:, 0], outputs, allowed, expected)
        if agrees:
            return
    regions = _sample(offsets, corners, outputs, max(_SAMPLE_BYTES // max(1, program.row_bytes), len(slices)))
    regions = xp.cat([regions, missed])
    slice_id, size = regions, abs(outputs).max()
    if len(slices) > 1:  # the regions of a slice one after another
        slice_id = xp.take(xp.numpy_on_cpu(batch.slice_id), xp.take(corners, xp.take(offsets, regions)))
        order = xp.argsort(slice_id)
        regions, slice_id = xp.take(regions, order), xp.take(slice_id, order)
        largest = batch.outputs.abs().amax(1)
        size = xp.numpy_on_cpu(largest.new_zeros(len(slices)).scatter_reduce(0, batch.slice_id, largest, "amax"))
        size, allowed = xp.take(size, slice_id)[:, None], xp.take(allowed, slice_id)[:, None]
    allowed = allowed + _ACCURACY * size
    starts = xp.take(offsets, regions)
    counts = (xp.take(offsets, regions + 1) - starts)[:, None]
    place = xp.arange(int(counts.max()), offsets)  # a region with fewer corners repeats them in turn
    index = xp.take(corners, (starts[:, None] + place % counts).reshape(-1))
    shape = (len(regions), len(place), -1)
    middle, mean = (xp.take(x, index).reshape(shape).sum(1) / len(place) for x in (coords, outputs))
    rows = budget.inputs(program)
    for start in range(0, len(regions), rows):
        part = slice(start, start + rows)
        inputs = embed_on_slices(program, slices, xp.as_tensors(middle[part]), xp.as_tensors(slice_id[part]))
        difference = abs(xp.numpy_on_cpu(program(inputs)) - mean[part])
        if not bool((difference <= (allowed if len(slices) == 1 else allowed[part])).all()):
            raise CheckFailed(
                f"Expected the affine map of each region to equal the network, got a difference of "
                f"{float(difference.max()):.3g} (largest output: {float(size.max()):.3g}). The slopes of this network "
                "are too steep for float64. Use smaller weights or a smaller slice, or sample it with region_count()."
            )


@np.errstate(all="ignore")
def _at_probes(line: Slice, coords: Tensor, outputs: Tensor, rounding: Tensor, expected: Tensor) -> tuple[bool, Tensor]:
    """Whether the maps meet the ``expected`` outputs (p, c) of the network at the probe points of a line, and none is
    steep: rounding a coordinate moves no output by more than a small share of what is allowed. And the regions whose
    maps miss a probe point. Cost: no forward pass.
    """
    points = probe_points(line.corners.cpu())[:, 0]
    points = points.numpy() if isinstance(coords, np.ndarray) else points.to(coords.device)
    allowed = rounding + _ACCURACY * abs(outputs).max()
    lengths, steps = coords[1:] - coords[:-1], abs(outputs[1:] - outputs[:-1])
    gentle = steps * (UNIT * abs(coords).max()) <= _GENTLE * allowed * lengths[:, None]
    last = xp.searchsorted(coords, points).clip(1, len(coords) - 1)
    t = ((points - xp.take(coords, last - 1)) / xp.take(lengths, last - 1))[:, None]
    difference = abs(xp.take(outputs, last - 1) * (1 - t) + xp.take(outputs, last) * t - expected)
    missed = xp.take(last - 1, xp.nonzero(~(difference <= allowed).all(1)))
    return bool(gentle.all()) and len(missed) == 0, missed


def _sample(offsets: Tensor, corners: Tensor, outputs: Tensor, least: int) -> Tensor:
    """Some regions: 0.1% of them and at least this number; half of them the steepest, the others at equal distances."""
    n = len(offsets) - 1
    wanted = min(n, max(n // _REGIONS_PER_SAMPLE, least))
    regions = xp.arange(wanted, offsets) * n // wanted
    if wanted < n:
        every = -(-n // _CANDIDATES)
        first, last = offsets[:-1:every], offsets[1::every]
        step = xp.take(outputs, xp.take(corners, first)) - xp.take(outputs, xp.take(corners, (first + last) // 2))
        steep = xp.largest_rows(step, (wanted + 1) // 2) * every
        regions[: len(steep)] = steep
    return regions
