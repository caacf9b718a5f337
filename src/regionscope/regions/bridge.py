"""Joining what a lattice tears apart: pieces of one label that a short path of that label connects.

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
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from torch import Tensor

from regionscope.geometry import Slice
from regionscope.regions.lattice import Lattice
from regionscope.regions.predict import Labeller
from regionscope.regions.stream import label_points

__all__ = ["bridged_counts"]

Array = NDArray[Any]

_PARTNERS = 3
_COARSE, _FINE = 64, 1024  # samples along a path, which is bent by 1 / 64 or 1 / 512 of its length
_MOST_BORDER_POINTS = 4096


@dataclass(frozen=True)
class _Bridges:
    """Paths to try: from point ``first`` to point ``second`` of a lattice, between the pieces ``pieces`` (m, 2)."""

    first: Array
    second: Array
    pieces: Array


def bridged_counts(labeller: Labeller, slices: Sequence[Slice], lattice: Lattice, labels: Tensor) -> Tensor:
    """Number of pieces of each slice (s,), after joining those that a sampled path connects.

    labels: (s, p) on the lattice. Between each piece and its 3 nearest pieces of the same label, paths join the closest
    points, bent to either side by 1/64 of their length and sampled at 64 places; where only the straight path keeps the
    label, bent by 1/512 and sampled at 1,024. Cost: the model at those places; nothing where every label has one piece.
    """
    found = [_pieces(row, lattice) for row in labels.numpy()]
    counts = torch.tensor([n for n, _ in found])
    if lattice.dim == 1:  # on a line, two pieces of one label have another label between them
        return counts
    tries = [_candidates(row, *pieces, lattice) for row, pieces in zip(labels.numpy(), found, strict=True)]
    owner = np.repeat(np.arange(len(slices)), [len(bridges.first) for bridges in tries])
    if len(owner) == 0:
        return counts
    first = np.concatenate([bridges.first for bridges in tries])
    second = np.concatenate([bridges.second for bridges in tries])
    wanted = labels[torch.from_numpy(owner), torch.from_numpy(first)]
    paths = _Paths(torch.from_numpy(owner), lattice.units[first], lattice.units[second], wanted)
    holds = _connected(labeller, slices, lattice, paths).numpy()
    for i in np.unique(owner).tolist():
        joined = tries[i].pieces[holds[owner == i]]
        counts[i] = _components(int(counts[i]), joined)[0]
    return counts


def _pieces(labels: Array, lattice: Lattice) -> tuple[int, Array]:
    """Number of pieces, and the piece of each point (p,), with face connectivity."""
    pairs = lattice.pairs.numpy()
    return _components(len(labels), pairs[labels[pairs[:, 0]] == labels[pairs[:, 1]]])


def _components(n: int, pairs: Array) -> tuple[int, Array]:
    graph = coo_array((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    count, piece = connected_components(graph, directed=False)
    return int(count), piece


def _candidates(labels: Array, n_pieces: int, piece: Array, lattice: Lattice) -> _Bridges:
    """For each piece the closest points of it and of its nearest pieces of the same label."""
    label_of = np.empty(n_pieces, dtype=np.int64)
    label_of[piece] = labels
    several = np.isin(labels, [label for label in np.unique(label_of) if (label_of == label).sum() > 1])
    border = np.flatnonzero(_border(labels, lattice) & several)
    tries: dict[tuple[int, int], tuple[int, int]] = {}
    for label in np.unique(labels[border]):
        points = border[labels[border] == label]
        tries |= _nearest(_thinned(points, piece), piece, lattice)
    ends = np.array(list(tries.values()), dtype=np.int64).reshape(-1, 2)
    return _Bridges(ends[:, 0], ends[:, 1], np.array(list(tries), dtype=np.int64).reshape(-1, 2))


def _border(labels: Array, lattice: Lattice) -> Array:
    """Points with a neighbour of another label, or without a neighbour on some side."""
    pairs = lattice.pairs.numpy()
    differ = labels[pairs[:, 0]] != labels[pairs[:, 1]]
    border = np.bincount(pairs.reshape(-1), minlength=len(labels)) < 2 * lattice.dim
    border[pairs[differ].reshape(-1)] = True
    return border


def _thinned(points: Array, piece: Array) -> Array:
    """At most 4,096 points: every piece keeps some, so that the table of distances stays small."""
    if len(points) <= _MOST_BORDER_POINTS:
        return points
    _, place, size = np.unique(piece[points], return_inverse=True, return_counts=True)
    step = -(-len(points) // _MOST_BORDER_POINTS)
    order = np.argsort(place, kind="stable")
    rank = np.empty(len(points), dtype=np.int64)
    rank[order] = np.arange(len(points)) - np.repeat(np.cumsum(size) - size, size)
    return np.asarray(points[rank % step == 0])


def _nearest(points: Array, piece: Array, lattice: Lattice) -> dict[tuple[int, int], tuple[int, int]]:
    """(piece, piece) -> the closest two points, for each piece and its nearest others."""
    groups = [points[piece[points] == number] for number in np.unique(piece[points])]
    index = lattice.index.numpy().astype(np.float64)
    shortest = np.full((len(groups), len(groups)), np.inf)
    ends: dict[tuple[int, int], tuple[int, int]] = {}
    for i, here in enumerate(groups):
        for j in range(i):
            distances = cdist(index[here], index[groups[j]], "sqeuclidean")
            a, b = divmod(int(distances.argmin()), distances.shape[1])
            shortest[i, j] = shortest[j, i] = distances[a, b]
            ends[i, j] = (int(here[a]), int(groups[j][b]))
    wanted = {(max(i, int(j)), min(i, int(j))) for i, row in enumerate(shortest) for j in np.argsort(row)[:_PARTNERS]}
    return {(int(piece[groups[i][0]]), int(piece[groups[j][0]])): ends[i, j] for i, j in sorted(wanted) if i != j}


@dataclass(frozen=True)
class _Paths:
    """From ``start`` to ``end`` (m, k), in unit coordinates of the slices ``owner`` (m,), at points of label ``wanted`` (m,)."""

    owner: Tensor
    start: Tensor
    end: Tensor
    wanted: Tensor

    def __getitem__(self, chosen: Tensor) -> _Paths:
        return _Paths(self.owner[chosen], self.start[chosen], self.end[chosen], self.wanted[chosen])


def _connected(labeller: Labeller, slices: Sequence[Slice], lattice: Lattice, paths: _Paths) -> Tensor:
    """Whether a path of one label joins the ends (m,)."""

    def keep(some: _Paths, bends: tuple[float, ...], samples: int) -> Tensor:
        places = _along(some, bends, samples, lattice)
        owner = some.owner.repeat_interleave(len(bends) * samples)
        found = label_points(labeller, slices, owner, places.reshape(-1, lattice.dim)).reshape(places.shape[:-1])
        return (found == some.wanted[:, None, None]).all(2).any(1)

    holds = keep(paths, (1 / 64, -1 / 64), _COARSE)
    narrow = (~holds).nonzero()[:, 0]
    if len(narrow):
        narrow = narrow[keep(paths[narrow], (0.0,), _COARSE)]
    if len(narrow):
        holds[narrow] = keep(paths[narrow], (1 / 512, -1 / 512), _FINE)
    return holds


def _along(paths: _Paths, bends: tuple[float, ...], samples: int, lattice: Lattice) -> Tensor:
    """Points (m, bends, samples, k) along the bent paths, moved onto the slice where they leave it."""
    share = torch.arange(1, samples + 1, dtype=torch.float64)[:, None] / (samples + 1)
    ahead = (paths.end - paths.start)[:, None, None]
    side = _sideways(paths.end - paths.start)[:, None, None]
    bend = torch.tensor(bends, dtype=torch.float64)[:, None, None] * 4 * share * (1 - share)
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
    odd = torch.tensor([2.0, 3.0, 5.0, 7.0, 11.0, 13.0], dtype=torch.float64).sqrt().repeat(k // 6 + 1)[:k].expand(m, k)
    squared = directions.square().sum(1, keepdim=True)
    side = odd - directions * (odd * directions).sum(1, keepdim=True) / squared
    return side * (squared.sqrt() / side.norm(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny))
