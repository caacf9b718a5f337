"""Table of a gradient flow: one row of numbers for each moment."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.checks import check_instance, read_integer
from regionscope_lab.shallow.flow import Flow, conserved_drift
from regionscope_lab.shallow.kkt import kkt_residual
from regionscope_lab.shallow.network import Network
from regionscope_lab.shallow.pieces import breakpoints, effective_regions, sign_pieces
from regionscope_lab.shallow.teachers import Teacher

_TEACHER = "Make one, for example with random_teacher(3)"


@dataclass(frozen=True)
class FlowRow:
    """One moment of a flow.

    log_t, tau: logarithm of the time, and the rescaled time. log_inverse_loss: -log L. norm: |theta|. margin: min_i q_i
    / |theta|^2, NaN if all parameters are 0. direction_change: |u - u'| since the row before. drift: of the conserved
    quantity. kkt, stationarity, slackness: see ``kkt_residual``; NaN before every point is classified. regions_line,
    regions_inside: exact linear regions on the line and on (-R, R). effective, effective_inside: see
    ``effective_regions``; plateau_decades: length of the plateau on (-R, R). classification_error: exact P[sign N !=
    sign N*], NaN without a teacher.
    """

    log_t: float
    tau: float
    log_inverse_loss: float
    norm: float
    margin: float
    direction_change: float
    drift: float
    kkt: float
    stationarity: float
    slackness: float
    regions_line: int
    regions_inside: int
    effective: int
    effective_inside: int
    plateau_decades: float
    classification_error: float


def flow_table(flow: Flow, *, radius: float, teacher: Teacher | None = None, every: int = 1) -> list[FlowRow]:
    """One row for every ``every``-th moment of ``flow`` and for the last one.

    Cost: for each row a nonnegative least-squares problem in the data points and a few sorts of the units.
    """
    check_instance("flow", flow, Flow, advice="Compute it with gradient_flow(network, sample)")
    read_integer("every", every)
    moments = sorted({*range(0, len(flow), every), len(flow) - 1})
    rows: list[FlowRow] = []
    before: Tensor | None = None
    for moment in moments:
        direction = flow.theta[moment] / flow.theta[moment].norm()
        change = math.nan if before is None else float((direction - before).norm())
        rows.append(_row(flow, moment, change, radius, teacher))
        before = direction
    return rows


def _row(flow: Flow, moment: int, change: float, radius: float, teacher: Teacher | None) -> FlowRow:
    network, data = flow.network(moment), flow.sample
    q = data.y * network(data.x)
    norm = float(network.theta.norm())
    kkt = kkt_residual(network, data)
    breaks = breakpoints(network)
    effective = effective_regions(network, radius=radius)
    return FlowRow(
        log_t=float(flow.log_t[moment]),
        tau=float(flow.tau[moment]),
        log_inverse_loss=float(flow.log_inverse_loss[moment]),
        norm=norm,
        margin=float(q.min()) / norm**2 if norm else math.nan,
        direction_change=change,
        drift=float(conserved_drift(flow.theta[:1], flow.theta[moment : moment + 1])[0]),
        kkt=math.nan if kkt is None else kkt.residual,
        stationarity=math.nan if kkt is None else kkt.stationarity,
        slackness=math.nan if kkt is None else kkt.slackness,
        regions_line=1 + len(breaks),
        regions_inside=1 + len(breaks.inside(radius)),
        effective=effective.on_line.count,
        effective_inside=effective.on_inside.count,
        plateau_decades=effective.on_inside.decades,
        classification_error=math.nan if teacher is None else classification_error(network, teacher),
    )


def classification_error(network: Network, teacher: Teacher) -> float:
    """P[sign N(x) != sign N*(x)] for x uniform on [-R, R], exact: from the zeros of both.

    Where N is zero on an interval it counts as wrong.
    """
    check_instance("teacher", teacher, Teacher, advice=_TEACHER)
    ends, mine = sign_pieces(network, teacher.radius)
    switches, theirs = sign_pieces(teacher.network, teacher.radius)
    nodes = torch.cat([ends, switches]).unique()
    middle = (nodes[:-1] + nodes[1:]) / 2
    a = mine[(torch.searchsorted(ends, middle) - 1).clamp(0, len(mine) - 1)]
    b = theirs[(torch.searchsorted(switches, middle) - 1).clamp(0, len(theirs) - 1)]
    return float(_shares(nodes, teacher.radius)[a != b].sum())


def _shares(nodes: Tensor, radius: float) -> Tensor:
    """Share of the uniform points of [-R, R] between each node and the next."""
    return ((nodes + radius) / (2 * radius)).clamp(0, 1).diff()
