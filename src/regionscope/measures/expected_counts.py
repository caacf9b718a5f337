"""Estimates, not bounds: how many linear regions a random network has along a line.

All three say that the count grows like length x units, not like the exponential of the depth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from regionscope.checks import check_positive, one_of, read_generator

Init = Literal["he", "torch"]


def hanin_rolnick(units: int, length: float, *, breakpoints: int = 1, constant: float = 1.0) -> float:
    """E[linear regions on a line] ~ 1 + constant * length * breakpoints * units.

    B. Hanin and D. Rolnick, "Complexity of linear regions in deep networks", ICML 2019, Theorem 3 and Corollary 4: the
    mean number of breakpoints is at most C_grad C_bias * length * T * units, where C_grad bounds the mean size of the
    gradient of a pre-activation, C_bias the density of a bias and T = ``breakpoints`` is the number of kinks of the
    nonlinearity (1 for ReLU). ``constant`` stands for C_grad C_bias; 1 is their rule of thumb. ``kac_rice`` computes
    it from the initialisation.
    """
    check_positive(units=units, length=length, breakpoints=breakpoints, constant=constant)
    return 1 + constant * length * breakpoints * units


def kac_rice(
    n_0: int,
    widths: Sequence[int],
    start: Tensor,
    end: Tensor,
    *,
    init: Init = "he",
    bias: float = 1.0,
    nodes: int = 64,
) -> float:
    """E[linear regions on a segment] of a random network, from the formula behind Hanin and Rolnick's bound.

    A unit with pre-activation z has, on average, the integral of E|z'(s)| density(z(s) = 0) ds breakpoints (Kac and
    Rice; Hanin and Rolnick 2019, Theorem 3). With Gaussian z and z' (exact in distribution for a first layer with
    Gaussian weights, and the limit of wide layers otherwise) of variances q and q', that is sqrt(q' / q) / pi a unit
    length. The variances follow from layer to layer: q_1 = sigma_w^2 |x|^2 / n_0 + sigma_b^2, q_{l+1} = sigma_w^2 q_l
    / 2 + sigma_b^2, q'_1 = sigma_w^2 / n_0, q'_{l+1} = sigma_w^2 q'_l / 2. The code also uses the covariance c of z and
    z': it replaces q' by the conditional variance q' - c^2 / q, since only the part of z' that is independent of z
    moves z through zero.

    init: "he" (weights N(0, 2 / fan-in), biases N(0, bias^2)) or "torch" (the uniform defaults of ``nn.Linear``).
    Cost: ``nodes`` evaluations of the recursion.
    """
    check_positive(n_0=n_0, nodes=nodes)
    a, b = start.to(torch.float64).flatten(), end.to(torch.float64).flatten()
    length = float((b - a).norm())
    check_positive(length=length)
    direction = (b - a) / length
    s = (torch.arange(nodes, dtype=torch.float64, device="cpu") + 0.5) / nodes * length
    x = a + s[:, None] * direction
    fan_in, total = n_0, torch.zeros_like(s)
    q, speed, mixed = x.square().sum(1) / n_0, torch.full_like(s, 1 / n_0), x @ direction / n_0
    for i, n in enumerate(widths):
        weight_scale, bias_scale = _scales(init, fan_in, bias)
        keep = weight_scale * (1.0 if i == 0 else 0.5)
        q, speed, mixed = keep * q + bias_scale, keep * speed, keep * mixed
        total += n * torch.sqrt((speed - mixed.square() / q).clamp(min=0) / q) / math.pi
        fan_in = n
    return 1 + float(total.mean()) * length


def qi_wei_neurons(regions: float, length: float, *, breakpoints: int = 1, extra: float = 0.0) -> float:
    """Units needed to express Q = ``regions`` linear regions on a segment: q ~ (E[Q] - I) / (length * c).

    X. Qi and Y. Wei, "The evolution of the interplay between input distributions and linear regions in networks",
    2023, Theorem 1: equation 18 without the term I (``extra`` = 0), equations 22 and 23 with it. c = ``breakpoints``
    is the number of kinks of the nonlinearity. I is the number of regions due to random weights and biases; the paper
    gives no value for it, so it is an argument here. The theorem is Hanin and Rolnick's rule of thumb, solved for the
    units.
    """
    check_positive(regions=regions, length=length, breakpoints=breakpoints)
    return max(0.0, regions - extra) / (length * breakpoints)


def random_network(n_0: int, widths: Sequence[int], n_out: int, *, init: Init = "he", seed: int = 0) -> nn.Sequential:
    """A ReLU network with the initialisation that ``kac_rice`` describes, with ``bias=1``."""
    generator = read_generator(None, seed)
    layers: list[nn.Module] = []
    sizes = [n_0, *widths, n_out]
    for fan_in, fan_out in pairwise(sizes):
        linear = nn.Linear(fan_in, fan_out, dtype=torch.float64)
        with torch.no_grad():
            for value, deviation in ((linear.weight, math.sqrt(2 / fan_in)), (linear.bias, 1.0)):
                draw = torch.randn if init == "he" else torch.rand
                drawn = draw(value.shape, generator=generator, dtype=torch.float64, device="cpu")
                value.copy_(drawn * deviation if init == "he" else (drawn * 2 - 1) / fan_in**0.5)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _scales(init: Init, fan_in: int, bias: float) -> tuple[float, float]:
    """Variances of one layer: of a weight times fan-in, and of a bias."""
    one_of("init", init, ("he", "torch"))
    return (2.0, bias * bias) if init == "he" else (1 / 3, 1 / (3 * fan_in))
