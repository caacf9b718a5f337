"""Connected pieces of equal label on a graph of neighbours, many maps at once: Algorithm 1 of Li et al. 2025."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from regionscope.types import Array, IntArray

_POINTS_AT_ONCE = 1 << 22


def count_linked(labels: Tensor, pairs: Tensor) -> Tensor:
    """Number of connected pieces (b,) of one label, for labels (b, p) of p nodes with the neighbours ``pairs`` (m, 2).

    A piece is a largest set of nodes of one label joined through neighbours. Every label counts, also 0 and negative
    ones. Differs from the paper's breadth-first search: SciPy finds the components of one sparse graph of all maps.
    Cost: one comparison a pair and map, and the components of the graph of equal neighbours.

    >>> count_linked(torch.tensor([[0, 0, 1], [0, 1, 0]]), torch.tensor([[0, 1], [1, 2]]))
    tensor([2, 3])
    """
    array, links = labels.cpu().numpy(), pairs.cpu().numpy()
    n_maps, p = array.shape
    counts = np.zeros(n_maps, dtype=np.int64)
    step = max(1, _POINTS_AT_ONCE // max(p + len(links), 1))
    for start in range(0, n_maps, step):
        part = array[start : start + step]
        owner = np.repeat(np.arange(len(part)), p)
        row, link = np.nonzero(part[:, links[:, 0]] == part[:, links[:, 1]])
        counts[start : start + step] = _count_pieces(
            owner, len(part), row * p + links[link, 0], row * p + links[link, 1]
        )
    return torch.from_numpy(counts)


def _count_pieces(owner: Array, n_maps: int, first: Array, second: Array) -> IntArray:
    """Components of each map, given the map of every node (non-decreasing) and the joined pairs of nodes."""
    n = len(owner)
    if len(first) == 0:
        return np.bincount(owner, minlength=n_maps)
    graph = coo_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=(n, n))
    n_pieces, piece = connected_components(graph, directed=False)
    map_of_piece = np.zeros(n_pieces, dtype=np.int64)
    map_of_piece[piece] = owner
    return np.bincount(map_of_piece, minlength=n_maps)
