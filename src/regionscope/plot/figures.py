"""Whole figures, built without pyplot's global state; ``figure.savefig(path)`` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regionscope.exact import DecisionRegions, Partition
from regionscope.formatting import counted
from regionscope.geometry import Slice
from regionscope.plot import style
from regionscope.plot.kinds import class_names_for, decision_for, partition_for
from regionscope.plot.legends import class_legend, legend_beside
from regionscope.plot.marks import data
from regionscope.plot.regions import decision_boundary, decision_mosaic, decision_regions, linear_regions
from regionscope.plot.walls import layer_panels, zero_lines

if TYPE_CHECKING:
    from regionscope.quickstart import Quickstart


def quickstart_figure(result: Quickstart) -> Figure:
    """The regions before and after training, hue by class and shade by region, and the data on the decision regions."""
    figure, axes = style.figure(1, 3, width=3 * style.PANEL_INCHES, height=style.PANEL_INCHES + 0.32)
    left, middle, right = axes
    for ax, when, moment in ((left, "before", result.before), (middle, "after", result.after)):
        decision_mosaic(moment.decision, ax=ax)
        ax.set_title(f"{when} training: {counted(moment.partition.n_linear_regions, 'linear region')}")
    decision_regions(result.after.decision, ax=right)
    data(result.inputs, result.labels, ax=right)
    points, regions = f"{len(result.labels):,} points", counted(result.after.decision.count, "decision region")
    right.set_title(f"{points}, {regions}")
    style.map_axes(axes, ticks=False)
    return figure


def regions_figure(part: Partition) -> Figure:
    """One panel with the linear regions."""
    figure, ax = panel(partition_for("regions_figure", part))
    linear_regions(part, ax=ax)
    ax.set_title(counted(part.n_linear_regions, "linear region"))
    return figure


def decision_figure(dec: DecisionRegions, *, class_names: Sequence[str] | None = None) -> Figure:
    """One panel with the decision regions, their boundary, and a legend of the classes that occur.

    class_names: one name for each class, by label; "class 3" by default.
    """
    figure, ax = panel(decision_for("decision_figure", dec).partition)
    decision_regions(dec, ax=ax)
    legend = class_legend(dec.labels, ax=ax, class_names=class_names_for(dec, class_names))
    style.add_room(figure, right=legend.get_window_extent().width / figure.dpi)
    ax.set_title(counted(dec.count, "decision region"))
    return figure


def neurons_figure(part: Partition, dec: DecisionRegions | None = None) -> Figure:
    """One panel with the zero lines of all neurons, coloured by layer, and the decision boundary if it is given."""
    figure, ax = panel(partition_for("neurons_figure", part))
    handles = zero_lines(part, ax=ax)
    if dec is not None:
        boundary = decision_boundary(dec, ax=ax, colour=style.VERMILLION, width=style.line(2.0))
        boundary.set_label("decision boundary")
        handles = [*handles, boundary]
    for handle in legend_beside(handles, ax=ax, title="folds of", grow=True).legend_handles:
        if handle is not None:
            handle.set(linewidth=style.line(2.0))  # the lines in the panel are too thin to tell their colours apart
    return figure


def layer_panels_figure(part: Partition, *, columns: int = 4) -> Figure:
    """The panels of ``layer_panels``, at most ``columns`` in a row."""
    n = len(partition_for("layer_panels_figure", part).by_layer)
    across = max(1, min(n, columns))
    down = max(1, -(-n // across))
    width, height = 0.72 * style.PANEL_INCHES * across, 0.84 * style.PANEL_INCHES * down
    figure, axes = style.figure(down, across, width=width, height=height)
    layer_panels(part, axes=axes[:n])
    style.map_axes(axes[:n], ticks=False)
    for ax in axes[n:]:
        ax.remove()
    return figure


def panel(part: Partition) -> tuple[Figure, Axes]:
    """A panel in the proportions of the slice of a partition."""
    return panel_of(part.slice)


def panel_of(slice: Slice) -> tuple[Figure, Axes]:
    """A panel in the proportions of the slice."""
    width, height = 1.6 * style.PANEL_INCHES, 0.4 * style.PANEL_INCHES
    if slice.dim == 2:
        wide, high = slice.corners.amax(0) - slice.corners.amin(0)
        shape = min(max(float(high / wide), 0.3), 3.0)
        width = style.PANEL_INCHES * min(1.5, max(1.0, shape**-0.5))
        height = width * shape + 0.35
    figure, (ax,) = style.figure(1, 1, width=width, height=height)
    style.map_axes([ax])
    return figure, ax
