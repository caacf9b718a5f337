"""Coordinate frames of regions and of groups of regions.

``Frames`` are boxes around regions or groups, ``CornerFrames`` have corners of a region as their origin and axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regionscope.types import Array, BoolArray, FloatArray, IntArray

EPS = 2.0**-52  # machine epsilon of float64: twice the largest relative error of one operation


@dataclass(frozen=True)
class Frames:
    """Frames of n sets: reference (n, k); scale (n, k), powers of two. low, high: (n, k) bounds of the corners."""

    reference: FloatArray
    scale: FloatArray
    low: FloatArray
    high: FloatArray

    @staticmethod
    def around(reference: FloatArray, low: FloatArray, high: FloatArray) -> Frames:
        """The smallest frames of these boxes around the reference points."""
        reach = np.maximum(np.maximum(high - reference, reference - low), 2.0**-200)
        return Frames(reference, 2.0 ** np.ceil(np.log2(reach) + 1e-9), low, high)

    def part(self, first: int, end: int) -> Frames:
        """Some of the frames."""
        return Frames(*(each[first:end] for each in (self.reference, self.scale, self.low, self.high)))

    def together(self, group: IntArray, n: int) -> Frames:
        """One frame for each of n groups of sets."""
        order = group.argsort(kind="stable")
        starts = np.searchsorted(group[order], np.arange(n))
        low = np.minimum.reduceat(self.low[order], starts, axis=0)
        high = np.maximum.reduceat(self.high[order], starts, axis=0)
        return Frames.around((low + high) / 2, low, high)

    def change(self, of: Array, new: Frames, to: Array) -> tuple[FloatArray, FloatArray, FloatArray]:
        """References and scales of the frames ``new[to]`` as seen from the frames ``of`` here, and by how much the
        error of a function grows; see ``unit_bounds``."""
        shift: FloatArray = (new.reference[to] - self.reference[of]) / self.scale[of]
        ratio: FloatArray = new.scale[to] / self.scale[of]
        return shift, ratio, (1 + 8 * EPS) * np.maximum(1, np.abs(shift) / 3 + ratio).max(1)

    def local(self, points: FloatArray, owner: IntArray) -> Local:
        """The same frames for the proof of corners."""
        axes = self.scale[:, :, None] * np.eye(self.scale.shape[1])
        start = (points - self.reference[owner]) / self.scale[owner]
        return Local(start, 4 * EPS * (1 + np.abs(start).max(1)), axes, axes / self.scale[:, :, None] ** 2)


@dataclass(frozen=True)
class Local:
    """Frames q -> origin + sum q_i axes_i of r regions with n corners.

    start: (n, k) the stored corners. doubt: (n,) the error of that. axes: (r, k, k). inverse: (r, k, k) takes slopes by
    q to slopes by slice coordinate.
    """

    start: FloatArray
    doubt: FloatArray
    axes: FloatArray
    inverse: FloatArray


@dataclass(frozen=True)
class CornerFrames(Local):
    """base: (k + 1, r) the corners of a frame: its origin and the ends of its axes; on a plane in positive order, and
    all corners of the region lie in [-2, 2]^2. off: (r,) relative error of the inverse. sound: (r,) whether it is a
    frame."""

    base: IntArray
    off: FloatArray
    sound: BoolArray


def corner_frames(points: FloatArray, offsets: IntArray, owner: IntArray) -> CornerFrames:
    """Frames of regions: the first corner, the one farthest from it, the one farthest from their line, and in space the
    one farthest from their plane.

    points: (n, k) corners of the regions one after another.
    """
    first, k = offsets[:-1], points.shape[1]
    gap = points - points[first][owner]
    base = [first, _largest(sum(column * column for column in gap.T), offsets, owner)]
    if k == 2:
        axis = gap[base[1]][owner]
        cross = axis[:, 0] * gap[:, 1] - axis[:, 1] * gap[:, 0]
        third = _largest(np.abs(cross), offsets, owner)
        turned = cross[third] < 0
        base = [first, np.where(turned, third, base[1]), np.where(turned, base[1], third)]
    if k == 3:
        normal = np.cross(gap[base[1]][owner], gap)
        base.append(_largest((normal * normal).sum(1), offsets, owner))
        base.append(_largest(np.abs((gap * normal[base[2]][owner]).sum(1)), offsets, owner))
    axes = np.stack([gap[end] for end in base[1:]], 1)  # (r, k, k)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if k == 1:
            inverse, off = 1 / axes, np.full(len(axes), 4 * EPS)
            sound = (axes[:, 0, 0] > 2.0**-400) & (np.diff(offsets) == 2)
        elif k == 3:
            inverse = inverse_of(axes)
            off = 2 * (np.abs(axes @ inverse - np.eye(3)) + 8 * EPS * (np.abs(axes) @ np.abs(inverse))).sum((1, 2))
            sound = off < 0.25
        else:
            (a, b), (c, d) = axes.transpose(1, 2, 0)
            determinant = a * d - b * c
            inverse = (np.array([[d, -b], [-c, a]]) / determinant).transpose(2, 0, 1)
            off = 16 * EPS * (np.abs(a * d) + np.abs(b * c)) / determinant
            sound = (determinant > 2.0**-800) & (off < 0.25)
        start = product(inverse.swapaxes(1, 2), owner, gap.T)
        doubt = product(np.abs(inverse).swapaxes(1, 2), owner, np.abs(gap.T)).max(0)
        return CornerFrames(start.T, (4 * EPS + 2 * off[owner]) * doubt, axes, inverse, np.array(base), off, sound)


def product(matrices: FloatArray, of: IntArray, vectors: FloatArray) -> FloatArray:
    """matrices[of] @ vectors: matrices (r, k, k), vectors (k, n)."""
    rows = np.take(matrices.transpose(1, 2, 0), of, axis=2)  # (k, k, n)
    found: FloatArray = sum(rows[:, j] * vectors[j] for j in range(len(vectors)))
    return found


def inverse_of(matrices: FloatArray) -> FloatArray:
    """Inverses of matrices (n, 3, 3), up to rounding; not finite where there is none."""
    a, b, c = matrices.transpose(1, 0, 2)
    columns = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], 2)
    inverse: FloatArray = columns / (a * columns[:, :, 0]).sum(1)[:, None, None]
    return inverse


def _largest(values: FloatArray, offsets: IntArray, owner: IntArray) -> IntArray:
    """The first corner of each region with its largest value."""
    hits = np.flatnonzero(values == np.maximum.reduceat(values, offsets[:-1])[owner])[::-1]
    found = np.zeros(len(offsets) - 1, dtype=np.int64)
    found[owner[hits]] = hits
    return found


def frames_of(vertices: FloatArray, corners: IntArray, offsets: IntArray) -> Frames:
    """The frame of each region around the mean of its corners."""
    points = vertices[corners]
    reference = np.add.reduceat(points, offsets[:-1], axis=0) / np.diff(offsets)[:, None]
    low, high = (extreme.reduceat(points, offsets[:-1], axis=0) for extreme in (np.minimum, np.maximum))
    return Frames.around(reference, low, high)
