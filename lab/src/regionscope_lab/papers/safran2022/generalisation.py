"""Corollary 5.1: the exact test error of late gradient flows, against the number of points."""

from __future__ import annotations

import math

from scipy.optimize import brentq

from regionscope_lab.papers.safran2022.flows import DELTA


def error_bound(r: int, n: int, *, delta: float = DELTA) -> float:
    """The epsilon with n = (r log(1 / epsilon) + log(1 / delta)) / epsilon: Corollary 5.1 with C0 = 1; at most 1.

    >>> round(error_bound(2, 100), 3)
    0.075
    """
    if n <= math.log(1 / delta):
        return 1.0

    def excess(epsilon: float) -> float:
        return n * epsilon - r * math.log(1 / epsilon) - math.log(1 / delta)

    return float(brentq(excess, 1e-300, 1.0))
