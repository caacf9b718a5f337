"""Merging pieces of one label that a lattice splits, although a short path of that label connects them.

With face connectivity the thin end of a wedge that runs diagonally falls into single points, at every spacing: halving
it only moves the loose points towards the tip. A path between two pieces on which the label never changes proves that
they are one region. The paths are slightly bent: a straight one would also pass between two regions that only touch in
a point, which are two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from torch import Tensor

from regionscope.geometry import Slice
from regionscope.geometry import arrays as xp
from regionscope.sampled.components import count_linked
from regionscope.sampled.label_points import label_points
from regionscope.sampled.labels import Labeller
from regionscope.sampled.lattice import Lattice
from regionscope.types import Array

_NEAREST_PIECES = 3
_MOST_ROUNDS = 8
_WIDE_BENDS, _NARROW_BENDS = (1 / 64, -1 / 64), (1 / 256, -1 / 256)  # how far a path is bent, in shares of its length
_FIRST_SAMPLES, _ALL_SAMPLES = 32, 512  # samples along a path: to turn most of them down, and to be sure of the others
_MOST_BORDER_POINTS = 4096
_MOST_PLACES = 1 << 18  # on paths that are looked at together


def joined_counts(labeller: Labeller, slices: Sequence[Slice], lattice: Lattice, labels: Tensor) -> Tensor:
    """Number of pieces of each slice (s,), after joining those that a sampled path connects.

    labels: (s, p) on the lattice. Between each piece and its 3 nearest pieces of the same label, paths join the closest
    points, bent to either side by 1/64 or 1/256 of their length and sampled at 512 places; joined pieces look for their
    nearest ones again. Cost: the model at those places; nothing where every label has one piece.
    """
    rows = labels.numpy()
    if lattice.dim == 1:  # on a line, two pieces of one label have another label between them
        return count_linked(labels, lattice.pairs)
    cut = hidden_cuts(labeller, slices, lattice, labels).numpy()
    pieces = [_pieces(row, apart, lattice) for row, apart in zip(rows, cut, strict=True)]
    counts = torch.tensor([piece.max() + 1 for piece in pieces], device="cpu")
    tried: list[set[tuple[int, int]]] = [set() for _ in slices]
    active = list(range(len(slices)))
    for _ in range(_MOST_ROUNDS):
        candidates = [_candidates(rows[i], pieces[i], lattice, tried[i]) for i in active]
        slice_id = np.repeat(active, [len(ends) for ends in candidates])
        if len(slice_id) == 0:
            break
        ends = np.concatenate(candidates)
        path_labels = labels[torch.from_numpy(slice_id), torch.from_numpy(ends[:, 0])]
        paths = _Paths(torch.from_numpy(slice_id), lattice.units[ends[:, 0]], lattice.units[ends[:, 1]], path_labels)
        connected = _connected(labeller, slices, lattice, paths).numpy()
        active = np.unique(slice_id[connected]).tolist()
        for i in active:
            merged = xp.components(int(counts[i]), pieces[i][ends[connected & (slice_id == i)]])
            pieces[i], counts[i] = merged[pieces[i]], int(merged.max()) + 1
    return counts


def _pieces(labels: Array, cut: Array, lattice: Lattice) -> Array:
    """The piece of each point (p,), with face connectivity less the pairs that are ``cut``."""
    pairs: Any = lattice.pairs.numpy()
    pieces: Any = xp.components(len(labels), pairs[(labels[pairs[:, 0]] == labels[pairs[:, 1]]) & ~cut])
    return np.asarray(pieces)


def _candidates(labels: Array, piece: Array, lattice: Lattice, tried: set[tuple[int, int]]) -> Array:
    """The closest points (m, 2) of each piece and of its nearest pieces of the same label, less those tried before."""
    label_of = np.empty(int(piece.max()) + 1, dtype=np.int64)
    label_of[piece] = labels
    several = np.isin(labels, [label for label in np.unique(label_of) if (label_of == label).sum() > 1])
    border = np.flatnonzero(_border(labels, lattice) & several)
    ends: set[tuple[int, int]] = set()
    for label in np.unique(labels[border]):
        points = border[labels[border] == label]
        ends |= _nearest(_thinned(points, piece), piece, lattice)
    new = sorted(ends - tried)
    tried |= ends
    return np.array(new, dtype=np.int64).reshape(-1, 2)


def _border(labels: Array, lattice: Lattice) -> Array:
    """Points with a neighbour of another label, or without a neighbour on some side."""
    pairs = lattice.pairs.numpy()
    differ = labels[pairs[:, 0]] != labels[pairs[:, 1]]
    border = np.bincount(pairs.reshape(-1), minlength=len(labels)) < 2 * lattice.dim
    border[pairs[differ].reshape(-1)] = True
    return border


def _thinned(points: Array, piece: Array) -> Array:
    """About 4,096 points, or as many as there are pieces: every piece keeps some."""
    if len(points) <= _MOST_BORDER_POINTS:
        return points
    _, place, size = np.unique(piece[points], return_inverse=True, return_counts=True)
    step = -(-len(points) // _MOST_BORDER_POINTS)
    order = np.argsort(place, kind="stable")
    rank = np.empty(len(points), dtype=np.int64)
    rank[order] = np.arange(len(points)) - np.repeat(np.cumsum(size) - size, size)
    return np.asarray(points[rank % step == 0])


def _nearest(points: Array, piece: Array, lattice: Lattice) -> set[tuple[int, int]]:
    """The closest two points of each piece and each of its nearest others, as (lower, higher) place in the lattice."""
    points = points[np.argsort(piece[points], kind="stable")]
    group = np.unique(piece[points], return_inverse=True)[1]
    ends = nearest_groups(lattice.index.numpy()[points].astype(np.float64), group, _NEAREST_PIECES)
    return set(map(tuple, np.sort(points[ends], 1).tolist()))


@dataclass(frozen=True)
class _Paths:
    """From ``start`` to ``end`` (m, k), in units of slice ``slice_id`` (m,); both ends have the label ``label``."""

    slice_id: Tensor
    start: Tensor
    end: Tensor
    label: Tensor

    def __getitem__(self, chosen: Tensor) -> _Paths:
        return _Paths(self.slice_id[chosen], self.start[chosen], self.end[chosen], self.label[chosen])


def _connected(labeller: Labeller, slices: Sequence[Slice], lattice: Lattice, paths: _Paths) -> Tensor:
    """Whether a path of one label joins the ends (m,)."""

    def keep(paths_tried: _Paths, bends: tuple[float, ...], samples: int) -> Tensor:
        paths_per_call = max(1, _MOST_PLACES // (len(bends) * samples))
        blocks = torch.arange(len(paths_tried.slice_id), device="cpu").split(paths_per_call)
        return torch.cat([keep_few(paths_tried[block], bends, samples) for block in blocks])

    def keep_few(paths_tried: _Paths, bends: tuple[float, ...], samples: int) -> Tensor:
        places = _along(paths_tried, bends, samples, lattice)
        slice_id = paths_tried.slice_id.repeat_interleave(len(bends) * samples)
        labels = label_points(labeller, slices, slice_id, places.reshape(-1, lattice.dim)).reshape(places.shape[:-1])
        return (labels == paths_tried.label[:, None, None]).all(2).any(1)

    holds = torch.zeros(len(paths.slice_id), dtype=torch.bool, device="cpu")
    for bends, first_look in ((_WIDE_BENDS, _WIDE_BENDS), (_NARROW_BENDS, (0.0,))):
        left = (~holds).nonzero()[:, 0]
        if len(left):
            left = left[keep(paths[left], first_look, _FIRST_SAMPLES)]
        if len(left):
            holds[left] = keep(paths[left], bends, _ALL_SAMPLES)
    return holds


def _along(paths: _Paths, bends: tuple[float, ...], samples: int, lattice: Lattice) -> Tensor:
    """Points (m, bends, samples, k) along the bent paths, moved onto the slice where they leave it."""
    share = torch.arange(1, samples + 1, dtype=torch.float64, device="cpu")[:, None] / (samples + 1)
    ahead = (paths.end - paths.start)[:, None, None]
    side = _sideways(paths.end - paths.start)[:, None, None]
    bend = torch.tensor(bends, dtype=torch.float64, device="cpu")[:, None, None] * 4 * share * (1 - share)
    places = (paths.start[:, None, None] + share * ahead + bend * side).clamp_min(0)
    if lattice.kind == "box":
        return places.clamp_max(1)
    return places / places.sum(-1, keepdim=True).clamp_min(1)


def _sideways(directions: Tensor) -> Tensor:
    """A vector of the same length at a right angle to each direction (m, k), k >= 2."""
    m, k = directions.shape
    if k == 2:
        return torch.stack([-directions[:, 1], directions[:, 0]], 1)
    # No axis of the lattice is special to the square roots of the primes, so the bend leaves every face and edge.
    odd = (
        torch.tensor([2.0, 3.0, 5.0, 7.0, 11.0, 13.0], dtype=torch.float64, device="cpu")
        .sqrt()
        .repeat(k // 6 + 1)[:k]
        .expand(m, k)
    )
    squared = directions.square().sum(1, keepdim=True)
    side = odd - directions * (odd * directions).sum(1, keepdim=True) / squared
    length: Tensor = side.norm(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    return side * (squared.sqrt() / length)


# Strips of another label that are thinner than the spacing of a lattice, between two neighbours of one label.
#
# Such a strip appears as single points of its label. Between these points, neighbours on both sides of the strip seem
# connected. They are not, and the pieces on both sides may be two regions.

_SAMPLES_AT_BOUNDARY = 7  # between two neighbours where a boundary is near
_SAMPLES_AT_CUT = 15  # between those next to a cut
_SAMPLES_PER_CALL = 1 << 18  # samples that are looked at at once


def hidden_cuts(labeller: Labeller, slices: Sequence[Slice], lattice: Lattice, labels: Tensor) -> Tensor:
    """(s, m) bool: for each slice, the pairs of neighbours of one label with another label sampled between them.

    labels: (s, p) on the lattice; pairs as in ``lattice.pairs``. Looked at are pairs next to a change of the label, and
    then, more closely, those next to every cut that is found, so that a strip is followed along its length. Cost: seven
    places for each pair next to a boundary.
    """
    first, second = lattice.pairs.unbind(1)
    same = labels[:, first] == labels[:, second]
    cut = torch.zeros_like(same)
    closely = torch.zeros_like(same)
    todo, samples = same & _next_to(_ends(~same, lattice), lattice), _SAMPLES_AT_BOUNDARY
    while bool(todo.any()):
        slice_id, pair = todo.nonzero().unbind(1)
        cut[slice_id, pair] = _changes(labeller, slices, lattice, labels, slice_id=slice_id, pair=pair, n=samples)
        closely |= todo & (samples == _SAMPLES_AT_CUT)
        reached = _ends(cut, lattice)
        reached |= _ends(_next_to(reached, lattice), lattice)
        todo, samples = same & ~cut & ~closely & _next_to(reached, lattice), _SAMPLES_AT_CUT
    return cut


def _ends(chosen: Tensor, lattice: Lattice) -> Tensor:
    """(s, p): the points of the chosen pairs (s, m)."""
    hits = torch.zeros(len(chosen), len(lattice), dtype=torch.int32, device="cpu")
    for end in lattice.pairs.unbind(1):
        hits.index_add_(1, end, chosen.to(torch.int32))
    return hits > 0


def _next_to(points: Tensor, lattice: Lattice) -> Tensor:
    """(s, m): the pairs that have one of the points (s, p)."""
    first, second = lattice.pairs.unbind(1)
    return points[:, first] | points[:, second]


def _changes(
    labeller: Labeller,
    slices: Sequence[Slice],
    lattice: Lattice,
    labels: Tensor,
    *,
    slice_id: Tensor,
    pair: Tensor,
    n: int,
) -> Tensor:
    """Whether one of ``n`` places between the two points of each pair has another label than they have."""
    share = torch.arange(1, n + 1, dtype=torch.float64, device="cpu")[:, None] / (n + 1)
    changes = []
    pairs_per_call = _SAMPLES_PER_CALL // n
    for block_slices, block_pairs in zip(slice_id.split(pairs_per_call), pair.split(pairs_per_call), strict=True):
        start, end = lattice.pairs[block_pairs].unbind(1)
        places = torch.lerp(lattice.units[start][:, None], lattice.units[end][:, None], share)
        between = label_points(labeller, slices, block_slices.repeat_interleave(n), places.reshape(-1, lattice.dim))
        changes.append((between.reshape(-1, n) != labels[block_slices, start][:, None]).any(1))
    return torch.cat(changes)


# Which groups of points lie nearest to each other, and between which two points.

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
    neighbours = cKDTree(points).query(points, k=k)[1]
    apart = np.square(points[neighbours] - points[:, None]).sum(-1)
    seen = np.full(n_groups, np.inf)  # nearer than this, every neighbour of the group is known
    np.minimum.at(seen, group, apart[:, -1])
    point, column = np.nonzero(group[neighbours] != group[:, None])
    other, distance = neighbours[point, column], apart[point, column]
    ends, owner, furthest = _best(point, other, distance, group, partners)
    n_partners = np.bincount(owner, minlength=n_groups)
    last = np.zeros(n_groups)
    np.maximum.at(last, owner, furthest)
    known = (n_partners == partners) & (last < seen)
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
                other = int(starts[j] + closest[starts[j] : stops[j]].argmin())
                ends.append((int(start + distances[:, other].argmin()), other))
    return np.array(ends, dtype=np.int64).reshape(-1, 2)


def _best(points: Array, others: Array, distance: Array, group: Array, partners: int) -> tuple[Array, Array, Array]:
    """Of pairs of points the closest for each two groups, and of those the nearest ``partners`` of each group."""
    order = np.lexsort((points, others, distance, group[others], group[points]))
    a, b = group[points][order], group[others][order]
    first = order[(np.diff(a, prepend=-1) != 0) | (np.diff(b, prepend=-1) != 0)]
    order = first[np.lexsort((group[others][first], distance[first], group[points][first]))]
    owner = group[points][order]
    start = np.flatnonzero(np.diff(owner, prepend=-1))
    rank = np.arange(len(order)) - np.repeat(start, np.diff(np.append(start, len(order))))
    kept = order[rank < partners]
    return np.stack([points[kept], others[kept]], 1), group[points][kept], distance[kept]
