"""Slow, obvious twins: the flow by tiny steps on the dense network, and by SciPy on a stretch without events."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

from regionscope_lab.shallow.losses import Loss, pull


def dense_outputs(theta: Tensor, x: Tensor) -> Tensor:
    """N(x_i) (n,) of theta (3, k), written as in equation (1) of Safran et al."""
    w, b, v = theta
    out: Tensor = torch.relu(x[:, None] * w + b) @ v
    return out


def small_steps(
    theta: Tensor, x: Tensor, y: Tensor, *, step: float, n_steps: int, loss: Loss = "exponential"
) -> Tensor:
    """theta (3, k) after ``n_steps`` plain gradient steps on F = -log L with autograd, where relu'(0) = 0.

    No events, no modes: a sliding fold chatters about its point with an amplitude of one step. Converges to the flow as
    step -> 0. Cost: n_steps forward and backward passes.
    """
    theta = theta.clone()
    for _ in range(n_steps):
        theta.requires_grad_(True)
        value = pull(y * dense_outputs(theta, x), loss).F
        (slope,) = torch.autograd.grad(value, theta)
        theta = theta.detach() + step * slope
    return theta.detach()


def flow_without_events(theta: Tensor, x: Tensor, y: Tensor, *, tau: float, loss: Loss = "exponential") -> Tensor:
    """theta (3, k) at time tau by SciPy's DOP853 at tight tolerance; right as long as no fold meets a point."""

    def speed(_: float, flat: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        here = torch.from_numpy(flat).reshape(theta.shape).requires_grad_(True)
        (slope,) = torch.autograd.grad(pull(y * dense_outputs(here, x), loss).F, here)
        return np.asarray(slope.numpy().ravel())

    found = solve_ivp(speed, (0.0, tau), theta.numpy().ravel(), method="DOP853", rtol=1e-12, atol=1e-13)
    return torch.from_numpy(found.y[:, -1]).reshape(theta.shape)
