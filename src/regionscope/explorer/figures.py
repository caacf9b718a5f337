"""The Bokeh figures of the page. They hold no text from the user: names and values are written by the page itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regionscope.explorer.encode import Shown, is_input_space, shown
from regionscope.extras import import_extra
from regionscope.monitor.frames import TrainingCurve
from regionscope.plot import style

if TYPE_CHECKING:
    from bokeh.plotting import figure as Figure

CURVE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("circle", "square", "diamond", "triangle", "inverted_triangle", "plus", "star", "x", "hex", "square_pin")
_PANEL_ORDER: tuple[str, ...] = ("loss", "accuracy", "linear regions", "decision regions", "local complexity")
_GREY = "#5b6573"


def bokeh() -> Any:
    """The library, or a sentence that says how to get it."""
    parts = ("bokeh.embed", "bokeh.models", "bokeh.plotting", "bokeh.resources", "bokeh")
    return [import_extra(part, who="The explorer needs", library="Bokeh", extra="explorer") for part in parts][-1]


def map_figure(training: Shown) -> Figure:
    """The map of the regions: empty sources by name, which the page fills, and the data points."""
    from bokeh.models import BoxZoomTool, PanTool, Range1d, ResetTool, SaveTool, WheelZoomTool
    from bokeh.plotting import figure

    low, high = extent(training)
    wheel = WheelZoomTool(zoom_on_axis=False)
    plot = figure(
        x_range=Range1d(start=low[0], end=high[0]), y_range=Range1d(start=low[1], end=high[1]),
        sizing_mode="stretch_both",
        tools=[PanTool(), wheel, BoxZoomTool(match_aspect=training.slice.dim == 2), SaveTool(), ResetTool()],
        toolbar_location="right", name="map", output_backend="canvas", lod_threshold=None,
        min_border_left=44, min_border_right=6, min_border_top=6, min_border_bottom=28,
    )  # fmt: skip
    plot.toolbar.logo = None
    plot.toolbar.active_scroll = wheel
    _look(plot, grid=False)
    for axis, name in zip((plot.xaxis, plot.yaxis), _axis_names(training), strict=False):
        axis.axis_label = name
    if training.slice.dim == 1:
        plot.yaxis.visible = False
    image: dict[str, list[Any]] = {"image": [], "x": [], "y": [], "dw": [], "dh": []}
    plot.image_rgba(image="image", x="x", y="y", dw="dw", dh="dh", source=image, level="image", name="fill")
    lines: dict[str, list[Any]] = {"xs": [], "ys": [], "colour": []}
    plot.multi_line("xs", "ys", source=lines, line_color="colour", line_width=0.6, line_alpha=0.8, name="walls")
    plot.multi_line("xs", "ys", source=lines, line_color="colour", line_width=2.2, line_cap="round", name="boundary")
    _add_points(plot, training)
    for name, width in (("near", 1.2), ("chosen", 3.2), ("hover", 2.0)):
        plot.multi_line(
            "xs", "ys", source={"xs": [], "ys": []}, line_color="#111111", line_width=width, line_cap="round",
            level="overlay", name=name,
        )  # fmt: skip
    _connect(plot)
    return plot


def _axis_names(training: Shown) -> list[str]:
    """What each axis of the map shows, as in the figures of ``regionscope.plot``."""
    dim = training.slice.dim
    if not is_input_space(training.slice):
        return ["position on the slice"] if dim == 1 else [f"slice coordinate {i + 1}" for i in range(dim)]
    names = [*training.input_names, *([""] * dim)]
    return [names[i] or f"input {i}" for i in range(dim)]


def _add_points(plot: Figure, training: Shown) -> None:
    """The data points, one marker and colour for each class; on a line, in the middle of the band."""
    points = shown(training.slice, training.points).numpy()
    if training.slice.dim == 1:
        points = np.column_stack([points, np.full(len(points), 0.5)])
    labels = training.labels.numpy()
    size = 6.5 if len(points) > 60 else 10.0
    for label in np.unique(labels):
        red, green, blue = (round(255 * part) for part in style.hue(int(label)))
        marked = points[labels == label].astype(np.float32)
        plot.scatter(
            marked[:, 0], marked[:, 1], marker=_MARKERS[label % len(_MARKERS)], size=size,
            fill_color=(red, green, blue), line_color="white", line_width=0.8, name=f"points-{label}",
        )  # fmt: skip


def _connect(plot: Figure) -> None:
    """Tell the page's program about the mouse, and about changes of the visible part."""
    from bokeh.models import CustomJS

    for event in ("mousemove", "mouseleave", "tap"):
        plot.js_on_event(event, CustomJS(code=f"window.regionscope.{event}(cb_obj)"))
    moved = CustomJS(code="window.regionscope.refill()")
    for end in ("start", "end"):
        plot.x_range.js_on_change(end, moved)
        plot.y_range.js_on_change(end, moved)
    plot.js_on_change("inner_width", moved)
    plot.js_on_change("inner_height", moved)


def extent(training: Shown) -> tuple[list[float], list[float]]:
    """Lowest and highest coordinates that the map shows."""
    corners = shown(training.slice, training.slice.corners)
    low, high = corners.amin(0).tolist(), corners.amax(0).tolist()
    return (low, high) if training.slice.dim == 2 else ([*low, 0.0], [*high, 1.0])


def curve_figures(training: Shown) -> list[tuple[str, list[TrainingCurve], Figure]]:
    """For each panel its name, its curves and its figure, with a cursor called "cursor"."""
    panels: dict[str, list[TrainingCurve]] = {}
    for curve in training.curves:
        panels.setdefault(curve.panel, []).append(curve)
    order = [name for name in _PANEL_ORDER if name in panels]
    order += [name for name in panels if name not in order]
    return [(name, panels[name], _curves(training, panels[name])) for name in order]


def _curves(training: Shown, curves: Sequence[TrainingCurve]) -> Figure:
    from bokeh.models import CustomJS, Range1d
    from bokeh.models.annotations import Span
    from bokeh.plotting import figure

    scale = training.steps_per_epoch or 1.0
    logarithmic = _spans_decades(curves)
    last = max([float(curve.steps.max()) for curve in training.curves] + [1.0]) / scale
    plot = figure(
        sizing_mode="stretch_both", tools="", toolbar_location=None, output_backend="canvas",
        x_range=Range1d(start=-0.015 * last, end=1.015 * last), y_axis_type="log" if logarithmic else "linear",
        min_border_left=46, min_border_right=8, min_border_top=4, min_border_bottom=36,
    )  # fmt: skip
    _look(plot, grid=True)
    plot.xaxis.axis_label = "epoch" if training.steps_per_epoch else "step"
    ticker: Any = plot.yaxis.ticker
    if all(bool((curve.values == curve.values.round()).all()) for curve in curves):  # counts
        ticker.min_interval = 1
    for i, curve in enumerate(curves):
        colour = CURVE_COLOURS[i % len(CURVE_COLOURS)]
        x, y, stderr = (curve.steps / scale).numpy(), curve.values.numpy(), curve.stderr.numpy()
        known = np.isfinite(stderr) & np.isfinite(y)
        if known.any() and not logarithmic:
            low, high = y[known] - stderr[known], y[known] + stderr[known]
            plot.varea(x[known], low, high, fill_color=colour, fill_alpha=0.2)
        plot.line(x, y, line_color=colour, line_width=1.8, line_join="round")
        if len(x) < 40:
            plot.scatter(x, y, size=3.5, color=colour)
    plot.add_layout(Span(dimension="height", location=0, line_color="#111111", line_width=1.2, line_alpha=0.75,
                         level="overlay", name="cursor"))  # fmt: skip
    plot.js_on_event("tap", CustomJS(code="window.regionscope.seek(cb_obj.x)"))
    return plot


def _spans_decades(curves: Sequence[TrainingCurve]) -> bool:
    values = np.concatenate([curve.values.numpy() for curve in curves])
    values = values[np.isfinite(values)]
    return bool(len(values)) and values.min() > 0 and math.log10(values.max() / values.min()) > 1.5


def _look(plot: Figure, *, grid: bool) -> None:
    from bokeh.models.tickers import ContinuousTicker

    font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
    plot.axis.major_label_text_font = plot.axis.axis_label_text_font = font
    plot.axis.major_label_text_font_size = plot.axis.axis_label_text_font_size = "11px"
    plot.axis.major_label_text_color = plot.axis.axis_label_text_color = _GREY
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.axis_label_standoff = 1
    plot.axis.axis_line_color = plot.axis.major_tick_line_color = "#b9c0c9"
    plot.axis.major_tick_in = 0
    plot.axis.major_tick_out = 4
    plot.axis.minor_tick_line_color = None
    plot.outline_line_color = None if grid else "#b9c0c9"
    plot.grid.grid_line_color = "#edf0f3" if grid else None
    plot.xgrid.grid_line_color = None
    plot.background_fill_color = plot.border_fill_color = "#fff"  # unlike the default, it is written out
    tickers: Any = plot.select(type=ContinuousTicker)
    for ticker in tickers:
        ticker.desired_num_ticks = 4 if grid else 5
