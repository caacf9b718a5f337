"""A training in pictures: linear regions above, decision regions below, one column for each epoch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from numbers import Real
from typing import TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, Partition
from regionscope.plot import style
from regionscope.plot.artists import Cells
from regionscope.plot.regions import decision_boundary, decision_regions, linear_regions

_BOUNDARY_WIDTH = 1.1  # the panels are small

Epoch = TypeVar("Epoch", bound=Hashable)


def epoch_grid(
    partitions: Mapping[Epoch, Partition],
    decisions: Mapping[Epoch, DecisionRegions],
    *,
    axes: Sequence[Sequence[Axes]],
    ids: Mapping[Epoch, Tensor] | None = None,
    rasterized: bool = False,
) -> list[list[Cells]]:
    """Two rows of panels over epochs: linear regions with their number, and decision regions (Qi and Wei 2023, Figures
    9, 10).

    partitions, decisions: results at each epoch, as two dictionaries with the same keys; the columns are in the order
    of the first. A number as key is titled "epoch 10", any other key is the title itself. axes: two rows with one axes
    for each epoch. ids: for each epoch an id (r,) of each region; a region that keeps its id keeps its colour.
    """
    epochs = _epochs(partitions, decisions)
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
        title = f"epoch {epoch:,}" if isinstance(epoch, Real) else str(epoch)
        top.set_title(f"{title}\n{part.n_linear_regions:,} regions", fontsize="small")
    style.map_axes([*axes[0], *axes[1]], ticks=False)
    return [above, below]


def epoch_figure(
    partitions: Mapping[Epoch, Partition],
    decisions: Mapping[Epoch, DecisionRegions],
    *,
    ids: Mapping[Epoch, Tensor] | None = None,
    rasterized: bool = False,
) -> Figure:
    """A figure with the two rows of ``epoch_grid``, which says what the arguments are."""
    n = len(_epochs(partitions, decisions))
    figure, axes = style.figure(2, n, width=1.55 * n, height=3.44)
    epoch_grid(partitions, decisions, axes=[axes[:n], axes[n:]], ids=ids, rasterized=rasterized)
    return figure


def _epochs(partitions: Mapping[Epoch, Partition], decisions: Mapping[Epoch, DecisionRegions]) -> list[Epoch]:
    """The keys of both dictionaries, in the order of the first."""
    if not isinstance(partitions, Mapping) or not isinstance(decisions, Mapping):
        raise InputError(
            f"Expected two dictionaries from epochs to results, got {type(partitions).__name__} and "
            f"{type(decisions).__name__}. Write {{0: partition, 10: partition}} and {{0: decision, 10: decision}}."
        )
    if not partitions or set(partitions) != set(decisions):
        raise InputError(
            f"Expected linear and decision regions for the same epochs, at least one, got {list(partitions)} and "
            f"{list(decisions)}. Pass two dictionaries with the same keys."
        )
    return list(partitions)
