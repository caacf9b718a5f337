"""How many steps a quadrature rule needs where the exact integral is known.

A rule with k steps approximates the mean gradient along a path by the sum of w_j gradient(t_j) over its k nodes t_j.
The gradient is constant on each linear piece, so the rule only has to be asked how much weight it puts on each piece:

    error(k) = sum over pieces of (weight of the rule on the piece - length of the piece) * gradient of the piece

which gives the errors of all rules and all k from one pass over the pieces, as a product of two matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regionscope.checks import read_integer
from regionscope.exact.budget import Budget
from regionscope.exact.questions.paths import PathPieces, Paths, input_gradients, pieces_of
from regionscope.tolerance import TINY
from regionscope.types import FloatArray, IntArray, Progress, Reading, repr_of

# Gauss-Legendre rules of many orders at once.
#
# NumPy and SciPy find one rule at a time from eigenvalues, which takes 40 seconds for the orders 1 to 1000. Here the
# positive nodes of neighbouring orders are improved together by Newton's method on the three-term recurrence of the
# Legendre polynomials, from Tricomi's approximation, in a few seconds.

_SMALL = 20  # up to this order Tricomi's approximation is too coarse for two steps
_CACHED_NODES = 4096  # worked on together: small enough for the caches


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
        high = min(last, low + max(1, 2 * _CACHED_NODES // low) - 1)
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
    before, now = np.ones_like(x), x.copy()
    term = np.empty_like(x)
    done = 0
    for m in range(2, int(orders[-1]) + 1):
        if m > orders[0]:
            done = int(ends[m - 1 - orders[0]])  # lower orders are finished
        b, h, t = before[done:], now[done:], term[done:]
        np.multiply(x[done:], h, out=t)
        t *= (2 * m - 1) / m
        b *= -(m - 1) / m
        t += b
        b[:] = h
        h[:] = t
    return now, k * (before - x * now) / ((1 - x) * (1 + x))


def _both_sides(x: FloatArray, weight: FloatArray, odd: int) -> tuple[FloatArray, FloatArray]:
    """The whole rule from its nodes x >= 0, descending; an odd one has a node in the middle."""
    half = len(x) - odd
    nodes = np.concatenate([-x[:half], np.zeros(odd), x[:half][::-1]])
    return (1 + nodes) / 2, np.concatenate([weight[:half], weight[::-1]])


RULES = ("gausslegendre", "riemann_left", "riemann_middle", "riemann_right", "riemann_trapezoid")
_NODES = 1 << 22  # held at a time
_COLUMNS = 512  # pieces that are multiplied at a time


@dataclass(frozen=True, eq=False)
class StepsNeeded:
    """Number of steps beyond which a quadrature rule stays within a tolerance of the exact attributions.

    steps: for each rule and each input the smallest k such that the errors of k, k + 1, ..., k_max steps are all at
        most ``tolerance``; None where the error of ``k_max`` steps is larger.
    errors: for each rule (n, k_max) the relative error with 1, 2, ..., k_max steps; infinite where the rule is not
        defined (all but Gauss-Legendre need two steps).
    """

    tolerance: float
    k_max: int
    steps: dict[str, list[int | None]]
    errors: dict[str, Tensor]

    @staticmethod
    def of(errors: dict[str, Tensor], tolerance: float) -> StepsNeeded:
        """From the errors (n, k_max) of each rule."""
        k_max = next(iter(errors.values())).shape[1]
        steps: dict[str, list[int | None]] = {}
        for rule, error in errors.items():
            above = error > tolerance
            last = torch.where(above.any(1), k_max - above.flip(1).to(torch.int8).argmax(1), 0)
            steps[rule] = [k + 1 if k < k_max else None for k in last.tolist()]
        return StepsNeeded(tolerance, k_max, steps, errors)

    def __repr__(self) -> str:
        return repr_of(self, tolerance=self.tolerance, k_max=self.k_max)

    def readings(self) -> tuple[Reading, ...]:
        """For each rule the largest number of steps that an input needs; infinite where ``k_max`` is not enough."""
        return tuple(
            (rule, float("inf") if None in steps else float(max(k for k in steps if k is not None)), None)
            for rule, steps in self.steps.items()
        )


def quadrature(rule: str, k: int) -> tuple[FloatArray, FloatArray]:
    """Nodes in [0, 1] and weights of a rule with k steps, as in Captum.

    Captum's trapezoid weights add up to (k - 1) / k, not to 1.

    >>> nodes, weights = quadrature("riemann_trapezoid", 3)
    >>> nodes.tolist(), weights.round(3).tolist()
    ([0.0, 0.5, 1.0], [0.167, 0.333, 0.167])
    """
    if rule == "gausslegendre":
        return gauss_legendre(k, k)[0]
    weights = np.full(k, 1 / k)
    if rule == "riemann_trapezoid":
        weights[[0, -1]] /= 2
        return np.linspace(0, 1, k), weights
    shift = {"riemann_left": 0.0, "riemann_middle": 0.5, "riemann_right": 1.0}[rule]
    return (np.arange(k) + shift) / k, weights


def quadrature_errors(
    paths: Paths, *, k_max: int, memory: int | None = None, progress: Progress | None = None
) -> dict[str, Tensor]:
    """Relative errors of every rule with 1 to k_max steps: for each rule (n, k_max).

    The paths must be in the order of their inputs.
    """
    read_integer("k_max", k_max, least=2)
    n, d = len(paths.inputs), paths.inputs[0].numel()
    errors = {rule: torch.full((n, k_max), torch.inf, dtype=torch.float64, device="cpu") for rule in RULES}
    rows = max(len(RULES), Budget.of(paths.inputs.device, memory, None).memory // (4 * 8 * d))
    blocks = list(_blocks(k_max, rows))
    for i, (first, last) in enumerate(blocks):

        def report(share: float, i: int = i) -> None:
            if progress is not None:
                progress((i + share) / len(blocks))

        nodes = _Nodes.of(first, last, paths.inputs.device)
        for to, errors_of_step in _relative(paths, nodes, memory, report):
            for (rule, k), error in zip(nodes.rows, errors_of_step, strict=True):
                errors[rule][to, k - 1] = error
    return errors


def _blocks(k_max: int, rows: int) -> Iterator[tuple[int, int]]:
    """Ranges of k that are looked at together: first and last."""
    first = 1
    while first <= k_max:
        last, count = first, len(RULES) * first
        while last < k_max and len(RULES) * (last + 2 - first) <= rows and count + len(RULES) * (last + 1) <= _NODES:
            last += 1
            count += len(RULES) * last
        yield first, last
        first = last + 1


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of several rules, in ascending order: position, weight and rule (an index into ``rows``)."""

    rows: list[tuple[str, int]]
    at: Tensor
    weight: Tensor
    row: Tensor

    @staticmethod
    def of(first: int, last: int, device: torch.device) -> _Nodes:
        rows = [(rule, k) for rule in RULES for k in range(first, last + 1) if k > 1 or rule == "gausslegendre"]
        gauss = gauss_legendre(first, last)
        rules = [gauss[k - first] if rule == "gausslegendre" else quadrature(rule, k) for rule, k in rows]
        node = np.concatenate([nodes for nodes, _ in rules])
        order = np.argsort(node, kind="stable")
        weight = np.concatenate([weights for _, weights in rules])
        row = np.repeat(np.arange(len(rows)), [k for _, k in rows])
        return _Nodes(rows, *(torch.from_numpy(part[order]).to(device) for part in (node, weight, row)))

    def excess(self, start: Tensor, end: Tensor) -> Tensor:
        """Weight of each rule on each of these neighbouring pieces minus the length of the piece (rows, pieces)."""
        low = int(torch.searchsorted(self.at, start[:1]))
        high = int(torch.searchsorted(self.at, end[-1:])) if float(end[-1]) < 1.0 else len(self.at)
        some = slice(low, high)
        piece = (torch.searchsorted(start, self.at[some], right=True) - 1).clamp(0, len(start) - 1)
        place, shape = self.row[some] * len(start) + piece, (len(self.rows), len(start))
        weight = torch.bincount(place, self.weight[some], minlength=shape[0] * shape[1])
        return weight.reshape(shape) - (end - start)


def _relative(paths: Paths, nodes: _Nodes, memory: int | None, progress: Progress) -> Iterator[tuple[int, list[float]]]:
    """For each input the relative error of each rule."""
    n, device = len(paths.inputs), paths.inputs.device
    counts = torch.bincount(paths.pairs[:, 0], minlength=n)
    shape = (len(nodes.rows), paths.inputs[0].numel())
    wrong = torch.zeros(shape, dtype=torch.float64, device=device)
    exact = torch.zeros(shape[1], dtype=torch.float64, device=device)
    current = 0

    def finished() -> tuple[int, list[float]]:
        return current, (wrong.norm(dim=1) / exact.norm().clamp(min=TINY)).tolist()

    for path, some in _by_path(pieces_of(paths, memory=memory, progress=progress)):
        to = int(paths.pairs[path, 0])
        while current < to:
            yield finished()
            current += 1
            wrong.zero_()
            exact.zero_()
        start, end = paths.ends(torch.tensor([path], device=device))
        factor = (end - start) / counts[to]
        for columns in torch.arange(len(some.start), device=device).split(_COLUMNS):
            a, b = some.start[columns], some.end[columns]
            hidden = {name: rows[columns] for name, rows in some.gradient.items()}
            gradient = input_gradients(paths.program, hidden) * factor
            wrong.addmm_(nodes.excess(a, b), gradient)
            exact += (b - a) @ gradient
    while current < n:
        yield finished()
        current += 1
        wrong.zero_()
        exact.zero_()


def _by_path(batches: Iterator[PathPieces]) -> Iterator[tuple[int, PathPieces]]:
    """The pieces of one path at a time, a part of it if it is long."""
    for some in batches:
        ids, counts = some.path.unique_consecutive(return_counts=True)
        end = 0
        for path, count in zip(ids.tolist(), counts.tolist(), strict=True):
            start, end = end, end + count
            rows = slice(start, end)
            gradient = {name: values[rows] for name, values in some.gradient.items()}
            pieces = some.path[rows], some.start[rows], some.end[rows], some.low[rows], some.high[rows]
            yield path, PathPieces(*pieces, gradient)
