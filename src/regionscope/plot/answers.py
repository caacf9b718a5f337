"""Pictures of what a partition answers: extremes, Lipschitz constants, flips, topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.text import Annotation

from regionscope.errors import InputError
from regionscope.exact import ClassTopology, DecisionRegions, Extremes, Flips, Lipschitz, Partition
from regionscope.exact.questions.output_weights import name_of_weights
from regionscope.formatting import counted
from regionscope.plot import style
from regionscope.plot.figures import panel
from regionscope.plot.graphs import function_graph
from regionscope.plot.kinds import class_names_for, decision_for, partition_for
from regionscope.plot.legends import lay_out, spread
from regionscope.plot.regions import decision_regions, region_values
from regionscope.plot.ticks import input_ticks

_POINT = 70.0


def extremes_figure(part: Partition, extremes: Extremes) -> Figure:
    """Where an output, or a function of the outputs, is smallest and largest.

    On a plane each region has the colour of its largest value; on a line the function itself is drawn.
    """
    figure, ax = panel(partition_for("extremes_figure", part))
    ax.set_title(name_of_weights(extremes.weights))
    if part.dim == 1:
        places = part.vertices[:, 0].cpu().numpy()
        order = np.argsort(places, kind="stable")
        ax.plot(
            places[order],
            extremes.values.cpu().numpy()[order],
            color=style.BLACK,
            linewidth=style.line(style.LINE_WIDTH),
        )
        ax.set(xlim=(places.min(), places.max()))
        input_ticks(part.slice, (ax.xaxis,))
        heights = [extremes.min, extremes.max]
    else:
        region_values(part, extremes.by_region.max, ax=ax, label="largest value on the region")
        style.add_room(figure, right=0.9, below=0.3)  # a colour bar, and a legend
        heights = []
    for i, (coords, name, value, marker) in enumerate(
        [(extremes.coords_of_min, "min", extremes.min, "v"), (extremes.coords_of_max, "max", extremes.max, "^")]
    ):
        where = [*coords.tolist(), *heights[i : i + 1]]
        _mark(
            ax,
            where,
            marker,
            style.VERMILLION if name == "max" else style.BLUE,
            f"{name} = {value:.4g}".replace("-", "\N{MINUS SIGN}"),
        )
    _legend(figure)
    return figure


def lipschitz_figure(part: Partition, result: Lipschitz) -> Figure:
    """The Lipschitz constant of each region as its colour (on a line: as its height), and where it is largest."""
    figure, ax = panel(partition_for("lipschitz_figure", part))
    steep, label, slope = (
        result.by_region.cpu().numpy(),
        f"L = {result.value:.4g}",
        f"norm {result.norm:g} of the slope",
    )
    if part.dim == 1:
        coords = np.sort(part.vertices[:, 0].cpu().numpy())
        ax.stairs(steep[np.argsort(part.interior[:, 0].cpu().numpy())], coords, color=style.BLACK)
        ax.set(xlim=(coords[0], coords[-1]), title=slope)
        input_ticks(part.slice, (ax.xaxis,))
        _mark(ax, [*result.coords.tolist(), result.value], "^", style.VERMILLION, label)
    else:
        region_values(part, result.by_region, ax=ax, label=slope)
        style.add_room(figure, right=0.9, below=0.3)  # a colour bar, and a legend
        _mark(ax, result.coords.tolist(), "^", style.VERMILLION, label)
    _legend(figure)
    return figure


def flips_figure(dec: DecisionRegions, flip_table: Flips, *, class_names: Sequence[str] | None = None) -> Figure:
    """Outputs of all classes that are predicted on a line, with a dotted line and both classes at each flip.

    Dots or ticks are the breakpoints; the legend has the colours of outputs and of the layers that fold. The classes of
    close flips stand side by side, upright if there are many; if there is no room even then, they are left out.
    class_names: one name for each class, by label, for the legend and the flips, as in "cat→dog". In the legend, a
        single output has no name.
    """
    part = decision_for("flips_figure", dec).partition
    if part.dim != 1:
        raise InputError(f"Expected decision regions on a line, got a slice of dimension {part.dim}. Pass a Segment.")
    figure, (ax,) = style.figure(1, 1, width=1.6 * style.PANEL_INCHES, height=0.8 * style.PANEL_INCHES)
    several = part.outputs.shape[1] > 1
    names = class_names_for(dec, class_names)
    outputs = sorted(set(dec.labels.tolist())) if several else [0]
    function_graph(part, ax=ax, outputs=outputs, class_names=names if several else None)
    called = range(dec.n_classes) if names is None else names
    flips = [
        f"{called[a]}→{called[b]}" for a, b in zip(flip_table.before.tolist(), flip_table.after.tolist(), strict=True)
    ]
    for coord in flip_table.coords.tolist():
        ax.axvline(coord, color=style.GREY, linestyle=":", linewidth=style.line(1.0))
    if not several:
        ax.set_ylabel("output")
    style.plain_axes([ax])
    names_above(flip_table.coords.tolist(), flips, ax=ax)
    return figure


def topology_figure(
    dec: DecisionRegions, topology: Mapping[int, ClassTopology], *, class_names: Sequence[str] | None = None
) -> Figure:
    """The decision regions, with the components and holes of each class in the legend.

    class_names: one name for each class, by label; "class 3" by default.
    """
    figure, ax = panel(decision_for("topology_figure", dec).partition)
    names = {label: f"class {label}" for label in topology}
    if (known := class_names_for(dec, class_names)) is not None:
        names = dict(enumerate(known))
    decision_regions(dec, ax=ax)
    handles = [
        Patch(
            color=tuple(style.class_colours(dec.labels.new_tensor([label]), pale=True)[0]),
            label=f"{names[label]}: {counted(shape.components, 'component')}, {counted(shape.holes, 'hole')}",
        )
        for label, shape in topology.items()
    ]
    style.add_room(figure, below=0.2 * len(handles) - 0.35)  # there is no title
    figure.legend(handles=handles, loc="outside lower center", fontsize="small", frameon=False)
    return figure


def _mark(ax: Axes, where: list[float], marker: str, colour: str, label: str) -> None:
    if len(where) != 2:
        raise InputError(
            f"Expected a slice of dimension 1 or 2, got dimension {len(where)}. "
            "Compute the result on a Segment or a plane."
        )
    ax.scatter(
        [where[0]], [where[1]], s=style.area(_POINT), marker=marker, color=colour, edgecolors="white",
        linewidths=style.line(0.8), zorder=4, label=label, clip_on=False,
    )  # fmt: skip


def _legend(figure: Figure) -> None:
    figure.legend(loc="outside lower center", ncols=2, fontsize="small", frameon=False)


# Names above the axes of a chart that do not overlap: close ones move apart, and a line leads to their places.
#
#  1→0 0→1      2→1
#    \  /        |
# ----||---------|----

_LEADER = 9.0  # points between the axes and the names
_GAP = 3.0  # points between two names


def names_above(places: Sequence[float], names: Sequence[str], *, ax: Axes) -> list[Annotation]:
    """Write each name above its place on the horizontal axis; upright if there are many, and none if too many.

    To be called when the limits are final. A figure without a layout engine gets a constrained layout.
    """
    order = np.argsort(np.asarray(places, dtype=float), kind="stable")
    lay_out(ax)
    for rotation in (0, 90):
        drawn = [_name(names[i], places[i], rotation, ax) for i in order]
        if not drawn:
            break
        point = ax.figure.dpi / 72
        wide = np.array([name.get_window_extent().width for name in drawn]) / point + _GAP
        if wide.sum() <= ax.bbox.width / point + wide.mean():
            lay_out(ax)
            area = ax.get_window_extent()
            wanted = (ax.transData.transform([(places[i], 0.0) for i in order])[:, 0] - area.x0) / point
            for name, shift in zip(drawn, spread(wanted, wide, area.width / point) - wanted, strict=True):
                name.set_position((float(shift), _LEADER))
            return drawn
        for name in drawn:
            name.remove()
    return []


def _name(name: str, place: float, rotation: int, ax: Axes) -> Annotation:
    """A name straight above its place, with a thin line down to it."""
    return ax.annotate(
        name, (place, 1.0), xycoords=ax.get_xaxis_transform(), xytext=(0.0, _LEADER), textcoords="offset points",
        ha="center", va="bottom", rotation=rotation, fontsize="x-small", annotation_clip=False,
        arrowprops={"arrowstyle": "-", "color": style.GREY, "linewidth": 0.6, "shrinkA": 0.0, "shrinkB": 0.0},
    )  # fmt: skip
