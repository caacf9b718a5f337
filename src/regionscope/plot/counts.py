"""Region counts: their histogram over slices, and what the labels look like on a few of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from regionscope.checks import check_instance
from regionscope.errors import InputError
from regionscope.formatting import counted, estimated
from regionscope.measures.region_count import RegionCount
from regionscope.plot import style
from regionscope.plot.artists import Cells
from regionscope.plot.kinds import count_for
from regionscope.plot.legends import class_legend
from regionscope.plot.regions import frame_slice
from regionscope.plot.ticks import whole_ticks
from regionscope.sampled.grid import LabelMap

_GROUPS = 20  # at most, along the axis of a comparison: more would leave bars too thin to tell their colours apart
_MOST_CLASSES = 20  # in the legend of an example


def count_histogram(result: RegionCount, *, ax: Axes | None = None) -> BarContainer:
    """Histogram of the number of regions over the slices, with the mean and its interval."""
    count_for("count_histogram", result)
    ax = style.axes_or_current(ax)
    numbers, times = np.unique(result.counts.numpy(), return_counts=True)
    bars = ax.bar(numbers, times, width=0.85, color=style.SKY)
    ax.axvline(result.value, color=style.BLACK, linewidth=style.line(style.BOUNDARY_WIDTH), label="mean")
    if result.n > 1:
        ax.axvspan(
            *result.interval, color=style.BLACK, alpha=style.BAND_ALPHA, linewidth=0, label="95% interval of the mean"
        )
    ax.legend(fontsize="x-small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    if len(numbers) == 1:
        ax.set_xlim(numbers[0] - 1.5, numbers[0] + 1.5)
    ax.set(xlabel=_regions_of([result]), ylabel="slices")
    whole_ticks(ax.xaxis, numbers.tolist())
    whole_ticks(ax.yaxis, [0, *times.tolist()])
    style.plain_axes([ax])
    return bars


def label_map(labelled: LabelMap, *, ax: Axes | None = None, class_names: Sequence[str] | None = None) -> Cells:
    """Each lattice point as a cell of the size of the spacing, coloured by its label: a band in 1-D, squares in 2-D.

    class_names: as in ``decision_regions``.
    """
    check_instance("plot.label_map()", labelled, LabelMap, advice="Compute it with regionscope.sampled.label_maps()")
    ax = style.axes_or_current(ax)
    k = labelled.lattice.dim
    if k > 2:
        raise InputError(
            f"Expected a slice of dimension 1 or 2, got dimension {k}. "
            "Compute the label map on a slice of dimension 1 or 2."
        )
    coords = labelled.coords.numpy()
    low, high = coords.min(0), coords.max(0)
    half = (high - low) / (labelled.lattice.grid - 1) / 2
    if k == 1:
        coords, half = np.column_stack([coords[:, 0], np.full(len(coords), 0.5)]), np.array([half[0], 0.5])
    square = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    colours = style.class_colours(labelled.labels, pale=True)
    cells = Cells(list(coords[:, None] + square * half), colours)
    ax.add_collection(cells, autolim=False)
    frame_slice(labelled.slice, ax)
    if class_names is not None:
        class_legend(labelled.labels, ax=ax, class_names=class_names)
    return cells


def count_figure(
    result: RegionCount | Mapping[str, RegionCount] | Sequence[RegionCount],
    examples: Sequence[LabelMap] = (),
    *,
    class_names: Sequence[str] | None = None,
) -> Figure:
    """The histogram, and one panel for each example slice, with a legend of its classes, up to 20.

    result: one region count; or several to compare, as a dictionary from names to counts or as a list. The title names
    the only one of a dictionary. Several share one panel: bars beside each other for the share of slices, and a line
    for each mean with its 95% interval. Their legend has the means with their standard errors.
    class_names: name of each class, by label; "class 3" by default.
    """
    several = _several(result)
    panels = 1 + len(examples)
    width = panels * (3.3 if len(several) == 1 else 4.8)
    figure, (first, *others) = style.figure(1, panels, width=width, height=3.4)
    if len(several) == 1:
        ((name, count),) = several.items()
        count_histogram(count, ax=first)
        caption = f"{estimated(count.value, count.stderr)} regions, {counted(count.n, 'slice')}"
        first.set_title(f"{name}\n{caption}" if name else caption, fontsize="medium")
    else:
        _compare(several, first)
    for number, (ax, labelled) in enumerate(zip(others, examples, strict=True)):
        label_map(labelled, ax=ax)
        ax.set_title(f"example slice {number}: {counted(labelled.count, 'region')}", fontsize="medium")
        if len(labelled.labels.unique()) <= _MOST_CLASSES:
            class_legend(labelled.labels, ax=ax, class_names=class_names)
    style.map_axes(others)
    return figure


def _several(result: RegionCount | Mapping[str, RegionCount] | Sequence[RegionCount]) -> dict[str, RegionCount]:
    """Each count with its name; those of a list are numbered."""
    if not isinstance(result, Mapping | Sequence):
        return {"": count_for("count_figure", result)}
    named = dict(result) if isinstance(result, Mapping) else {f"count {i}": count for i, count in enumerate(result)}
    if not named:
        raise InputError("Expected at least one RegionCount for plot.count_figure(), got none. Pass one or several.")
    return {str(name): count_for("count_figure", count) for name, count in named.items()}


def _regions_of(counts: Iterable[RegionCount]) -> str:
    """The name of an axis of counts, with the kind of regions unless they are decision regions or of several kinds."""
    kinds = {count.pieces for count in counts}
    kind = f"{kinds.pop()} " if len(kinds) == 1 and "decision" not in kinds else ""
    return f"{kind}regions on a slice"


def _compare(several: Mapping[str, RegionCount], ax: Axes) -> None:
    """Bars beside each other for each number of regions, or for each range of numbers where there are many."""
    low = min(int(count.counts.min()) for count in several.values())
    high = max(int(count.counts.max()) for count in several.values())
    step = math.ceil((high - low + 1) / _GROUPS)
    starts = np.arange(low, high + 1, step)
    middle, width = starts + (step - 1) / 2, 0.85 * step / len(several)
    for i, (name, count) in enumerate(several.items()):
        share = np.bincount((count.counts.cpu().numpy() - low) // step, minlength=len(starts)) / count.n
        places = middle + (i - (len(several) - 1) / 2) * width
        mean = estimated(count.value, count.stderr)
        label = f"{name}: mean {mean} on {counted(count.n, 'slice')}"
        ax.bar(places, share, width, color=style.hue(i), alpha=0.6, linewidth=0, label=label)
        ax.axvline(count.value, color=style.hue(i), linewidth=style.line(style.BOUNDARY_WIDTH))
        if count.n > 1:
            ax.axvspan(*count.interval, color=style.hue(i), alpha=style.BAND_ALPHA, linewidth=0)
    ax.legend(fontsize="x-small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    ax.set(xlabel=_regions_of(several.values()), ylabel="share of slices", xlim=(low - 0.6, starts[-1] + step - 0.4))
    ax.set_title("vertical lines: mean counts, with 95% intervals", fontsize="small")
    whole_ticks(ax.xaxis, [low, high])
    style.plain_axes([ax])
