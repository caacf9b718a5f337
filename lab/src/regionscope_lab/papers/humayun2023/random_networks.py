"""Figure 17 and the zero-bias check of appendix C: networks that are not trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.humayun2023.shift import DIMS, RADII, RIGHT_RADII, SHIFTS
from regionscope_lab.papers.rules import by_seed, every_case, order_vote
from regionscope_lab.papers.seed_table import SeedRun, SeedTable


def figure17(table: SeedTable, runs: Mapping[str, Sequence[SeedRun]]) -> Finding:
    shares = table.answers("humayun2023.shift.zero_bias")[0]["shares"]
    networks = sorted(table.answers("humayun2023.shift.shifted"), key=lambda one: int(one["seed"]))
    curves = [[*one["by_dims"], *one["by_radius"]] for one in networks]
    gained = [
        [(fmean(b) - fmean(a)) / (q - p) for (p, a), (q, b) in pairwise(zip(DIMS, one["by_dims"], strict=True))]
        for one in networks
    ]
    lost = [[(course[0] - course[-1]) / course[0] for course in one["by_radius"]] for one in networks]
    missed = sum(share < 1 for row in shares for share in row)
    falls = [1 if all(course[-1] < course[0] for course in mine) else -1 for mine in curves]
    rows: tuple[tuple[str | float, ...], ...] = tuple(
        (name, *(fmean(values) for values in zip(*(one[part][i] for one in networks), strict=True)))
        for part, label, levels in (("by_dims", "P", DIMS), ("by_radius", "r", RIGHT_RADII))
        for i, name in enumerate(f"{label} = {level:g}" for level in levels)
    )
    return Finding(
        {
            "zero-bias": every_case(missed, len(DIMS) * len(RADII)),
            "falls": by_seed(falls),
            "saturates": by_seed([-order_vote(one) for one in gained]),
            "radius": by_seed([order_vote([fmean(course) for course in one["by_radius"]]) for one in networks]),
            "variation": by_seed([-order_vote(one) for one in lost]),
        },
        (
            Table(
                "Mean LC over seeds by the shift of the centre",
                ("", *(f"shift {s}" for s in SHIFTS)),
                rows,
                detail=True,
            ),
        ),
    )
