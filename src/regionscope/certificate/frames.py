"""Coordinate frames of regions and of groups of regions, in which their corners lie in [-1, 1]^k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regionscope.certificate.steps import Numbers

__all__ = ["EPS", "Frames", "frames_of"]

EPS = 2.0**-52  # machine epsilon of float64: twice the largest relative error of one operation


@dataclass(frozen=True)
class Frames:
    """Frames of n sets: reference (n, k); scale (n, k), powers of two. low, high: (n, k) bounds of the corners."""

    reference: Numbers
    scale: Numbers
    low: Numbers
    high: Numbers

    @staticmethod
    def around(reference: Numbers, low: Numbers, high: Numbers) -> Frames:
        """The smallest frames of these boxes around the reference points."""
        reach = np.maximum(np.maximum(high - reference, reference - low), 2.0**-200)
        return Frames(reference, 2.0 ** np.ceil(np.log2(reach) + 1e-9), low, high)

    def part(self, first: int, end: int) -> Frames:
        """Some of the frames."""
        return Frames(*(each[first:end] for each in (self.reference, self.scale, self.low, self.high)))

    def together(self, group: NDArray[np.int64], n: int) -> Frames:
        """One frame for each of n groups of sets."""
        order = group.argsort(kind="stable")
        starts = np.searchsorted(group[order], np.arange(n))
        low = np.minimum.reduceat(self.low[order], starts, axis=0)
        high = np.maximum.reduceat(self.high[order], starts, axis=0)
        return Frames.around((low + high) / 2, low, high)

    def change(self, of: NDArray[Any], new: Frames, to: NDArray[Any]) -> tuple[Numbers, Numbers, Numbers]:
        """References and scales of the frames ``new[to]`` as seen from the frames ``of`` here, and by how much the
        error of a function grows; see ``filter``."""
        shift: Numbers = (new.reference[to] - self.reference[of]) / self.scale[of]
        ratio: Numbers = new.scale[to] / self.scale[of]
        return shift, ratio, (1 + 8 * EPS) * np.maximum(1, np.abs(shift) / 3 + ratio).max(1)


def frames_of(vertices: Numbers, corners: NDArray[np.int64], offsets: NDArray[np.int64]) -> Frames:
    """The frame of each region around the mean of its corners."""
    points = vertices[corners]
    reference = np.add.reduceat(points, offsets[:-1], axis=0) / np.diff(offsets)[:, None]
    low, high = (extreme.reduceat(points, offsets[:-1], axis=0) for extreme in (np.minimum, np.maximum))
    return Frames.around(reference, low, high)
