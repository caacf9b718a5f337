"""The operations that a cut consists of, on tensors and on NumPy arrays alike.

Cutting a small plane takes thousands of operations on a few hundred numbers each, and then the time of a call counts,
not its work: indexing 200 numbers takes NumPy 0.7 µs and torch 7 µs, picking them by a mask 1.4 and 13 µs. NumPy stays
ahead for 10,000 numbers, so ``numpy_on_cpu`` hands cuts on a CPU to NumPy, without a copy. A GPU keeps its tensors.
Methods of an array take 1 to 2 µs less than the functions of NumPy that call them.

Other files import this module as ``xp``, the usual name of an array namespace. Functions that use it take both kinds
and return the kind that they got. The annotations say ``Tensor`` for either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import scipy
import torch
from torch import Tensor

T = TypeVar("T")
numpy: Any = np  # its arrays are annotated as tensors here


def numpy_on_cpu(value: T) -> T:
    """The tensors of a dataclass (or one tensor) as NumPy arrays where they are on a CPU; they share their memory."""
    if isinstance(value, Tensor):
        return cast("T", value.numpy()) if value.is_cpu else value
    return _changed(value, numpy_on_cpu)


def as_tensors(value: T) -> T:
    """The NumPy arrays of a dataclass (or one array) as tensors that share their memory."""
    if isinstance(value, np.ndarray):
        return cast("T", torch.from_numpy(value))
    return _changed(value, as_tensors)


def _changed(value: T, change: Callable[[Any], Any]) -> T:
    names = getattr(value, "__dataclass_fields__", None)
    if names is None:
        return value
    copy, fields = object.__new__(type(value)), vars(value)  # ``__init__`` of a frozen class takes twice the time
    vars(copy).update({name: change(fields[name]) for name in names})
    return copy


def array(numbers: Sequence[Any], like: Tensor) -> Tensor:
    """Integers as an array, where ``like`` is."""
    if isinstance(like, np.ndarray):
        return numpy.array(numbers, dtype=np.int64)
    return torch.tensor(numbers, dtype=torch.int64, device=like.device)


def arange(n: int, like: Tensor) -> Tensor:
    """0 to n - 1, where ``like`` is."""
    return numpy.arange(n) if isinstance(like, np.ndarray) else torch.arange(n, device=like.device)


def full(shape: int | tuple[int, ...], value: int, like: Tensor) -> Tensor:
    """An int64 array of one value."""
    if isinstance(like, np.ndarray):
        filled = numpy.empty(shape, np.int64)
        filled.fill(value)
        return filled
    return torch.full((shape,) if isinstance(shape, int) else shape, value, device=like.device)


def empty(shape: int | tuple[int, ...], like: Tensor, dtype: torch.dtype = torch.int64) -> Tensor:
    """An array whose numbers are still to be written."""
    if isinstance(like, np.ndarray):
        return numpy.empty(shape, np.int64 if dtype == torch.int64 else np.float64)
    return torch.empty(shape, dtype=dtype, device=like.device)


def copied(x: Tensor) -> Tensor:
    """The same numbers in memory of their own."""
    return numpy.copy(x) if isinstance(x, np.ndarray) else x.clone()


def mask(n: int, value: bool, like: Tensor) -> Tensor:
    """(n,) bool of one value."""
    if isinstance(like, np.ndarray):
        filled = numpy.empty(n, bool)
        filled.fill(value)
        return filled
    return torch.full((n,), value, device=like.device)


def cat(parts: Sequence[Tensor]) -> Tensor:
    """Rows one after another."""
    return numpy.concatenate(parts) if isinstance(parts[0], np.ndarray) else torch.cat(tuple(parts))


def stack(*columns: Tensor) -> Tensor:
    """(n, m) from m arrays (n,) of one dtype."""
    if isinstance(columns[0], np.ndarray):
        stacked = numpy.empty((len(columns[0]), len(columns)), columns[0].dtype)
        for i, column in enumerate(columns):
            stacked[:, i] = column
        return stacked
    return torch.stack(columns, 1)


def take(rows: Tensor, index: Tensor) -> Tensor:
    """The rows of an index."""
    if not isinstance(rows, np.ndarray):
        return rows.index_select(0, index)
    if rows.ndim == 1 or not rows.flags.c_contiguous:  # ``take`` copies a view, and is faster for rows alone
        return rows[index]
    return rows.take(index, 0)


def put(target: Tensor, index: Tensor, values: Tensor) -> None:
    """Write ``values`` (n,) to the places of an index (n,)."""
    if isinstance(target, np.ndarray):
        target[index] = values
    else:
        target.scatter_(0, index, values)


def nonzero(flags: Tensor) -> Tensor:
    """Where a mask (n,) is True."""
    return flags.nonzero()[0] if isinstance(flags, np.ndarray) else flags.nonzero()[:, 0]


def where(condition: Tensor, then: Tensor | float, otherwise: Tensor | float) -> Tensor:
    if isinstance(condition, np.ndarray):
        return numpy.where(condition, then, otherwise)
    return torch.where(condition, then, otherwise)


def minimum(first: Tensor, second: Tensor) -> Tensor:
    return numpy.minimum(first, second) if isinstance(first, np.ndarray) else torch.minimum(first, second)


def maximum(first: Tensor, second: Tensor) -> Tensor:
    return numpy.maximum(first, second) if isinstance(first, np.ndarray) else torch.maximum(first, second)


def largest(x: Tensor, axis: int) -> Tensor:
    """The largest number along an axis."""
    return numpy.maximum.reduce(x, axis) if isinstance(x, np.ndarray) else x.amax(axis)


def differences(x: Tensor) -> Tensor:
    """``x[i + 1] - x[i]``."""
    return x[1:] - x[:-1]


def quotients(numbers: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The numbers divided by n, rounded down, and the remainders. NumPy takes 20 times as long for ``%``.

    >>> [x.tolist() for x in quotients(numpy.array([7, 12]), 5)]
    [[1, 2], [2, 2]]
    """
    quotient = numbers // n
    return quotient, numbers - quotient * n


def bincount(numbers: Tensor, n: int) -> Tensor:
    """How often each number below n occurs."""
    return numpy.bincount(numbers, minlength=n) if isinstance(numbers, np.ndarray) else numbers.bincount(None, n)


def sums(group: Tensor, values: Tensor, n: int) -> Tensor:
    """(n,): the sum of the ``values`` (x,) of each group."""
    if isinstance(values, np.ndarray):
        return numpy.bincount(group, values, n)
    return values.new_zeros(n).index_add_(0, group, values)


def repeat(rows: Tensor, counts: Tensor, total: int | None = None) -> Tensor:
    """Row i ``counts[i]`` times. total: the sum of ``counts``, where it is known."""
    if isinstance(rows, np.ndarray):
        return numpy.ndarray.repeat(rows, counts)
    return torch.repeat_interleave(rows, counts, output_size=total)


def argsort(keys: Tensor, stable: bool = True) -> Tensor:
    """The permutation that sorts the keys; equal ones keep their order, if it is ``stable``."""
    if not isinstance(keys, np.ndarray):
        return keys.argsort(stable=stable)
    if not stable or keys.dtype != np.int64:
        return numpy.argsort(keys, kind="stable" if stable else None)
    return sort(keys)[1]


def sort(keys: Tensor) -> tuple[Tensor, Tensor]:
    """The integers in ascending order and the permutation that sorts them; equal ones keep their order.

    NumPy sorts numbers ten times as fast as it finds the permutation, so key and place are sorted as one number.
    """
    if not isinstance(keys, np.ndarray):
        in_order = keys.sort(stable=True)
        return in_order.values, in_order.indices
    bits = len(keys).bit_length()
    if len(keys) == 0 or keys.min() < 0 or int(keys.max()).bit_length() + bits > 63:
        order = numpy.argsort(keys, kind="stable")
        return take(keys, order), order
    packed = (keys << bits) | numpy.arange(len(keys))
    packed.sort()
    return packed >> bits, packed & ((1 << bits) - 1)


def searchsorted(ascending: Tensor, values: Tensor, right: bool = False) -> Tensor:
    """Where the values would be inserted, to the left or right of equal ones."""
    if isinstance(ascending, np.ndarray):
        return numpy.ndarray.searchsorted(ascending, values, "right" if right else "left")
    return torch.searchsorted(ascending, values, right=right)


def isin(numbers: Tensor, chosen: Tensor) -> Tensor:
    """Whether each number is among the chosen ones."""
    return numpy.isin(numbers, chosen) if isinstance(numbers, np.ndarray) else torch.isin(numbers, chosen)


def largest_rows(rows: Tensor, count: int) -> Tensor:
    """The places of the ``count`` rows (n, m) with the largest sums of absolute values, in any order."""
    if isinstance(rows, np.ndarray):
        return numpy.einsum("ij->i", abs(rows)).argpartition(len(rows) - count)[len(rows) - count :]
    return rows.abs().sum(1).topk(count, sorted=False).indices


def unique(numbers: Tensor) -> Tensor:
    """The distinct numbers, ascending."""
    return numpy.unique(numbers) if isinstance(numbers, np.ndarray) else numbers.unique()


def double(x: Tensor) -> Tensor:
    """In float64."""
    return numpy.asarray(x, np.float64) if isinstance(x, np.ndarray) else x.double()


def lerp(first: Tensor, second: Tensor, t: Tensor) -> Tensor:
    """(1 - t) * first + t * second, exact at both ends."""
    if isinstance(first, np.ndarray):
        late = t >= 0.5
        return numpy.where(late, second, first) + (t - late) * (second - first)
    return torch.lerp(first, second, t)


def components(n: int, pairs: Tensor) -> Tensor:
    """Connected components of n nodes under the pairs (m, 2): a number for each node (n,)."""
    if len(pairs) == 0:  # without SciPy, which takes a tenth of the time to import that torch takes
        return arange(n, pairs)
    joined = pairs if isinstance(pairs, np.ndarray) else pairs.cpu().numpy()
    graph = scipy.sparse.coo_array((np.ones(len(joined), dtype=np.int8), (joined[:, 0], joined[:, 1])), shape=(n, n))
    pieces = scipy.sparse.csgraph.connected_components(graph, directed=False)[1].astype(np.int64)
    return pieces if isinstance(pairs, np.ndarray) else torch.from_numpy(pieces).to(pairs.device)


# How many rows of an array to work on at a time.

_CPU_BYTES = 2 << 20  # stays in the caches
_GPU_BYTES = 512 << 20  # every block waits for the device once, so few large ones


def rows_at_a_time(row_bytes: int, device: torch.device | str) -> int:
    """Rows of a block that suits the device, at least one.

    >>> rows_at_a_time(1 << 20, torch.device("cpu"))
    2
    """
    kind = getattr(device, "type", device)  # that of a NumPy array is the word "cpu"
    return max(1, (_CPU_BYTES if kind == "cpu" else _GPU_BYTES) // max(1, row_bytes))
