"""Training frames as an animation: GIF everywhere, MP4 where ffmpeg is installed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from regionscope.checks import check_progress, one_of
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions
from regionscope.file_io import check_parent, replace_file
from regionscope.monitor.frames import Frame, TrainingFrames
from regionscope.plot import style
from regionscope.plot.marks import data
from regionscope.plot.regions import decision_boundary, decision_regions, linear_regions
from regionscope.plot.ticks import shows_inputs, whole_ticks
from regionscope.plot.walls import zero_lines
from regionscope.types import Progress

KINDS = ("linear", "decision", "neurons")
_RIGHT, _TOP, _STRIP, _GAP = (
    0.94,
    (0.06, 0.42),
    (0.07, 0.36),
    (0.055, 0.3),
)  # shares of the figure, and the least in inches
_TITLE = 0.11  # inches between the map and the title
_LEFT, _BELOW = (0.1, 0.5), (0.065, 0.42)  # room for numbers: a share of the figure, and the least in inches
_NAME = 0.17  # inches for the name of an axis of the map
_MOST_CLASSES = 20  # in a legend
_LEGEND = 2.4  # inches: the smallest width of a figure with a legend
_NARROW = 4.0  # inches: text shrinks with figures below this width
_SMALL, _NAMES = 8.3, 7.0  # points: text at axes, and in a legend
_LINE, _LETTER, _PATCH = 1.8, 0.65, 5.0  # of a legend above a map, in sizes of its font: height of a line, widths
_DPI = 100
_AROUND, _MAP = 0.27, 0.85  # height of a frame: that of text and counts, and of a square map, as shares of its width
_FLATTEST, _TALLEST = 0.3, 1.6  # height of a map, as a share of its width
_HOLD = 1.5  # seconds that the last frame stays

_FPS, _SIZE = 6.0, 640


def animate(
    training: TrainingFrames,
    path: str | Path,
    *,
    kind: str = "linear",
    fps: float = _FPS,
    size: int = _SIZE,
    points: bool = True,
    progress: Progress | None = None,
) -> Path:
    """Write the frames to a .gif or .mp4 file of ``size`` pixels width, as high as the slice needs; return its path.

    kind: "linear" (regions, with the decision boundary on top), "decision" or "neurons" (zero lines by layer).
    points: draw the data. Cost: one figure for each frame, about 0.3 s for 10,000 regions.
    """
    path = Path(path)
    check_animation(path, kind=kind, fps=fps, size=size)
    check_progress(progress)
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    width = 2 * round(size / 2)  # video codecs want even numbers
    height = 2 * round(width * (_AROUND + _MAP * _proportion(training)) / 2)
    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI)
    FigureCanvasAgg(figure)
    shown = [*range(len(training.frames)), *[len(training.frames) - 1] * max(0, round(_HOLD * fps) - 1)]
    counts = _counts(training, kind)

    def draw() -> Iterator[None]:
        for n, i in enumerate(shown):
            if n == 0 or i != shown[n - 1]:
                figure.clear()
                draw_frame(training, i, figure=figure, kind=kind, points=points, counts=counts)
            yield
            if progress is not None:
                progress((n + 1) / len(shown))

    write_animation(figure, draw(), path, fps=round(fps))
    return path


def _proportion(training: TrainingFrames) -> float:
    """Height of the map, as a share of its width: that of the slice, so that no band beside it is empty."""
    if training.slice.dim == 1:
        return _FLATTEST
    wide, high = (training.slice.corners.amax(0) - training.slice.corners.amin(0)).tolist()
    return float(min(max(high / wide, _FLATTEST), _TALLEST))


def draw_frame(
    training: TrainingFrames,
    i: int,
    *,
    figure: Figure,
    kind: str = "linear",
    points: bool = True,
    counts: NDArray[np.int64] | None = None,
) -> None:
    """Draw frame i into the figure: the map with its title, and below it the number of regions over training.

    Axes that show inputs have the names of the inputs, where the data have them.
    Decision regions have a legend of all classes that some frame has, unless the figure is small or they are many.
    counts: that number for each frame; who draws many frames counts once.
    """
    frame = training.frames[i]
    layout = _layout(figure)
    ax = figure.add_axes(layout.map)
    count = _draw(frame, kind, ax)
    if points and training.slice.dim == 2 and len(training.points):
        data(training.points, training.labels, ax=ax)
    style.map_axes([ax])
    if shows_inputs(training.slice):
        for axis, name in zip((ax.xaxis, ax.yaxis)[: training.slice.dim], training.input_names, strict=False):
            axis.set_label_text(name or axis.get_label_text())
    if kind == "decision":
        _name_classes(training, ax, fontsize=_NAMES * layout.text)
    moment = f"step {frame.step:,}" if frame.epoch is None else f"epoch {frame.epoch:g}"
    left, right = layout.map[0], layout.map[0] + layout.map[2]
    title = layout.map[1] + layout.map[3] + _TITLE * layout.text / float(figure.get_size_inches()[1])
    figure.text(left, title, moment, fontsize=15 * layout.text, fontweight="bold", color=style.BLACK)
    figure.text(right, title, count, fontsize=12 * layout.text, ha="right", color=style.BLACK)
    strip = figure.add_axes(layout.strip)
    _counts_so_far(training, i, _counts(training, kind) if counts is None else counts, strip)
    strip.set_xlabel(
        "epoch" if training.steps_per_epoch else "step", fontsize=_SMALL * layout.text, labelpad=layout.text
    )
    for axes in (ax, strip):
        axes.tick_params(labelsize=_SMALL * layout.text, length=2.5 * layout.text, pad=3.5 * layout.text)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_fontsize(_SMALL * layout.text)
        axis.labelpad = layout.text


def check_animation(path: Path, *, kind: str, fps: float = _FPS, size: int = _SIZE) -> None:
    """Raise ``InputError`` if the file cannot be created."""
    from matplotlib.animation import FFMpegWriter

    if path.suffix not in (".gif", ".mp4"):
        raise InputError(
            f"Expected a file that ends in .gif or .mp4, got {str(path)!r}. Change the ending of the file."
        )
    if path.suffix == ".mp4" and not FFMpegWriter.isAvailable():
        raise InputError(f"{path.name} needs ffmpeg, which is not installed. Install it, or write a .gif file.")
    check_parent(path)
    one_of("kind", kind, KINDS)
    if not (1 <= fps <= 50 and 100 <= size <= 4000):
        raise InputError(
            f"Expected 1 to 50 frames per second and a size of 100 to 4000 pixels, got {fps:g} and {size}. "
            "Set fps= and size= inside these ranges."
        )


@dataclass(frozen=True)
class _Layout:
    """Left, bottom, width and height of the map and of the strip below it, and the scale of the text."""

    map: tuple[float, float, float, float]
    strip: tuple[float, float, float, float]
    text: float


def _layout(figure: Figure) -> _Layout:
    wide, high = figure.get_size_inches()
    text = min(1.0, float(wide) / _NARROW)
    left = max(_LEFT[0], _LEFT[1] * text / float(wide)) + _NAME * text / float(wide)
    below = max(_BELOW[0], _BELOW[1] * text / float(high))
    above, strip, gap = (max(share, inches * text / float(high)) for share, inches in (_TOP, _STRIP, _GAP))
    bottom = below + strip + gap + _NAME * text / float(high)
    return _Layout((left, bottom, _RIGHT - left, 1 - above - bottom), (left, below, _RIGHT - left, strip), text)


def _counts(training: TrainingFrames, kind: str) -> NDArray[np.int64]:
    """The number of regions of each frame."""
    return np.array([_count(frame, kind) for frame in training.frames], dtype=np.int64)


def _counts_so_far(training: TrainingFrames, i: int, counts: NDArray[np.int64], strip: Axes) -> None:
    """The number of regions over training, with a dot at frame i."""
    steps = np.array([frame.step / (training.steps_per_epoch or 1.0) for frame in training.frames])
    strip.plot(steps, counts, color=style.GREY, linewidth=1.2)
    strip.plot(steps[i], counts[i], "o", color=style.VERMILLION, markersize=6)
    strip.set_ylim(0, 1.15 * max(1, counts.max()))
    if len(steps) == 1:  # one moment has no extent of its own: show the training up to it
        strip.set_xlim(-0.05 * (steps[0] or 1.0), 1.05 * (steps[0] or 1.0))
    style.plain_axes([strip])
    whole_ticks(strip.xaxis, steps.tolist())
    strip.yaxis.set_major_locator(MaxNLocator(2, integer=True))


def _count(frame: Frame, kind: str) -> int:
    if kind == "decision":
        return _decision(frame).count
    return frame.linear.n_linear_regions if kind == "linear" else frame.linear.n_activation_regions


def _draw(frame: Frame, kind: str, ax: Any) -> str:
    """Draw the map and return its count in words."""
    if kind == "decision":
        decision_regions(_decision(frame), ax=ax)
    elif kind == "neurons":
        zero_lines(frame.linear, ax=ax)
        ax.legend(loc="upper right", fontsize="x-small", framealpha=0.9)
    else:
        linear_regions(frame.linear, ax=ax, ids=frame.ids)
        if frame.decision is not None:
            decision_boundary(frame.decision, ax=ax)
    n = _count(frame, kind)
    noun = {"linear": "linear region", "decision": "decision region", "neurons": "activation region"}[kind]
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _name_classes(training: TrainingFrames, ax: Axes, *, fontsize: float) -> None:
    """A legend of the classes that some frame has, so that it stays the same over the frames.

    It stands above a map that leaves room there, else in its corner.
    """
    shown = sorted({label for frame in training.frames for label in _decision(frame).labels.tolist()})
    if len(shown) > _MOST_CLASSES or ax.figure.bbox.width < _LEGEND * ax.figure.dpi:
        return
    names = dict(enumerate(training.class_names))
    handles = []
    for label in shown:
        name = names.get(label, str(label))
        colour = tuple(style.class_colours(torch.tensor([label], device="cpu"), pale=True)[0])
        handles.append(
            Patch(facecolor=colour, edgecolor=style.BLACK, label=f"class {name}" if name.isdigit() else name)
        )
    wide, high = _room_above(ax)
    abreast = max(
        1, int(wide / (fontsize * (_PATCH + _LETTER * max(len(str(handle.get_label())) for handle in handles))))
    )
    if high > (-(-len(handles) // abreast) + 1) * _LINE * fontsize:
        above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "frameon": False, "borderpad": 0}
        ax.legend(handles=handles, fontsize=fontsize, ncols=min(abreast, len(handles)), **above)
    else:
        ax.legend(handles=handles, loc="upper right", fontsize=fontsize, framealpha=0.9, ncols=-(-len(handles) // 10))


def _room_above(ax: Axes) -> tuple[float, float]:
    """Width and height, in points, between the map, which may be wider than high, and the top of its place."""
    top = ax.get_position(original=True).y1
    ax.apply_aspect()
    place, whole, point = ax.get_position(), ax.figure.bbox, ax.figure.dpi / 72
    return float(place.width * whole.width / point), float((top - place.y1) * whole.height / point)


def _decision(frame: Frame) -> DecisionRegions:
    if frame.decision is None:
        raise InputError(
            'Expected kind "linear" or "neurons" for frames without decision regions, got "decision". '
            "Compute the frames with their decision regions."
        )
    return frame.decision


# The file of a moving picture, GIF or MP4, from a figure that is drawn again for each frame.


def write_animation(figure: Figure, frames: Iterable[object], path: Path, *, fps: int) -> None:
    """Write the .gif or .mp4 file ``path``: each step of ``frames`` leaves the next frame on the figure.

    The file is whole or as before. MP4 needs ffmpeg; a failure of it is an OSError.
    """
    write = _gif if path.suffix == ".gif" else _mp4
    replace_file(path, lambda temporary: write(figure, frames, temporary, fps))


def _gif(figure: Figure, frames: Iterable[object], path: Path, fps: int) -> None:
    pictures = (_picture(figure) for _ in frames)  # one at a time: each becomes a paletted copy, a third of its size
    first = next(pictures)
    first.save(path, format="GIF", save_all=True, append_images=pictures, duration=int(1000 / fps), loop=0)


def _picture(figure: Figure) -> Any:
    from PIL import Image  # comes with matplotlib

    canvas: Any = figure.canvas
    if figure.stale:
        canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())


def _mp4(figure: Figure, frames: Iterable[object], path: Path, fps: int) -> None:
    from matplotlib.animation import FFMpegWriter

    writer = FFMpegWriter(fps=fps, extra_args=["-f", "mp4"])
    try:
        with writer.saving(figure, str(path), figure.dpi):
            for _ in frames:
                writer.grab_frame()
    except subprocess.CalledProcessError as error:
        raise OSError(f"ffmpeg ended with status {error.returncode}") from error
