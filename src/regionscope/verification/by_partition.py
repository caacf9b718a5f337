"""The largest margin from the partition into all linear regions: for any fold, and the slow twin of the search."""

from __future__ import annotations

import numpy as np
import scipy.optimize

from regionscope.exact import linear_regions
from regionscope.exact.bounding.merge import Array
from regionscope.geometry import Slice
from regionscope.network import Program
from regionscope.tolerance import UNIT
from regionscope.verification.search import Found

__all__ = ["margin_by_partition"]


def margin_by_partition(
    program: Program, where: Slice, factors: Array, bounds: Array, alternatives: list[list[int]]
) -> Found:
    """Build all regions of a slice; in each, slacks are affine, so the best smallest slack is a linear program."""
    part = linear_regions(program, where)
    slacks = bounds[:, None] - factors @ part.outputs.double().numpy().T
    corners = [part.corners[a:b].numpy() for a, b in zip(part.offsets[:-1], part.offsets[1:], strict=True)]
    at_vertices = np.max([slacks[rows].min(0) for rows in alternatives], axis=0)
    best = int(at_vertices.argmax())
    margin, point = float(at_vertices[best]), part.vertices[best].numpy()
    upper = [
        (slacks[np.ix_(np.array(rows), own)].max(1).min(), i, rows)
        for i, own in enumerate(corners)
        for rows in alternatives
    ]
    for bound, i, rows in sorted(upper, key=lambda each: -each[0]):
        if bound <= margin:
            break
        value, weights = _best_mixture(slacks[np.ix_(np.array(rows), corners[i])])
        if value > margin:
            margin, point = value, weights @ part.vertices[corners[i]].numpy()
    size = float(np.abs(factors).sum(1).max()) * float(part.stats.rounding) + 8 * UNIT * float(np.abs(bounds).max())
    return Found(margin, point, margin, size, part.n_activation_regions, True)


def _best_mixture(slacks: Array) -> tuple[float, Array]:
    """The convex combination of corners (columns) whose smallest slack (rows) is largest."""
    rows, m = slacks.shape
    found = scipy.optimize.linprog(
        np.concatenate([np.zeros(m), [-1.0]]),
        A_ub=np.concatenate([-slacks, np.ones((rows, 1))], axis=1), b_ub=np.zeros(rows),
        A_eq=np.concatenate([np.ones((1, m)), np.zeros((1, 1))], axis=1), b_eq=np.ones(1),
        bounds=[(0, 1)] * m + [(None, None)],
    )  # fmt: skip
    weights = np.clip(found.x[:m], 0, None)
    weights /= weights.sum()
    return float((slacks @ weights).min()), weights
