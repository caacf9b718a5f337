"""Gauss-Legendre rules of many orders at once.

NumPy and SciPy find one rule at a time from eigenvalues, which takes 40 seconds for the orders 1 to 1000. Here the
positive nodes of neighbouring orders are improved together by Newton's method on the three-term recurrence of the
Legendre polynomials, from Tricomi's approximation, in a few seconds.
"""

from __future__ import annotations

import numpy as np

from regionscope.types import FloatArray, IntArray

_SMALL = 20  # up to this order Tricomi's approximation is too coarse for two steps
_NODES = 4096  # worked on together: small enough for the caches


def gauss_legendre(first: int, last: int) -> list[tuple[FloatArray, FloatArray]]:
    """Nodes in [0, 1], ascending, and weights, of the orders ``first`` to ``last``.

    >>> (nodes, weights), = gauss_legendre(2, 2)
    >>> [round(x, 6) for x in nodes.tolist()], weights.round(12).tolist()
    ([0.211325, 0.788675], [0.5, 0.5])
    """
    small = [np.polynomial.legendre.leggauss(k) for k in range(first, min(last, _SMALL) + 1)]
    rules = [((1 + nodes) / 2, weights / 2) for nodes, weights in small]
    low = max(first, _SMALL + 1)
    while low <= last:
        high = min(last, low + max(1, 2 * _NODES // low) - 1)
        rules += _group(low, high)
        low = high + 1
    return rules


def _group(low: int, high: int) -> list[tuple[FloatArray, FloatArray]]:
    orders = np.arange(low, high + 1)
    halves = (orders + 1) // 2
    ends = np.cumsum(halves)
    k = np.repeat(orders, halves).astype(np.float64)
    j = np.arange(len(k)) - np.repeat(ends - halves, halves) + 1  # counts from the largest node down
    x = (1 - (k - 1) / (8 * k**3)) * np.cos(np.pi * (4 * j - 1) / (4 * k + 2))
    for _ in range(2):
        value, slope = _legendre(x, k, orders, ends)
        x -= value / slope
    _, slope = _legendre(x, k, orders, ends)
    weight = 1 / ((1 - x) * (1 + x) * slope**2)  # half of the usual ones, since [0, 1] is half as long
    return [
        _both_sides(x[b - n : b], weight[b - n : b], order % 2)
        for b, n, order in zip(ends.tolist(), halves.tolist(), orders.tolist(), strict=True)
    ]


def _legendre(x: FloatArray, k: FloatArray, orders: IntArray, ends: IntArray) -> tuple[FloatArray, FloatArray]:
    """P_k and its derivative at x; k ascends, and ``ends`` says where each order ends."""
    before, here = np.ones_like(x), x.copy()
    term = np.empty_like(x)
    done = 0
    for m in range(2, int(orders[-1]) + 1):
        if m > orders[0]:
            done = int(ends[m - 1 - orders[0]])  # lower orders are finished
        b, h, t = before[done:], here[done:], term[done:]
        np.multiply(x[done:], h, out=t)
        t *= (2 * m - 1) / m
        b *= -(m - 1) / m
        t += b
        b[:] = h
        h[:] = t
    return here, k * (before - x * here) / ((1 - x) * (1 + x))


def _both_sides(x: FloatArray, weight: FloatArray, odd: int) -> tuple[FloatArray, FloatArray]:
    """The whole rule from its nodes x >= 0, descending; an odd one has a node in the middle."""
    half = len(x) - odd
    nodes = np.concatenate([-x[:half], np.zeros(odd), x[:half][::-1]])
    return (1 + nodes) / 2, np.concatenate([weight[:half], weight[::-1]])
