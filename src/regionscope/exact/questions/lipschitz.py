"""The exact Lipschitz constant of a network on a slice.

The slice is convex, so the constant is the largest norm of the Jacobian over the regions. Distances between inputs are
measured in input space: the norm of a displacement c of coordinates is |c @ basis|. For norm 2 the slice gets an
orthonormal basis, in which the operator norm of a Jacobian is its largest singular value. For the norms 1 and inf the
unit ball {c : |c @ basis| <= 1} is a polytope, and a Jacobian stretches one of its vertices most.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.exact.affine_maps import AffineMaps
from regionscope.geometry import Slice
from regionscope.tolerance import NORM_ERROR, TINY
from regionscope.types import Reading

_DIRECTIONS = 1 << 20
_NUMBERS = 1 << 22  # worked on at a time

Derivatives = Callable[[Tensor], Tensor]
"""Slopes (n, k, c) of the listed regions (n,) from the network itself, however thin they are."""


@dataclass(frozen=True, eq=False)
class Lipschitz:
    """The Lipschitz constant of the network restricted to a slice, a lower bound for that of the network itself.

    value: the smallest L with |f(x) - f(y)| <= L |x - y| for all inputs x, y of the slice.
    norm: norm of inputs and outputs, 1, 2 or inf.
    region: index of a region on which it is attained. point: an input (*input_shape,) inside that region; coords: the
        same point (k,) in slice coordinates.
    by_region: (r,) the constant of each region. For regions too thin for floating-point numbers it is an approximation
        from the values at the corners; such a region is computed again before it can be ``region``.
    """

    value: float
    norm: float
    region: int
    point: Tensor
    coords: Tensor
    by_region: Tensor

    def __repr__(self) -> str:
        place = f"region={self.region}, regions={len(self.by_region)}"
        return f"Lipschitz(value={self.value:.6g}, norm={self.norm:g}, {place})"

    def readings(self) -> tuple[Reading, ...]:
        """The constant."""
        return (("", self.value, None),)


def lipschitz(
    slice: Slice,
    maps: AffineMaps,
    interior: Tensor,
    *,
    norm: float,
    weights: Tensor | None,
    rounding: float,
    derivatives: Derivatives,
) -> Lipschitz:
    """The largest operator norm over the regions; weights: (c,) of a linear function of the outputs, or None for all.

    rounding: absolute error of an output. Slopes come from values at corners; where their rounding may decide which
    region is the steepest, they are computed again by ``derivatives``. Cost: in proportion to the number of regions.
    """
    if norm not in (1, 2, math.inf):
        raise InputError(f"Expected norm 1, 2 or inf, got {norm!r}. Pass 1, 2 or math.inf.")
    slope = _chosen(maps.slope, weights)
    measure = OperatorNorms.of(slice, norm)
    norms = measure(slope)
    terms = slope.shape[2] if weights is None else float(weights.abs().sum())
    unsure = maps.noise * (1 + rounding / max(maps.error, TINY)) * terms * measure.largest
    best = float((norms - unsure).max())
    again = ((norms + unsure >= best) & (unsure > NORM_ERROR * best)).nonzero()[:, 0]
    if len(again):
        norms[again] = measure(_chosen(derivatives(again), weights))
    region = int(norms.argmax())
    coords = interior[region]
    return Lipschitz(float(norms[region]), float(norm), region, slice.embed(coords[None])[0], coords, norms)


def _chosen(slope: Tensor, weights: Tensor | None) -> Tensor:
    return slope if weights is None else slope @ weights.to(slope)[:, None]


@dataclass(frozen=True)
class OperatorNorms:
    """Operator norms (r,) of slopes (r, k, c) in slice coordinates, with the norm of input space.

    directions: (m, k) that span the unit ball: an orthonormal basis for norm 2, else its vertices.

    largest: how much a slope may be stretched at most, for each unit of error in its entries.
    """

    directions: Tensor
    norm: float

    @staticmethod
    def of(slice: Slice, norm: float) -> OperatorNorms:
        basis = slice.basis.flatten(1).double().cpu()
        frame, upper = torch.linalg.qr(basis[:, basis.abs().amax(0) > 0].T)
        inverse = torch.linalg.inv(upper).T  # rows @ basis are orthonormal, which a slice need not be
        if norm != 2:
            inverse = _ball(frame.T, norm) @ inverse
        return OperatorNorms(inverse.contiguous().to(slice.basis.device), norm)

    @property
    def largest(self) -> float:
        return float(self.directions.abs().sum(1).max()) * math.sqrt(len(self.directions) if self.norm == 2 else 1)

    def __call__(self, slope: Tensor) -> Tensor:
        directions = self.directions.to(slope.device)
        step = max(1, _NUMBERS // max(1, len(directions) * slope.shape[2]))
        return torch.cat([self._some(directions @ part) for part in slope.split(step)])

    def _some(self, moved: Tensor) -> Tensor:
        """Norms (n,) of the images (n, m, c) of the directions."""
        if self.norm == 2:
            gram = moved @ moved.mT if moved.shape[1] <= moved.shape[2] else moved.mT @ moved
            square: Tensor = gram[:, 0, 0] if gram.shape[1] == 1 else torch.linalg.eigvalsh(gram)[:, -1]
            return square.clamp(min=0).sqrt()
        lengths: Tensor = torch.linalg.vector_norm(moved, ord=self.norm, dim=2)
        return lengths.amax(1)


def _ball(basis: Tensor, norm: float) -> Tensor:
    """Vertices (m, k) of {c : |c @ basis| <= 1} up to sign, for an orthonormal basis (k, d)."""
    k = len(basis)
    if k == 1:
        reach: Tensor = torch.linalg.vector_norm(basis, ord=norm)
        return (1 / reach)[None, None]
    columns = basis.T.numpy()
    if norm == math.inf:
        sides = np.concatenate([columns, -columns])
        halfspaces = np.concatenate([sides, np.full((len(sides), 1), -1.0)], 1)
        return torch.from_numpy(scipy.spatial.HalfspaceIntersection(halfspaces, np.zeros(k)).intersections)
    if math.comb(len(columns), k - 1) > _DIRECTIONS:
        raise InputError(
            f"Expected norm 2 or inf on a slice of dimension {k} with {len(columns)} input entries, got norm 1, which "
            f"needs {math.comb(len(columns), k - 1):,} directions. Choose norm=2 or norm=inf."
        )
    rows = np.array(list(itertools.combinations(range(len(columns)), k - 1)))
    rays = _normals(torch.from_numpy(columns[rows]))
    length: Tensor = torch.linalg.vector_norm(rays @ basis, ord=1, dim=1)
    return rays[length > 0] / length[length > 0, None]


def _normals(rows: Tensor) -> Tensor:
    """A vector (n, k) orthogonal to k - 1 rows (n, k - 1, k): the signed minors; zero where they are dependent."""
    k = rows.shape[2]
    scaled = rows / rows.norm(dim=2, keepdim=True)
    others = [[j for j in range(k) if j != i] for i in range(k)]
    return torch.stack([(-1) ** i * torch.linalg.det(scaled[:, :, other]) for i, other in enumerate(others)], 1)
