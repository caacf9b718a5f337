"""The paper's counts beside ours: tables, and how often they are within what seeds do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regionscope.studies import verdict
from regionscope.studies.qi2023.read import Course
from regionscope.studies.qi2023.settings import SEED
from regionscope.studies.study import Claim, Table

__all__ = ["beside", "listed", "within_seeds"]


def beside(title: str, what: str, printed: Sequence[int], ours: Course) -> Table:
    """One row for each epoch: the paper's count, ours with the paper's initial weights, and over all seeds."""
    rows = tuple(
        (
            epoch,
            printed[i],
            int(ours.first_seed[i]),
            round(ours.means[i], 1),
            round(ours.deviations[i], 1),
            f"{ours.first_seed[i] / printed[i]:.2f}",
        )
        for i, epoch in enumerate(ours.epochs)
    )
    return Table(title, (what, "paper", f"seed {SEED}", "mean", "deviation", f"seed {SEED} / paper"), rows)


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
        "one run",
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
