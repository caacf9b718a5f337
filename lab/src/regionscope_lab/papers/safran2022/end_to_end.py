"""Theorems 2.3 and 3.1 end to end: gradient flow at the widths and initial scales that they ask for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch

from regionscope_lab import shallow
from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Finding, Size, Table
from regionscope_lab.papers.rules import combined, in_range, share
from regionscope_lab.papers.safran2022.flows import DELTA, INITIAL, RADIUS, error_bound, joined
from regionscope_lab.papers.seed_table import Runs, SeedTable
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.shallow.theorems import Requirements

_DENSITY = 1 / (2 * RADIUS)  # C of Assumption 2.2, for uniform points
_STEP_ERROR = 0.01  # tolerated error of an output in one step, while outputs are of order 1
_LATE_LOG_LOSS = 1e4  # -log L at which flows at the scale of the theorem of Theorem 2.3 end
_TEST_POINTS = 2000  # evenly spaced test points: exact errors take as long as the square of the width


def asked(theorem: str, r: int, n: int, width: int = 1) -> Requirements:
    """What the theorem requires for a teacher of width r with evenly spaced switches, n points and this width."""
    rho = shallow.alternating_teacher(r - 1, radius=RADIUS).rho
    if theorem == "3.1":
        return shallow.theorem_3_1(r, rho, RADIUS, _DENSITY, k=width, n=n, delta=DELTA)
    eps = error_bound(r, n, delta=DELTA / 2)
    return shallow.theorem_2_3(r, rho, RADIUS, _DENSITY, k=width, n=n, eps=eps, delta=DELTA)


def flows_as_asked(*, theorem: str, r: int, n: int, width: int, first: int, flows: int) -> dict[str, Any]:
    """Flows with the sigma_h and sigma_o that the theorem requires at this width, until the loss is 1 / (2n) (Theorem
    3.1) or -log L = 10,000 (Theorem 2.3): lists with one entry for each flow.

    The hidden weights are larger than the output weights by about width x sigma_h^2, up to 1e25: the tolerated error of
    a step is set for the output weights.
    """
    teacher = shallow.alternating_teacher(r - 1, radius=RADIUS)
    sigma_h = asked(theorem, r, n, width).sigma_h
    sigma_o = shallow.largest_sigma_o(width, theorem=theorem, sigma_h=sigma_h, R=RADIUS, delta=DELTA)
    seeds = range(first, first + flows)
    samples = [shallow.sample(teacher, n, seed=seed) for seed in seeds]
    starts = torch.cat([
        shallow.initial_theta(1, width, sigma_h=sigma_h, sigma_o=sigma_o, seed=INITIAL + seed) for seed in seeds
    ])  # fmt: skip
    options = shallow.FlowOptions(
        max_log_loss=math.log(2 * n) if theorem == "3.1" else _LATE_LOG_LOSS,
        rtol=_STEP_ERROR / (width * sigma_h**2),
        max_steps=2000,
    )
    x, y = torch.stack([one.x for one in samples]), torch.stack([one.y for one in samples])
    end = shallow.gradient_flows(starts, x, y, options)
    networks = [shallow.Network.of(theta) for theta in end.theta]
    hidden = (end.theta[:, :2] - starts[:, :2]).flatten(1).norm(dim=1) / starts[:, :2].flatten(1).norm(dim=1)
    return {
        "log_loss": end.F.tolist(),
        "steps": end.steps.tolist(),
        "hidden": hidden.tolist(),
        "output": (end.theta[:, 2].norm(dim=1) / end.theta[:, :2].flatten(1).norm(dim=1)).tolist(),
        "error": [_test_error(network, teacher) for network in networks],
        "regions": [shallow.n_linear_regions(network) for network in networks],
    }


def _test_error(network: shallow.Network, teacher: shallow.Teacher) -> float:
    """Share of evenly spaced points with a wrong sign."""
    blocks = torch.linspace(-RADIUS, RADIUS, _TEST_POINTS, dtype=torch.float64).split(100)
    return sum(int(((network(x) > 0) != (teacher.network(x) > 0)).sum()) for x in blocks) / _TEST_POINTS


_GRIDS: dict[Size, tuple[tuple[int, ...], int, int, int, tuple[int, ...]]] = {  # r, points, flows, together, widths
    "smoke": ((1,), 4, 1, 1, (100,)),
    "desk": ((1, 2), 10, 10, 5, (10_000,)),
    "full": ((1, 2, 3, 4), 30, 40, 4, (10_000, 100_000)),
}


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Flows with the width that each theorem requires, and for Theorem 3.1 with more widths; the widest first."""
    teachers, n, flows, together, more = _GRIDS[size]
    asked_flows: list[dict[str, Any]] = []
    for r in teachers:
        for theorem in ("3.1", "2.3"):
            required = math.ceil(asked(theorem, r, n).k)
            for width in sorted({required, *more}) if theorem == "3.1" else [required]:
                cell = {"theorem": theorem, "r": r, "n": n, "width": width}
                asked_flows += [{**cell, "first": first, "flows": together} for first in range(0, flows, together)]
    workspace.compute(flows_as_asked, asked_flows[::-1])


def theorem31(table: SeedTable, runs: Runs) -> Finding:
    flows = joined(table.answers("safran2022.end_to_end.flows_as_asked"), "theorem", "r", "n", "width")
    parts: dict[Any, Any] = {}
    first_stage: dict[Any, Any] = {}
    rows: list[tuple[Any, ...]] = []
    for (theorem, r, n, width), flow in flows.items():
        need = asked(theorem, r, n, width)
        reached = sum(value >= math.log(2 * n if theorem == "3.1" else n) for value in flow["log_loss"])
        rows.append(
            (
                theorem,
                r,
                n,
                width,
                math.ceil(need.k),
                f"{need.sigma_h:.1e}",
                len(flow["log_loss"]),
                reached,
                fmean(flow["error"]),
                fmean(flow["regions"]),
            )
        )
        if width >= need.k:
            graded = in_range(share(reached, len(flow["log_loss"])), 1 - DELTA, 1.0)
            (parts if theorem == "3.1" else first_stage)[r, width] = graded

    def flows_of(theorem: str) -> str:
        """How many reached their loss, of those with the required width or more."""
        mine = [row for row in rows if row[0] == theorem and row[3] >= row[4]]
        return f"{sum(row[7] for row in mine)} of {sum(row[6] for row in mine)} flows"

    columns = (
        "theorem",
        "r",
        "n",
        "width",
        "required width",
        "required sigma_h",
        "flows",
        "reached",
        "mean test error",
        "mean regions so far",
    )
    return Finding(
        {
            "loss": combined(list(parts.values()), f"{flows_of('3.1')} of the required width or more"),
            "first-stage": combined(list(first_stage.values()), f"{flows_of('2.3')} of the required width"),
        },
        (Table("Flows at the scale of the theorems", columns, tuple(rows)),),
    )
