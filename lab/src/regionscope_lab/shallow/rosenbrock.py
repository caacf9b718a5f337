"""One step of a linearly implicit Runge-Kutta pair for dtheta/dtau = grad F, for many flows at once.

Why implicit: the Jacobian of grad F is B - G^T D G, with G the n gradients of q, B small and block-diagonal, and D =
diag(d) - r r^T. The second part pulls the outputs of the support points together at a rate that grows like |theta|^2
(like the logarithm of the time), while the direction of theta moves at a rate that does not grow. An explicit pair
needs about 0.1 / gamma^2 steps for one unit of log-loss (gamma: the normalised margin, 1e-3 and less on 100 points),
an L-stable one follows the slow motion. Why cheap: W = kappa - B + G^T D G is a block-diagonal matrix of 3 x 3 blocks
plus one of rank n, so a solve is O(k) plus an (n, n) system (Woodbury).

The pair is RODAS3: order 3 with an embedded order 2, four stages, stiffly accurate, L-stable (A. Sandu et al.,
"Benchmarking stiff ODE solvers for atmospheric chemistry problems II: Rosenbrock solvers", Atmospheric Environment 31,
1997). ``lab/tests/shallow`` measures its order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope_lab.shallow import kernel
from regionscope_lab.shallow.losses import Loss, Pull, pull
from regionscope_lab.shallow.modes import FlowRows, Modes


@dataclass(frozen=True)
class Field(FlowRows):
    """The flow at one state: q (B, n), the pull of the loss, g (B, 2, k) and dtheta/dtau (B, 3, k)."""

    q: Tensor
    pull: Pull
    g: Tensor
    speed: Tensor


def evaluate(theta: Tensor, modes: Modes, x: Tensor, y: Tensor, loss: Loss) -> Field:
    """grad F of the frozen pattern; for sliding units, its part along the constraint. Cost: O(k + n)."""
    q = y * kernel.outputs(theta, modes, x)
    force = pull(q, loss)
    g = kernel.slopes(force.r * y, modes, x)
    return Field(q, force, g, kernel.pull_back(theta, g))


def rosenbrock_step(
    theta: Tensor, here: Field, h: Tensor, modes: Modes, x: Tensor, y: Tensor, *, loss: Loss
) -> tuple[Tensor, Tensor]:
    """theta after a step of h (B,) in tau, and the estimate of its error, both (B, 3, k).

    Cost: three evaluations and one (n, n) factorisation for each flow.
    """
    solve = _Solver(theta, here, h, modes, x, y)
    per_h = 1 / h[:, None, None]
    k1 = solve(here.speed)
    k2 = solve(here.speed + 4 * per_h * k1)
    pair = per_h * (k1 - k2)
    third = theta + 2 * k1
    k3 = solve(evaluate(third, modes, x, y, loss).speed + pair)
    fourth = third + k3
    k4 = solve(evaluate(fourth, modes, x, y, loss).speed + pair - (8 / 3) * per_h * k3)
    return fourth + k4, k4


class _Solver:
    """W^-1 for W = kappa - J, kappa = 2 / h, by the Woodbury formula."""

    def __init__(self, theta: Tensor, here: Field, h: Tensor, modes: Modes, x: Tensor, y: Tensor) -> None:
        self.theta, self.modes, self.x, self.y, self.g = theta, modes, x, y, here.g
        self.r, self.d = here.pull.r, here.pull.d
        kappa = 2 / h
        self.kappa = kappa[:, None]
        self.determinant = self.kappa * self.kappa - (here.g * here.g).sum(1)
        matrix = kernel.gram(theta, here.g, kappa, modes, x, y)  # in place: 1 + (diag(d) - r r^T) times it
        row = self.r[:, None, :] @ matrix
        matrix.mul_(self.d[:, :, None]).baddbmm_(self.r[:, :, None], row, alpha=-1)
        matrix.diagonal(dim1=1, dim2=2).add_(1.0)
        self.lu, self.pivots = torch.linalg.lu_factor(matrix)

    def __call__(self, right: Tensor) -> Tensor:
        first = self._block(right)
        s = self.y * kernel.move(self.theta, first, self.modes, self.x)
        ds = self.d * s - self.r * (self.r * s).sum(1, keepdim=True)
        t = torch.linalg.lu_solve(self.lu, self.pivots, ds[:, :, None])[:, :, 0]
        back = kernel.pull_back(self.theta, kernel.slopes(t * self.y, self.modes, self.x))
        return first - self._block(back)

    def _block(self, right: Tensor) -> Tensor:
        """M^-1 of the block-diagonal part."""
        dv = (self.kappa * right[:, 2] + (self.g * right[:, :2]).sum(1)) / self.determinant
        return torch.cat([(right[:, :2] + self.g * dv[:, None]) / self.kappa[:, None], dv[:, None]], 1)
