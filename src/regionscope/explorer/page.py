"""The page: one HTML file with the frames, the figures, the program and Bokeh inside it."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.colors import to_hex

from regionscope.explorer.encode import Packed, ProvenFrame, Shown, is_input_space
from regionscope.explorer.figures import CURVE_COLOURS, bokeh, curve_figures, extent, map_figure
from regionscope.monitor.frames import TrainingCurve
from regionscope.plot import style
from regionscope.plot.marks import is_image, square
from regionscope.plot.palette import Colours

_LEAST_PIXELS, _MOST_PIXELS = 49, 20_000  # numbers of an input that is shown as an image
_MOST_IMAGES = 8
_UNDECIDED = "#4b5563"
_SCALE_STEPS = 48  # colours of a scale; each is one path in the picture


def page(
    training: Shown, packed: Sequence[Packed], *, scales: dict[str, tuple[float, float]], notes: Sequence[str]
) -> str:
    """The text of the file.

    packed: the frames of ``training`` that are shown, in their order. scales: the range of log10 of sizes and slopes.
    All text goes through JSON, with every "<" written as an escape, and is set by the page as plain text.
    """
    library = bokeh()
    panels = curve_figures(training)
    document = {
        **_facts(training, packed, scales, notes),
        "panels": [_panel(title, curves, packed) for title, curves, _ in panels],
    }
    figures = [("map", map_figure(training)), *((str(i), figure) for i, (_, _, figure) in enumerate(panels))]
    scripts = [script(f"figure-{name}", json_text(library.embed.json_item(figure))) for name, figure in figures]
    scripts += [script(f"frame-{i}", frame.payload, "text/plain") for i, frame in enumerate(packed)]
    low, high = extent(training)
    ratio = (high[0] - low[0]) / (high[1] - low[1]) if training.slice.dim == 2 else 1.6
    return whole_page(
        document["title"],
        main=Template(read_part("page.html")).substitute(ratio=f"{min(max(ratio, 0.2), 5.0):.4f}"),
        data=[script("training", json_text(document)), *scripts],
        programs=("mesh.js", "regions.js", "app.js"),
        library=library.resources.Resources(mode="inline", components=["bokeh"]).render_js(),
    )


def whole_page(title: str, *, main: str, data: Sequence[str], programs: Sequence[str], library: str = "") -> str:
    """What all pages share around their ``main`` part: head, title, data and programs (files of page/)."""
    return Template(read_part("frame.html")).substitute(
        title=html.escape(title),
        style=read_part("style.css"),
        library=library,
        main=main,
        data="\n".join(data),
        program="\n".join(map(read_part, programs)),
    )


def _facts(
    training: Shown, packed: Sequence[Packed], scales: dict[str, tuple[float, float]], notes: Sequence[str]
) -> dict[str, Any]:
    """What the program needs to know besides the frames."""
    low, high = extent(training)
    n, proven = len(training.class_names), isinstance(training, ProvenFrame)
    return {
        "title": training.title or "Regions",
        "where": _where(training),
        "size": training.slice.size,
        "area": (high[0] - low[0]) * (high[1] - low[1]),
        "classes": [*training.class_names, *["undecided"] * proven],
        "notes": [*training.notes, *notes],
        "frames": [frame.about | _moment(training, frame) for frame in packed],
        "shown": _classes(training),
        "marked": training.labels.unique().tolist(),
        "full": _hexes(style.class_colours(torch.arange(n, device="cpu"))),
        "images": _images(training),
        "pale": [*_hexes(_pale(n)), *[_UNDECIDED] * proven],
        "layerColours": _hexes(style.layer_colours(max(len(frame.about["layers"]) for frame in packed))),
        "ramp": _hexes(matplotlib.colormaps["cividis"](np.linspace(0, 1, _SCALE_STEPS))[:, :3]),
        "scales": {name: {"low": low, "high": high} for name, (low, high) in scales.items()},
    }


def _images(training: Shown) -> dict[str, Any] | None:
    """What the page needs to show inputs as images: the slice, the shape, the range of values and the data points."""
    slice = training.slice
    if (
        is_input_space(slice)
        or not _LEAST_PIXELS <= slice.origin.numel() <= _MOST_PIXELS
        or not is_image(tuple(slice.input_shape))
    ):
        return None
    shape = square(tuple(slice.input_shape))
    first = len(shape) == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3)
    ends = slice.embed(training.points if len(training.points) else slice.corners)
    height, width, channels = (*shape, 1) if len(shape) == 2 else (*shape[1:], shape[0]) if first else shape
    rounded = [
        [float(f"{value:.4g}") for value in row.tolist()] for row in (slice.origin.flatten(), *slice.basis.flatten(1))
    ]
    pairs = zip(training.labels[:_MOST_IMAGES].tolist(), training.points[:_MOST_IMAGES].tolist(), strict=True)
    return {
        "shape": [height, width, channels], "first": first, "low": float(ends.min()), "high": float(ends.max()),
        "origin": rounded[0], "basis": rounded[1:], "points": list(pairs),
    }  # fmt: skip


def _classes(training: Shown) -> list[int]:
    """The classes that occur on the slice, at any moment, or in the data."""
    if isinstance(training, ProvenFrame):
        return [int(label) for label in training.labels_shown.unique()]
    parts = [training.labels, *(frame.decision.labels for frame in training.frames if frame.decision is not None)]
    return [int(label) for label in torch.cat([labels.cpu() for labels in parts]).unique()]


def _pale(n: int) -> Colours:
    """The colour of the area of each class; where the hues start again, they are stronger."""
    pale, full = (style.class_colours(torch.arange(n, device="cpu"), pale=pale) for pale in (True, False))
    again = np.array([(full[:i] == full[i]).all(1).sum() for i in range(n)])
    return np.asarray(pale + (full - pale) * np.minimum(0.45 * again, 0.9)[:, None])


def _where(training: Shown) -> str:
    slice = training.slice
    kind, measure = ("line", "length") if slice.dim == 1 else ("plane", "area")
    entries = "×".join(map(str, slice.input_shape))
    place = f"the input {kind}" if slice.origin.numel() == slice.dim else f"a {kind} in the {entries} inputs"
    what = "proven labels" if isinstance(training, ProvenFrame) else "exact regions"
    return f"{what} on {place}, {measure} {slice.size:.4g}"


def _moment(training: Shown, frame: Packed) -> dict[str, Any]:
    """Where a frame stands on the axis of the curves, and how it is called."""
    step, epoch = frame.about["step"], frame.about["epoch"]
    steps = f"step {step:,}"
    text = steps if epoch is None else f"epoch {epoch:g} · {steps}"
    return {"at": step / training.steps_per_epoch if training.steps_per_epoch else step, "text": text}


def _panel(title: str, curves: Sequence[TrainingCurve], packed: Sequence[Packed]) -> dict[str, Any]:
    """A panel's text: the names of its curves, and for each frame the last value up to then. One value has no plot."""
    entries = []
    for i, curve in enumerate(curves):
        steps = curve.steps.numpy()
        last = [int(np.searchsorted(steps, frame.about["step"], side="right")) - 1 for frame in packed]
        now = [float(curve.values[j]) if j >= 0 else None for j in last]
        known = [value if value is not None and np.isfinite(value) else None for value in now]
        short = curve.name.removesuffix(title).strip()  # "train loss" is "train" under the title "loss"
        entries.append({"name": short, "colour": CURVE_COLOURS[i % len(CURVE_COLOURS)], "now": known})
    return {"title": title, "curves": entries, "drawn": max(len(curve.steps) for curve in curves) > 1}


def json_text(document: Any) -> str:
    """JSON that can stand inside a script element: no "<", so that nothing in it can end or open one."""
    return json.dumps(document, allow_nan=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")


def script(name: str, text: str, kind: str = "application/json") -> str:
    return f'<script type="{kind}" id="{name}">{text}</script>'


def read_part(name: str) -> str:
    """A file of page/."""
    return resources.files("regionscope.explorer").joinpath("page", name).read_text(encoding="utf-8")


def _hexes(colours: Colours) -> list[str]:
    return [to_hex(colour) for colour in colours]
