"""The two losses, through their logarithm, so that nothing under- or overflows late in a flow.

For q (.., n) with q_i = y_i N(x_i), L = mean l(q_i) and F = -log L, gradient flow on L is, up to the speed along its
path, gradient flow on F: dtheta/dt = -grad L = L * grad F. With the rescaled time d tau = L dt it reads dtheta/dtau =
grad F = sum_i r_i grad q_i, where the weights r_i = -l'(q_i) / sum_m l(q_m) are of order one however small L is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regionscope.checks import one_of
from regionscope_lab.shallow.modes import FlowRows

Loss = Literal["exponential", "logistic"]
_TAIL = 30.0  # beyond this, log(1 + e^-q) is e^-q to the last bit of a float64


@dataclass(frozen=True)
class Pull(FlowRows):
    """How the loss pulls at the outputs q (.., n).

    F: (..,) = -log L. r: (.., n) = dF/dq. d: (.., n) with d r_i / d q_m = r_i r_m - d_i [i = m].
    """

    F: Tensor
    r: Tensor
    d: Tensor


def check_loss(loss: str) -> None:
    """Raise ``InputError`` for an unknown loss."""
    one_of("loss", loss, ("exponential", "logistic"))


def pull(q: Tensor, loss: Loss) -> Pull:
    """The value and the derivatives of F = -log mean_i l(q_i) at q (.., n).

    >>> pull(torch.tensor([800.0, 900.0], dtype=torch.float64), "exponential").F.item()  # e^-800 is no float64
    800.6931471805599
    """
    n = q.shape[-1]
    if loss == "exponential":
        total = torch.logsumexp(-q, -1, keepdim=True)
        r = torch.exp(-q - total)
        return Pull(math.log(n) - total[..., 0], r, r)
    log_l = torch.where(q > _TAIL, -q, torch.log(torch.nn.functional.softplus(-q.clamp(max=_TAIL), threshold=700.0)))
    total = torch.logsumexp(log_l, -1, keepdim=True)
    r = torch.exp(torch.nn.functional.logsigmoid(-q) - total)
    return Pull(math.log(n) - total[..., 0], r, r * torch.sigmoid(q))


def log_threshold(n: int, loss: Loss) -> float:
    """F beyond which every one of n points is classified: L < l(0) / n forces l(q_i) < l(0) for all i.

    1/n for the exponential loss and log(2)/n for the logistic loss (Safran et al. write 1/n for both; at 1/n a logistic
    point may still be wrong, since l(0) = log 2 < 1).
    """
    return math.log(n) - (math.log(math.log(2.0)) if loss == "logistic" else 0.0)
