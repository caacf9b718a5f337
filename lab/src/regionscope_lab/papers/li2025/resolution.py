"""How regions are counted: Tables 4 and 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from regionscope_lab.papers.declaration import Finding, Table, printed
from regionscope_lab.papers.rules import in_range, over_seeds
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable

_KINDS = ("layers", "neurons", "last")


def _counts(runs: Sequence[SeedRun], names: Mapping[int, str]) -> dict[int, list[float]]:
    return {n: [run.last[name] for run in runs] for n, name in names.items()}


def _table(title: str, label: str, counts: Mapping[int, Sequence[float]], known: Sequence[float]) -> Table:
    rows = tuple((n, fmean(one), paper) for (n, one), paper in zip(counts.items(), known, strict=True))
    return Table(title, (label, "mean count", "the paper"), rows)


def _ratio(counts: Mapping[int, Sequence[float]], few: int, many: int) -> tuple[float, float, float]:
    return over_seeds(a / b for a, b in zip(counts[few], counts[many], strict=True))


def table4(table: SeedTable, runs: Runs) -> Finding:
    mine, known = runs["resolutions"], printed("li2025", "resolution", "table4")
    lines = _counts(mine, {n: f"grid_{n}" for n in known["points"]})
    planes = _counts(mine, {n: f"grid_{n}x{n}" for n in known["sides"]})
    return Finding(
        {
            "lines": in_range(_ratio(lines, 200, 500), 0.99, 1.01),
            "planes": in_range(_ratio(planes, 30, 50), 0.99, 1.01),
        },
        (
            _table("Points on a line", "points", lines, known["lines"]),
            _table("Points along a side of a plane", "points", planes, known["planes"]),
        ),
    )


def table5(table: SeedTable, runs: Runs) -> Finding:
    known = printed("li2025", "resolution", "table5")
    counts = _counts(runs["resolutions"], {n: f"samples_{n}" for n in known["samples"]})
    return Finding(
        {"samples": in_range(_ratio(counts, 100, 500), 0.95, 1.05)},
        (_table("Number of lines", "lines", counts, known["counts"]),),
    )
