"""One stage of a network as matrices, and the merging of entries that are equal or each other's negatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from regionscope.types import FloatArray

Indices = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
AnyMatrix = Any
"""A dense array or a scipy.sparse array in rows."""

_TILTS = (0.0, 0.5, 1.0)
_SPARSE = 0.25  # share of nonzero entries below which a matrix is stored sparsely


@dataclass(frozen=True, eq=False)
class Stage:
    """State z (n) to matrix @ (z, hinges) + offset. Hinge h is max(r, 0) - tilt[h] r with r = z[units[h]] - at[h].

    units, at, tilt: (H,). matrix: (m, n + H). offset: (m,). The tilt is 0 for ReLU, 1 for max(-r, 0), 1/2 for |r| / 2.
    """

    units: Indices
    at: FloatArray
    tilt: FloatArray
    matrix: AnyMatrix
    offset: FloatArray

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
    sparse = scipy.sparse.csr_array(matrix)
    sparse.sum_duplicates()
    sparse.eliminate_zeros()
    return sparse if sparse.nnz <= _SPARSE * np.prod(sparse.shape) else sparse.toarray()


def merged(first: FloatArray, stages: Sequence[Stage]) -> tuple[FloatArray, tuple[Stage, ...]]:
    """The same function with each distinct entry of a state, up to its sign, once, and without entries nobody reads."""
    found: list[Stage] = []
    for stage in stages:
        rows = first if not found else _side_by_side(found[-1].matrix, found[-1].offset[:, None])
        kept, owner, sign = _distinct(scipy.sparse.csr_array(rows))
        smaller, read = _used(_folded_together(stage, len(kept), owner, sign))
        kept = kept[read]
        if not found:
            first = first[kept]
        else:
            found[-1] = replace(found[-1], matrix=found[-1].matrix[kept], offset=found[-1].offset[kept])
        found.append(smaller)
    return first, tuple(_tilted(stage) for stage in found)


def _tilted(stage: Stage) -> Stage:
    """The form of each hinge that leaves least weight on its entry: their bounds are added as if independent."""
    columns = scipy.sparse.csc_array(stage.matrix)
    straight, bent = columns[:, stage.units], columns[:, stage.n :]
    sizes = np.stack([abs(straight + bent * more).sum(0) for more in _TILTS])
    more = np.asarray(_TILTS)[sizes.argmin(0)]
    onto = scipy.sparse.csr_array((more, (np.arange(len(more)), stage.units)), (len(more), stage.n))
    matrix = _side_by_side(columns[:, : stage.n] + bent @ onto, bent)
    return replace(stage, tilt=stage.tilt + more, matrix=stored(matrix), offset=stage.offset - bent @ (more * stage.at))


def _upright(stage: Stage) -> Stage:
    """The same stage with every tilt 0."""
    columns = scipy.sparse.csc_array(stage.matrix)
    bent = columns[:, stage.n :]
    onto = scipy.sparse.csr_array((stage.tilt, (np.arange(len(stage.tilt)), stage.units)), (len(stage.tilt), stage.n))
    matrix = _side_by_side(columns[:, : stage.n] - bent @ onto, bent)
    offset = stage.offset + bent @ (stage.tilt * stage.at)
    return replace(stage, tilt=np.zeros(len(stage.tilt)), matrix=matrix, offset=offset)


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


def _folded_together(stage: Stage, n: int, owner: Indices, sign: FloatArray) -> Stage:
    """The stage on the entries that are left. max(-z - t, 0) = max(z + t, 0) - (z + t) turns hinges around."""
    stage = _upright(stage)
    matrix = scipy.sparse.csc_array(stage.matrix)
    old = stage.n
    onto = scipy.sparse.csr_array((sign, (np.arange(old), owner)), (old, n))
    straight, bent = matrix[:, :old] @ onto, matrix[:, old:]
    units, flip = owner[stage.units], sign[stage.units]
    turned = scipy.sparse.csr_array((np.where(flip < 0, -1.0, 0.0), (np.arange(len(units)), units)), (len(units), n))
    straight = straight + bent @ turned
    offset = stage.offset - bent @ np.where(flip < 0, stage.at, 0.0)
    hinges = np.stack([units.astype(np.float64), stage.at * flip + 0.0], 1)
    distinct, which = np.unique(hinges, axis=0, return_inverse=True)
    together = scipy.sparse.csr_array(
        (np.ones(len(units)), (np.arange(len(units)), which.reshape(-1))), (len(units), len(distinct))
    )
    bent = scipy.sparse.csc_array(bent @ together)
    bent.eliminate_zeros()
    folds = np.flatnonzero(np.diff(bent.indptr))
    whole = stored(_side_by_side(straight, bent[:, folds]))
    return Stage(distinct[folds, 0].astype(np.int64), distinct[folds, 1], np.zeros(len(folds)), whole, offset)


def _used(stage: Stage) -> tuple[Stage, Indices]:
    """The stage without entries that nothing reads, and which entries are left."""
    columns = scipy.sparse.csc_array(stage.matrix)
    read = np.diff(columns.indptr)[: stage.n] > 0
    read[stage.units] = True
    left = np.flatnonzero(read)
    place = np.cumsum(read) - 1
    matrix = columns[:, np.concatenate([left, np.arange(stage.n, columns.shape[1])])]
    return replace(stage, units=place[stage.units], matrix=stored(matrix)), left
