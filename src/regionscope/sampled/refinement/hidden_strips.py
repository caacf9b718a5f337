"""Strips of another label that are thinner than the spacing of a lattice, between two neighbours of one label.

Such a strip appears as single points of its label. Between these points, neighbours on both sides of the strip seem
connected. They are not, and the pieces on both sides may be two regions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regionscope.geometry import Slice
from regionscope.sampled.label_points import label_points
from regionscope.sampled.labels import Labeller
from regionscope.sampled.lattice import Lattice

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
