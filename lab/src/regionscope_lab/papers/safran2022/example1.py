"""Example 1: gradient flow stays at a KKT point of the maximum-margin problem that is not its optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from regionscope_lab import shallow
from regionscope_lab.papers import verdict
from regionscope_lab.papers.charts import Lines, Series
from regionscope_lab.papers.papers import read_study
from regionscope_lab.papers.study import Claim, Outcome, Size, Table
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.shallow.losses import Loss

STAYS, OPTIMUM = 2.0, 1.0  # |theta*|^2 and |theta'|^2 at margin 1, as printed

_LOSSES: tuple[Loss, ...] = ("exponential", "logistic")
_BUDGET: dict[Size, float] = {"smoke": 1e2, "desk": 1e6, "full": 1e6}  # largest -log L
_SMALLEST_TURN = 1e-9  # a direction that turns by less has not turned


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


def of_example1(found: Mapping[str, Mapping[str, Any]]) -> Outcome:
    """Both losses beside the two numbers of the paper."""
    claims: list[Claim] = []
    for loss, one in found.items():
        moved = (one["turned"] > _SMALLEST_TURN) + (one["second_unit"] > 0) + (not one["classified"])
        last = one["norm_squared"][-1]
        claims += [
            Claim(
                f"{loss} loss: the direction of the flow",
                "theta* = theta(0); the second unit stays 0",
                f"turns by {one['turned']:.1e}; second unit at most {one['second_unit']:.1g}; -log L reaches "
                f"{one['log_loss'][-1]:,.0f}, |theta| {one['growth']:,.0f} times its start",
                verdict.holds(moved, 3),
            ),
            Claim(
                f"{loss} loss: |theta|² of the limit, at margin 1",
                f"{STAYS:g}",
                f"{last:.6f} (KKT residual at most {one['kkt']:.1e})",
                verdict.agrees(STAYS, last, within=0.001),
            ),
        ]
    better = next(iter(found.values()))["better"]
    claims.append(
        Claim("|theta'|² of the better network, at margin 1", f"{OPTIMUM:g}", f"{better:.6f}",
              verdict.agrees(OPTIMUM, better, within=0.001))
    )  # fmt: skip
    rows = tuple(
        (loss, one["log_loss"][-1], one["growth"], one["turned"], one["norm_squared"][-1], one["kkt"], one["better"])
        for loss, one in found.items()
    )
    columns = ("loss", "-log L", "growth of theta", "turned", "norm² at margin 1", "KKT residual", "better network")
    return Outcome(
        claims=tuple(claims),
        tables=(Table("The flow at its end", columns, rows),),
        charts=(_chart(found),),
        notes=("Nothing is random here: the paper gives the data and the start.",),
    )


def _chart(found: Mapping[str, Mapping[str, Any]]) -> Lines:
    return Lines(
        title="Example 1: the flow stays at a KKT point that is not optimal",
        x_label="-log loss",
        y_label="|theta|² at margin 1",
        x_scale="log",
        series=tuple(
            Series(label=f"{loss} loss", x=tuple(one["log_loss"]), y=tuple(one["norm_squared"]))
            for loss, one in found.items()
        ),
        levels=(("the better network", OPTIMUM),),
    )


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    asked: Sequence[dict[str, Any]] = [{"loss": loss, "max_log_loss": _BUDGET[size]} for loss in _LOSSES]
    return of_example1(dict(zip(_LOSSES, workspace.compute(flow_from, asked), strict=True)))


EXAMPLE1 = read_study("safran2022-example1", analyse=_analyse)
