"""Pictures of the shallow theory lab: a flow as a frame, an animation and over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from regionscope.plot import style
from regionscope_lab.animation import write_animation
from regionscope_lab.free_legend import free_legend
from regionscope_lab.shallow import Flow, Teacher, breakpoints, region_bound
from regionscope_lab.shallow.pieces import EffectiveRegions, unit_shares
from regionscope_lab.shallow.report import FlowRow


def flow_frame(
    flow: Flow, moment: int, *, ax: Axes | None = None, radius: float, teacher: Teacher | None = None
) -> None:
    """The function at one moment (divided by its largest value on [-R, R]), its data, and a bar for each fold.

    The height of a bar is the share |v| |(w, b)| / |theta|^2 of the unit, relative to the largest.
    """
    ax = style.axes_or_current(ax)
    network = flow.network(moment)
    edge = torch.tensor([-radius, radius], dtype=torch.float64, device="cpu")
    x = torch.cat([edge, breakpoints(network).inside(radius).at]).sort().values
    values = network(x)
    values = values / values.abs().max().clamp(min=1e-300)
    if teacher is not None:
        for switch in teacher.switches.tolist():
            ax.axvline(switch, color=style.LIGHT, linewidth=1.0, linestyle=":")
    ax.axhline(0.0, color=style.GREY, linewidth=0.6)
    share = unit_shares(network)
    folds = -network.b / torch.where(network.w == 0, torch.nan, network.w)
    inside = folds.abs() < radius
    height = (share / share.max().clamp(min=1e-300))[inside].numpy()
    ax.vlines(folds[inside].numpy(), -1.5, -1.5 + 0.45 * height, color=style.ORANGE, linewidth=1.2)
    ax.plot(x.numpy(), values.numpy(), color=style.BLACK, linewidth=1.3)
    labels = flow.sample.y.numpy()
    for label, colour in ((1.0, style.BLUE), (-1.0, style.VERMILLION)):
        members = flow.sample.x.numpy()[labels == label]
        ax.scatter(members, np.full_like(members, 1.25 * label * 0.9), s=9, color=colour, zorder=3)
    ax.set(xlim=(-radius, radius), ylim=(-1.55, 1.3), xlabel="x", ylabel="N(x), scaled")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.set_title(_moment_title(flow, moment), fontsize="medium")


def flow_animation(
    flow: Flow, path: Path, *, radius: float, teacher: Teacher | None = None, frames: int = 60, fps: int = 10
) -> Path:
    """Write the flow as a GIF: at most ``frames`` of its moments, evenly spread, first and last included."""
    figure = Figure(figsize=(5.6, 3.6), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    moments = np.unique(np.linspace(0, len(flow) - 1, min(frames, len(flow))).round().astype(int))
    ax = figure.add_subplot()

    def draw() -> Iterator[None]:
        for moment in moments.tolist():
            ax.clear()
            flow_frame(flow, moment, ax=ax, radius=radius, teacher=teacher)
            yield
        yield from [None] * fps  # the last frame stays for a second

    write_animation(figure, draw(), path, fps=fps)
    return path


def flow_figure(
    rows: Sequence[FlowRow], last: EffectiveRegions, *, r: int, minimum: int, log_t0: float = math.nan
) -> Figure:
    """Linear regions over log-time beside the bound 32 r + 67 and the least possible; KKT residual, margin and error.

    The right panel shows ``last``, the effective number at the end against the tolerance: the plateau.
    """
    figure, (left, right, third) = style.figure(1, 3, width=13.2, height=4.3)
    late = [row for row in rows if math.isfinite(row.log_t)]
    t = [row.log_t for row in late]
    left.plot(t, [row.regions_line for row in late], color=style.SKY, label="exact, on the line")
    left.plot(t, [row.regions_inside for row in late], color=style.BLUE, label="exact, on (−R, R)")
    left.plot(
        t, [row.effective_inside for row in late], color=style.VERMILLION, marker=".", label="effective, on (−R, R)"
    )
    left.plot(t, [row.effective for row in late], color=style.ORANGE, linestyle="--", label="effective, on the line")
    left.axhline(
        region_bound(r), color=style.BLACK, linestyle="-.", linewidth=1, label=f"bound 32r + 67 = {region_bound(r)}"
    )
    left.axhline(minimum, color=style.BLACK, linestyle=":", linewidth=1, label=f"least possible = {minimum}")
    left.set(yscale="log", ylabel="linear regions")
    right.plot(t, [row.kkt for row in late], color=style.VERMILLION, label="KKT residual")
    right.plot(t, [row.direction_change for row in late], color=style.SKY, label="direction change")
    right.plot(
        t, [row.margin if row.margin > 0 else math.nan for row in late], color=style.GREEN, label="normalised margin"
    )
    error = [row.classification_error if row.classification_error > 0 else math.nan for row in late]
    right.plot(t, error, color=style.BLACK, linewidth=1, label="test error")
    right.set(yscale="log")
    for ax in (left, right):
        ax.set_xscale("symlog", linthresh=1.0)
        ax.set_xlim(max(min(t, default=0.0), -3.0), max(t, default=1.0))
        ax.set_xlabel("log t")
        if math.isfinite(log_t0):
            ax.axvline(log_t0, color=style.GREY, linewidth=0.8)
            ax.text(log_t0, 1.0, " t₀", transform=ax.get_xaxis_transform(), va="top", fontsize="small")
    third.plot(last.tolerances.numpy(), last.line.numpy(), color=style.ORANGE, linestyle="--", label="on the line")
    third.plot(last.tolerances.numpy(), last.inside.numpy(), color=style.VERMILLION, marker=".", label="on (−R, R)")
    third.axvspan(last.on_inside.first, last.on_inside.last, color=style.PALE, zorder=0, label="plateau on (−R, R)")
    third.set(xscale="log", yscale="log", xlabel="tolerance", ylabel="effective linear regions at the end")
    free_legend(left, right, third)
    return figure


def _moment_title(flow: Flow, moment: int) -> str:
    time: Any = float(flow.log_t[moment])
    clock = "t = 0" if math.isinf(time) else f"log t = {time:,.4g}"
    return f"{clock},  −log L = {float(flow.log_inverse_loss[moment]):,.4g}"
