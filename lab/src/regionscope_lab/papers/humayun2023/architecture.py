"""Width, GELU and layers of fully connected networks: Figures 6, 13 and 15."""

from __future__ import annotations

import math
from statistics import fmean

from regionscope_lab.papers.declaration import Finding
from regionscope_lab.papers.humayun2023 import seeds
from regionscope_lab.papers.humayun2023.seeds import sign
from regionscope_lab.papers.rules import Graded, by_seed, combined
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable, by_setting


def figure6(table: SeedTable, runs: Runs) -> Finding:
    widths = by_setting(runs["width"], "network.options.width")
    narrow, middle, wide, widest = (widths[width] for width in _chosen(list(widths)))
    up_to = {width: mine for width, mine in widths.items() if mine is not widest}
    tops = {width: [seeds.peak(run) for run in mine] for width, mine in widths.items()}

    def saturates(part: str) -> Graded:
        """Whether the peak of the ascent gains less for each power of ten of width at the wide end than before."""

        def top(run: SeedRun) -> float:
            return seeds.peak(run, f"lc.{part}")

        def gain(small: SeedRun, large: SeedRun) -> float:
            return (top(large) - top(small)) / math.log10(_width(large) / _width(small))

        votes = [sign(gain(a, b) - gain(b, c)) for a, b, c in zip(narrow, middle, widest, strict=True)]
        return by_seed(votes, seeds.listed({width: map(top, mine) for width, mine in widths.items()}))

    return Finding(
        {
            "start": seeds.ordered(widths, lambda run: float(run.curve("lc.train").values[0])),
            "earlier": seeds.ordered(up_to, seeds.half_rise, falling=True, unit=" steps"),
            "higher": seeds.ordered(up_to, seeds.peak),
            "over": by_seed(
                [sign(seeds.peak(a) - seeds.peak(b)) for a, b in zip(wide, widest, strict=True)],
                seeds.listed({_width(mine[0]): tops[_width(mine[0])] for mine in (wide, widest)}),
            ),
            "saturate-test": saturates("test"),
            "saturate-random": saturates("random"),
            "phases": combined(
                [by_seed([seeds.three_phases(run) for run in mine]) for mine in list(widths.values())[1:]]
            ),
        },
        *seeds.shown(("LC at training points by width", widths, "lc.train")),
    )


def _chosen(widths: list[int]) -> tuple[int, int, int, int]:
    """The narrowest, the middle one, the widest but one and the widest."""
    return widths[0], widths[len(widths) // 2], widths[-2], widths[-1]


def _width(run: SeedRun) -> int:
    return int(run["network.options.width"])


def figure13(table: SeedTable, runs: Runs) -> Finding:
    depths = seeds.by_depth(runs, "gelu")
    return Finding(
        {"phases": combined([by_seed([seeds.three_phases(run) for run in mine]) for mine in depths.values()])},
        *seeds.shown(("LC at training points, GELU", depths, "lc.train")),
    )


def figure15(table: SeedTable, runs: Runs) -> Finding:
    mine = runs["layers"]
    start = "lc.train.layer."
    names = [name for name in mine[0].rows if name.startswith(start)]
    first, last = names[0], names[-1]
    heights = {name.removeprefix(start): [seeds.rise(run, name) for run in mine] for name in names}

    def gap(run: SeedRun, name: str) -> float:
        """|train - test| of a layer at the peak of the first one."""
        return abs(seeds.apart(run, name, name.replace("train", "test", 1), seeds.peak_step(run, first))[0])

    gaps = ", ".join(f"{fmean(gap(run, name) for run in mine):.3g}" for name in names)
    return Finding(
        {
            "phases": by_seed([seeds.three_phases(run, first) for run in mine]),
            "sharper": by_seed(
                [sign(seeds.rise(run, first) - seeds.rise(run, last)) for run in mine], seeds.listed(heights)
            ),
            "gap": by_seed(
                [sign(gap(run, first) - gap(run, last)) for run in mine], f"{gaps} from first to last layer"
            ),
        },
        *seeds.shown(*((f"LC at training points, {name}", {"": mine}, name) for name in (first, last))),
    )
