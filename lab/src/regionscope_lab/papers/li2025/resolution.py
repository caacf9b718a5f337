"""How regions are counted: Tables 4 and 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.rules import in_range, over_seeds
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable

LINES = {50: 2.74, 100: 2.76, 200: 2.78, 300: 2.78, 500: 2.78}
PLANES = {10: 2.76, 20: 2.76, 30: 2.78, 40: 2.78, 50: 2.78}
SAMPLES = {10: 2.24, 50: 2.56, 100: 2.78, 300: 2.80, 500: 2.79}
_KINDS = ("layers", "neurons", "last")


def _counts(runs: Sequence[SeedRun], names: Mapping[int, str]) -> dict[int, list[float]]:
    return {n: [run.last[name] for run in runs] for n, name in names.items()}


def _table(title: str, label: str, counts: Mapping[int, Sequence[float]], printed: Mapping[int, float]) -> Table:
    return Table(
        title, (label, "mean count", "the paper"), tuple((n, fmean(one), printed[n]) for n, one in counts.items())
    )


def _ratio(counts: Mapping[int, Sequence[float]], few: int, many: int) -> tuple[float, float, float]:
    return over_seeds(a / b for a, b in zip(counts[few], counts[many], strict=True))


def table4(table: SeedTable, runs: Runs) -> Finding:
    mine = runs["resolutions"]
    lines, planes = _counts(mine, {n: f"grid_{n}" for n in LINES}), _counts(mine, {n: f"grid_{n}x{n}" for n in PLANES})
    return Finding(
        {
            "lines": in_range(_ratio(lines, 200, 500), 0.99, 1.01),
            "planes": in_range(_ratio(planes, 30, 50), 0.99, 1.01),
        },
        (
            _table("Points on a line", "points", lines, LINES),
            _table("Points along a side of a plane", "points", planes, PLANES),
        ),
    )


def table5(table: SeedTable, runs: Runs) -> Finding:
    counts = _counts(runs["resolutions"], {n: f"samples_{n}" for n in SAMPLES})
    return Finding(
        {"samples": in_range(_ratio(counts, 100, 500), 0.95, 1.05)},
        (_table("Number of lines", "lines", counts, SAMPLES),),
    )
