"""The counts of the true structure: regions by layer, linear regions and decision regions, from a graph of patterns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from regionscope.certificate.bits import Bits, PackedBits, distinct
from regionscope.certificate.frames import EPS
from regionscope.certificate.integers import Integers
from regionscope.certificate.steps import AffineStep, Largest, Steps
from regionscope.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class RegionGraph:
    """Regions as nodes and their walls as pairs.

    code, bits: patterns (r, bytes). pairs: (w, 2). slopes, slope_error: (s, c, k) of the outputs of the first s
    regions.
    """

    code: Bits
    bits: PackedBits
    pairs: IntArray
    slopes: FloatArray
    slope_error: FloatArray


@dataclass(frozen=True)
class Counts:
    """by_layer: activation regions after each fold. linear_ids, decision_ids: (r,) which linear and which
    decision region a region belongs to; labels: (r,), empty without a decision."""

    by_layer: dict[str, int]
    linear_ids: IntArray
    decision_ids: IntArray
    labels: IntArray

    @property
    def linear(self) -> int:
        """Number of linear regions."""
        return int(self.linear_ids.max(initial=-1)) + 1

    @property
    def decision(self) -> int:
        """Number of decision regions; 0 without a decision."""
        return int(self.decision_ids.max(initial=-1)) + 1 if len(self.labels) else 0

    def numbers(self) -> dict[str, Any]:
        """All counts by name; with a decision also the pieces into which it cuts the activation regions."""
        activation = list(self.by_layer.values())[-1] if self.by_layer else 1
        found: dict[str, Any] = {"by_layer": self.by_layer, "activation": activation, "linear": self.linear}
        return found | ({"pieces": len(self.labels), "decision": self.decision} if len(self.labels) else {})


def count(steps: Steps, graph: RegionGraph, outputs: Callable[[int], Integers]) -> Counts:
    """Count the regions of a graph. outputs: returns the outputs of a region as integer functions."""
    n, ends = len(graph.bits), graph.code.ends.tolist()
    drawn = dict(zip(steps.layers, ends, strict=True))
    labels = np.zeros(0, dtype=np.int64)
    if steps.has_decision:  # it folds nothing
        drawn.popitem()
        labels = graph.code.pieces(graph.bits, len(ends) - 1)[:, 0].astype(np.int64)
    equal = _same_maps(steps, graph, outputs)
    by_layer = {name: distinct(graph.bits[:, :end]) for name, end in drawn.items()}
    alike = graph.pairs[labels[graph.pairs[:, 0]] == labels[graph.pairs[:, 1]]] if len(labels) else graph.pairs[:0]
    return Counts(by_layer, components(n, graph.pairs[equal]), components(n, alike), labels)


def components(n: int, pairs: IntArray) -> IntArray:
    """Connected components of n nodes: a number for each."""
    graph = scipy.sparse.coo_array((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    found: IntArray = scipy.sparse.csgraph.connected_components(graph, directed=False)[1].astype(np.int64)
    return found


def _same_maps(steps: Steps, graph: RegionGraph, outputs: Callable[[int], Integers]) -> BoolArray:
    """Whether the maps on both sides of each wall are equal; compared in integers where floats and patterns leave it
    open."""
    pairs, known = graph.pairs, len(graph.slopes)
    open_: BoolArray = np.any(pairs >= known, axis=1)
    equal = np.zeros(len(pairs), dtype=bool)
    step = max(1, (1 << 22) // max(1, graph.slopes[0].size if known else 1))
    for i in range(0, len(pairs), step):
        left, right = np.where(open_[i : i + step, None], 0, pairs[i : i + step]).T
        if known:
            gap = np.abs(graph.slopes[left] - graph.slopes[right])
            sizes = np.abs(graph.slopes[left]) + np.abs(graph.slopes[right])
            bound = (1 + 8 * EPS) * (graph.slope_error[left] + graph.slope_error[right]) + 8 * EPS * sizes
            open_[i : i + step] |= ~(gap > bound).any((1, 2))
    undecided = np.flatnonzero(open_)
    for some in np.array_split(undecided, len(undecided) * graph.code.n_bytes // (1 << 20) + 1):
        equal[some] = _same_by_patterns(steps, graph, pairs[some])
    for i in undecided[~equal[undecided]].tolist():
        a, b = pairs[i]
        equal[i] = (outputs(int(a)) == outputs(int(b))).all()
    return equal


def _same_by_patterns(steps: Steps, graph: RegionGraph, pairs: IntArray) -> BoolArray:
    """Whether the outputs on both sides of walls cannot differ: no entry that they read depends on a unit that changes.

    A unit that is off on both sides, or a candidate that wins on neither, passes nothing on.
    """
    changed = {steps.input_name: np.zeros((1, len(pairs)), dtype=bool)}
    folds = iter(range(len(graph.code.folds)))
    for step in steps.steps:
        if isinstance(step, AffineStep):
            reached = np.zeros((len(step.shift), len(pairs)), dtype=bool)
            for source, matrix in step.terms:
                if (some := np.flatnonzero(changed[source].any(0))).size:
                    reached[:, some] |= matrix.magnitudes @ changed[source][:, some].astype(np.float64) > 0
            changed[step.writes] = reached
            continue
        pieces = (graph.code.pieces(graph.bits[side], i) for i in [next(folds)] for side in pairs.T)
        here, there = (each.T for each in pieces)
        before, index = changed[step.source], np.arange(step.n_units)[:, None]
        if isinstance(step, Largest):
            passed = before[step.groups[index, here], np.arange(len(pairs))]
        else:
            passed = before & (step.slopes[here, index] != 0)
        changed[step.writes] = (here != there) | passed
    return np.asarray(~changed[steps.output_name].any(0))
