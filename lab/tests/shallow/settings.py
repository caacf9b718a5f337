"""Random small flows that feed the fast code and its slow twins."""

from __future__ import annotations

import torch
from torch import Tensor


def flow_start(
    n_flows: int, k: int, n: int, *, seed: int = 0, sigma_o: float = 0.3, switches: tuple[float, ...] = (-0.3, 0.4)
) -> tuple[Tensor, Tensor, Tensor]:
    """theta (B, 3, k), x (B, n) sorted in [-1, 1], y (B, n) that changes sign at ``switches``."""
    generator = torch.Generator().manual_seed(seed)
    x = (torch.rand((n_flows, n), generator=generator, dtype=torch.float64) * 2 - 1).sort(1).values
    y = torch.ones_like(x)
    for at in switches:
        y = torch.where(x > at, -y, y)
    theta = torch.randn((n_flows, 3, k), generator=generator, dtype=torch.float64)
    theta[:, 2] *= sigma_o
    return theta, x, y
