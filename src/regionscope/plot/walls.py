"""Where the neurons fold: the walls of a partition coloured by the layer that made them, and layer after layer."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from regionscope.checks import one_of
from regionscope.errors import InputError
from regionscope.exact import Partition
from regionscope.plot import style
from regionscope.plot.artists import Cells, Segments
from regionscope.plot.kinds import partition_for
from regionscope.plot.regions import edge_width, frame_slice, linear_regions, wall_segments

_THICK, _THIN = 1.0, 0.6
_LETTERS = 26  # of a layer's name that fit over a panel


def zero_lines(
    part: Partition, *, ax: Axes | None = None, layers: Sequence[str] | None = None, rasterized: bool = False
) -> list[Segments]:
    """The zero lines of the neurons, darker for later layers (the black lines of Humayun et al. 2023, Figure 1).

    One artist for each fold, in order, labelled with its name and kind, such as "1 (ReLU)", for a legend. A
    wall on which several layers fold belongs to the first of them.
    layers: names out of ``part.by_layer``, to draw only those; colours stay the same.
    """
    names = list(partition_for("zero_lines", part).by_layer)
    wanted = names if layers is None else list(layers)
    for name in wanted:
        one_of("layer of this partition", name, names)
    ax = style.axes_or_current(ax)
    crowding, drawn = edge_width(part, len(part), ax) / style.EDGE_WIDTH, []  # in a look with thin lines, too
    for i, (name, title, colour) in enumerate(zip(names, part.layers, style.layer_colours(len(names)), strict=True)):
        if name not in wanted:
            continue
        lines = Segments(
            wall_segments(part, (part.walls.layer == i).nonzero()[:, 0]),
            colour=colour,
            width=(_THICK - (_THICK - _THIN) * i / max(len(names) - 1, 1)) * crowding,
            label=title,
            rasterized=rasterized,
            zorder=2.0 - 0.01 * i,  # the first layers, which have the fewest lines, stay on top
        )
        ax.add_collection(lines, autolim=False)
        drawn.append(lines)
    frame_slice(part.slice, ax)
    return drawn


def layer_panels(part: Partition, *, axes: Sequence[Axes], rasterized: bool = False) -> list[Cells]:
    """One panel for each fold: the regions after it, with the walls it adds in bold (Qi and Wei, Figure 2).

    axes: as many as ``part.by_layer`` has layers; each gets the name of the layer and its number of regions as title.
    """
    if len(axes) != len(partition_for("layer_panels", part).by_layer):
        raise InputError(
            f"Expected one axes for each of {len(part.by_layer)} layers, got {len(axes)}. "
            f"Create the axes with figure.subplots(1, {len(part.by_layer)})."
        )
    drawn = []
    for i, ((name, count), title, ax) in enumerate(zip(part.by_layer.items(), part.layers, axes, strict=True)):
        drawn.append(linear_regions(part, ax=ax, ids=part.layer_ids(name), edges=False, rasterized=rasterized))
        earlier = part.walls.inner[part.walls.layer[part.walls.inner] < i]
        added = (part.walls.layer == i).nonzero()[:, 0]
        width = edge_width(part, count, ax)
        for walls, colour, scale in ((earlier, style.GREY, 1.0), (added, style.BLACK, 2.0)):
            lines = Segments(
                wall_segments(part, walls), colour=colour, width=scale * width, rasterized=rasterized, zorder=1.5
            )
            ax.add_collection(lines, autolim=False)
        ax.set_title(f"{_end_of(title)}\n{count:,} region{'' if count == 1 else 's'}", fontsize="medium")
    return drawn


def _end_of(name: str) -> str:
    """A long name without its beginning, which says the least: names of layers go from the whole to the part."""
    return name if len(name) <= _LETTERS else f"…{name[1 - _LETTERS :]}"
