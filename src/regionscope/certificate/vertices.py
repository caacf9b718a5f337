"""The signs of all units at all vertices in float64, with a bound of the error for each unit: the first filter.

The network runs once on the stored vertices, in blocks of neighbouring regions. Let R be a region, p a pattern, and f_u
the function of unit u when the units before it are on the pieces of p; f_u is affine on the whole slice. Let x_u(v) be
the computed value at a vertex. The bound E_u is such that

    |f_u(v) - x_u(v)| <= E_u    at every corner v of R, if p agrees with all decided signs at v.    (1)

A sign is *decided* if |x_u(v)| > 8 E_u. By induction over the steps:

- Affine, W and b: E = |W| E_in + (n + 9) 2^-53 (|W| X + |b|) for n terms, where X is the largest |x| in the block; see
  ``rounding_bounds``, which also starts the induction.
- Pieces with slopes at most S: where the sign is decided, p and the computation take the same piece, and E grows at
  most by the factor S. Where it is not, they may take different ones. These agree at the threshold, from which x is at
  most m away, with m the largest such distance in the block. So E = S E_in + 2 S m, for each threshold.
- Largest of a group: p takes a candidate whose value is at most m below the largest. So E = max E_in + m. Behind ReLUs
  p takes one that is on, or the first if all are off; see ``bits``.

The pattern of R has the decided signs at its corners. It is *sure* if each unit has one, and none contradicts another;
then (1) holds for it. Three corners a, b, c of R (two on a line, four in space) make a frame
q -> a + q_1 (b - a) + q_2 (c - a). In it f_u is known exactly from three values:
f_u(a) + q_1 (f_u(b) - f_u(a)) + q_2 (f_u(c) - f_u(a)), and its error is at most (1 + 6 k) E_u on [-3, 3]^k.
These functions are handed to ``corners`` for all units that are near zero at a corner of R.
The other units are *far*: |x_u(v)| > 16 E_u + 2^-9 (X_u + E_u) at all corners. ``corners`` proves that the true
corners are closer than 2^-12 to the stored ones in each frame coordinate, which changes f_u by at most
2 k 2^-12 (X_u + E_u): a far unit has the sign of the pattern at the true corners, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from regionscope.certificate.bits import Bits, PackedBits
from regionscope.certificate.claim import ClaimedPartition
from regionscope.certificate.frames import EPS, CornerFrames
from regionscope.certificate.rounding_bounds import Value, affine, first_steps, padded, reads
from regionscope.certificate.steps import AffineStep, Largest, PiecewiseStep, Steps
from regionscope.certificate.unit_bounds import Near, Screened, size
from regionscope.geometry import Slice
from regionscope.types import BoolArray, FloatArray, IntArray

MOST_CORNER_SHIFT = 2.0**-12  # by how much a true corner may differ from the stored one, in frame coordinates
_BLOCK_NUMBERS = 1 << 21  # numbers in an array
_CACHED_NUMBERS = 1 << 15  # numbers that several operations read one after another
_Flag = TypeVar("_Flag", np.uint8, np.bool_)


def screen_by_vertices(
    steps: Steps, slice: Slice, claim: ClaimedPartition, frames: CornerFrames, bits: Bits
) -> Screened:
    """Patterns, near constraints and slopes of all regions, from one forward pass of all vertices."""
    start, first = first_steps(steps, slice, np.abs(claim.vertices).max(0))
    widest = max([len(step.shift) for step in steps.steps[first:] if isinstance(step, AffineStep)], default=1)
    blocks = []
    for regions in _strips(claim, max(1, _BLOCK_NUMBERS // max(1, widest))):
        with np.errstate(over="ignore", invalid="ignore"):
            blocks.append(_VertexBlock(claim, frames, bits, slice, regions, start).run(steps, first))
    place = np.concatenate([block.regions for block in blocks]).argsort()
    parts = [np.concatenate(each) for each in zip(*((b.bits, b.sure, *b.slopes) for b in blocks), strict=True)]
    key, rows, error = (np.concatenate(each) for each in zip(*(block.near for block in blocks), strict=True))
    by_key = key.argsort()
    packed, sure, slopes, slope_error = (part[place] for part in parts)
    return Screened(packed, sure, Near(key[by_key], rows[by_key], error[by_key]), slopes, slope_error)


def _strips(claim: ClaimedPartition, most: int) -> Iterator[IntArray]:
    """The regions in blocks of neighbours."""
    n_blocks = -(-claim.n // most)
    place = claim.vertices[claim.corners[claim.offsets[:-1]]]
    strip = place[:, 0].argsort().argsort() * int(np.ceil(np.sqrt(n_blocks))) // claim.n if claim.dim > 1 else 0 * place
    order = np.lexsort((place[:, -1], strip.reshape(claim.n)))
    yield from np.array_split(order, n_blocks)


class _VertexBlock:
    """Some regions and their vertices on their way through the network; those with many corners first.

    corners: the first vertex of each region, the second one, and so on. base: (k + 1, regions) those of their frames.
    around: the regions at the first vertex, at the second one, and so on; many: how many these are, and first: where
    they start. packed, open: (vertices, bytes) signs, and which of them are not decided.
    """

    def __init__(
        self,
        claim: ClaimedPartition,
        frames: CornerFrames,
        bits: Bits,
        slice: Slice,
        regions: IntArray,
        start: dict[str, Value],
    ) -> None:
        counts = np.diff(claim.offsets)[regions]
        order = (-counts).argsort(kind="stable")
        self.code, self.k, self.regions, counts = bits, claim.dim, regions[order], counts[order]
        start_of, ends = claim.offsets[self.regions], np.cumsum(counts)
        owner = np.repeat(np.arange(len(regions)), counts)
        used = claim.corners[np.arange(len(owner)) + (start_of - ends + counts)[owner]]
        place = np.zeros(len(claim.vertices), dtype=np.int64)
        place[used] = 1
        vertices = np.flatnonzero(place)
        place[vertices] = np.arange(len(vertices))
        rest = [self.regions[counts > j] for j in range(int(counts[0]))]
        self.corners = [place[claim.corners[claim.offsets[some] + j]] for j, some in enumerate(rest)]
        self.base = place[claim.corners[frames.base[:, self.regions]]]
        self.inverse, self.off = frames.inverse[self.regions], frames.off[self.regions]
        self.points, loops = claim.vertices[vertices], place[used]
        self.around = owner[loops.argsort(kind="stable")]
        self.many = np.bincount(loops, minlength=len(vertices))
        self.first = np.cumsum(self.many) - self.many
        self.packed, self.open = (np.zeros((len(vertices), bits.n_bytes), dtype=np.uint8) for _ in range(2))
        self.bits = np.zeros((len(regions), bits.n_bytes), dtype=np.uint8)
        self.sure = frames.sound[self.regions]
        self.near_parts: list[tuple[IntArray, IntArray, FloatArray, FloatArray]] = []  # regions, bits, rows, errors
        self.values = {name: value.at(self.points) for name, value in start.items()}
        self.sure &= all(np.isfinite(value.size + value.error).all() for value in self.values.values())
        normals, bounds = (part.cpu().numpy() for part in slice.halfspaces)
        self.border = len(bounds)
        reach = np.abs(normals) @ np.abs(self.points).max(0) + np.abs(bounds)
        self._borders(bounds[:, None] - normals @ self.points.T, (self.k + 8) * EPS * reach, reach)

    def _borders(self, value: FloatArray, error: FloatArray, size: FloatArray) -> None:
        limit = _limit(error, size)[:, None]
        self._keep(np.nonzero(np.abs(value) <= limit), value, 0.0, error, -self.border)
        outside: BoolArray = np.any(value < -limit, axis=0, keepdims=True).T
        self.sure &= ~self._any(outside)[:, 0]

    def run(self, steps: Steps, first: int) -> _VertexBlock:
        """Carry the vertices through the steps from ``first`` on."""
        last = {name: i for i, step in enumerate(steps.steps) for name in reads(step)} | {steps.output_name: -1}
        parts = iter(self.code.parts)
        for i, step in enumerate(steps.steps[first:], first):
            if isinstance(step, AffineStep):
                self.values[step.writes] = self._after(step)
            elif isinstance(step, PiecewiseStep):
                self._pieces(step, next(parts), last[step.source] == i)
            else:
                self._largest(step, next(parts))
            if step.writes and not np.isfinite(self.values[step.writes].size + self.values[step.writes].error).all():
                self.sure[:] = False  # comparisons with numbers that are not finite prove nothing
            for name in {*reads(step)}:
                if last[name] == i:
                    del self.values[name]
        self._finish(steps)
        return self

    def _after(self, step: AffineStep) -> Value:
        if (moved := step.moved) is not None:
            (value,) = (self.values[name] for name in reads(step))
            identity = len(moved) == len(value.error) and (moved == np.arange(len(moved))).all()
            return value if identity else Value(*(each[moved] for each in value))
        numbers, error = affine(step, self.values, None)
        sizes = [np.maximum(numbers[rows].max(1), -numbers[rows].min(1)) for rows in _few_rows(numbers)]
        return Value(numbers, error, np.concatenate(sizes))

    def _pieces(self, fold: PiecewiseStep, part: slice, is_last: bool) -> None:
        """is_last: whether nothing reads the source behind this fold."""
        x, error, size = self.values[fold.source]
        n, stride = len(fold.at), 8 * part.start
        above = np.empty((fold.n_units, n, x.shape[1]), dtype=bool)
        close = np.empty(x.shape, dtype=bool)
        off = np.zeros(fold.n_units)  # from thresholds whose side is not decided
        for t, at in enumerate(fold.at):
            bound, reach = (error + 2 * EPS * (size + abs(at)), size + abs(at)) if at else (error, size)
            limit = _limit(bound, reach)[:, None]
            for rows in _few_rows(x):
                np.greater(x[rows], at, out=above[rows, t])
                np.less_equal(np.abs(x[rows] - at if at else x[rows]), limit[rows], out=close[rows])
            unit, vertex = np.divmod(np.flatnonzero(close), x.shape[1])
            self._keep((unit, vertex), x, at, bound, stride + t, n)
            distance = np.abs(x[unit, vertex] - at)
            undecided = distance <= 8 * bound[unit]
            unit, vertex = unit[undecided], vertex[undecided]
            np.maximum.at(off, unit, distance[undecided])
            bit = stride + unit * n + t
            np.bitwise_or.at(self.open, (vertex, bit >> 3), (1 << (bit & 7)).astype(np.uint8))
        self.packed[:, part] = _packed(above.reshape(-1, x.shape[1]))
        above_zero, left_open = self.packed[:, part], self.open[:, part]
        seen = self._any(np.concatenate([above_zero & ~left_open, ~(above_zero | left_open)], 1))
        self.bits[:, part], below = np.split(seen, 2, axis=1)
        self.sure &= ((self.bits[:, part] ^ below) == 255).all(1)
        if fold.writes:
            alone = is_last and sum(value.numbers is x for value in self.values.values()) == 1
            self.values[fold.writes] = _through(fold, self.values[fold.source], n * off, x if alone else None)

    def _largest(self, fold: Largest, part: slice) -> None:
        x, error, size = self.values[fold.source]
        members, m = fold.groups, fold.rows_per_unit
        bound, reach = 2 * error[members].max(1) + 4 * EPS * size[members].max(1), 2 * size[members].max(1)
        top = x[members[:, 0]]
        for j in range(1, m):
            top = np.maximum(top, x[members[:, j]])
        beaten, close = (np.empty((fold.n_units, m, x.shape[1]), dtype=bool) for _ in range(2))
        off = np.zeros(fold.n_units)
        for j in range(m):
            twice = (members[:, :j] == members[:, j, None]).any(1)  # the same entry once more
            gap = top - x[members[:, j]]
            beaten[:, j] = (gap > 8 * bound[:, None]) | twice[:, None]
            np.maximum(off, np.where(beaten[:, j], 0, gap).max(1), out=off)
            close[:, j] = (gap <= _limit(bound, reach)[:, None]) & ~twice[:, None]
        if (maybe := self.code.on(self.packed | self.open, fold.layer)) is not None:
            close &= maybe.T.reshape(close.shape)
        unit, vertex = np.nonzero(close.sum(1, dtype=np.uint8) > 1)  # the winner is one of them
        pair, candidate = np.nonzero(close[unit, :, vertex])
        flags = beaten.reshape(-1, x.shape[1])
        lost = self._any(_packed(flags))
        left = np.unpackbits(~lost, axis=1, count=flags.shape[0], bitorder="little").reshape(-1, fold.n_units, m)
        best, on = self._winners(left, self.code.on(self.bits, fold.layer))
        wins = (np.arange(m) == best[:, :, None]) & on
        self.bits[:, part] = np.packbits(wins.reshape(len(best), -1), axis=1, bitorder="little")
        region, number = self._regions_at((unit[pair] * m + candidate, vertex[pair]), flags.shape[0])
        place, candidate = np.divmod(number, m)
        winner, rivals = members[place, best[region, place]], members[place, candidate]
        other = np.flatnonzero((winner != rivals) & on[region, place, candidate])
        other = other[np.unique((region * len(x) + winner)[other] * len(x) + rivals[other], return_index=True)[1]]
        region, place, winner, rivals = region[other], place[other], winner[other], rivals[other]
        ends = self.base[:, region]
        self.near_parts.append(
            (region, 8 * part.start + number[other], x[winner, ends] - x[rivals, ends], bound[place])
        )
        if fold.writes:
            self.values[fold.writes] = Value(top, error[members].max(1) + (1 + 8 * EPS) * off, size[members].max(1))

    def _winners(self, left: PackedBits, on: BoolArray | None) -> tuple[IntArray, BoolArray]:
        """The largest candidate of each group (regions, groups) and which ones are on (regions, groups, m); see
        ``bits``. left: those that are not surely smaller at any corner."""
        if on is None:
            on = np.ones(left.shape, dtype=bool)
        on = on.reshape(left.shape)
        rest = np.where(on.any(axis=2, keepdims=True), left & on, left * (np.arange(left.shape[2]) == 0))
        self.sure &= (rest.sum(2) == 1).all(1)
        return rest.argmax(2), on

    def _keep(
        self,
        where: tuple[NDArray[np.intp], ...],
        x: FloatArray,
        at: float,
        error: FloatArray,
        start: int,
        stride: int = 1,
    ) -> None:
        """Units that are near zero at vertices, with their values at the corners of frames."""
        region, unit = self._regions_at(where, len(x))
        values = x[unit, self.base[:, region]]
        self.near_parts.append((region, start + unit * stride, values - at if at else values, error[unit]))

    def _regions_at(self, where: Sequence[NDArray[np.intp]], n: int) -> tuple[IntArray, IntArray]:
        """For pairs of units and vertices: all regions that have the vertex as a corner, with the unit; each once."""
        unit, vertex = where
        many = self.many[vertex]
        within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        touching = np.zeros(len(self.regions) * n, dtype=bool)
        touching[self.around[np.repeat(self.first[vertex], many) + within] * n + np.repeat(unit, many)] = True
        region, number = np.divmod(np.flatnonzero(touching), n)
        return region, number

    def _any(self, flags: NDArray[_Flag]) -> NDArray[_Flag]:
        """Bits (vertices, bytes) that are set at a corner of each region."""
        union = np.take(flags, self.corners[0], axis=0)
        for corner in self.corners[1:]:
            union[: len(corner)] |= np.take(flags, corner, axis=0)
        return union

    def _finish(self, steps: Steps) -> None:
        """The near constraints of the regions with the signs of the patterns, and their slopes."""
        region, bit, values, error = (np.concatenate(each, -1) for each in zip(*self.near_parts, strict=True))
        n_rows = self.border + sum(self.code.sizes)
        number = np.where(bit < 0, self.border + bit, self.code.row[bit]) if len(self.code.row) else self.border + bit
        sign = np.ones(len(bit))
        inner = np.flatnonzero((bit >= 0) & ~self.code.largest[bit]) if len(self.code.row) else np.flatnonzero(bit >= 0)
        above = self.bits[region[inner], bit[inner] >> 3] >> (bit[inner] & 7).astype(np.uint8) & 1
        sign[inner] = np.where(above == 1, 1.0, -1.0)
        rows = _local(values) * sign
        bound = padded((1 + 6 * self.k) * error + 8 * EPS * size(values))
        self.near = (self.regions[region] * n_rows + number, rows.T, bound)
        value = self.values[steps.output_name]
        ends = value.numbers[:, self.base]  # (c, k + 1, r)
        rises = _local(ends.swapaxes(0, 1))[1:]  # (k, c, r)
        doubt = 2 * value.error[:, None] + 4 * EPS * np.abs(ends).max(1) + 4 * np.abs(rises).sum(0) * self.off
        inverse = self.inverse.transpose(1, 2, 0)[:, :, None]  # (k, k, 1, r)
        slopes = sum(inverse[:, j] * rises[j] for j in range(self.k))
        self.slopes = (slopes.T, ((1 + 16 * EPS) * np.abs(inverse).sum(1) * doubt).T)


def _few_rows(numbers: FloatArray) -> list[slice]:
    """Rows that fit into the cache together."""
    step = max(1, _CACHED_NUMBERS // max(1, numbers.shape[1]))
    return [slice(i, i + step) for i in range(0, max(1, len(numbers)), step)]


def _packed(flags: BoolArray) -> PackedBits:
    """Flags (bits, vertices) as bytes (vertices, bytes), the lowest bit first."""
    packed = np.zeros((-(-len(flags) // 8), flags.shape[1]), dtype=np.uint8)
    for bit in range(7, -1, -1):
        rows = flags[bit::8].view(np.uint8)
        packed += packed
        packed[: len(rows)] |= rows
    return np.ascontiguousarray(packed.T)


def _limit(error: FloatArray, size: FloatArray) -> FloatArray:
    """Absolute values above are far from zero."""
    return 16 * error + 8 * MOST_CORNER_SHIFT * (size + error)


def _local(values: FloatArray) -> FloatArray:
    """Values (k + 1, ...) at the corners of a frame as a constant and slopes."""
    rows = values - values[:1]
    rows[0] = values[0]
    return rows


def _through(fold: PiecewiseStep, value: Value, off: FloatArray, into: FloatArray | None) -> Value:
    """The values behind a fold. into: an array that may be used for them."""
    x, error, size = value
    steepest, shifts = np.abs(fold.slopes).max(0) / fold.divisor, np.abs(fold.shifts).max(0) / fold.divisor
    largest = (1 + 8 * EPS) * (steepest * size + shifts)
    error = padded((1 + 8 * EPS) * steepest * (error + 2 * off))
    if fold.is_relu:
        return Value(np.maximum(x, 0, out=into), error, largest)
    slopes, add = fold.slopes / fold.divisor, fold.shifts / fold.divisor
    out = slopes[0][:, None] * x + add[0][:, None]
    for t, at in enumerate(fold.at):
        out = np.where(x > at, slopes[t + 1][:, None] * x + add[t + 1][:, None], out)
    return Value(out, error + 8 * EPS * largest, largest)
