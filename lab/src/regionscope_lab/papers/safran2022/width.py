"""Theorem 3.2: how often gradient flow succeeds, against the width of the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from regionscope_lab import shallow
from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Finding, Size, Table
from regionscope_lab.papers.rules import in_range, share
from regionscope_lab.papers.seed_table import Runs, SeedTable
from regionscope_lab.papers.workspace import Place, Workspace


def flows_of_width(place: Place, *, r: int, alpha: float, n: int, runs: int, steps: int, seed: int) -> dict[str, Any]:
    """``runs`` flows of width floor(alpha r) on one sample of an evenly alternating teacher with r switches."""
    options = shallow.FlowOptions(max_steps=steps, stall=1e-5, rest=1e-4)
    (row,) = shallow.success_vs_width(r, [alpha], n=n, runs=runs, seed=seed, options=options, device=place.device)
    return asdict(row)


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Flows of every width on several samples."""
    smoke: dict[str, Any] = {"r": 2, "n": 6, "runs": 3, "steps": 60}
    options = smoke if size == "smoke" else {"r": 6, "n": 60, "runs": 12, "steps": 4000}
    alphas = (1.0, 8.0) if size == "smoke" else (1.0, 1.3, 1.5, 2.0, 4.0, 8.0, 16.0)
    asked = [{**options, "alpha": alpha, "seed": seed} for alpha in alphas for seed in (0, 1)]
    workspace.compute_with_place(flows_of_width, asked)


def theorem32(table: SeedTable, runs: Runs) -> Finding:
    found: dict[tuple[float, int], list[Mapping[str, Any]]] = {}
    for one in table.answers("safran2022.width.flows_of_width"):
        found.setdefault((one["alpha"], one["width"]), []).append(one)
    rows = []
    for (alpha, width), answers in sorted(found.items()):
        flows = sum(one["runs"] for one in answers)
        right = sum(round(one["success"] * one["runs"]) for one in answers)
        rows.append((alpha, width, flows, right, sum(one["unfinished"] for one in answers)))
    narrow, wide = (in_range(share(row[3], row[2]), 0.0, 1.0) for row in (rows[0], rows[-1]))
    verdict = in_range(
        (wide.value - narrow.value, wide.interval[0] - narrow.interval[1], wide.interval[1] - narrow.interval[0]),
        0.0,
        1.0,
    )
    return Finding(
        {"helps": verdict},
        (
            Table(
                "Flows that classify every point, by width",
                ("alpha", "width", "flows", "classified", "cut off"),
                tuple(rows),
            ),
        ),
    )
