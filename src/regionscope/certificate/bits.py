"""Patterns as rows of bits: whether a unit is above a threshold, or whether a candidate is the largest of its group.

There is one bit for each constraint, in the order of ``IntegerNetwork.cell``; every fold starts a new byte.

Behind a ReLU many maxima are ties of zeros. Let all candidates of a group be outputs of ReLUs, and call the bits of
these ReLUs its *switches*. A candidate that is off never wins against one that is on, and its constraint x_winner >= 0
is that of the winner's ReLU. Where all are off, all constraints are 0 >= 0, and no bit is set. So a ReLU that is the
first to switch on changes the maxima too, and its wall is where its own constraint is zero. Groups that overlap may
have the same winner and the same rival; their constraint is that of the first of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regionscope.certificate.integers import Pattern
from regionscope.certificate.matrices import Sparse
from regionscope.certificate.steps import AffineStep, Largest, PiecewiseStep, Steps
from regionscope.types import BoolArray, IntArray

PackedBits = NDArray[np.uint8]

_LOWEST = np.array([0, *((number & -number).bit_length() - 1 for number in range(1, 256))])
_HIGHEST = np.array([0, *(number.bit_length() - 1 for number in range(1, 256))])


class Bits:
    """The code of the patterns of a network. ends: the byte behind each fold. row, unit, layer, largest: of each bit
    the number of its constraint, its unit, its fold, and whether that is a maximum of groups. switches: by
    fold the switch of each candidate, -1 for groups that have none."""

    def __init__(self, steps: Steps, n_border: int) -> None:
        self.folds = steps.folds
        self.sizes = [fold.n_units * fold.rows_per_unit for fold in self.folds]
        self.ends = np.cumsum([(size + 7) // 8 for size in self.sizes], dtype=np.int64)
        self.row, self.unit, self.layer = (np.full(8 * self.n_bytes, -1, dtype=np.int64) for _ in range(3))
        self.largest = np.zeros(8 * self.n_bytes, dtype=bool)
        base, units = n_border, 0
        for fold, size, part in zip(self.folds, self.sizes, self.parts, strict=True):
            fold_bits = slice(8 * part.start, 8 * part.start + size)
            self.row[fold_bits] = base + np.arange(size)
            self.unit[fold_bits] = units + np.arange(size) // fold.rows_per_unit
            self.layer[fold_bits], self.largest[fold_bits] = fold.layer, isinstance(fold, Largest)
            base, units = base + size, units + fold.n_units
        self.switches = self._switches(steps)

    def _switches(self, steps: Steps) -> dict[int, IntArray]:
        """Follow the outputs of ReLUs through steps that copy them."""
        switches, known, parts = {}, dict[str, IntArray](), iter(self.parts)
        for step in steps.steps:
            if isinstance(step, AffineStep):
                known[step.writes] = _copied(step, known)
                continue
            part = next(parts)
            if isinstance(step, Largest):
                candidates = known[step.source][step.groups]
                if (usable := (candidates >= 0).all(axis=1, keepdims=True)).any():
                    switches[step.layer] = np.where(usable, candidates, -1).ravel()
            relu = isinstance(step, PiecewiseStep) and step.is_relu
            known[step.writes] = 8 * part.start + np.arange(step.n_units) if relu else np.full(step.n_units, -1)
        return switches

    def on(self, bits: PackedBits, layer: int) -> BoolArray | None:
        """Whether the switch of each candidate of a fold is set in ``bits`` (n, bytes); candidates without a
        switch are on. None if no group has switches."""
        if (switch := self.switches.get(layer)) is None:
            return None
        found: BoolArray = (bits[:, switch >> 3] >> (switch & 7).astype(np.uint8) & 1 == 1) | (switch < 0)
        return found

    @property
    def n_bytes(self) -> int:
        """Number of bytes of a pattern."""
        return int(self.ends[-1]) if len(self.ends) else 0

    @property
    def parts(self) -> list[slice]:
        """The bytes of each fold."""
        return [slice(int(end) - (size + 7) // 8, int(end)) for end, size in zip(self.ends, self.sizes, strict=True)]

    def encode(self, patterns: Pattern) -> PackedBits:
        """Bits (n, bytes) of patterns (n, units)."""
        bits, start = np.zeros((len(patterns), self.n_bytes), dtype=np.uint8), 0
        for fold, part in zip(self.folds, self.parts, strict=True):
            pieces, number = patterns[:, start : start + fold.n_units, None], np.arange(fold.rows_per_unit)
            flags = (pieces == number if isinstance(fold, Largest) else pieces > number).reshape(len(patterns), -1)
            if (on := self.on(bits, fold.layer)) is not None:
                flags &= on
            bits[:, part] = np.packbits(flags, axis=1, bitorder="little")
            start += fold.n_units
        return bits

    def decode(self, bits: PackedBits) -> Pattern:
        """Patterns (n, units) of bits (n, bytes)."""
        nothing = np.zeros((len(bits), 0), dtype=np.int16)
        return np.concatenate([nothing, *(self.pieces(bits, i) for i in range(len(self.folds)))], 1)

    def pieces(self, bits: PackedBits, i: int) -> Pattern:
        """The part of fold ``i`` in the patterns."""
        fold = self.folds[i]
        flags = np.unpackbits(bits[:, self.parts[i]], axis=1, count=self.sizes[i], bitorder="little")
        flags = flags.reshape(len(bits), fold.n_units, fold.rows_per_unit)
        found: Pattern = (flags.argmax(2) if isinstance(fold, Largest) else flags.sum(2)).astype(np.int16)
        return found

    def walls(self, bits: PackedBits, pairs: IntArray) -> tuple[IntArray, IntArray]:
        """For pairs (w, 2) of neighbours: the constraint of each region that is zero on their wall (w, 2), -1 unless
        one unit alone differs, by one piece; and the first fold at which they differ (w,), -1 if at none."""
        rows, layer = np.full((len(pairs), 2), -1, dtype=np.int64), np.full(len(pairs), -1, dtype=np.int64)
        step = max(1, (1 << 20) // max(1, self.n_bytes))
        for i in range(0, len(pairs) if self.n_bytes else 0, step):
            here, there = (np.take(bits, side, axis=0) for side in pairs[i : i + step].T)
            differs, index = self._essential(here ^ there), np.arange(len(here))
            wall, byte = np.divmod(np.flatnonzero(differs != 0), self.n_bytes)
            changed = np.bincount(wall, minlength=len(here)) > 0
            first, last = np.zeros((2, len(here)), dtype=np.int64)
            first[wall[::-1]], last[wall] = byte[::-1], byte
            low = 8 * first + _LOWEST[differs[index, first]]
            high = 8 * last + _HIGHEST[differs[index, last]]
            layer[i : i + step] = np.where(changed, self.layer[low], -1)
            single = (low == high) & changed & ~self.largest[low]
            swapped = self.largest[low] & (self.unit[low] == self.unit[high])
            lower = (there[index, low >> 3] >> (low & 7).astype(np.uint8) & 1)[:, None] == [1, 0]  # the other's winner
            row = np.where(single[:, None] | lower, self.row[low][:, None], self.row[high][:, None])
            rows[i : i + step] = np.where((single | swapped)[:, None], row, -1)
        return rows, layer

    def _essential(self, differs: PackedBits) -> PackedBits:
        """Differences of neighbours without maxima that follow others: groups whose first candidate switches on, which
        differ in one bit, and groups that change between the same two entries as one before."""
        for i, fold in enumerate(self.folds):
            if not isinstance(fold, Largest):
                continue
            m, part = fold.rows_per_unit, self.parts[i]
            some = np.flatnonzero(differs[:, part].any(1))
            flags = np.unpackbits(differs[some, part], axis=1, count=self.sizes[i], bitorder="little")
            groups = flags.reshape(len(some), fold.n_units, m)
            groups[groups.sum(2) == 1] = 0
            wall, unit = np.nonzero(groups.sum(2) == 2)
            bits = groups[wall, unit]
            ends = np.sort([fold.groups[unit, bits.argmax(1)], fold.groups[unit, m - 1 - bits[:, ::-1].argmax(1)]], 0)
            first = np.unique([wall, *ends], axis=1, return_index=True)[1]
            again = np.delete(np.arange(len(wall)), first)
            groups[wall[again], unit[again]] = 0
            differs[some, part] = np.packbits(flags, axis=1, bitorder="little")
        return differs


def _copied(step: AffineStep, known: dict[str, IntArray]) -> IntArray:
    """For each entry that is a copy of one that is known, what is known of it; else -1."""
    found = np.full(len(step.shift), -1)
    total = np.sum([matrix.terms for _, matrix in step.terms], axis=0)
    for source, matrix in step.terms:
        if not isinstance(matrix, Sparse):
            continue
        rows = np.flatnonzero((matrix.terms == 1) & (total == 1) & (step.shift == 0))
        place = matrix.sparse.indptr[rows]
        same = matrix.sparse.data[place] == 1
        if source in known:
            found[rows[same]] = known[source][matrix.sparse.indices[place[same]]]
    return found


def distinct(bits: PackedBits) -> int:
    """Number of different rows. Rows with the same hash are compared."""
    hash_of, n_words = np.zeros(len(bits), dtype=np.uint64), -(-bits.shape[1] // 8)
    for start in range(0, len(bits), 4096):
        hashes, some = hash_of[start : start + 4096], bits[start : start + 4096]
        words = np.zeros((len(some), 8 * n_words), dtype=np.uint8)
        words[:, : bits.shape[1]] = some
        for word in words.view(np.uint64).T:
            hashes ^= word
            hashes *= np.uint64(0x9E3779B97F4A7C15)
            hashes ^= hashes >> np.uint64(32)
    order = hash_of.argsort()
    again = np.flatnonzero(hash_of[order][1:] == hash_of[order][:-1])
    if (bits[order[again]] == bits[order[again + 1]]).all():
        return len(bits) - len(again)
    return len({row.tobytes() for row in bits})
