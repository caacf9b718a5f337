"""One layer of a network as matrices, and the merging of entries that are equal or each other's negatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from regionscope.types import BoolArray, FloatArray

Indices = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
AnyMatrix = Any
"""A dense array or a scipy.sparse array in rows."""

_TILTS = (0.0, 0.5, 1.0)
_SPARSE = 0.25  # share of nonzero entries below which a matrix is stored sparsely


@dataclass(frozen=True, eq=False)
class HingeLayer:
    """State z (n) to matrix @ (z, hinges) + offset. Hinge h is max(r, 0) - tilt[h] r with r = z[units[h]] - at[h].

    units, at, tilt: (H,). matrix: (m, n + H). offset: (m,). The tilt is 0 for ReLU, 1 for max(-r, 0), 1/2 for |r| / 2.
    absolute: (m, n + H + 1) what the terms behind each entry of the matrix and of the offset add up to without their
        signs: weights of merged entries may cancel. roundings: their error, in units of rounding of ``absolute``.
    """

    units: Indices
    at: FloatArray
    tilt: FloatArray
    matrix: AnyMatrix
    offset: FloatArray
    absolute: AnyMatrix
    roundings: int

    @property
    def n(self) -> int:
        """Number of entries of the state."""
        return int(self.matrix.shape[1] - len(self.units))

    def with_hinges(self, state: FloatArray) -> FloatArray:
        """The state (n, p), followed by its hinges."""
        r = state[self.units] - self.at[:, None]
        return np.concatenate([state, np.maximum(r, 0) - self.tilt[:, None] * r])


def stored(matrix: AnyMatrix) -> AnyMatrix:
    """``matrix``, sparse where that saves work."""
    if isinstance(matrix, np.ndarray) and np.count_nonzero(matrix) > _SPARSE * matrix.size:
        return matrix
    sparse = scipy.sparse.csr_array(matrix)
    sparse.sum_duplicates()
    sparse.eliminate_zeros()
    return sparse if sparse.nnz <= _SPARSE * np.prod(sparse.shape) else sparse.toarray()


def merged(first: FloatArray, layers: Sequence[HingeLayer]) -> tuple[FloatArray, tuple[HingeLayer, ...]]:
    """The same function with each distinct entry of a state, up to its sign, once, and without entries nobody reads."""
    result: list[HingeLayer] = []
    for layer in layers:
        rows = first if not result else _side_by_side(result[-1].matrix, result[-1].offset[:, None])
        kept, owner, sign = _distinct(scipy.sparse.csr_array(rows))
        smaller, read = _used(_folded_together(layer, len(kept), owner, sign))
        kept = kept[read]
        if not result:
            first = first[kept]
        else:
            most = _largest_rows(result[-1].absolute, owner)[read]
            result[-1] = replace(
                result[-1], matrix=result[-1].matrix[kept], offset=result[-1].offset[kept], absolute=most
            )
        result.append(smaller)
    return first, tuple(_tilted(layer) for layer in result)


def _tilted(layer: HingeLayer) -> HingeLayer:
    """The form of each hinge that leaves least weight on its entry: their bounds are added as if independent."""
    columns = scipy.sparse.csc_array(layer.matrix)
    straight, bent = columns[:, layer.units], columns[:, layer.n :]
    sizes = np.stack([abs(straight + bent * more).sum(0) for more in _TILTS])
    return _tilted_by(layer, np.asarray(_TILTS)[sizes.argmin(0)])


def _tilted_by(layer: HingeLayer, more: FloatArray) -> HingeLayer:
    """The same layer with other tilts: the hinges are less by ``more`` (H,) times r, which their entries make up."""
    if not more.any():
        return layer
    n, last = layer.n, layer.n + len(more)
    hinges, every = np.arange(n, last), np.arange(last + 1)
    change = _sparse(
        np.concatenate([every, hinges, hinges]),
        np.concatenate([every, layer.units, np.full(len(more), last)]),
        np.concatenate([np.ones(last + 1), more, -more * layer.at]),
        (last + 1, last + 1),
    )
    return replace(_times(layer, change), tilt=layer.tilt + more)


def _times(layer: HingeLayer, change: Any) -> HingeLayer:
    """The layer with matrix and offset times ``change`` (n + H + 1, ...), and how far they are off then.

    ``change`` holds 0, 1/2 and 1 up to their sign, except for what goes to the offset.
    """
    rows = _side_by_side(layer.matrix, layer.offset[:, None])
    product = rows @ change
    terms = min(np.diff(rows.indptr).max(initial=0), np.diff(change.indptr).max(initial=0))
    return replace(
        layer, matrix=stored(product[:, :-1]), offset=product[:, [-1]].toarray()[:, 0],
        absolute=stored(scipy.sparse.csr_array(layer.absolute) @ abs(change)),
        roundings=layer.roundings + 1 + int(terms),
    )  # fmt: skip


def _sparse(rows: Indices, columns: Indices, values: FloatArray, shape: tuple[int, int]) -> Any:
    matrix = scipy.sparse.csc_array((values, (rows, columns)), shape)
    matrix.eliminate_zeros()
    return matrix


def _side_by_side(*blocks: AnyMatrix) -> Any:
    return scipy.sparse.hstack([scipy.sparse.csr_array(block) for block in blocks], format="csr")


def _distinct(rows: Any) -> tuple[Indices, Indices, FloatArray]:
    """The first of all rows that are equal up to their sign; for each row, the place of that one, and the sign."""
    rows.sum_duplicates()
    rows.eliminate_zeros()
    places: dict[tuple[bytes, bytes], int] = {}
    kept: list[int] = []
    owner, sign = np.zeros(rows.shape[0], np.int64), np.ones(rows.shape[0])
    for i in range(rows.shape[0]):
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        data = rows.data[part]
        if len(data) and data[0] < 0:
            data, sign[i] = -data, -1.0
        key = rows.indices[part].tobytes(), data.tobytes()
        if key not in places:
            places[key] = len(kept)
            kept.append(i)
        owner[i] = places[key]
    kept_rows = np.array(kept, np.int64)
    return kept_rows, owner, sign * sign[kept_rows][owner] if len(kept) else sign


def _largest_rows(rows: AnyMatrix, owner: Indices) -> Any:
    """Of all rows with one owner, the largest entries."""
    entries = scipy.sparse.coo_array(rows)
    row, column = owner[entries.row], entries.col
    order = np.lexsort((entries.data, column, row))
    row, column, data = row[order], column[order], entries.data[order]
    last = np.append((np.diff(row) != 0) | (np.diff(column) != 0), np.ones(min(1, len(row)), bool))
    shape = (int(owner.max(initial=-1)) + 1, entries.shape[1])
    return scipy.sparse.csr_array((data[last], (row[last], column[last])), shape)


def _folded_together(layer: HingeLayer, n: int, owner: Indices, sign: FloatArray) -> HingeLayer:
    """The layer on the entries that are left. max(-z - t, 0) = max(z + t, 0) - (z + t) turns hinges around."""
    layer = _tilted_by(layer, -layer.tilt)
    units, flip = owner[layer.units], sign[layer.units]
    hinges = np.stack([units.astype(np.float64), layer.at * flip + 0.0], 1)
    distinct, which = np.unique(hinges, axis=0, return_inverse=True)
    turned, last = np.where(flip < 0, -1.0, 0.0), n + len(distinct)
    bent = np.arange(layer.n, layer.n + len(units))
    change = _sparse(
        np.concatenate([np.arange(layer.n), bent, bent, bent, [layer.n + len(units)]]),
        np.concatenate([owner, units, n + which.reshape(-1), np.full(len(units), last), [last]]),
        np.concatenate([sign, turned, np.ones(len(units)), turned * layer.at, [1.0]]),
        (layer.n + len(units) + 1, last + 1),
    )
    place = distinct[:, 1]
    folded = replace(_times(layer, change), units=distinct[:, 0].astype(np.int64), at=place, tilt=np.zeros(len(place)))
    return _without_hinges(folded, np.diff(scipy.sparse.csc_array(folded.matrix).indptr)[n:] == 0)


def _without_hinges(layer: HingeLayer, gone: BoolArray) -> HingeLayer:
    """The layer without hinges of no weight. If their weights cancelled, their entries stand for their rounding."""
    if not gone.any():
        return layer
    n, left, lost = layer.n, np.flatnonzero(~gone), np.flatnonzero(gone)
    last = n + len(left)
    change = _sparse(
        np.concatenate([np.arange(n), n + left, n + lost, n + lost, [n + len(gone)]]),
        np.concatenate([np.arange(last), layer.units[lost], np.full(len(lost), last), [last]]),
        np.concatenate([np.ones(last + len(lost)), np.abs(layer.at[lost]), [1.0]]),
        (n + len(gone) + 1, last + 1),
    )
    matrix = scipy.sparse.csc_array(layer.matrix)[:, np.concatenate([np.arange(n), n + left])]
    absolute = scipy.sparse.csr_array(layer.absolute) @ change
    units, places, tilt = layer.units[left], layer.at[left], layer.tilt[left]
    return replace(layer, units=units, at=places, tilt=tilt, matrix=stored(matrix), absolute=stored(absolute))


def _used(layer: HingeLayer) -> tuple[HingeLayer, Indices]:
    """The layer without entries that nothing reads, and which entries are left."""
    columns, absolute = scipy.sparse.csc_array(layer.matrix), scipy.sparse.csc_array(layer.absolute)
    read = np.diff(absolute.indptr)[: layer.n] > 0
    read[layer.units] = True
    left = np.flatnonzero(read)
    place = np.cumsum(read) - 1
    kept = np.concatenate([left, np.arange(layer.n, absolute.shape[1])])
    matrix, absolute = columns[:, kept[:-1]], absolute[:, kept]
    return replace(layer, units=place[layer.units], matrix=stored(matrix), absolute=stored(absolute)), left
