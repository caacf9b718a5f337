"""A training in pictures: linear regions above, decision regions below, one column for each epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, Partition
from regionscope.plot import style
from regionscope.plot.artists import Cells
from regionscope.plot.regions import decision_boundary, decision_regions, linear_regions

_BOUNDARY_WIDTH = 1.1  # the panels are small


def epoch_grid(
    partitions: Mapping[int, Partition],
    decisions: Mapping[int, DecisionRegions],
    *,
    axes: Sequence[Sequence[Axes]],
    ids: Mapping[int, Tensor] | None = None,
    rasterized: bool = False,
) -> list[list[Cells]]:
    """Two rows of panels over epochs: linear regions with their number, and decision regions (Qi and Wei 2023, Figures
    9, 10).

    partitions, decisions: results at each epoch; the same epochs in both. axes: two rows with one axes for each epoch.
    ids: for each epoch an id (r,) of each region; a region that keeps its id keeps its colour.
    """
    epochs = list(partitions)
    if not epochs or epochs != list(decisions):
        raise InputError(
            f"Expected linear and decision regions for the same epochs, at least one, got {epochs} and "
            f"{list(decisions)}. "
            "Pass two dictionaries with the same keys."
        )
    if [len(row) for row in axes] != [len(epochs)] * 2:
        raise InputError(
            f"Expected two rows of {len(epochs)} axes, got rows of {[len(row) for row in axes]}. "
            f"Create the axes with figure.subplots(2, {len(epochs)})."
        )
    above, below = [], []
    for epoch, top, bottom in zip(epochs, *axes, strict=True):
        part, dec = partitions[epoch], decisions[epoch]
        colours = None if ids is None else ids[epoch]
        above.append(linear_regions(part, ax=top, ids=colours, rasterized=rasterized))
        below.append(decision_regions(dec, ax=bottom, boundary=False, rasterized=rasterized))
        decision_boundary(dec, ax=bottom, width=_BOUNDARY_WIDTH)
        top.set_title(f"epoch {epoch:,}\n{part.n_linear_regions:,} regions", fontsize="small")
    style.map_axes([*axes[0], *axes[1]], ticks=False)
    return [above, below]


def epoch_figure(
    partitions: Mapping[int, Partition],
    decisions: Mapping[int, DecisionRegions],
    *,
    ids: Mapping[int, Tensor] | None = None,
    rasterized: bool = False,
) -> Figure:
    """A figure with the two rows of ``epoch_grid``."""
    n = len(partitions)
    figure, axes = style.figure(2, max(n, 1), width=1.55, height=1.72)
    epoch_grid(partitions, decisions, axes=[axes[:n], axes[n:]], ids=ids, rasterized=rasterized)
    return figure
