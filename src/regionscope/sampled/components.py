"""Connected pieces of equal label on a lattice: Algorithm 1 of Li et al. 2025, in any dimension, many maps at once."""

from __future__ import annotations

import math
from typing import overload

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from regionscope.errors import InputError
from regionscope.types import Array, IntArray

_POINTS_AT_ONCE = 1 << 22


@overload
def count_components(labels: Tensor | Array, *, mask: Tensor | Array | None = ..., dim: None = ...) -> int: ...
@overload
def count_components(labels: Tensor | Array, *, mask: Tensor | Array | None = ..., dim: int) -> Tensor: ...
def count_components(
    labels: Tensor | Array, *, mask: Tensor | Array | None = None, dim: int | None = None
) -> int | Tensor:
    """Number of connected pieces of equal label in an integer array of any dimension.

    Two entries are neighbours when they share a face: their indices differ by one along one axis (4 neighbours in 2-D,
    6 in 3-D, 2k in k-D; never diagonally). A piece is a largest set of entries of one label joined through neighbours.
    Every label is foreground, including 0 and negative labels. Li et al. 2025, Algorithm 1.

    labels: integers (or booleans). ``dim=None``: the whole array is one map and the answer is an int. ``dim=k``: the
        last k axes are a map, the leading ones a batch, and the answer is an int64 tensor of the leading shape.
    mask: booleans that broadcast to ``labels``; entries outside the mask are ignored and connect nothing.

    Differs from the paper's breadth-first search: runs along the last axis become nodes of one sparse graph for all
    maps, and SciPy finds its components. Cost: a few passes over the array.

    >>> count_components(np.array([[0, 1], [1, 0]]))
    4
    >>> count_components(np.array([[0, 0, 1], [1, 1, 1]]), dim=1)
    tensor([2, 1])
    """
    array = _integers(labels)
    if array.ndim == 0:
        raise InputError(
            "Expected labels as an array with at least one axis, got a single number. Pass a list or an array."
        )
    k = array.ndim if dim is None else dim
    if not 1 <= k <= array.ndim:
        raise InputError(
            f"Expected dim from 1 to {array.ndim}, the number of axes of labels, got {dim}. Leave it out for all axes."
        )
    inside = None if mask is None else _mask(mask, array.shape)
    lead, shape = array.shape[: array.ndim - k], array.shape[array.ndim - k :]
    n_maps = math.prod(lead)
    maps = array.reshape(n_maps, *shape)
    inside = None if inside is None else inside.reshape(n_maps, *shape)
    step = max(1, _POINTS_AT_ONCE // max(math.prod(shape), 1))
    counts = np.zeros(n_maps, dtype=np.int64)
    for start in range(0, n_maps, step):
        part = slice(start, start + step)
        counts[part] = _count_maps(maps[part], None if inside is None else inside[part])
    return int(counts[0]) if dim is None else torch.from_numpy(counts.reshape(lead))


def count_linked(labels: Tensor, pairs: Tensor) -> Tensor:
    """The same count on any graph: labels (b, p) of p nodes, neighbours ``pairs`` (m, 2), counts (b,).

    This is how lattices inside a simplex are counted: only the points inside exist, so no k-dimensional array is built.
    Cost: one comparison a pair and map, and the components of the graph of equal neighbours.
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


def _count_maps(maps: Array, inside: Array | None) -> IntArray:
    """Components of each map (b, *shape)."""
    if maps.size == 0:
        return np.zeros(len(maps), dtype=np.int64)
    starts = np.ones(maps.shape, dtype=bool)  # where a run of one label along the last axis begins
    np.not_equal(maps[..., 1:], maps[..., :-1], out=starts[..., 1:])
    if inside is not None:
        starts[..., 1:] |= ~inside[..., :-1]
        starts &= inside
    run = np.cumsum(starts.reshape(-1), dtype=np.int64).reshape(maps.shape) - 1
    owner = np.flatnonzero(starts) // math.prod(maps.shape[1:])
    first, second = [], []
    for axis in range(1, maps.ndim - 1):
        low, high = _shifted(axis, slice(None, -1)), _shifted(axis, slice(1, None))
        # Where neither run begins here, the entries before these two are joined already.
        linked = (maps[low] == maps[high]) & (starts[low] | starts[high])
        if inside is not None:
            linked &= inside[low] & inside[high]
        first.append(run[low][linked])
        second.append(run[high][linked])
    if not first:
        return np.bincount(owner, minlength=len(maps))
    return _count_pieces(owner, len(maps), np.concatenate(first), np.concatenate(second))


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


def _shifted(axis: int, part: slice) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, part)


def _integers(labels: Tensor | Array) -> Array:
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.dtype.kind not in "iub":
        raise InputError(
            f"Expected labels of integers or booleans, got {array.dtype}. Convert scores to labels with argmax first."
        )
    return array


def _mask(mask: Tensor | Array, shape: tuple[int, ...]) -> Array:
    inside = mask.detach().cpu().numpy() if isinstance(mask, Tensor) else np.asarray(mask)
    if inside.dtype != np.bool_:
        raise InputError(f"Expected a mask of booleans, got {inside.dtype}. Convert it with mask.astype(bool).")
    try:
        return np.broadcast_to(inside, shape)
    except ValueError as reason:
        raise InputError(
            f"Expected a mask that broadcasts to the shape {shape} of labels, got {inside.shape}. Reshape the mask."
        ) from reason
