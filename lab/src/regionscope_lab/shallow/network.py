"""Univariate two-layer networks N(x) = sum_j v_j relu(w_j x + b_j), and their initialisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.checks import check_instance, read_generator, read_integer, read_number
from regionscope.errors import InputError
from regionscope.inputs import read_array

Numbers = Tensor | Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Network:
    """N(x) = sum_j v_j relu(w_j x + b_j), equation (1) of Safran, Vardi and Lee 2022. w, b, v: (k,) float64.

    >>> Network([1.0, -1.0], [0.0, 0.0], [1.0, 1.0])(torch.tensor([-2.0, 3.0]))  # |x|
    tensor([2., 3.], dtype=torch.float64)
    """

    w: Tensor
    b: Tensor
    v: Tensor

    def __init__(self, w: Numbers, b: Numbers, v: Numbers) -> None:
        parts = [read_array(p, "w, b and v of numbers").detach().to(torch.float64, copy=True) for p in (w, b, v)]
        shapes = [tuple(p.shape) for p in parts]
        if len(set(shapes)) > 1 or len(shapes[0]) != 1 or shapes[0][0] < 1:
            raise InputError(
                f"Expected w, b and v to be vectors of one length k >= 1, got shapes {shapes}. "
                "Pass three vectors, with one entry for each neuron."
            )
        if not all(bool(torch.isfinite(p).all()) for p in parts):
            raise InputError("Expected finite w, b and v, got NaN or infinite values. Replace these values.")
        for name, part in zip(("w", "b", "v"), parts, strict=True):
            object.__setattr__(self, name, part)

    def __repr__(self) -> str:
        return f"Network(width={self.width})"

    def __call__(self, x: Tensor) -> Tensor:
        """N(x) for x of any shape. Cost: one (points, k) product."""
        x = x.to(torch.float64)
        return torch.relu(x[..., None] * self.w + self.b) @ self.v

    @property
    def width(self) -> int:
        """Number of units k."""
        return len(self.w)

    @property
    def theta(self) -> Tensor:
        """All parameters (3, k): rows w, b, v."""
        return torch.stack([self.w, self.b, self.v])

    @staticmethod
    def of(theta: Tensor) -> Network:
        """The network with parameters theta (3, k)."""
        check_instance("theta", theta, Tensor, advice="Stack w, b and v, as in Network.theta")
        return Network(theta[0], theta[1], theta[2])

    def scaled(self, factor: float) -> Network:
        """All parameters times ``factor``: N is multiplied by its square."""
        return Network.of(self.theta * factor)

    def module(self) -> nn.Sequential:
        """The same function as an ``nn.Module`` of inputs (b, 1), for ``linear_regions`` and ``decision_regions``."""
        hidden = nn.Linear(1, self.width, dtype=torch.float64)
        output = nn.Linear(self.width, 1, bias=False, dtype=torch.float64)
        with torch.no_grad():
            hidden.weight.copy_(self.w[:, None])
            hidden.bias.copy_(self.b)
            output.weight.copy_(self.v[None])
        return nn.Sequential(hidden, nn.ReLU(), output)


def initial_theta(n_networks: int, width: int, *, sigma_h: float, sigma_o: float, seed: int = 0) -> Tensor:
    """Parameters (B, 3, k) of Assumption 2.1: w, b ~ N(0, sigma_h^2) and v ~ N(0, sigma_o^2), all independent."""
    read_integer("n_networks", n_networks)
    read_integer("width", width)
    if read_number("sigma_h", sigma_h) < 0 or read_number("sigma_o", sigma_o) < 0:
        raise InputError(
            f"Expected standard deviations of at least 0, got {sigma_h} and {sigma_o}. Change sigma_h or sigma_o."
        )
    generator = read_generator(None, seed)
    theta = torch.randn((n_networks, 3, width), generator=generator, dtype=torch.float64, device="cpu")
    return theta * torch.tensor([sigma_h, sigma_h, sigma_o], dtype=torch.float64, device="cpu")[:, None]


def initial_network(width: int, *, sigma_h: float, sigma_o: float, seed: int = 0) -> Network:
    """One network of Assumption 2.1."""
    return Network.of(initial_theta(1, width, sigma_h=sigma_h, sigma_o=sigma_o, seed=seed)[0])
