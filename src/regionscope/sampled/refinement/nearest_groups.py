"""Which groups of points lie nearest to each other, and between which two points."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from regionscope.types import Array

_NEIGHBOURS = 32
_FEW_GROUPS = 64  # groups that are searched by all distances at once


def nearest_groups(points: Array, group: Array, partners: int) -> Array:
    """The closest two points (m, 2) of each group and of each of its ``partners`` nearest groups.

    points: (n, k) whole numbers; group: (n,) from 0 on, ascending. Of equally near groups the first come first, of
    equally near points the first. Cost: the 32 nearest neighbours of every point; a group that has to look further
    takes its distances to all points.
    """
    n_groups = int(group[-1]) + 1 if len(group) else 0
    if n_groups <= _FEW_GROUPS:
        return nearest_groups_all_pairs(points, group, partners)
    k = min(_NEIGHBOURS, len(points))
    near = cKDTree(points).query(points, k=k)[1]
    apart = np.square(points[near] - points[:, None]).sum(-1)
    seen = np.full(n_groups, np.inf)  # nearer than this, every neighbour of the group is known
    np.minimum.at(seen, group, apart[:, -1])
    here, column = np.nonzero(group[near] != group[:, None])
    there, distance = near[here, column], apart[here, column]
    ends, owner, furthest = _best(here, there, distance, group, partners)
    found = np.bincount(owner, minlength=n_groups)
    last = np.zeros(n_groups)
    np.maximum.at(last, owner, furthest)
    known = (found == partners) & (last < seen)
    rest = nearest_groups_all_pairs(points, group, partners, np.flatnonzero(~known))
    return np.concatenate([ends[known[owner]], rest])


def nearest_groups_all_pairs(points: Array, group: Array, partners: int, chosen: Array | None = None) -> Array:
    """The same by all distances, for the groups ``chosen`` (all by default). Cost: their points times all points."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    stops = np.append(starts[1:], len(points))
    ends = []
    for i in range(len(starts)) if chosen is None else chosen.tolist():
        start, stop = starts[i], stops[i]
        distances = cdist(points[start:stop], points, "sqeuclidean")
        closest = distances.min(0)
        closest[start:stop] = np.inf
        best = np.minimum.reduceat(closest, starts)
        for j in np.argsort(best, kind="stable")[:partners].tolist():
            if np.isfinite(best[j]):
                there = int(starts[j] + closest[starts[j] : stops[j]].argmin())
                ends.append((int(start + distances[:, there].argmin()), there))
    return np.array(ends, dtype=np.int64).reshape(-1, 2)


def _best(here: Array, there: Array, distance: Array, group: Array, partners: int) -> tuple[Array, Array, Array]:
    """Of pairs of points the closest for each two groups, and of those the nearest ``partners`` of each group."""
    order = np.lexsort((here, there, distance, group[there], group[here]))
    a, b = group[here][order], group[there][order]
    first = order[(np.diff(a, prepend=-1) != 0) | (np.diff(b, prepend=-1) != 0)]
    order = first[np.lexsort((group[there][first], distance[first], group[here][first]))]
    owner = group[here][order]
    start = np.flatnonzero(np.diff(owner, prepend=-1))
    rank = np.arange(len(order)) - np.repeat(start, np.diff(np.append(start, len(order))))
    kept = order[rank < partners]
    return np.stack([here[kept], there[kept]], 1), group[here][kept], distance[kept]
