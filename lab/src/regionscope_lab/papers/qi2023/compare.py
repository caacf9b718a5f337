"""The paper's counts beside ours: tables, ratios with intervals, and how often they are in the range of our seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from regionscope.measures.statistics import t_interval
from regionscope_lab.papers import verdict
from regionscope_lab.papers.qi2023.read import Course
from regionscope_lab.papers.qi2023.settings import SEED
from regionscope_lab.papers.study import Claim, Table
from regionscope_lab.papers.verdict import Verdict

_LEVEL = 0.95  # of intervals


@dataclass(frozen=True)
class Ratio:
    """Geometric mean over seeds of one number by another of the same seed, its 95% interval, and the first seed's."""

    value: float
    low: float
    high: float
    first_seed: float

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def words(self) -> str:
        return f"95% [{self.low:.2f}, {self.high:.2f}]"


def ratio_of(above: NDArray[np.float64], below: NDArray[np.float64]) -> Ratio:
    """Of values by seed, in the same order; the interval is Student's, on the logarithms."""
    logs = np.log(above / below)
    value, low, high = map(math.exp, t_interval(logs.tolist(), level=_LEVEL))
    return Ratio(value, low, high, float(above[0] / below[0]))


def larger(above: NDArray[np.float64], below: NDArray[np.float64]) -> tuple[Verdict, str]:
    """Whether values by seed are larger than others of the same seeds, and the 95% interval of the mean difference."""
    _, low, high = t_interval((above - below).tolist(), level=_LEVEL)
    return verdict.positive((low, high)), f"difference 95% [{low:.2f}, {high:.2f}]"


def ratio_claim(what: str, paper: float, ours: Ratio, judged: Verdict) -> Claim:
    """A row of a ratio, the paper's beside ours."""
    return Claim(what, f"{paper:.2f}", f"{ours.value:.2f} (seed {SEED}: {ours.first_seed:.2f})", judged, ours.words)


def growth_claim(what: str, paper: float, ours: Ratio) -> Claim:
    """A ratio that is above 1 in the paper; where the paper's is not, nothing is asked of ours."""
    return ratio_claim(
        what, paper, ours, verdict.grows(paper, ours.value, ours.interval) if paper > 1 else verdict.shown()
    )


def course_claim(what: str, printed: Sequence[int], ours: Course) -> Claim:
    """Counts over epochs, in the paper's order; what one run does by chance is not compared."""
    pairs = list(combinations(printed, 2))
    compared = sum(abs(a - b) > ours.noise for a, b in pairs)
    if compared:
        judged = verdict.ordering(printed, ours.means, ours.paired_errors, noise=ours.noise)
        said = f"{compared} of {len(pairs)} pairs compared"
    else:
        judged = verdict.shown()
        said = "no pair compared: " + (
            "a single seed does not show how much a run varies by chance"
            if math.isnan(ours.noise)
            else f"the paper's values differ by no more than a run varies by chance ({ours.noise:,.0f})"
        )
    return Claim(what, listed(printed), f"{listed(ours.means)}; {said}", judged, f"sd {listed(ours.deviations)}")


def beside(title: str, printed: Sequence[int], ours: Course) -> Table:
    """One row for each epoch: the paper's count, ours with the paper's initial weights, and over all seeds."""
    rows = tuple(
        (
            epoch,
            printed[i],
            int(ours.first_seed[i]),
            f"{ours.means[i]:,.0f}",
            f"{ours.deviations[i]:,.0f}",
            f"{ours.first_seed[i] / printed[i]:.2f}",
        )
        for i, epoch in enumerate(ours.epochs)
    )
    seeds = f"mean of {len(ours.values)} seeds"
    return Table(title, ("epoch", "paper", f"seed {SEED}", seeds, "sd over seeds", f"seed {SEED} / paper"), rows)


def within_seeds(cells: Mapping[str, tuple[Sequence[int], Course]]) -> Claim:
    """After epoch 0: in how many cells of the table the paper's count lies between our smallest and largest, and how
    far from the first seed's it is.
    """
    inside, off = 0, []
    for printed, ours in cells.values():
        for i, value in enumerate(printed):
            if ours.epochs[i] == 0:
                continue
            low, high = ours.range(i)
            inside += low <= value <= high
            off.append(abs(ours.first_seed[i] - value) / value)
    median = sorted(off)[len(off) // 2]
    return Claim(
        "counts after epoch 0",
        "taken as one run",
        f"the paper's count is within the range of our seeds in {inside} of {len(off)} cells; seed {SEED} is off by "
        f"{median:.0%} (median), {max(off):.0%} at most",
        verdict.shown(),
    )


def listed(values: Sequence[float]) -> str:
    """Counts in one line.

    >>> listed([206, 1151.4])
    '206, 1151'
    """
    return ", ".join(f"{value:.0f}" for value in values)
