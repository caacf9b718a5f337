"""Example 1: gradient flow stays at a KKT point of the maximum-margin problem that is not its optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from regionscope_lab import shallow
from regionscope_lab.config import Experiment
from regionscope_lab.papers.declaration import Finding, Size, Table
from regionscope_lab.papers.rules import every_case
from regionscope_lab.papers.seed_table import Runs, SeedTable
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.shallow.losses import Loss


def flow_from(*, loss: Loss, max_log_loss: float) -> dict[str, Any]:
    """The flow of Example 1: how far its direction turns, and |theta|^2 at margin 1 along the way."""
    example = shallow.example_1()
    options = shallow.FlowOptions(loss=loss, max_log_loss=max_log_loss, direction_tol=0.0)
    flow = shallow.gradient_flow(example.start, example.sample, options)
    first = flow.theta[0] / flow.theta[0].norm()
    turned = [float((theta / theta.norm() - first).norm()) for theta in flow.theta]
    residuals = [shallow.kkt_residual(flow.network(i), example.sample) for i in range(len(flow))]
    better = shallow.kkt_residual(example.better, example.sample)
    return {
        "log_loss": [float(value) for value in flow.log_inverse_loss],
        "turned": max(turned),
        "second_unit": float(flow.theta[:, :, 1].abs().max()),
        "growth": float(flow.theta[-1].norm() / flow.theta[0].norm()),
        "classified": flow.classified,
        "norm_squared": [math.nan if one is None else one.norm_squared for one in residuals],
        "kkt": max(math.nan if one is None else one.residual for one in residuals),
        "better": math.nan if better is None else better.norm_squared,
    }


def compute(workspace: Workspace, size: Size, runs: Mapping[str, Sequence[Experiment]]) -> None:
    """Both losses."""
    most = 1e2 if size == "smoke" else 1e6
    workspace.compute(flow_from, [{"loss": loss, "max_log_loss": most} for loss in ("exponential", "logistic")])


def example1(table: SeedTable, runs: Runs) -> Finding:
    flows = sorted(table.answers("safran2022.example1.flow_from"), key=lambda one: str(one["loss"]))
    moved = sum(one["turned"] > 1e-9 or one["second_unit"] > 0 or not one["classified"] for one in flows)
    stays = sum(abs(one["norm_squared"][-1] / 2 - 1) > 1e-3 for one in flows)
    better = sum(abs(one["better"] - 1) > 1e-3 for one in flows)
    rows = tuple(
        (one["loss"], one["log_loss"][-1], one["turned"], one["norm_squared"][-1], one["kkt"], one["better"])
        for one in flows
    )
    return Finding(
        {
            "stays": every_case(moved, len(flows), f"turns by {max(one['turned'] for one in flows):.1e} at most"),
            "norm": every_case(stays, len(flows), f"{flows[0]['norm_squared'][-1]:.6f}"),
            "better": every_case(better, len(flows), f"{flows[0]['better']:.6f}"),
        },
        (
            Table(
                "The flow at its end",
                ("loss", "-log L", "turned", "norm² at margin 1", "KKT residual", "better network"),
                rows,
            ),
        ),
    )
