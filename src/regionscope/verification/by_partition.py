"""The largest margin from the partition into all linear regions: for any fold, and the slow twin of the search."""

from __future__ import annotations

import math
import time

import numpy as np
import scipy.optimize
import torch

from regionscope.errors import LimitReached
from regionscope.exact import Partition
from regionscope.exact.linear import exact_regions
from regionscope.geometry import Slice
from regionscope.network import Program
from regionscope.tolerance import UNIT
from regionscope.types import FloatArray
from regionscope.verification.search import Found


def margin_by_partition(
    program: Program, slice: Slice, factors: FloatArray, bounds: FloatArray, alternatives: list[list[int]],
    *, deadline: float = math.inf, max_regions: int | None = None,
) -> Found:  # fmt: skip
    """Build all regions of a slice; in each, slacks are affine, so the best smallest slack is a linear program.

    At the deadline, or with more regions than ``max_regions``, what is known by then is returned. The deadline is
    looked at after each nonlinearity of a part of the slice, and between regions.
    """
    try:
        result = exact_regions(
            program, [slice], max_regions=max_regions, on_limit="raise", memory=None, tolerance=None, progress=None,
            deadline=deadline,
        )  # fmt: skip
    except LimitReached:
        with torch.no_grad():
            outputs = program(slice.embed(slice.corners))
        margins = _margins(bounds[:, None] - factors @ outputs.double().numpy().T, alternatives)
        best = int(margins.argmax())
        return Found(float(margins[best]), slice.corners[best].numpy(), math.inf, 0.0, 1, False, estimated=True)
    return _best_of(result.partitions()[0], factors, bounds, alternatives, deadline)


def _best_of(
    part: Partition, factors: FloatArray, bounds: FloatArray, alternatives: list[list[int]], deadline: float
) -> Found:
    slacks = bounds[:, None] - factors @ part.outputs.double().numpy().T
    corners = [part.corners[a:b].numpy() for a, b in zip(part.offsets[:-1], part.offsets[1:], strict=True)]
    at_vertices = _margins(slacks, alternatives)
    best = int(at_vertices.argmax())
    margin, point, left = float(at_vertices[best]), part.vertices[best].numpy(), -math.inf
    upper = [
        (slacks[np.ix_(np.array(rows), own)].max(1).min(), i, rows)
        for i, own in enumerate(corners)
        for rows in alternatives
    ]
    for bound, i, rows in sorted(upper, key=lambda each: -each[0]):
        if bound <= margin:
            break
        if time.monotonic() > deadline:
            left = float(bound)
            break
        value, weights = _best_mixture(slacks[np.ix_(np.array(rows), corners[i])])
        if value > margin:
            margin, point = value, weights @ part.vertices[corners[i]].numpy()
    size = float(np.abs(factors).sum(1).max()) * float(part.stats.rounding) + 8 * UNIT * float(np.abs(bounds).max())
    return Found(margin, point, max(margin, left), size, part.n_activation_regions, left == -math.inf, estimated=True)


def _margins(slacks: FloatArray, alternatives: list[list[int]]) -> FloatArray:
    """The margin (p,) at points with these slacks (constraints, p)."""
    found: FloatArray = np.max([slacks[rows].min(0) for rows in alternatives], axis=0)
    return found


def _best_mixture(slacks: FloatArray) -> tuple[float, FloatArray]:
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
