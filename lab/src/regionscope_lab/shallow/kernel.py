"""N and its derivative in O(k + n), and its Gram matrix in O(k + n^2), of a frozen activation pattern, for many flows.

Parameters are theta (B, 3, k) with rows w, b, v. A unit's active points are an interval of the sorted data, so a sum
over its points is a difference of two cumulative sums, and a sum over units at a point is a cumulative sum of a
scatter. The dense (B, k, n) array of pre-activations is never formed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regionscope_lab.shallow.modes import Modes


def outputs(theta: Tensor, modes: Modes, x: Tensor) -> Tensor:
    """N(x_i) (B, n) of the frozen pattern. Cost: O(k + n)."""
    return _spread(theta[:, 2:] * theta[:, :2], modes, x)


def slopes(c: Tensor, modes: Modes, x: Tensor) -> Tensor:
    """g_j = sum of c_i (x_i, 1) over the active points of unit j, tangent to the constraint if it slides: (B, 2, k)."""
    both = torch.stack([c * x, c], 1)
    total = torch.nn.functional.pad(both.cumsum(2), (1, 0))
    ends = modes.hi[:, None].expand(-1, 2, -1), modes.lo[:, None].expand(-1, 2, -1)
    return tangent(total.gather(2, ends[0]) - total.gather(2, ends[1]), modes)


def tangent(g: Tensor, modes: Modes) -> Tensor:
    """g (B, 2, k) without its part along the normal of a sliding unit."""
    return g - modes.normal * (modes.normal * g).sum(1, keepdim=True)


def pull_back(theta: Tensor, g: Tensor) -> Tensor:
    """sum_i c_i grad N(x_i) (B, 3, k) from g = slopes(c): the derivative is (v g, (w, b) . g)."""
    return torch.cat([theta[:, 2:] * g, (theta[:, :2] * g).sum(1, keepdim=True)], 1)


def move(theta: Tensor, delta: Tensor, modes: Modes, x: Tensor) -> Tensor:
    """dN(x_i) (B, n) along delta (B, 3, k): the transpose of ``pull_back`` of ``slopes``."""
    return _spread(delta[:, 2:] * theta[:, :2] + theta[:, 2:] * delta[:, :2], modes, x)


def gram(theta: Tensor, g: Tensor, kappa: Tensor, modes: Modes, x: Tensor, y: Tensor) -> Tensor:
    """grad q_i^T M^-1 grad q_m (B, n, n) of q_i = y_i N(x_i), for M = kappa - B, B_j = [[0, g_j], [g_j^T, 0]].

    For unit j the entry is (x_i, 1) Q_j (x_m, 1)^T on the points where it is active, with a symmetric 2 x 2 matrix Q_j
    (block elimination of M_j). Suffix units are active at i and m if lo <= min(i, m), prefix units if hi > max(i, m):
    the sums of Q over units are cumulative sums. Cost: O(k + n^2). kappa: (B,), above |g_j| for every unit.
    """
    n, kap = x.shape[1], kappa[:, None]
    v = theta[:, 2]
    lift = kap[:, None] * theta[:, :2] + theta[:, 2:] * g
    scale = 1 / (kap * (kap * kap - (g * g).sum(1)))
    flat = v * v / kap
    s0, s1 = modes.normal[:, 0], modes.normal[:, 1]
    blocks = torch.stack(
        [
            flat * (1 - s0 * s0) + lift[:, 0] * lift[:, 0] * scale,
            lift[:, 0] * lift[:, 1] * scale - flat * s0 * s1,
            flat * (1 - s1 * s1) + lift[:, 1] * lift[:, 1] * scale,
        ],
        1,
    )
    suffix = modes.hi == n
    prefix = (modes.hi > 0) & ~suffix
    zero = blocks.new_zeros((len(x), 3, n))
    at_lo = modes.lo.clamp(max=n - 1)[:, None].expand(-1, 3, -1)
    at_hi = (modes.hi - 1).clamp(min=0)[:, None].expand(-1, 3, -1)
    low = zero.scatter_add(2, at_lo, blocks * suffix[:, None]).cumsum(2)
    high = zero.scatter_add(2, at_hi, blocks * prefix[:, None]).flip(2).cumsum(2).flip(2)
    # (x_i, 1) (low_i + high_m) (x_m, 1)^T, which is right where i <= m, as a product of rank four
    ones = torch.ones_like(x)
    left = torch.stack([low[:, 0] * x + low[:, 1], low[:, 1] * x + low[:, 2], x, ones], 2)
    right = torch.stack([x, ones, high[:, 0] * x + high[:, 1], high[:, 1] * x + high[:, 2]], 1)
    upper = (left * y[:, :, None]) @ (right * y[:, None, :])
    order = torch.arange(n, device=x.device)
    return torch.where(order[:, None] <= order, upper, upper.mT)


def _spread(s: Tensor, modes: Modes, x: Tensor) -> Tensor:
    """sum over the units active at x_i of s_j . (x_i, 1), for s (B, 2, k)."""
    steps = s.new_zeros((len(x), 2, x.shape[1] + 1))
    steps = steps.scatter_add(2, modes.lo[:, None].expand(-1, 2, -1), s)
    steps = steps.scatter_add(2, modes.hi[:, None].expand(-1, 2, -1), -s)
    total = steps.cumsum(2)[:, :, :-1]
    return total[:, 0] * x + total[:, 1]
