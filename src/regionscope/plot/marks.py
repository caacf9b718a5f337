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
from numpy.typing import NDArray
from torch import Tensor

from regionscope.errors import InputError
from regionscope.geometry import Slice
from regionscope.inputs import Inputs, Labels, read_examples
from regionscope.plot import style
from regionscope.plot.kinds import slice_for
from regionscope.plot.legends import ClassLegend, check_names, class_legend, lay_out, mark_legend
from regionscope.plot.regions import frame_slice

_COVERED = 0.6  # share of the axes that markers may cover
_SMALLEST = 1.5  # square points; smaller ones fall between pixels
_SPARSE, _OUTLINED, _LARGEST = 0.15, 10.0, 40.0  # points of a slice: covered share, smallest and largest area
_EDGE = 0.12  # width of the black edge of a marker, as a share of its size
_RIM = 0.8  # points, width of the white edge and of the black one around it
_MOST_CLASSES = 20  # named without class_names
_HALF = 0.6  # of a thumbnail with its frame, in widths of the thumbnail
_AWAY = 0.72  # between a point and the middle of its thumbnail, along the longer side, in widths of the thumbnail


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

    inputs: (n, *input_shape), as a tensor, an array, a Dataset or a DataLoader; labels that come with them are used.
    Without labels the marks are black. Points outside the slice are not drawn. max_distance: leave out inputs further
    away from the slice than this; see ``slice.project``. class_names: as in ``decision_regions``; without them the
    legend names up to 20 classes by their labels. marker: that of Matplotlib for all points; without it, one for each
    class. size: area of a marker in square points. label: name of these points in the legend.
    """
    slice = slice_for("points", slice)
    ax = style.axes_or_current(ax)
    x, given = _read(inputs, labels)
    coords, distances = (part.cpu() for part in slice.project(x))
    kept = slice.contains(coords)
    if max_distance is not None:
        kept &= distances <= max_distance
    xy = coords[kept] if slice.dim == 2 else torch.cat([coords[kept], torch.full_like(coords[kept], 0.5)], 1)
    drawn = [ax.scatter(*xy.T.numpy(), color=style.BLACK)] if given is None else data(xy, given[kept], ax=ax)
    area = min(_LARGEST, max(_OUTLINED, _SPARSE * _area(ax) / max(1, len(xy)))) if size is None else size
    for artist in drawn:
        artist.set(zorder=3, sizes=[area], edgecolors="white", linewidths=_RIM)
        artist.set_path_effects([withStroke(linewidth=2 * _RIM, foreground=style.BLACK)])
        if marker is not None:
            shape = MarkerStyle(marker)
            artist.set_paths([shape.get_path().transformed(shape.get_transform())])
    frame_slice(slice, ax)
    if given is not None and (class_names is not None or len(given[kept].unique()) <= _MOST_CLASSES):
        markers = {int(label): marker or _marker(int(label)) for label in given[kept].unique()}
        class_legend(given[kept], ax=ax, class_names=class_names, markers=markers)
    if label is not None:
        mark_legend(label, marker or "o", ax=ax, colour=style.BLACK if given is None else style.GREY)
    return drawn


def thumbnails(
    slice: Slice,
    inputs: Inputs,
    labels: Labels | None = None,
    *,
    ax: Axes | None = None,
    image_shape: Sequence[int] | None = None,
    size: float = 0.2,
) -> list[AnnotationBbox]:
    """Show images next to their points on a slice, such as the corners of a plane through three images.

    Each image gets a dot at its place and a thumbnail next to it, away from the other images, in a frame of the colour
    of its label. A line connects both, and no thumbnail covers the frame of the axes. inputs: (n, *input_shape).
    image_shape: (height, width), (channels, height, width) or (height, width, channels); without it, the shape of an
    input, or a square for flat inputs of one or three channels. size: width of a thumbnail, as a share of the axes. A
    figure without a layout engine gets a constrained layout.
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
    width = size * min(float(ax.bbox.width), float(ax.bbox.height)) / ax.figure.dpi * 72  # points
    colours = [style.BLACK] * len(x) if given is None else [style.hue(int(label)) for label in given]
    drawn = []
    shifts = _AWAY * width * _directions(xy, slice.dim)
    for place, shift, picture, colour in zip(xy, shifts, pictures, colours, strict=True):
        box = OffsetImage(picture, zoom=width / picture.shape[1], cmap="gray", interpolation="nearest", resample=True)
        drawn.append(
            AnnotationBbox(
                box, (float(place[0]), float(place[1])), xybox=tuple(shift), boxcoords="offset points",
                pad=0.15, frameon=True, bboxprops={"edgecolor": colour, "linewidth": 2.0, "boxstyle": "square"},
                arrowprops={"arrowstyle": "-", "color": style.BLACK, "linewidth": 0.8, "shrinkB": 0.0},
                annotation_clip=False, zorder=4,
            )
        )  # fmt: skip
        ax.add_artist(drawn[-1])
    ax.scatter(xy[:, 0], xy[:, 1], s=14, color=style.BLACK, edgecolors="white", linewidths=0.8, zorder=5, clip_on=False)
    if given is not None and isinstance(ax.get_legend(), ClassLegend):
        class_legend(given, ax=ax)  # the frames have the colours of classes, too
    figure: Any = ax.get_figure(root=True)
    figure.draw_without_rendering()  # now it is known where everything is
    shifts = _clear_of_frame(_clear_of_ticks(shifts, xy, _HALF * width, ax), xy, _HALF * width, ax)
    for thumbnail, shift in zip(drawn, shifts, strict=True):
        thumbnail.xyann = tuple(shift)
    return drawn


def as_pictures(images: Tensor, image_shape: Sequence[int] | None = None) -> NDArray[np.float64]:
    """Images (n, height, width) or (n, height, width, 3) with values in [0, 1]; the range is that of all of them."""
    values = pixels(images, image_shape)
    low, high = values.min(), values.max()
    return np.asarray((values - low) / max(high - low, 1e-300))


def pixels(images: Tensor, image_shape: Sequence[int] | None = None) -> NDArray[np.float64]:
    """The values of inputs (n, *input_shape) as images (n, height, width) or (n, height, width, 3)."""
    shape = tuple(images.shape[1:]) if image_shape is None else tuple(image_shape)
    if len(shape) == 1:
        side = math.isqrt(shape[0])
        side3 = math.isqrt(shape[0] // 3)
        shape = (side, side) if side * side == shape[0] else (3, side3, side3)
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


def _directions(xy: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """For each point a direction away from the middle of all, 1 along its longer side; up on a line."""
    if dim == 1:
        return np.tile([0.0, 1.0], (len(xy), 1))
    away = xy - xy.mean(0)
    length = np.abs(away).max(1, keepdims=True)
    return np.asarray(np.where(length > 1e-12, away / np.maximum(length, 1e-12), [0.0, 1.0]))


def _clear_of_ticks(shifts: NDArray[np.float64], xy: NDArray[np.float64], half: float, ax: Axes) -> NDArray[np.float64]:
    """The shifts of thumbnails (n, 2) in points, changed where tick labels on the left or below would be covered.

    half: half a width of a thumbnail, in points. One that would cover them goes beside its point, into the axes; at
    the lower left corner, where both axes have labels, it goes out of the corner, past the labels.
    """
    place = (ax.transData.transform(xy) - ax.get_window_extent().min) * 72 / ax.figure.dpi
    room = place - half
    room[:, [not len(ax.get_yticks()), not len(ax.get_xticks())]] = np.inf  # those of y stand to the left
    for shift, coord, low in zip(shifts, place, -room, strict=True):
        if (shift < low).all() and (coord < half).all():
            shift[:] = -coord - _past_labels(ax) - half
        elif (shift < low).any():
            x, y = np.maximum(shift, low)
            beside = np.array([(x, -half), (x, half), (-half, y), (half, y)])
            allowed = beside[(beside >= low).all(1)]
            shift[:] = max(allowed, key=lambda corner: float(corner @ shift), default=shift)
    return shifts


def _clear_of_frame(shifts: NDArray[np.float64], xy: NDArray[np.float64], half: float, ax: Axes) -> NDArray[np.float64]:
    """The shifts of thumbnails (n, 2) in points, changed where the frame of the axes would be covered.

    half: as in ``_clear_of_ticks``. Such a thumbnail goes to that side of the frame on which most of it is; one that
    would then cover its point inside the axes moves along the frame.
    """
    area = ax.get_window_extent()
    place, size = (
        np.asarray(lengths) * 72 / ax.figure.dpi for lengths in (ax.transData.transform(xy) - area.min, area.size)
    )
    gap = (_AWAY - _HALF) / _HALF * half
    for shift, coord in zip(shifts, place, strict=True):
        for i in np.argsort(-np.abs(shift)):
            middle = coord + shift
            beside = not -half < middle[1 - i] < size[1 - i] + half  # it is out of the axes already
            for edge, outward in ((0.0, -1.0), (size[i], 1.0)):
                if beside or abs(middle[i] - edge) >= half:
                    continue
                out = (middle[i] - edge) * outward > 0
                shift[i] = edge - coord[i] + outward * (half + gap if out else -half)
                if not out and np.abs(shift).max() < half:
                    steps = [side * (half + gap) for side in (1.0, -1.0)]
                    fits = [step for step in steps if half <= coord[1 - i] + step <= size[1 - i] - half]
                    shift[1 - i] = min(fits, key=lambda step: abs(step - shift[1 - i]), default=shift[1 - i])
    return shifts


def _past_labels(ax: Axes) -> NDArray[np.float64]:
    """How far tick labels reach beyond the lower left corner: those of x to the left, those of y down, in points."""
    corner, reach = ax.get_window_extent().min, np.zeros(2)
    for i, axis in enumerate((ax.xaxis, ax.yaxis)):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels() if label.get_text()]
        reach[i] = max((corner[i] - box.min[i] for box in boxes), default=0.0)
    return np.maximum(reach, 0.0) * 72 / ax.figure.dpi


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
    return min(style.MARKER_SIZE, max(_SMALLEST, _COVERED * _area(ax) / max(1, n)))


def _area(ax: Axes) -> float:
    """Area of the axes in square points, the unit of marker sizes."""
    box = ax.get_window_extent()
    return float(box.width * box.height) * (72 / ax.figure.dpi) ** 2
