"""How far a network is from a first-order stationary (KKT) point of the maximum-margin problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from regionscope.checks import check_instance, read_number
from regionscope.types import FloatArray, Reading, repr_of
from regionscope_lab.shallow.network import Network
from regionscope_lab.shallow.teachers import Sample

_TIE = 1e5  # weight of the rows that say m + s = lambda; what they leave is removed by clipping


@dataclass(frozen=True)
class KKT:
    """Residuals of min |theta|^2 / 2 subject to y_i N(x_i) >= 1, at theta scaled to the margin 1.

    stationarity: |theta - sum_i lambda_i y_i dN(x_i)| / |theta|. slackness: sum_i lambda_i (q_i - 1) / |theta|^2.
    residual: the root of the sum of their squares, for the multipliers that make it smallest. multipliers: (n,)
    lambda_i, scaled so that they add up to one at a KKT point. norm_squared: |theta|^2 at margin 1, that is 1 /
    (normalised margin).
    """

    stationarity: float
    slackness: float
    residual: float
    multipliers: Tensor
    norm_squared: float

    def __repr__(self) -> str:
        return repr_of(self, n=len(self.multipliers))

    def readings(self) -> tuple[Reading, ...]:
        """The residual and its two parts."""
        return ("", self.residual, None), ("stationarity", self.stationarity, None), ("slackness", self.slackness, None)


def kkt_residual(network: Network, sample: Sample, *, fold: float = 1e-6) -> KKT | None:
    """The KKT residual (Safran et al., equations 5 and 6), or None while a point is misclassified.

    A unit whose fold is at a data point (|w x_i + b| <= fold |(w, b)| |(x_i, 1)|) has a free subgradient there: its
    pull m_ij may be anything in [0, lambda_i]. With u = theta / |theta| and the normalised margin gamma, the convex
    problem

        minimise |u - sum_i lambda_i y_i dN_u(x_i)|^2 + (sum_i lambda_i (q_i(u) - gamma))^2
        over lambda_i >= 0 and 0 <= m_ij <= lambda_i

    is solved by nonnegative least squares, with a slack for each upper bound. The multipliers are then clipped into
    the feasible set and the residual is evaluated there, so the number is attained. Cost: a QR of (3k, n + folds at
    points).
    """
    theta = check_instance("network", network, Network, advice="Write Network(w, b, v)").theta
    check_instance("sample", sample, Sample, advice="Draw one with sample(teacher, n)")
    read_number("fold", fold)
    u = theta / theta.norm()
    z = sample.x[:, None] * u[0] + u[1]
    q = sample.y * (torch.relu(z) @ u[2])
    gamma = float(q.min())
    if not gamma > 0:  # NaN if all parameters are 0
        return None
    reach = fold * torch.hypot(u[0], u[1]) * torch.hypot(sample.x, torch.ones_like(sample.x))[:, None]
    tied = (z.abs() <= reach).nonzero()
    active = (z > reach).to(torch.float64)
    columns = _gradients(u, z, active, sample) / (2 * gamma)
    extra = _fold_columns(u, tied, sample) / (2 * gamma)
    slack = ((q - gamma) / (2 * gamma)).numpy()
    weights, free = _solve(u.flatten().numpy(), columns, extra, slack, tied[:, 0].numpy())
    rest = u.flatten().numpy() - columns @ weights - extra @ free
    stationarity, slackness = float(np.linalg.norm(rest)), float(slack @ weights)
    return KKT(stationarity, slackness, float(np.hypot(stationarity, slackness)), torch.from_numpy(weights), 1 / gamma)


def _gradients(u: Tensor, z: Tensor, active: Tensor, sample: Sample) -> FloatArray:
    """y_i dN(x_i) / dtheta as columns (3k, n), without the points on folds."""
    pull = active * u[2] * sample.y[:, None]
    parts = [pull * sample.x[:, None], pull, torch.relu(z) * sample.y[:, None]]
    return torch.stack(parts, 1).flatten(1).T.numpy()


def _fold_columns(u: Tensor, tied: Tensor, sample: Sample) -> FloatArray:
    """y_i v_j (x_i, 1) in the place of (w_j, b_j), one column for each fold j on a point i: (3k, m)."""
    point, unit = tied[:, 0], tied[:, 1]
    k = u.shape[1]
    columns = torch.zeros((3 * k, len(tied)), dtype=torch.float64, device="cpu")
    index = torch.arange(len(tied), device="cpu")
    pull = u[2, unit] * sample.y[point]
    columns[unit, index] = pull * sample.x[point]
    columns[k + unit, index] = pull
    return columns.numpy()


def _solve(
    target: FloatArray, columns: FloatArray, extra: FloatArray, slack: FloatArray, point: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """lambda (n,) and the pulls at folds (m,), feasible."""
    n, m = columns.shape[1], extra.shape[1]
    top = np.hstack([columns, extra, np.zeros((len(target), m))])
    complement = np.hstack([slack, np.zeros(2 * m)])[None]
    ties = np.zeros((m, n + 2 * m))
    rows = np.arange(m)
    ties[rows, point.astype(np.int64)] = -_TIE
    ties[rows, n + rows] = _TIE
    ties[rows, n + m + rows] = _TIE
    system = np.vstack([top, complement, ties])
    right = np.concatenate([target, np.zeros(1 + m)])
    # A triangular system of the same least-squares problem: its size does not grow with the width.
    small = n + 2 * m
    factor: FloatArray = np.asarray(np.linalg.qr(np.hstack([system, right[:, None]]), mode="r"))
    solution, _ = nnls(factor[:, :small], factor[:, small], maxiter=30 * (small + 10))
    weights = solution[:n]
    return weights, np.clip(solution[n : n + m], 0.0, weights[point.astype(np.int64)])
