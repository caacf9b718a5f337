"""Which region is which: the region that holds a point, and regions followed from one partition to the next.

A partition of a network in training has no names for its regions; a picture of it needs some, so that a region keeps
its colour from epoch to epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.exact.partition import Partition
from regionscope.geometry.ragged import gather_rows, next_in_row, offsets_of, owners, ranges
from regionscope.tolerance import OUTSIDE_DISTANCE

_PAIRS = 1 << 20  # pairs of a point and a region that are looked at together


def locate(part: Partition, points: Tensor) -> Tensor:
    """The region that holds each of the points (n, k), in slice coordinates, k = 1 or 2: (n,), -1 outside the slice.

    A point on a wall belongs to one of its two regions. Cost: regions are sorted into about r bins, narrow where
    regions are small; each point is compared with those regions of its bin whose bounding box holds it.
    """
    if points.ndim != 2 or points.shape[1] != part.dim or part.dim > 2:
        raise InputError(
            f"Expected points of shape (n, 1) on a line or (n, 2) in a plane, got {tuple(points.shape)} for a "
            f"slice of dimension {part.dim}. "
            "Pass coordinates of the slice, not inputs of the network."
        )
    points = points.to(part.vertices)
    corners = part.vertices[part.corners]
    region_of_corner = owners(part.offsets)[:, None].expand_as(corners)
    empty = corners.new_empty((len(part), part.dim))
    low = empty.scatter_reduce(0, region_of_corner, corners, "amin", include_self=False)
    high = empty.scatter_reduce(0, region_of_corner, corners, "amax", include_self=False)
    start, count, candidates = _binned(low, high, points)
    regions = torch.full((len(points),), -1, dtype=torch.int64, device=points.device)
    total = count.cumsum(0)
    first = 0
    while first < len(points):
        done = int(total[first - 1]) if first else 0
        last = max(first + 1, int(torch.searchsorted(total, torch.tensor(done + _PAIRS, device=total.device))))
        rows = torch.arange(first, min(last, len(points)), device=points.device)
        point = torch.repeat_interleave(rows, count[rows])
        region = candidates[ranges(start[rows], count[rows])]
        inside = ((points[point] >= low[region]) & (points[point] <= high[region])).all(1)
        _keep_deepest(part, points, point[inside], region[inside], regions)
        first = last
    return regions


def carry_over(before: Partition, after: Partition, ids: Tensor, *, next_id: int | None = None) -> Tensor:
    """Numbers for the regions of ``after`` (r,), taken over from those of ``before`` as far as possible.

    ids: (r before,) integers; regions with one number are one thing, as with ``before.linear_ids``. In the result the
    pieces of one linear region of ``after`` have one number, and no number is given to two linear regions. A pair is
    a candidate when the middle of one lies in the other; its weight is the size of the smaller one, summed over
    pieces, which bounds their overlap. Pairs that are the heaviest for both partners are matched until none is left;
    a region without a partner gets a new number, from ``next_id`` (default: one above the largest of ``ids``) on.
    Both partitions must lie on one slice of dimension 1 or 2. Cost: ``locate`` of every region, both ways.
    """
    if ids.shape != (len(before),):
        raise InputError(
            f"Expected one id for each of {len(before)} regions, got shape {tuple(ids.shape)}. "
            "Pass the ids that the previous call returned."
        )
    if before.dim != after.dim or not torch.allclose(before.slice.corners, after.slice.corners):
        raise InputError(
            f"Expected two partitions of one slice, got {before.slice} and {after.slice}. "
            "Compute both on the same slice."
        )
    old_ids, old = ids.unique(return_inverse=True)
    new = after.linear_ids
    region_before, region_after = locate(before, after.interior), locate(after, before.interior)
    pairs = [
        (old[region_before], new, after.sizes, before.sizes[region_before]),
        (old, new[region_after], before.sizes, after.sizes[region_after]),
    ]
    pieces = [(a[hit >= 0], b[hit >= 0], torch.minimum(x, y)[hit >= 0])
              for (a, b, x, y), hit in zip(pairs, (region_before, region_after), strict=True)]  # fmt: skip
    left, right, weight = (torch.cat(column) for column in zip(*pieces, strict=True))
    n_new = int(new.max()) + 1
    key, place = (left * n_new + right).unique(return_inverse=True)
    total = weight.new_zeros(len(key)).index_add_(0, place, weight)
    partner = _match(key // n_new, key % n_new, total, len(old_ids), n_new)
    next_new_id = (int(ids.max()) + 1 if len(ids) else 0) if next_id is None else next_id
    numbers = old_ids[partner.clamp(min=0)]
    alone = partner < 0
    numbers[alone] = next_new_id + torch.arange(int(alone.sum()), device=numbers.device)
    result: Tensor = numbers[new]
    return result


def follow(parts: Sequence[Partition]) -> list[Tensor]:
    """Numbers for the regions of each partition of a series, each carried over from the one before; see ``carry_over``.

    A number that has died out is not used again.
    """
    ids: list[Tensor] = []
    highest = -1
    for i, part in enumerate(parts):
        ids.append(carry_over(parts[i - 1], part, ids[-1], next_id=highest + 1) if i else part.linear_ids)
        highest = max(highest, int(ids[-1].max()))
    return ids


def _binned(low: Tensor, high: Tensor, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Candidates of each point: ``listed[start[i] : start[i] + count[i]]`` are the regions that reach into its bin."""
    k = low.shape[1]
    side = max(1, min(2048 if k == 2 else len(low), round(len(low) ** (1 / k))))
    borders = [_even(torch.cat([low[:, i], high[:, i]]), side) for i in range(k)]

    def bins(at: Tensor) -> Tensor:
        return torch.stack([torch.searchsorted(borders[i], at[:, i].contiguous()) for i in range(k)], 1)

    first, extent = bins(low), bins(high) - bins(low) + 1
    area = extent.prod(1)
    region = torch.repeat_interleave(torch.arange(len(low), device=low.device), area)
    step = ranges(torch.zeros_like(area), area)
    place = first[region, 0] + step % extent[region, 0]
    if k == 2:
        place = place + side * (first[region, 1] + step // extent[region, 0])
    order = place.argsort()
    starts = offsets_of(torch.bincount(place, minlength=side**k))
    point_bins = bins(points)
    cell = point_bins[:, 0] + (side * point_bins[:, 1] if k == 2 else 0)
    return starts[cell], starts[cell + 1] - starts[cell], region[order]


def _even(values: Tensor, n: int) -> Tensor:
    """Borders (n - 1,) between n bins that hold about equally many of the values, however crowded these lie."""
    places = torch.arange(1, n, device=values.device) * len(values) // n
    return values.sort().values[places]


def _keep_deepest(part: Partition, points: Tensor, point: Tensor, region: Tensor, regions: Tensor) -> None:
    """Among pairs of a point and a region, write the region in which the point lies deepest into ``regions``."""
    if not len(point):
        return
    index, offsets = gather_rows(part.offsets, region)
    pair = owners(offsets)
    corners = part.vertices[part.corners[index]]
    if part.dim == 1:
        sign = torch.ones_like(corners[:, 0])
        sign[offsets[1:] - 1] = -1.0  # the corners of an interval ascend
        depth = sign * (points[point][pair] - corners)[:, 0]
    else:
        edge, offset = corners[next_in_row(offsets)] - corners, points[point][pair] - corners
        length = edge.norm(dim=1).clamp(min=torch.finfo(edge.dtype).tiny)
        depth = (edge[:, 0] * offset[:, 1] - edge[:, 1] * offset[:, 0]) / length
    smallest_depth = depth.new_empty(len(point)).scatter_reduce(0, pair, depth, "amin", include_self=False)
    best = torch.full_like(points[:, 0], -torch.inf).scatter_reduce(0, point, smallest_depth, "amax")
    extent = float((part.vertices.amax(0) - part.vertices.amin(0)).max())
    chosen = (smallest_depth == best[point]) & (smallest_depth >= -OUTSIDE_DISTANCE * extent)
    regions[point[chosen]] = region[chosen]


def _match(left: Tensor, right: Tensor, weight: Tensor, n_left: int, n_right: int) -> Tensor:
    """For each right node its partner on the left (n_right,), or -1: pairs that both partners like best, repeatedly.

    The result has at least half the weight of the best matching (Preis 1999).
    """
    partner = torch.full((n_right,), -1, dtype=torch.int64, device=left.device)
    order = weight.argsort(descending=True, stable=True)
    left, right = left[order], right[order]
    while len(left):
        rank = torch.arange(len(left), device=left.device)
        first_left = torch.full((n_left,), len(left), device=left.device).scatter_reduce(0, left, rank, "amin")
        first_right = torch.full((n_right,), len(left), device=left.device).scatter_reduce(0, right, rank, "amin")
        chosen = (first_left[left] == rank) & (first_right[right] == rank)
        partner[right[chosen]] = left[chosen]
        taken_left = torch.zeros(n_left, dtype=torch.bool, device=left.device)
        taken_right = torch.zeros(n_right, dtype=torch.bool, device=left.device)
        taken_left[left[chosen]], taken_right[right[chosen]] = True, True
        free = ~(taken_left[left] | taken_right[right])
        left, right = left[free], right[free]
    return partner
