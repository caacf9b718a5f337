"""Marks on a picture: labelled points, inputs where they project onto a slice, and thumbnails of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.markers import MarkerStyle
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from matplotlib.patheffects import withStroke
from matplotlib.transforms import BboxBase, ScaledTranslation
from numpy.typing import NDArray
from torch import Tensor

from regionscope.errors import InputError
from regionscope.geometry import Slice
from regionscope.inputs import Inputs, Labels, read_examples
from regionscope.plot import style
from regionscope.plot.kinds import slice_for
from regionscope.plot.legends import ClassLegend, check_names, class_legend, lay_out, mark_legend, spread
from regionscope.plot.regions import frame_slice
from regionscope.tolerance import OUTSIDE_DISTANCE

_COVERED = 0.6  # share of the axes that markers may cover
_SMALLEST = 1.5  # square points; smaller ones fall between pixels
_SPARSE, _OUTLINED, _LARGEST = 0.15, 10.0, 40.0  # points of a slice: covered share, smallest and largest area
_FARTHEST = 0.25  # area of the marker of the point that is farthest from the slice, as a share of the one on it
_EDGE = 0.12  # width of the edge of a marker, as a share of its size
_RIM = 0.8  # points: the largest width of the white edge and of the black one around it
_MOST_CLASSES = 20  # named without class_names
_GAP = 6.0  # points between the frame and a thumbnail
_ROUNDS = 3  # of placing thumbnails, which take room from the axes


def data(
    inputs: Inputs, labels: Labels | None = None, *, ax: Axes | None = None, class_names: Sequence[str] | None = None
) -> list[PathCollection]:
    """Scatter ``inputs`` (n, 2) coloured by ``labels`` (n,); one artist for each class, each with its own marker.

    inputs: a tensor, an array, a Dataset or a DataLoader; labels that come with them are used. Markers become smaller
    if there are many, so that no class covers another. class_names: names for a legend outside the axes, with the
    classes that occur.
    """
    examples = read_examples(inputs, labels)
    points, given = (part.cpu() for part in examples.take_pairs(torch.arange(len(examples), device="cpu")))
    if points.ndim != 2 or points.shape[1] != 2:
        raise InputError(
            f"Expected points of shape (n, 2), got {tuple(points.shape)}. "
            "Pass the coordinates that slice.project(inputs) returns."
        )
    if class_names is not None:
        check_names(given, class_names)
    ax = style.axes_or_current(ax)
    size = _size(ax, len(points))
    drawn = []
    for label in given.unique():
        xy = points[given == label].numpy()
        drawn.append(
            ax.scatter(
                xy[:, 0],
                xy[:, 1],
                s=size,
                marker=_marker(int(label)),
                color=np.atleast_2d(style.class_colours(label.reshape(1))),
                edgecolors=style.BLACK,  # stands out from a region of its own colour
                linewidths=_EDGE * math.sqrt(size),
                snap=False,
                clip_on=not _shows(ax, points),  # a marker in the corner is whole
                zorder=3,
                label=f"class {int(label)}" if class_names is None else class_names[int(label)],
            )
        )
    ax.set_aspect("equal")
    if class_names is not None:
        markers = {int(label): _marker(int(label)) for label in given.unique()}
        class_legend(given, ax=ax, class_names=class_names, markers=markers)
    return drawn


def points(
    slice: Slice,
    inputs: Inputs,
    labels: Labels | None = None,
    *,
    ax: Axes | None = None,
    max_distance: float | None = None,
    class_names: Sequence[str] | None = None,
    marker: str | None = None,
    size: float | None = None,
    label: str | None = None,
) -> list[PathCollection]:
    """Mark inputs where they project onto a slice of dimension 1 or 2, coloured by their labels.

    A marker is smaller the farther its input is from the slice, and the legend has the sizes of the nearest and of the
    farthest. Points outside the slice are not drawn.

    inputs: (n, *input_shape), as a tensor, an array, a Dataset or a DataLoader; labels that come with them are used.
    Without labels the marks are black. max_distance: leave out inputs further away from the slice than this; see
    ``slice.project``. class_names: as in ``decision_regions``; without them the legend names up to 20 classes by their
    labels. marker: that of Matplotlib for all points; without it, one for each class. size: area of a marker on the
    slice in square points. label: name of these points in the legend.
    """
    slice = slice_for("points", slice)
    ax = style.axes_or_current(ax)
    x, given = _read(inputs, labels)
    coords, distances = (part.cpu() for part in slice.project(x))
    kept = slice.contains(coords)
    if max_distance is not None:
        kept &= distances <= max_distance
    rows = kept.nonzero()[:, 0]
    reach = _reach(distances[rows], max_distance)
    if reach:
        rows = rows[distances[rows].argsort(descending=True, stable=True)]  # the nearest on top
    coords, distances, given = coords[rows], distances[rows], None if given is None else given[rows]
    frame_slice(slice, ax)
    xy = coords if slice.dim == 2 else torch.cat([coords, torch.full_like(coords, 0.5)], 1)
    drawn = [ax.scatter(*xy.T.numpy(), color=style.BLACK)] if given is None else data(xy, given, ax=ax)
    largest = min(style.area(_LARGEST), max(_OUTLINED, _SPARSE * _area(ax) / max(1, len(xy)))) if size is None else size
    areas = largest * (1 - (1 - _FARTHEST) * distances / (reach or torch.inf))
    rim = min(_RIM, _EDGE * math.sqrt(float(areas.min()) if len(areas) else largest))
    members = [areas] if given is None else [areas[given == label] for label in given.unique()]
    for artist, sizes in zip(drawn, members, strict=True):
        artist.set(zorder=3, sizes=sizes.numpy(), edgecolors="white", linewidths=rim, clip_on=False)
        artist.set_path_effects([withStroke(linewidth=2 * rim, foreground=style.BLACK)])
        if marker is not None:
            form = MarkerStyle(marker)
            artist.set_paths([form.get_path().transformed(form.get_transform())])
    frame_slice(slice, ax)
    if given is not None and (class_names is not None or len(given.unique()) <= _MOST_CLASSES):
        markers = {int(label): marker or _marker(int(label)) for label in given.unique()}
        class_legend(given, ax=ax, class_names=class_names, markers=markers)
    colour, shape = style.BLACK if given is None else style.GREY, marker or "o"
    if label is not None:
        mark_legend(label, shape, ax=ax, colour=colour)
    if reach:
        noun = "plane" if slice.dim == 2 else "line"
        for words, area in ((f"on the {noun}", largest), (f"{reach:.2g} away", _FARTHEST * largest)):
            mark_legend(words, shape, ax=ax, colour=colour, size=area)
    return drawn


def _reach(distances: Tensor, largest: float | None) -> float:
    """The distance of the smallest markers: ``largest``, or that of the farthest point; 0 if all are on the slice."""
    farthest = float(distances.max()) if len(distances) else 0.0
    if farthest <= OUTSIDE_DISTANCE * max(1.0, largest or 0.0):
        return 0.0
    return farthest if largest is None else largest


def thumbnails(
    slice: Slice,
    inputs: Inputs,
    labels: Labels | None = None,
    *,
    ax: Axes | None = None,
    image_shape: Sequence[int] | None = None,
    size: float = 0.2,
) -> list[AnnotationBbox]:
    """Show images beside a slice, such as those at the corners of a plane through three images.

    Each image gets a dot at its place and a thumbnail in a frame of the colour of its label, with a line between both.
    Thumbnails stand outside the axes, where they cover nothing: on the left and on the right, or above a line.

    inputs: (n, *input_shape). image_shape: (height, width), (channels, height, width) or (height, width, channels);
    without it, the shape of an input, or a square for flat inputs of one or three channels. size: width of a thumbnail,
    as a share of the axes; smaller if many stand on one side. A figure without a layout engine gets a constrained
    layout.
    """
    slice = slice_for("thumbnails", slice)
    ax = style.axes_or_current(ax)
    x, given = _read(inputs, labels)
    pictures = as_pictures(x, image_shape)
    xy = slice.project(x).coords.cpu().numpy()
    if slice.dim == 1:
        xy = np.column_stack([xy, np.ones(len(xy))])
    frame_slice(slice, ax)
    lay_out(ax)
    colours = [style.BLACK] * len(x) if given is None else [style.hue(int(label)) for label in given]
    drawn = []
    for place, picture, colour in zip(xy, pictures, colours, strict=True):
        box = OffsetImage(picture, cmap="gray", interpolation="nearest", resample=True)
        drawn.append(
            AnnotationBbox(
                box, (float(place[0]), float(place[1])), xybox=(0.5, 0.5), boxcoords="axes fraction",
                pad=0.15, frameon=True, bboxprops={"edgecolor": colour, "linewidth": 2.0, "boxstyle": "square"},
                arrowprops={"arrowstyle": "-", "color": style.BLACK, "linewidth": 0.8, "shrinkB": 0.0},
                annotation_clip=False, zorder=4,
            )
        )  # fmt: skip
        ax.add_artist(drawn[-1])
    ax.scatter(
        xy[:, 0],
        xy[:, 1],
        s=style.area(14.0),
        color=style.BLACK,
        edgecolors="white",
        linewidths=style.line(0.8),
        zorder=5,
        clip_on=False,
    )
    figure: Any = ax.get_figure(root=True)
    for _ in range(_ROUNDS):
        _stand_outside(drawn, xy, size, ax, above=slice.dim == 1)
        if isinstance(ax.get_legend(), ClassLegend):  # moves out of their way, and names the classes of their frames
            class_legend(torch.zeros(0, dtype=torch.int64, device="cpu") if given is None else given, ax=ax)
        figure.draw_without_rendering()  # the axes become smaller
    return drawn


def _stand_outside(boxes: Sequence[Any], xy: NDArray[np.float64], size: float, ax: Axes, *, above: bool) -> None:
    """Put the thumbnails outside the axes: beside their points (n, 2), as far as they do not cover each other."""
    figure: Any = ax.get_figure(root=True)
    area, point = ax.get_window_extent(), figure.dpi / 72
    places = ax.transAxes.inverted().transform(ax.transData.transform(xy))
    along, side = (0, np.full(len(xy), 2)) if above else (1, (xy[:, 0] >= xy[:, 0].mean()).astype(int))
    length = float(area.width if above else area.height)
    for where in np.unique(side):
        rows = sorted(np.flatnonzero(side == where).tolist(), key=lambda i: float(places[i, along]))
        wide = min(size * float(min(area.width, area.height)), length / len(rows) - 3 * _GAP * point)
        for i in rows:
            picture = boxes[i].offsetbox
            picture.set_zoom(wide / point / picture.get_data().shape[1])
        extents = [_frame(boxes[i]) for i in rows]
        lengths = np.array([(box.width if above else box.height) + _GAP * point for box in extents]) / length
        free = 1 - lengths[-1] / 2 - lengths[0] / 2
        middles = spread(places[rows, along] - lengths[0] / 2, lengths, free) + lengths[0] / 2
        for i, middle, box in zip(rows, middles, extents, strict=True):
            shift = (_GAP + (_beyond(ax, int(where)) + (box.height if above else box.width) / 2) / point) / 72
            x, y, dx, dy = [(0.0, middle, -shift, 0.0), (1.0, middle, shift, 0.0), (middle, 1.0, 0.0, shift)][where]
            boxes[i].xybox = (x, y)
            boxes[i].boxcoords = ax.transAxes + ScaledTranslation(dx, dy, figure.dpi_scale_trans)


def _frame(box: AnnotationBbox) -> BboxBase:
    """The frame of a thumbnail, without its line, in pixels."""
    box.get_window_extent()  # brings the frame up to date
    return box.patch.get_window_extent()


def _beyond(ax: Axes, side: int) -> float:
    """How far numbers and names on the left of the axes (0) or a colour bar on their right (1) reach, in pixels."""
    area, drawn = ax.get_window_extent(), [ax.yaxis] if side == 0 else ax.child_axes if side == 1 else []
    boxes = [box for artist in drawn if (box := artist.get_tightbbox()) is not None]
    return max([0.0, *(float(area.x0 - box.x0 if side == 0 else box.x1 - area.x1) for box in boxes)])


def as_pictures(images: Tensor, image_shape: Sequence[int] | None = None) -> NDArray[np.float64]:
    """Images (n, height, width) or (n, height, width, 3) with values in [0, 1]; the range is that of all of them."""
    values = pixels(images, image_shape)
    low, high = values.min(), values.max()
    return np.asarray((values - low) / max(high - low, 1e-300))


def square(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an image for flat inputs: a square of one or three channels; other shapes as they are."""
    if len(shape) != 1:
        return shape
    side, side3 = math.isqrt(shape[0]), math.isqrt(shape[0] // 3)
    return (side, side) if side * side == shape[0] else (3, side3, side3)


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether inputs of this shape are images of one or three channels."""
    if len(shape) == 1:
        return math.prod(square(shape)) == shape[0]
    return len(shape) == 2 or (len(shape) == 3 and (shape[0] in (1, 3) or shape[2] in (1, 3)))


def pixels(images: Tensor, image_shape: Sequence[int] | None = None) -> NDArray[np.float64]:
    """The values of inputs (n, *input_shape) as images (n, height, width) or (n, height, width, 3)."""
    shape = square(tuple(images.shape[1:]) if image_shape is None else tuple(image_shape))
    if math.prod(shape) != math.prod(images.shape[1:]) or len(shape) not in (2, 3):
        raise InputError(
            f"Expected images, got inputs of shape {tuple(images.shape[1:])}. Pass image_shape=(height, width) or "
            "(channels, height, width)."
        )
    values = images.detach().cpu().double().reshape(len(images), *shape).numpy()
    if values.ndim == 4 and shape[0] in (1, 3) and shape[2] not in (1, 3):
        values = np.moveaxis(values, 1, 3)
    if values.ndim == 4 and values.shape[3] not in (1, 3):
        raise InputError(f"Expected images of 1 or 3 channels, got shape {shape}. Pass image_shape=.")
    return values[..., 0] if values.ndim == 4 and values.shape[3] == 1 else values


def _read(inputs: Inputs, labels: Labels | None) -> tuple[Tensor, Tensor | None]:
    """All inputs, and their labels on the CPU: those given, or those of the items of a Dataset or DataLoader."""
    examples = read_examples(inputs, labels)
    if labels is None and isinstance(inputs, Tensor | np.ndarray | list | tuple):
        return examples.all(), None
    x, given = examples.take_pairs(torch.arange(len(examples), device="cpu"))
    return x, given.cpu()


def _marker(label: int) -> str:
    return style.MARKERS[label % len(style.MARKERS)]


def _size(ax: Axes, n: int) -> float:
    """Size of n markers, in square points."""
    return min(style.area(style.MARKER_SIZE), max(_SMALLEST, _COVERED * _area(ax) / max(1, n)))


def _area(ax: Axes) -> float:
    """Area of the axes in square points, the unit of marker sizes."""
    box = ax.get_window_extent()
    return float(box.width * box.height) * (72 / ax.figure.dpi) ** 2


def _shows(ax: Axes, points: Tensor) -> bool:
    """Whether all points (n, 2) are inside the limits of the axes."""
    low, high = torch.tensor([ax.get_xlim(), ax.get_ylim()], dtype=points.dtype, device="cpu").sort(1).values.T
    return bool(((points >= low) & (points <= high)).all())
