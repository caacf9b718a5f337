"""A program as matrices: hinges max(z - t, 0) of entries z of a state, and an affine map of both to the next state.

The affine stretch between two folds is read off by running it on multiples of unit vectors, so whatever the layers are
(convolutions, skip connections, sparse matrices), what is left is one matrix, stored sparsely where it pays. Entries
that are equal or each other's negatives are then merged. A network that writes the identity as relu(z) - relu(-z), or
the same comparison many times, as lattice networks do, shrinks to the folds that it really has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from regionscope.exact.bounding.merge import AnyMatrix, HingeLayer, merged, stored
from regionscope.network import Fold, Pieces, Program, Values
from regionscope.types import FloatArray

_ROWS = 512  # unit vectors run at a time
_SCALE = 2.0**200  # of the unit vectors, so that offsets do not round the entries
_READING = 8  # units of rounding of an entry that is read: a run, a difference, a slope or a jump, and their product


class NotSingleEntries(Exception):
    """A fold that is not a function of single entries, such as a maximum: it has no hinges."""


@dataclass(frozen=True, eq=False)
class HingeNetwork:
    """A network on a slice: ``first`` (n, k + 1) maps (1, coordinates) to the first state; then the layers."""

    first: FloatArray
    layers: tuple[HingeLayer, ...]

    def run(self, points: FloatArray) -> FloatArray:
        """The last state (n, p) at points (p, k + 1), whose first entry is 1."""
        state: FloatArray = self.first @ points.T
        for layer in self.layers:
            state = layer.matrix @ layer.with_hinges(state) + layer.offset[:, None]
        return state


def read_hinge_network(program: Program, embed: Callable[[Tensor], Tensor], dim: int) -> HingeNetwork:
    """The program on the slice that ``embed`` maps coordinates (p, k) into.

    Raises NotSingleEntries for a fold that is not a function of single entries (a maximum).
    """
    first, layers, _ = read_matrices(program, embed, dim)
    return HingeNetwork(first, tuple(layers))


def read_matrices(
    program: Program, embed: Callable[[Tensor], Tensor], dim: int
) -> tuple[FloatArray, list[HingeLayer], list[tuple[str, ...]]]:
    """As ``read_hinge_network``, and the names of the live values that make up the state before each layer."""
    with torch.no_grad():
        corners = torch.cat([torch.zeros(1, dim, dtype=torch.float64), torch.eye(dim, dtype=torch.float64)])
        live = program.begin(embed(corners))
        rows = _packed(live)
        first = np.concatenate([rows[:1], rows[1:] - rows[:1]]).T
        layers, names = [], [tuple(live)]
        for fold in program.folds:
            layer, live = _read_layer(fold, {name: value[:1] for name, value in live.items()})
            layers.append(layer)
            names.append(tuple(live))
    return np.ascontiguousarray(first), layers, names


def with_slacks(hinges: HingeNetwork, factors: FloatArray, bounds: FloatArray) -> HingeNetwork:
    """The same network followed by bounds - factors @ outputs, and merged; a constraint holds where its slack is not
    negative.
    """
    terms = np.concatenate([np.abs(factors), np.abs(bounds)[:, None]], 1)
    if not hinges.layers:
        none = np.zeros(0)
        return HingeNetwork(hinges.first, (HingeLayer(none.astype(np.int64), none, none, -factors, bounds, terms, 1),))
    *before, last = hinges.layers
    absolute = terms[:, :-1] @ last.absolute
    absolute[:, -1] += terms[:, -1]
    ending = replace(
        last, matrix=stored(-factors @ last.matrix), offset=bounds - factors @ last.offset, absolute=stored(absolute),
        roundings=last.roundings + factors.shape[1] + 2,
    )  # fmt: skip
    return HingeNetwork(*merged(hinges.first, [*before, ending]))


def _packed(values: Values) -> FloatArray:
    """All live values side by side, one row per input."""
    matrix: FloatArray = (
        torch.cat([value.reshape(len(value), -1) for value in values.values()], 1).double().cpu().numpy()
    )
    return matrix


def _places(values: Values) -> dict[str, slice]:
    places, start = {}, 0
    for name, value in values.items():
        places[name] = slice(start, start + value[0].numel())
        start += value[0].numel()
    return places


def _unpacked(rows: Tensor, like: Values) -> Values:
    places = _places(like)
    return {name: rows[:, places[name]].reshape(len(rows), *value.shape[1:]) for name, value in like.items()}


def _read_layer(fold: Fold, live: Values) -> tuple[HingeLayer, Values]:
    """The fold and the affine stretch behind it. ``live``: one row of the values before; those after are returned."""
    first, *rest = fold.instructions
    if len(first.reads) != 1 or not isinstance(fold.pieces, Pieces):
        raise NotSingleEntries(f"'{fold.name}' ({fold.kind}) folds several values at a time.")
    if fold.n_units != len(fold.pieces.at) * live[first.reads[0]][0].numel():
        raise NotSingleEntries(f"'{fold.name}' ({fold.kind}) folds one value several times.")
    name = first.reads[0]
    place = _places(live)[name]
    # Behind the fold its result has the place of what it reads; a value that is read again stands at the end.
    folded = {("" if key == name else key): value for key, value in live.items()}
    if name not in first.frees:
        folded[name] = live[name]

    def run(rows: Tensor) -> Values:
        values = _unpacked(rows, folded)
        values[first.writes] = values.pop("")
        for instruction in rest:
            instruction.run(values, consume=False, pure=True)
        return values

    n, n_before = (sum(value[0].numel() for value in values_of_fold.values()) for values_of_fold in (folded, live))
    zero = run(live[name].new_zeros(1, n, dtype=torch.float64))
    offset = _packed(zero)[0]
    columns = []
    for start in range(0, n, _ROWS):
        units = live[name].new_zeros(min(_ROWS, n - start), n, dtype=torch.float64)
        units.diagonal(start).fill_(_SCALE)
        columns.append(stored((_packed(run(units)) - offset) / _SCALE))
    matrix = np.concatenate(columns).T if _all_dense(columns) else scipy.sparse.vstack(columns).T.tocsc()
    return _as_hinges(_read_fold(fold, live), place, matrix, offset, n_before), zero


@dataclass(frozen=True, eq=False)
class _HingeSum:
    """Entry z becomes offset + slope z + sum over t of jumps[t] max(z - at[t], 0).

    offset_terms, jump_terms: what the terms of these two add up to without their signs.
    """

    offset: FloatArray
    slope: FloatArray
    at: FloatArray
    jumps: FloatArray
    offset_terms: FloatArray
    jump_terms: FloatArray


def _as_hinges(fold: _HingeSum, place: slice, matrix: Any, offset: FloatArray, n: int) -> HingeLayer:
    """``matrix`` acts on the folded state and on what was kept; make it act on the state and on its hinges."""

    def combined(matrix: Any, slope: FloatArray, jumps: FloatArray) -> list[Any]:
        mine = matrix[:, place]
        slopes = np.ones(n)
        slopes[place] = slope
        straight = _scaled(matrix[:, :n], slopes)
        if matrix.shape[1] > n:
            kept = np.arange(place.start, place.stop)
            onto = scipy.sparse.csr_array((np.ones(len(kept)), (np.arange(len(kept)), kept)), (len(kept), n))
            straight = straight + matrix[:, n:] @ onto
        return [straight, *(_scaled(mine, jump) for jump in jumps)]

    mine, sizes = matrix[:, place], abs(matrix)
    units = np.tile(np.arange(place.start, place.stop), len(fold.at))
    shift = np.abs(offset) + abs(mine) @ fold.offset_terms
    return HingeLayer(
        units,
        fold.at.reshape(-1),
        np.zeros(len(units)),
        _hstacked(combined(matrix, fold.slope, fold.jumps)),
        offset + mine @ fold.offset,
        _hstacked([*combined(sizes, np.abs(fold.slope), fold.jump_terms), shift[:, None]]),
        _READING + int(np.max((mine[:, fold.offset != 0] != 0).sum(1), initial=0)),
    )


def _all_dense(blocks: Sequence[AnyMatrix]) -> bool:
    return all(isinstance(block, np.ndarray) for block in blocks)


def _hstacked(blocks: Sequence[AnyMatrix]) -> AnyMatrix:
    return stored(np.concatenate(blocks, 1) if _all_dense(blocks) else scipy.sparse.hstack(blocks))


def _scaled(matrix: Any, factors: FloatArray) -> Any:
    """The matrix, dense or stored by columns, with each column times its factor."""
    if isinstance(matrix, np.ndarray):
        return matrix * factors
    data = matrix.data * np.repeat(factors, np.diff(matrix.indptr))
    return scipy.sparse.csc_array((data, matrix.indices, matrix.indptr), matrix.shape)


def _read_fold(fold: Fold, row: Values) -> _HingeSum:
    """Thresholds, slopes and jumps of each entry, from the pieces of the fold."""
    first, pieces = fold.instructions[0], fold.pieces
    assert isinstance(pieces, Pieces)
    slopes, shifts = (numbers.cpu().numpy() / pieces.divisor for numbers in fold.lines())
    zero = np.zeros(slopes.shape[1])
    second = first.constants[0].expand_as(row[first.reads[0]]) if pieces.adds_second else None
    moved = zero if second is None else second.double().reshape(-1).cpu().numpy()
    thresholds = np.array([t + moved for t in pieces.at])
    start = slopes[0] * thresholds[0]
    value = slopes[0] * pieces.at[0] + shifts[0] + moved
    sizes = np.abs(slopes)
    return _HingeSum(
        value - start, slopes[0], thresholds, np.diff(slopes, axis=0), np.abs(value) + np.abs(start),
        sizes[1:] + sizes[:-1],
    )  # fmt: skip
