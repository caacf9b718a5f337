"""How results look in a notebook: a small table and a figure of bounded size.

``register`` tells IPython about them, so that the chapters that make the results need not know about figures.
"""

from __future__ import annotations

import base64
import html
import io
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from regionscope.complexity.history import ComplexityHistory
from regionscope.complexity.local_complexity import LocalComplexity
from regionscope.exact import DecisionRegions, LevelSet, Partition
from regionscope.formatting import estimated, size_name
from regionscope.geometry import Box, Polygon, Polyline, Segment, Simplex, Slice
from regionscope.measures.region_count import RegionCount
from regionscope.monitor import Monitor
from regionscope.plot import style
from regionscope.plot.complexity import complexity_figure, complexity_layers
from regionscope.plot.counts import count_histogram
from regionscope.plot.distances import distance_histogram
from regionscope.plot.figures import decision_figure, regions_figure
from regionscope.plot.level_sets import level_of, level_set_figure
from regionscope.plot.marks import is_image, thumbnails
from regionscope.plot.regions import frame_slice
from regionscope.plot.ticks import whole_ticks
from regionscope.points import PointRegions
from regionscope.types import Estimate

MOST_REGIONS = 20_000  # drawn inline: about two seconds
MOST_ROWS, MOST_CURVES = 12, 4
_PIXELS = 420  # largest width of a figure on the page
_DPI = 110
_IMAGE = 49  # numbers of a flat input that is shown as an image, at least


@dataclass(frozen=True)
class Shown:
    """What a result shows: column titles, rows, a function that makes the figure (or None), and a remark."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    figure: Callable[[], Figure] | None = None
    remark: str = ""


def register() -> None:
    """Show results with a table and a figure in the notebook that runs this process, if any does."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and shell.display_formatter is not None:
        for kind in _SHOWN:
            shell.display_formatter.formatters["text/html"].for_type(kind, as_html)


def as_html(result: Any) -> str:
    """The table and the figure of a result as HTML, with the figure inside it."""
    return shown_as_html(next(show(result) for kind, show in _SHOWN.items() if isinstance(result, kind)), result)


def shown_as_html(shown: Shown, result: object) -> str:
    """The table and the figure as HTML. result: what they are of."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in shown.columns)
    lines = ["".join(f"<td>{html.escape(_text(value))}</td>" for value in row) for row in shown.rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    remark = f"<p>{html.escape(shown.remark)}</p>" if shown.remark else ""
    picture = "" if shown.figure is None else f"<div>{_image(shown.figure(), type(result).__name__)}</div>"
    flow = "display:flex;flex-wrap:wrap;gap:1.5em;align-items:flex-start"
    return f'<div style="{flow}"><div style="max-width:100%;overflow-x:auto">{table}{remark}</div>{picture}</div>'


def _image(figure: Figure, name: str) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DPI)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return f'<img alt="{name}" style="width:{_PIXELS}px;max-width:100%" src="data:image/png;base64,{data}">'


def _text(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def value_with_stderr(value: Any, stderr: float | None) -> object:
    """A measured value: with its standard error, or alone if it is exact or missing."""
    return value if value is None or stderr is None else estimated(value, stderr)


def _bounded(part: Partition, draw: Callable[[], Figure]) -> tuple[Callable[[], Figure] | None, str]:
    """The figure where there can be one of bounded size, and otherwise a sentence."""
    if part.dim > 2:
        return None, ""
    if len(part) > MOST_REGIONS:
        return None, f"More than {MOST_REGIONS:,} regions are not drawn inline; use plot.regions_figure()."
    return draw, ""


def _slice(slice: Slice) -> Shown:
    shape = "×".join(map(str, slice.input_shape))
    rows: list[tuple[str, object]] = [("dimension", slice.dim), ("input shape", shape)]
    rows += [(size_name(slice.dim), slice.size), ("corners", len(slice.corners))]
    return Shown((type(slice).__name__, ""), rows, None if slice.dim > 2 else lambda: _outline(slice))


def _outline(slice: Slice) -> Figure:
    """The slice as an area, with the inputs at its corners where they are images."""
    flat = slice.dim == 1
    figure, (ax,) = style.figure(1, 1, width=4.2, height=1.8 if flat else 3.6)
    corners = slice.corners.cpu().numpy()
    ends = (
        np.column_stack([corners, np.ones(len(corners))]) if flat else corners
    )  # thumbnails of a line stand on its upper border
    ax.fill(ends[:, 0], ends[:, 1], facecolor=style.PALE, edgecolor=style.BLACK, linewidth=1.2)
    frame_slice(slice, ax)
    images = math.prod(slice.input_shape) >= _IMAGE and is_image(tuple(slice.input_shape))
    style.map_axes([ax], ticks=not images)
    if images:
        ax.set_frame_on(False)
        thumbnails(slice, slice.embed(slice.corners), ax=ax, size=0.5 if flat else 0.22)
    return figure


def _partition(part: Partition) -> Shown:
    rows: list[tuple[str, object]] = [("activation regions", part.n_activation_regions)]
    if not part.status:
        return Shown(("Partition", ""), rows, remark=f"Not finished: {part.status.reason}.")
    if part.compared is not None or part.program is not None:
        rows.insert(0, ("linear regions", part.n_linear_regions))
    rows += [
        (f"after {name}", count) for name, count in zip(part.layers[:MOST_ROWS], part.by_layer.values(), strict=False)
    ]
    rows += [("seconds", part.stats.seconds)]
    figure, remark = _bounded(part, lambda: regions_figure(part))
    return Shown(("Partition", ""), rows, figure, remark)


def _decision(dec: DecisionRegions) -> Shown:
    labels, whole = dec.labels.cpu(), dec.partition.slice.size
    rows = []
    for label in labels.unique().tolist():
        members = labels == label
        rows.append(
            (f"class {label}", int(members.sum()), f"{100 * float(dec.sizes.cpu()[members].sum()) / whole:.1f} %")
        )
    figure, remark = _bounded(dec.partition, lambda: decision_figure(dec))
    return Shown(("DecisionRegions", "regions", "share"), [("all", dec.count, ""), *rows], figure, remark)


def _level_set(surface: LevelSet) -> Shown:
    words = {"": "segments", "area": "length"} if surface.dim == 2 else {"": "faces"}
    rows: list[tuple[str, object]] = [level_of(surface)]
    rows += [(words.get(name, name.replace("_", " ")), value) for name, value, _ in surface.readings()]
    if len(surface) > MOST_REGIONS:
        return Shown(("LevelSet", ""), rows, remark="Too many faces to draw here.")
    return Shown(("LevelSet", ""), rows, lambda: level_set_figure(surface))


def _count(count: RegionCount) -> Shown:
    rows: list[tuple[str, object]] = [("mean", estimated(count.value, count.stderr))]
    if count.n > 1:
        rows += [("95% interval", " to ".join(estimated(end, None) for end in count.interval))]
    rows += [("slices", count.n), ("dimension", count.dim), ("method", count.method), ("seconds", count.seconds)]
    remark = "" if count.status else f"Not finished: {count.status.reason}."
    return Shown(("RegionCount", ""), rows, lambda: small_panel(lambda ax: count_histogram(count, ax=ax)), remark)


def _points(result: PointRegions) -> Shown:
    rows: list[tuple[str, object]] = [("inputs", len(result)), ("regions", result.n_regions)]
    rows += [("inputs on a fold", int(result.on_fold.sum())), ("median distance", float(result.distance.median()))]
    rows += [
        ("median distance to another label, at least", float(result.label_distance.median())),
        ("seconds", result.seconds),
    ]
    return Shown(("PointRegions", ""), rows, lambda: small_panel(lambda ax: distance_histogram(result, ax=ax)))


def _local(complexity: LocalComplexity) -> Shown:
    rows = [("all layers", estimated(complexity.mean, complexity.stderr), sum(complexity.units.values()))]
    means = {name: Estimate.of(counts) for name, counts in complexity.by_layer.items()}
    layers = [(name, estimated(mean.value, mean.stderr), complexity.units[name]) for name, mean in means.items()]
    figure = lambda: small_panel(lambda ax: complexity_layers({"points": complexity}, ax=ax))  # noqa: E731
    return Shown(("LocalComplexity", "mean", "units"), [*rows, *layers[:MOST_ROWS]], figure)


def _history(history: ComplexityHistory) -> Shown:
    rows = [(name, estimated(mean, stderr)) for name, mean, stderr in history.readings()]
    last = f"step {history.steps[-1]:,}" if history.rows else "empty"
    return Shown((last, "mean"), rows, (lambda: complexity_figure(history)) if history.rows else None)


def _monitor(monitor: Monitor) -> Shown:
    last = {row.name: row for row in monitor.rows}
    rows = [(name, row.step, value_with_stderr(row.value, row.stderr)) for name, row in list(last.items())[:MOST_ROWS]]

    def figure() -> Figure:
        names = list(last)[:MOST_CURVES]
        made, axes = style.figure(len(names), 1, width=3.8, height=1.5 * len(names))
        for i, (name, ax) in enumerate(zip(names, axes, strict=True)):
            steps, values = monitor.values(name)
            ax.plot(steps, values, ".-", color=style.hue(i))
            whole_ticks(ax.xaxis, steps)
            ax.set_title(name, fontsize="small")
        axes[-1].set_xlabel("step")
        style.plain_axes(axes)
        return made

    return Shown(("measure", "last step", "value"), rows, figure if last else None)


def small_panel(draw: Callable[[Any], object]) -> Figure:
    figure, (ax,) = style.figure(1, 1, width=4.2, height=2.8)
    draw(ax)
    style.plain_axes([ax])
    return figure


_SHOWN: dict[type, Callable[[Any], Shown]] = {
    Segment: _slice,
    Simplex: _slice,
    Box: _slice,
    Polygon: _slice,
    Polyline: _slice,
    Partition: _partition,
    DecisionRegions: _decision,
    LevelSet: _level_set,
    RegionCount: _count,
    PointRegions: _points,
    LocalComplexity: _local,
    ComplexityHistory: _history,
    Monitor: _monitor,
}
