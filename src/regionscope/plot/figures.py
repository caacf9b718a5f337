"""Whole figures, built without pyplot's global state; ``figure.savefig(path)`` writes them."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regionscope.lab.quickstart import Quickstart
from regionscope.plot import style
from regionscope.plot.points import data
from regionscope.plot.regions import decision_boundary, decision_regions, linear_regions
from regionscope.regions import DecisionRegions, Partition

__all__ = ["decision_figure", "quickstart_figure", "regions_figure"]


def quickstart_figure(result: Quickstart) -> Figure:
    """Data, linear regions (with the decision boundary) and decision regions after training, side by side."""
    figure, (left, middle, right) = _panels(3)
    after = result.after
    data(result.data.inputs, result.data.labels, ax=left)
    linear_regions(after.partition, ax=middle)
    decision_boundary(after.decision, ax=middle)
    decision_regions(after.decision, ax=right)
    left.set(title=f"{len(result.data.labels):,} points", xlim=middle.get_xlim(), ylim=middle.get_ylim())
    middle.set_title(_counted(after.partition.n_linear_regions, "linear region"))
    right.set_title(_counted(after.decision.count, "decision region"))
    return figure


def regions_figure(part: Partition) -> Figure:
    """One panel with the linear regions."""
    figure, (ax,) = _panels(1)
    linear_regions(part, ax=ax)
    ax.set_title(_counted(part.n_linear_regions, "linear region"))
    return figure


def decision_figure(dec: DecisionRegions) -> Figure:
    """One panel with the decision regions and their boundary."""
    figure, (ax,) = _panels(1)
    decision_regions(dec, ax=ax)
    ax.set_title(_counted(dec.count, "decision region"))
    return figure


def _panels(n: int) -> tuple[Figure, list[Axes]]:
    size = style.PANEL_INCHES
    figure = Figure(figsize=(n * size, size + 0.1), dpi=style.DPI, layout="constrained")
    axes = [figure.add_subplot(1, n, i + 1) for i in range(n)]
    for ax in axes:
        ax.tick_params(labelsize="small")
        ax.locator_params(nbins=5)
    return figure, axes


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
