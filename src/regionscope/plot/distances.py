"""Pictures of the regions of data points: how far the inputs are from their nearest folds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from regionscope.checks import check_instance
from regionscope.errors import InputError
from regionscope.formatting import counted
from regionscope.inputs import Labels, read_array
from regionscope.plot import style
from regionscope.points import PointRegions
from regionscope.types import BoolArray

_BINS = 30


def distance_histogram(
    result: PointRegions, labels: Labels | None = None, *, ax: Axes | None = None
) -> list[BarContainer]:
    """Histogram of the distances to the nearest fold, on a logarithmic axis: with labels, one for the inputs that are
    predicted right and one for the others.

    Inputs on a fold, and those without one, have no place on the axis; the title says how many they are.
    """
    check_instance("plot.distance_histogram()", result, PointRegions, advice="Compute it with regions_at()")
    ax = style.axes_or_current(ax)
    distance = result.distance.numpy()
    shown = np.isfinite(distance) & (distance > 0)
    groups: Sequence[tuple[str, str, BoolArray]] = [("", style.SKY, shown)]
    if labels is not None:
        right = _predicted_right(result, labels)
        groups = [("predicted right", style.SKY, shown & right), ("predicted wrong", style.VERMILLION, shown & ~right)]
    bars = []
    if shown.any():
        low, high = distance[shown].min(), distance[shown].max()
        edges = np.geomspace(low, high if high > low else 2 * low, _BINS + 1)
        edges[0], edges[-1] = low, max(high, edges[-1])
        for name, colour, mask in groups:
            bars.append(ax.hist(distance[mask], bins=edges.tolist(), color=colour, alpha=0.7, label=name or None)[2])
        ax.set_xscale("log")
    norm = {1.0: "1-norm", 2.0: "2-norm"}.get(result.norm, "maximum norm")
    ax.set(xlabel=f"distance to the nearest fold ({norm})", ylabel="inputs")
    left_out = [
        f"{counted(int(mask.sum()), 'input')} {where}"
        for mask, where in ((distance == 0, "on a fold"), (np.isinf(distance), "without a fold"))
        if mask.any()
    ]
    ax.set_title(", ".join([counted(result.n_regions, "region"), *left_out]))
    if labels is not None and bars:
        ax.legend(fontsize="x-small", frameon=False)
    style.plain_axes([ax])
    return bars  # type: ignore[return-value]


def distance_figure(result: PointRegions, labels: Labels | None = None) -> Figure:
    """One panel with ``distance_histogram``."""
    figure, (ax,) = style.figure(1, 1, width=4.6, height=3.2)
    distance_histogram(result, labels, ax=ax)
    return figure


def _predicted_right(result: PointRegions, labels: Labels) -> BoolArray:
    truth = read_array(labels).cpu().numpy()
    if truth.shape != (len(result),):
        raise InputError(
            f"Expected {len(result)} labels, one for each input, got shape {truth.shape}. Pass a flat list."
        )
    return np.asarray(truth == result.labels.numpy())
