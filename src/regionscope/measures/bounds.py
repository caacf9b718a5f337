"""Bounds on the number of linear regions of fully connected ReLU networks, from the widths alone, and estimates.

Widths are written n_0, n_1, ..., n_L, with the input dimension first and the output left out (it has no folds). On a
slice of dimension k the network is one with input dimension k, so every upper bound holds there with n_0 = k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Literal

import torch
from torch import Tensor

from regionscope.checks import check_positive, one_of
from regionscope.errors import InputError
from regionscope.types import Reading


@dataclass(frozen=True)
class Bound:
    """A proven bound. kind: "exact maximum", "lower bound on the maximum" or "upper bound"."""

    name: str
    kind: str
    value: int
    reference: str

    def readings(self) -> tuple[Reading, ...]:
        """The bound."""
        return (("", self.value, None),)


def zaslavsky(n: int, d: int) -> int:
    """sum_{j <= d} C(n, j): regions of n hyperplanes in general position in R^d, the exact maximum of one ReLU layer.

    T. Zaslavsky, "Facing up to arrangements", Memoirs of the AMS 154, 1975.

    >>> zaslavsky(3, 2)  # three lines cut the plane into seven
    7
    """
    return sum(_binomials(n, min(n, d)))


def montufar_lower(n_0: int, widths: Sequence[int]) -> int:
    """(prod_{l < L} floor(n_l / n_0)^{n_0}) sum_{j <= n_0} C(n_L, j): reached by some weights, for widths n_l >= n_0.

    A lower bound on the maximum over all weights, not on the count of a given network. G. Montufar, R. Pascanu, K. Cho
    and Y. Bengio, "On the number of linear regions of deep neural networks", NeurIPS 2014, Theorem 4. Layers narrower
    than n_0 are outside the theorem: the network is then used as one of input dimension min(n_0, n_1, ..., n_L) (the
    other inputs get zero weights).
    """
    _check(n_0, widths)
    d = min(n_0, *widths)
    return prod(int((n // d) ** d) for n in widths[:-1]) * zaslavsky(widths[-1], d)


def raghu_upper(n_0: int, widths: Sequence[int]) -> int:
    """prod_l sum_{j <= n_0} C(n_l, j): each layer cuts a region of dimension at most n_0 at most that often.

    M. Raghu, B. Poole, J. Kleinberg, S. Ganguli and J. Sohl-Dickstein, "On the expressive power of deep neural
    networks", ICML 2017, Theorem 1 (there as O(n^(L n_0))); in this form in Serra et al. 2018.
    """
    _check(n_0, widths)
    return prod(zaslavsky(n, n_0) for n in widths)


def montufar_upper(n_0: int, widths: Sequence[int]) -> int:
    """prod_l sum_{j <= d_l} C(n_l, j), d_l = min(n_0, ..., n_{l-1}): no layer raises the dimension.

    G. Montufar, "Notes on the number of linear regions of deep neural networks", SampTA 2017.
    """
    _check(n_0, widths)
    narrowest = accumulate([n_0, *widths], min)  # d_1, d_2, ...
    return prod(zaslavsky(n, d) for n, d in zip(widths, narrowest, strict=False))


def serra_upper(n_0: int, widths: Sequence[int]) -> int:
    """sum over (j_1, ..., j_L) of prod_l C(n_l, j_l), 0 <= j_l <= min(n_0, n_1 - j_1, ..., n_{l-1} - j_{l-1}, n_l).

    A region on which only n_l - j_l units of a layer are active has an image of at most that dimension. T. Serra, C.
    Tjandraatmadja and S. Ramalingam, "Bounding and counting linear regions of deep neural networks", ICML 2018,
    Theorem 1. Computed layer by layer over the dimension that is left. Cost: O(L n_0^2) products of integers where
    layers are narrower than 2 n_0, else O(L n_0).
    """
    _check(n_0, widths)
    ways = {n_0: 1}  # dimension left -> sum of products so far
    for n in widths:
        choices = _binomials(n, min(max(ways), n))
        total = [0, *accumulate(choices)]  # total[j]: ways to leave fewer than j units out
        after: dict[int, int] = {}
        for dim, count in ways.items():
            most = min(dim, n)
            whole = max(0, min(most, n - dim) + 1)  # numbers of units left out, from 0, that keep the dimension
            if whole:
                after[dim] = after.get(dim, 0) + count * total[whole]
            for j in range(whole, most + 1):
                after[n - j] = after.get(n - j, 0) + count * choices[j]
        ways = after
    return sum(ways.values())


def activation_patterns(widths: Sequence[int]) -> int:
    """2^(number of units): all activation patterns there could be."""
    return int(2 ** sum(widths))


def region_bounds(n_0: int, widths: Sequence[int]) -> list[Bound]:
    """Every bound that applies to a network with input (or slice) dimension n_0 and these hidden widths, tightest last.

    >>> [b.value for b in region_bounds(2, [3])]
    [8, 7, 7, 7, 7, 7]
    """
    _check(n_0, widths)
    bounds = [
        Bound("all patterns", "upper bound", activation_patterns(widths), "2^units"),
        Bound("Raghu et al.", "upper bound", raghu_upper(n_0, widths), "ICML 2017, Theorem 1"),
        Bound("Montufar", "upper bound", montufar_upper(n_0, widths), "SampTA 2017"),
        Bound("Serra et al.", "upper bound", serra_upper(n_0, widths), "ICML 2018, Theorem 1"),
        Bound("Montufar et al.", "lower bound on the maximum", montufar_lower(n_0, widths), "NeurIPS 2014, Theorem 4"),
    ]
    if len(widths) == 1:
        bounds.append(Bound("Zaslavsky", "exact maximum", zaslavsky(widths[0], n_0), "Memoirs of the AMS 154, 1975"))
    return bounds


def _binomials(n: int, most: int) -> list[int]:
    """C(n, 0), ..., C(n, most), each from the one before.

    >>> _binomials(4, 2)
    [1, 4, 6]
    """
    row = [1]
    for j in range(most):
        row.append(row[-1] * (n - j) // (j + 1))
    return row


def _check(n_0: int, widths: Sequence[int]) -> None:
    if n_0 < 1 or len(widths) < 1 or min(widths) < 1:
        raise InputError(
            f"Expected positive n_0 and hidden widths, got n_0 = {n_0} and widths {list(widths)}. "
            "Pass the number of inputs, and the width of one hidden layer or more."
        )


# An estimate, not a bound: the count along a line grows like length x units, not like the exponential of the depth.

Init = Literal["he", "torch"]


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


def _scales(init: Init, fan_in: int, bias: float) -> tuple[float, float]:
    """Variances of one layer: of a weight times fan-in, and of a bias."""
    one_of("init", init, ("he", "torch"))
    return (2.0, bias * bias) if init == "he" else (1 / 3, 1 / (3 * fan_in))
