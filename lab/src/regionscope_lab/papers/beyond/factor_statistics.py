"""How a measure goes with the gap over the settings of a factorial design: over one factor, over all, given the others.

A setting has a level of every factor, and a value of the measure and of the gap for each seed. Intervals are 95%
percentiles of a bootstrap that draws settings (or contexts), then the seeds of each.

Granulated Kendall coefficient and conditional mutual information: Jiang et al. 2020, "Fantastic Generalization Measures
and Where to Find Them". A *context* of a factor is a choice of the levels of all other factors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import nan

import numpy as np

from regionscope.measures.correlate import Coefficient
from regionscope.types import FloatArray

_RESAMPLES = 2000
_FEWEST = 3  # settings of a correlation
_MOST_GIVEN = 2  # factors that conditional mutual information conditions on

Statistic = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""x (r, n), y (r, n) and levels (r, n, f) of r resamples of n settings -> (r,)"""


@dataclass(frozen=True, eq=False)
class Design:
    """levels: (n, f) of n settings. x, y: measure and gap of each setting, one for each of its seeds."""

    levels: FloatArray
    x: tuple[tuple[float, ...], ...]
    y: tuple[tuple[float, ...], ...]

    def means(self) -> tuple[FloatArray, FloatArray]:
        """Measure and gap of each setting, means over its seeds: (1, n) both."""
        return tuple(np.array([[np.mean(seeds) for seeds in values]]) for values in (self.x, self.y))  # type: ignore[return-value]

    def drawn(self, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """The same with the seeds of each setting drawn with replacement: (r, n) both."""
        columns = []
        for x, y in zip(self.x, self.y, strict=True):
            seeds = random.integers(len(x), size=(_RESAMPLES, len(x)))
            columns.append((np.array(x)[seeds].mean(1), np.array(y)[seeds].mean(1)))
        return np.stack([x for x, _ in columns], 1), np.stack([y for _, y in columns], 1)


def pooled(design: Design, statistic: Statistic, *, seed: int = 0) -> Coefficient:
    """``statistic`` over all settings: ``spearman``, ``pearson`` or ``partial``; NaN with fewer than 3."""
    n = len(design.levels)
    if n < _FEWEST:
        return Coefficient(nan, (nan, nan), n)
    random = np.random.default_rng(seed)
    x, y = design.drawn(random)
    chosen = random.integers(n, size=x.shape)
    resampled = statistic(np.take_along_axis(x, chosen, 1), np.take_along_axis(y, chosen, 1), design.levels[chosen])
    return Coefficient(float(statistic(*design.means(), design.levels[None])[0]), _interval(resampled), n)


def granulated_kendall(design: Design, factor: int, *, seed: int = 0) -> Coefficient:
    """psi of one factor: the mean over its contexts of Kendall's tau over its levels.

    A pair of levels counts +1 if measure and gap order it alike, -1 if not, and 0 where one of them is equal. n: number
    of contexts with two levels or more.
    """
    pairs, weights = _pairs(design.levels, factor) if len(design.levels) else (([], []), np.zeros((0, 0)))
    contexts = weights.shape[1]
    if contexts == 0:
        return Coefficient(nan, (nan, nan), 0)
    random = np.random.default_rng(seed)
    tau = _tau(*design.drawn(random), pairs) @ weights
    times = random.multinomial(contexts, np.full(contexts, 1 / contexts), size=len(tau))
    value = float((_tau(*design.means(), pairs) @ weights).mean())
    return Coefficient(value, _interval((tau * times).sum(1) / contexts), contexts)


def conditional_information(design: Design) -> float:
    """K: the least share, over all choices of at most two factors, of what the measure's order says about the gap's.

    For a choice S, the share is I(V_x; V_y | U_S) / H(V_y | U_S): V are the signs of the differences of two settings,
    and U_S the levels of both in S. Pairs with equal measures or equal gaps are left out. 0: for some choice, the
    measure says nothing about the gap that these levels do not say. 1: it always orders it.
    """
    (x,), (y,) = design.means()
    first, second = (index.ravel() for index in np.indices((len(x), len(x))))
    above, higher = np.sign(x[first] - x[second]), np.sign(y[first] - y[second])
    untied = (above != 0) & (higher != 0)
    if not untied.any():
        return nan
    first, second, above, higher = first[untied], second[untied], above[untied], higher[untied]
    factors = range(design.levels.shape[1])
    choices = [choice for size in range(_MOST_GIVEN + 1) for choice in combinations(factors, size)]
    shares = []
    for choice in choices:
        given = np.concatenate([design.levels[first][:, choice], design.levels[second][:, choice]], 1)
        group = np.unique(given, axis=0, return_inverse=True)[1].reshape(-1) if choice else np.zeros(len(first), int)
        counts = np.zeros((group.max() + 1, 2, 2))
        np.add.at(counts, (group, (above > 0).astype(int), (higher > 0).astype(int)), 1)
        gap = _entropy(counts.sum(1))
        if gap > 0:
            shares.append((gap + _entropy(counts.sum(2)) - _entropy(counts.reshape(-1, 4))) / gap)
    return max(0.0, min(shares)) if shares else nan


def spearman(x: FloatArray, y: FloatArray, levels: FloatArray) -> FloatArray:
    """Correlation of the ranks."""
    return pearson(_ranks(x), _ranks(y), levels)


def pearson(x: FloatArray, y: FloatArray, levels: FloatArray) -> FloatArray:
    """Linear correlation; NaN where x or y is constant."""
    a, b = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((a * b).sum(1) / np.sqrt((a**2).sum(1) * (b**2).sum(1)))


def partial(x: FloatArray, y: FloatArray, levels: FloatArray) -> FloatArray:
    """Correlation of the ranks of x and y after a linear fit to the ranks of all factors is taken from both."""
    known = np.concatenate([np.ones((*x.shape, 1)), _ranks(levels)], 2)
    fit = known @ np.linalg.pinv(known)
    a, b = ((ranks - (fit @ ranks[..., None])[..., 0]) for ranks in (_ranks(x), _ranks(y)))
    return pearson(a, b, levels)


def within_levels(x: FloatArray, y: FloatArray, levels: FloatArray, *, factor: int) -> FloatArray:
    """Correlation of the ranks of x and y among the settings of one level of a factor, over all its levels.

    The settings of each level are ranked among themselves, and the mean rank of the level is taken from them.
    """
    group = levels[..., factor]
    return pearson(_ranks_within(x, group), _ranks_within(y, group), levels)


def _ranks_within(values: FloatArray, group: FloatArray) -> FloatArray:
    ranks = _ranks(_ranks(values) + (values.shape[1] + 1) * _ranks(group))  # level after level
    same = (group[:, :, None] == group[:, None, :]).astype(float)
    return np.asarray(ranks - (same @ ranks[..., None])[..., 0] / same.sum(2))


def _ranks(values: FloatArray) -> FloatArray:
    from scipy.stats import rankdata  # takes longer to import than all of regionscope

    return np.asarray(rankdata(values, axis=1))


def _tau(x: FloatArray, y: FloatArray, pairs: tuple[list[int], list[int]]) -> FloatArray:
    """(r, p): whether each pair is ordered alike."""
    i, j = pairs
    return np.asarray(np.sign(x[:, i] - x[:, j]) * np.sign(y[:, i] - y[:, j]))


def _pairs(levels: FloatArray, factor: int) -> tuple[tuple[list[int], list[int]], FloatArray]:
    """The pairs of settings that differ in this factor alone, and their weights (p, contexts) in the tau of each."""
    contexts: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for setting, row in enumerate(np.delete(levels, factor, 1)):
        contexts[tuple(row)].append(setting)
    whole = [list(combinations(members, 2)) for members in contexts.values() if len(members) > 1]
    weights = np.zeros((sum(map(len, whole)), len(whole)))
    done = 0
    for context, members in enumerate(whole):
        weights[done : done + len(members), context] = 1 / len(members)
        done += len(members)
    every = [pair for members in whole for pair in members]
    return ([i for i, _ in every], [j for _, j in every]), weights


def _entropy(counts: FloatArray) -> float:
    """Entropy given the group, of counts (groups, outcomes); groups weigh as they count."""
    total = counts.sum(1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        terms = np.where(counts > 0, counts * np.log(counts / total), 0.0)
    return float(-terms.sum() / counts.sum())


def _interval(values: FloatArray) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return nan, nan
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)
