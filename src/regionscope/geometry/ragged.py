"""Ragged arrays: rows of different lengths as ``values`` plus ``offsets`` (row i is ``values[offsets[i]:offsets[i +
1]]``).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from regionscope.geometry import arrays as xp

_FEW = 1000  # rows that are sorted in less time than it takes to choose those to sort


def offsets_of(counts: Tensor) -> Tensor:
    """Offsets (r + 1,) of rows with these lengths (r,).

    >>> import torch
    >>> offsets_of(torch.tensor([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    offsets = xp.empty(len(counts) + 1, counts)
    offsets[0] = 0
    if isinstance(counts, np.ndarray):
        counts.cumsum(out=offsets[1:])
    else:
        torch.cumsum(counts, 0, out=offsets[1:])
    return offsets


def owners(offsets: Tensor, total: int | None = None) -> Tensor:
    """The row of every value. total: the number of values, where it is known: a GPU need not be waited for then.

    >>> import torch
    >>> owners(torch.tensor([0, 2, 2, 5])).tolist()
    [0, 0, 2, 2, 2]
    """
    if len(offsets) < 2:
        return offsets[:0]
    if isinstance(offsets, np.ndarray):
        return xp.repeat(xp.arange(len(offsets) - 1, offsets), xp.differences(offsets))
    total = int(offsets[-1]) if total is None else total
    steps = offsets.new_zeros(total + 1)  # one up at the start of each row but the first
    steps.scatter_add_(0, offsets[1:-1], offsets.new_ones(1).expand(len(offsets) - 2))
    return steps[:-1].cumsum(0)


def ranges(starts: Tensor, counts: Tensor) -> Tensor:
    """The concatenation of ``arange(starts[i], starts[i] + counts[i])``.

    >>> import torch
    >>> ranges(torch.tensor([5, 0]), torch.tensor([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    return _ranges(starts, counts, offsets_of(counts))


def _ranges(starts: Tensor, counts: Tensor, offsets: Tensor) -> Tensor:
    shift = xp.repeat(starts - offsets[:-1], counts, int(offsets[-1]))
    return xp.arange(len(shift), shift) + shift


def gather_rows(offsets: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of all values of ``rows``, in that order, and the offsets of the result. Cost: that of ``rows`` alone."""
    starts = xp.take(offsets, rows)
    counts = xp.take(offsets, rows + 1) - starts
    ends = offsets_of(counts)
    return _ranges(starts, counts, ends), ends


def next_in_row(offsets: Tensor) -> Tensor:
    """For every value of a ragged array of loops, the index of the one that follows it in its row, cyclically.

    >>> import torch
    >>> next_in_row(torch.tensor([0, 2, 2, 5])).tolist()
    [1, 0, 3, 4, 2]
    """
    following = xp.arange(int(offsets[-1]), offsets) + 1
    filled = xp.nonzero(offsets[1:] > offsets[:-1])
    xp.put(following, xp.take(offsets, filled + 1) - 1, xp.take(offsets, filled))
    return following


def runs(ascending: Tensor) -> tuple[Tensor, Tensor]:
    """Where each run of equal numbers starts, and how long it is.

    >>> import torch
    >>> [x.tolist() for x in runs(torch.tensor([3, 3, 5, 8, 8]))]
    [[0, 2, 3], [2, 1, 2]]
    """
    new = xp.mask(len(ascending), True, ascending)
    new[1:] = ascending[1:] != ascending[:-1]
    start = xp.nonzero(new)
    return start, xp.differences(xp.cat([start, xp.full(1, len(ascending), ascending)]))


def mean_of_rows(values: Tensor, offsets: Tensor) -> Tensor:
    """The mean (r, n) of the ``values`` (total, n) in every row; no row is empty.

    >>> import torch
    >>> mean_of_rows(torch.tensor([[1.0], [2.0], [6.0]]), torch.tensor([0, 1, 3])).tolist()
    [[1.0], [4.0]]
    """
    if isinstance(values, np.ndarray):
        return xp.numpy.add.reduceat(values, offsets[:-1], 0) / xp.differences(offsets)[:, None]
    total = values.new_zeros((len(offsets) - 1, values.shape[1]))
    return total.index_add_(0, owners(offsets, len(values)), values) / offsets.diff()[:, None]


def sort_by(group: Tensor, key: Tensor) -> Tensor:
    """The permutation that sorts by ``group`` (integers), then by ``key`` (floats)."""
    order = xp.argsort(key, stable=not isinstance(key, np.ndarray))
    if isinstance(key, np.ndarray):  # it sorts floats four times as fast where equal ones may change their order
        ascending = xp.take(key, order)
        if not bool((ascending[1:] > ascending[:-1]).all()):
            order = xp.argsort(key)
    return xp.take(order, xp.argsort(xp.take(group, order)))


def sort_within(group: Tensor, key: Tensor) -> Tensor:
    """As ``sort_by`` for groups in ascending order; members of a group of one are not touched.

    >>> import torch
    >>> sort_within(torch.tensor([0, 1, 1, 3]), torch.tensor([0.9, 0.5, 0.2, 0.1])).tolist()
    [0, 2, 1, 3]
    """
    if isinstance(group, np.ndarray) and len(group) < _FEW:
        return xp.numpy.lexsort((key, group))
    order = xp.arange(len(group), group)
    same = group[1:] == group[:-1]
    several = xp.mask(len(group), False, group)
    several[1:] |= same
    several[:-1] |= same
    rows = xp.nonzero(several)
    xp.put(order, rows, xp.take(rows, sort_by(xp.take(group, rows), xp.take(key, rows))))
    return order
