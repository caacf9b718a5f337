"""The cell of one input as an intersection of half-spaces, and the questions that linear programs answer about it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linprog, nnls
from torch import Tensor

from regionscope.errors import InputError, LimitReached
from regionscope.points.cells import Cells, FoldSide
from regionscope.points.distances import Blocks, Directions, distances, gradients
from regionscope.points.tangents import Tangents
from regionscope.tolerance import RANK_RATIO
from regionscope.types import BoolArray, FloatArray, IntArray

_GRADIENTS = 1024  # backward passes at a time
_STEPS = 20  # steps of a random walk for each dimension
_FIRST_STEPS = 100
_REACH = 1.0  # of the balls that stand for the inside of an unbounded cell, times the size of its corner


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """A cell {y : normals @ y <= offsets}, in float64, with inputs flattened.

    normals: (m, d). offsets: (m,). fold, unit, candidate: (m,) the fold on the boundary of each, as in ``NearestFold``.
    """

    normals: FloatArray
    offsets: FloatArray
    fold: IntArray
    unit: IntArray
    candidate: IntArray

    def __repr__(self) -> str:
        m, d = self.normals.shape
        return f"HalfSpaces(n={m}, inputs={d})"

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, index: IntArray) -> HalfSpaces:
        """Some of them."""
        return HalfSpaces(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def contains(self, points: Tensor | FloatArray, *, margin: float = 0.0) -> BoolArray:
        """(n,) bool: whether points (n, ...) are in all of them. margin: distance by which a point may lie outside."""
        flat = np.asarray(points, dtype=np.float64).reshape(len(points), self.normals.shape[1])
        inside = flat @ self.normals.T <= self.offsets + margin * self.sizes
        return np.asarray(inside.all(1))

    @property
    def sizes(self) -> FloatArray:
        """(m,) length of each normal."""
        return np.linalg.norm(self.normals, axis=1)  # type: ignore[no-any-return]


def halfspaces_of(
    tangents: Tangents, cells: Cells, point: Tensor, *, within: float | None, norm: float, memory: int
) -> HalfSpaces:
    """The half-spaces of the cell of one point (1, *input_shape). within: the farthest fold to return."""
    kept = [side.in_reach[0] for side in cells.sides[:-1]]
    if within is not None:
        directions = Directions.of(tangents, norm, memory)
        by_fold = distances(cells, directions, norm, Blocks.of(tangents, directions.n, memory))
        kept = [mask & (distance[0] <= within) for mask, distance in zip(kept, by_fold, strict=False)]
    terms = [mask.nonzero()[:, 0] for mask in kept]
    d, m = math.prod(tangents.program.input_shape), sum(map(len, terms))
    if 8 * d * m > memory:
        raise LimitReached(
            f"Expected half-spaces that fit in {memory / 2**30:.3g} GiB, got {m:,} of {d:,} inputs each. Pass within= "
            "for those up to a distance, or raise memory=."
        )
    if not m:
        none = np.empty(0, dtype=np.int64)
        return HalfSpaces(np.empty((0, d)), np.empty(0), none, none, none)
    n_rows = max(1, min(_GRADIENTS, memory // 4 // tangents.program.row_bytes))
    fold_index = torch.cat([torch.full_like(mine, k) for k, mine in enumerate(terms)])
    term = torch.cat(terms)
    rows = [
        gradients(tangents, _repeated(cells, len(mine)), mine, those)
        for mine, those in zip(fold_index.split(n_rows), term.split(n_rows), strict=True)
    ]
    groups = [1 if fold.groups is None else fold.groups.shape[1] for fold in tangents.folds[:-1]]
    width = torch.tensor(groups, device=fold_index.device)[fold_index]
    is_maximum = torch.tensor([fold.groups is not None for fold in tangents.folds], device=fold_index.device)[
        fold_index
    ]
    signs, gaps = torch.cat([_sign_and_gap(side, mine) for side, mine in zip(cells.sides, terms, strict=False)]).T
    normals = -torch.cat(rows).flatten(1) * torch.where(is_maximum, 1.0, signs)[:, None]
    offsets = gaps + normals @ point.flatten()
    candidate = torch.where(is_maximum, term % width, -1)
    return HalfSpaces(*(x.cpu().numpy() for x in (normals, offsets, fold_index, term // width, candidate)))


def _sign_and_gap(side: FoldSide, terms: Tensor) -> Tensor:
    """(n, 2): on which side of its threshold each value is, and how far from it."""
    gap = torch.where(side.on_fold[0, terms], 0.0, side.gap[0, terms])
    if side.pieces.shape[1] != side.gap.shape[1]:
        return torch.stack([torch.ones_like(gap), gap], 1)
    return torch.stack([2.0 * side.pieces[0, terms] - 1, gap], 1)


def _repeated(cells: Cells, n: int) -> Cells:
    """The cell of a single point n times, without copies."""
    return cells.map(lambda x: x.expand(n, *x.shape[1:]))


def centre(cell: HalfSpaces, *, norm: float = 2, largest: float | None = None) -> tuple[FloatArray, float]:
    """The centre (d,) and the radius of the largest ball in a cell, in this norm; the radius may be infinite.

    largest: radius at which to stop.
    """
    m, d = cell.normals.shape
    if m == 0:
        return np.zeros(d), math.inf if largest is None else largest
    dual = np.linalg.norm(cell.normals, {1.0: np.inf, 2.0: 2, math.inf: 1}[norm], axis=1)
    scale = 1 / cell.sizes
    matrix = np.column_stack([cell.normals * scale[:, None], dual * scale])
    bounds = [(None, None)] * d + [(0, largest)]
    solved = linprog([0.0] * d + [-1.0], A_ub=matrix, b_ub=cell.offsets * scale, bounds=bounds, method="highs")
    if solved.status == 3 or (solved.status == 4 and largest is None):
        return np.full(d, np.nan), math.inf
    if solved.status != 0:
        raise InputError(
            f"Expected a cell that has an inside, got one in which HiGHS finds no ball ({solved.message}). It is "
            "thinner than rounding; move the input a little."
        )
    return solved.x[:d], float(solved.x[d])


def facets_of(cell: HalfSpaces) -> HalfSpaces:
    """The half-spaces that cannot be left out, by Clarkson's algorithm.

    A half-space is redundant if no point of the others violates it, and the others may be those that are known to be
    facets: where a point violates it, the segment to that point from the inside leaves the cell through a facet.
    Cost: a linear program for each half-space, of as many rows as the cell has facets.
    """
    if len(cell) == 0:
        return cell
    inside, radius = centre(cell, largest=_radius_limit(cell))
    scale = 1 / cell.sizes
    normals, offsets = cell.normals * scale[:, None], cell.offsets * scale
    left = list(range(len(cell)))
    known: list[int] = []
    slack = offsets - normals @ inside
    rounding = RANK_RATIO * (1 + np.abs(offsets))
    while left:
        j = left[-1]
        if j in known:
            left.pop()
            continue
        rows, limits = normals[[*known, j]], offsets[[*known, j]].copy()
        limits[-1] += radius
        solved = linprog(-normals[j], A_ub=rows, b_ub=limits, bounds=(None, None), method="highs")
        if solved.status != 0:
            raise InputError(
                f"Expected linear programs that HiGHS solves, got: {solved.message}. Move the input a little."
            )
        if normals[j] @ solved.x <= offsets[j] + rounding[j]:
            left.pop()
            continue
        speed = normals @ (solved.x - inside)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(speed > 0, slack / speed, np.inf)
        first = int(reach.argmin())
        if first in known:  # up to rounding, the ray leaves through a corner
            first = j
        known.append(first)
    return cell.take(np.array(sorted(known)))


def _radius_limit(cell: HalfSpaces) -> float:
    """A radius of about the size of the offsets, for balls in unbounded cells."""
    return float(_REACH * (1 + np.abs(cell.offsets / cell.sizes).max())) if len(cell) else 1.0


def inside_of(cell: HalfSpaces) -> FloatArray:
    """(d,) a point well inside the cell."""
    return centre(cell, largest=_radius_limit(cell))[0]


def inside_facet(cell: HalfSpaces, j: int) -> FloatArray:
    """(d,) the centre of a large ball in facet ``j``."""
    scale = 1 / cell.sizes
    normals, offsets = cell.normals * scale[:, None], cell.offsets * scale
    wall = normals[j]
    others = np.delete(np.arange(len(cell)), j)
    across = np.linalg.norm(normals[others] - np.outer(normals[others] @ wall, wall), axis=1)
    d = len(wall)
    bounds = [(None, None)] * d + [(0, _radius_limit(cell))]
    solved = linprog(
        [0.0] * d + [-1.0], A_ub=np.column_stack([normals[others], across]), b_ub=offsets[others],
        A_eq=[[*wall, 0.0]], b_eq=[offsets[j]], bounds=bounds, method="highs",
    )  # fmt: skip
    if solved.status != 0:
        raise InputError(f"Expected a facet with an inside, got: {solved.message}. Move the input a little.")
    return solved.x[:d]  # type: ignore[no-any-return]


def closest_point(cell: HalfSpaces, x: FloatArray) -> FloatArray:
    """(d,) the point of the cell that is closest to ``x`` in the 2-norm, by non-negative least squares.

    The least-distance problem of Lawson and Hanson, Solving Least Squares Problems, chapter 23.
    """
    scale = 1 / cell.sizes
    normals, slack = cell.normals * scale[:, None], cell.offsets * scale - (cell.normals * scale[:, None]) @ x
    size = float(-slack.min()) if len(slack) else 0.0
    if size <= 0:
        return x
    matrix = np.vstack([-normals.T, -slack[None] / size])
    target = np.zeros(len(x) + 1)
    target[-1] = 1.0
    weights, _ = nnls(matrix, target)
    residual = matrix @ weights - target
    return x - size * residual[:-1] / residual[-1]  # type: ignore[no-any-return]


def sample_cell(cell: HalfSpaces, n: int, low: FloatArray, high: FloatArray, generator: torch.Generator) -> FloatArray:
    """(n, d) points of the cell in the box, each from a random walk of its own (hit-and-run)."""
    d = len(low)
    eye, none = np.eye(d), np.full(2 * d, -1)
    box = HalfSpaces(np.vstack([eye, -eye]), np.concatenate([high, -low]), none, none, none)
    both = HalfSpaces(
        *(np.concatenate([getattr(cell, name), getattr(box, name)]) for name in cell.__dataclass_fields__)
    )
    beside = InputError("Expected a box that meets the region, got one beside it. Choose a larger box.")
    try:
        start, radius = centre(both)
    except InputError as error:
        raise beside from error
    if not radius > 0:
        raise beside
    points = np.repeat(start[None], n, 0)
    for _ in range(_FIRST_STEPS + _STEPS * d):
        along = torch.randn(n, d, generator=generator, dtype=torch.float64, device="cpu").numpy()
        speed, slack = along @ both.normals.T, np.maximum(both.offsets - points @ both.normals.T, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            times = slack / speed
        ahead = np.where(speed > 0, times, np.inf).min(1)
        behind = np.where(speed < 0, times, -np.inf).max(1)
        share = torch.rand(n, generator=generator, dtype=torch.float64, device="cpu").numpy()
        points += (behind + share * (ahead - behind))[:, None] * along
    return points
