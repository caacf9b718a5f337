"""Theorem 4.2 of Safran, Vardi and Lee 2022, run: effective linear regions against the width r of the teacher."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from regionscope.checks import check_instance, read_integer
from regionscope.errors import InputError
from regionscope.inputs import read_array
from regionscope_lab.shallow.flow import gradient_flows
from regionscope_lab.shallow.kkt import kkt_residual
from regionscope_lab.shallow.network import Network, initial_theta
from regionscope_lab.shallow.pieces import effective_regions, minimum_regions
from regionscope_lab.shallow.report import classification_error
from regionscope_lab.shallow.state import ENDS, OPTIONS_ADVICE, FlowOptions
from regionscope_lab.shallow.teachers import alternating_teacher, sample
from regionscope_lab.shallow.theorems import largest_sigma_o, region_bound


@dataclass(frozen=True)
class TeacherWidthRow:
    """Flows of one teacher width r.

    width: 4 (32 r + 67), so that the bound says something. minimum: fewest regions that classify the sample.
    classified: runs with L < l(0) / n, and only these count in what follows. converged: those that ended by their
    direction, not by the budget. line, inside: largest effective number of linear regions on the line and on (-R, R);
    mean_inside: its mean. kkt: largest KKT residual. error: largest exact test error. All NaN or 0 when no run
    classified the sample.
    """

    r: int
    width: int
    bound: int
    minimum: int
    runs: int
    classified: int
    converged: int
    line: int
    inside: int
    mean_inside: float
    kkt: float
    error: float

    @property
    def holds(self) -> bool:
        """Whether every classified run has at most 32 r + 67 effective regions on the line."""
        return self.line <= self.bound


def regions_vs_teacher_width(
    teachers: Sequence[int], *, runs: int = 5, n: int = 100, radius: float = 1.0, sigma_h: float = 1.0, seed: int = 0,
    options: FlowOptions | None = None,
) -> list[TeacherWidthRow]:  # fmt: skip
    """Gradient flows of width 4 (32 r + 67) on teachers of width r with r - 1 evenly spaced switches.

    Each run has its own initialisation (Assumption 2.1; sigma_o as in Theorem 2.3 with delta = 0.1); the sample is
    common. Cost: that of ``gradient_flows`` at that width, about 2,000 steps a flow.
    """
    widths = read_array(teachers, "teachers, a list of widths").flatten().tolist()
    if not widths:
        raise InputError("Expected at least one teacher width, got none. Write teachers=[1, 2, 3], for example.")
    options = check_instance("options", options or FlowOptions(), FlowOptions, advice=OPTIONS_ADVICE)
    row = partial(_row, options=options, runs=runs, n=n, radius=radius, sigma_h=sigma_h, seed=seed)
    return [row(read_integer("a width of teachers", r)) for r in widths]


def _row(
    r: int, *, runs: int, n: int, radius: float, sigma_h: float, seed: int, options: FlowOptions
) -> TeacherWidthRow:
    k = 4 * region_bound(r)
    teacher = alternating_teacher(r - 1, radius=radius)
    data = sample(teacher, n, seed=seed)
    sigma_o = largest_sigma_o(k, sigma_h=sigma_h, R=radius)
    theta = initial_theta(runs, k, sigma_h=sigma_h, sigma_o=sigma_o, seed=seed + 1)
    end = gradient_flows(theta, data.x, data.y, options)
    won = torch.isfinite(end.log_t0)
    networks = [Network.of(theta) for theta in end.theta[won]]
    counts = [effective_regions(network, radius=radius) for network in networks]
    residuals = [kkt_residual(network, data) for network in networks]
    inside = [count.on_inside.count for count in counts]
    return TeacherWidthRow(
        r=r,
        width=k,
        bound=region_bound(r),
        minimum=minimum_regions(data.y),
        runs=runs,
        classified=int(won.sum()),
        converged=int((end.end == ENDS.index("direction")).sum()),
        line=max((count.on_line.count for count in counts), default=0),
        inside=max(inside, default=0),
        mean_inside=sum(inside) / len(inside) if inside else math.nan,
        kkt=max((residual.residual for residual in residuals if residual is not None), default=math.nan),
        error=max((classification_error(network, teacher) for network in networks), default=math.nan),
    )
