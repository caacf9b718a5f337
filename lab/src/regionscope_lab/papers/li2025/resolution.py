"""How regions are counted: Tables 4 and 5, exact counts, and the rescaled weights of section 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.rules import by_seed, every_case, in_range, over_seeds, share
from regionscope_lab.papers.seed_table import SeedRun, SeedTable

Runs = Mapping[str, Sequence[SeedRun]]
LINES = {50: 2.74, 100: 2.76, 200: 2.78, 300: 2.78, 500: 2.78}
PLANES = {10: 2.76, 20: 2.76, 30: 2.78, 40: 2.78, 50: 2.78}
SAMPLES = {10: 2.24, 50: 2.56, 100: 2.78, 300: 2.80, 500: 2.79}
_KINDS = ("layers", "neurons", "last")
_MOVES = {"distance": ("layers", "neurons"), "margin": ("last",), "norm": ("neurons",), "sharpness": ("neurons",)}
_EXACT = (
    "line", "linear pieces", "decision regions", "on a grid of 200", "seconds",
    "seconds of a forward pass over the vertices",
)  # fmt: skip


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


def exact(table: SeedTable, runs: Runs) -> Finding:
    lines = sorted(table.answers("li2025.exact.on_segment"), key=lambda one: int(one["line"]))
    seen, there = (sum(one[name] for one in lines) for name in ("grid", "regions"))
    rows = tuple(
        (one["line"], one["pieces"][-1], one["regions"], one["grid"], one["seconds"], one["floor"]) for one in lines
    )
    means: tuple[str | float, ...] = ("mean", *(fmean(float(row[k]) for row in rows) for k in range(1, 6)))
    return Finding(
        {"grid": in_range(share(seen, there), 0.99, 1.0)},
        (
            Table(
                "Lines between training points, one ResNet18",
                _EXACT,
                (*rows, means),
                detail=True,
            ),
            Table("Means over 20 lines between training points, one ResNet18", ("", *_EXACT[1:]), (means,)),
        ),
    )


def section3(table: SeedTable, runs: Runs) -> Finding:
    networks: dict[str, dict[str, dict[str, Any]]] = {}
    for one in table.answers("li2025.reparametrisation.rescaled"):
        networks.setdefault(one["run"], {})[one["kind"]] = one
    pairs = [
        pair
        for mine in networks.values()
        for kind in _KINDS
        for pair in zip(mine["none"]["regions"], mine[kind]["regions"], strict=True)
    ]
    moved = {
        name: [mine[kind][name] / mine["none"][name] for mine in networks.values() for kind in kinds]
        for name, kinds in _MOVES.items()
    }
    rows: tuple[tuple[str | float, ...], ...] = tuple(
        (kind, *(fmean(mine[kind][name] / mine["none"][name] for mine in networks.values()) for name in _MOVES))
        for kind in _KINDS
    )
    return Finding(
        {
            "regions": every_case(sum(a != b for a, b in pairs), len(pairs)),
            **{
                name: by_seed(
                    [1 if abs(one - 1) > 0.01 else -1 for one in ratios], f"changes by a factor of {fmean(ratios):.3g}"
                )
                for name, ratios in moved.items()
            },
        },
        (Table("After / before, mean over networks", ("change", *_MOVES), rows),),
    )
