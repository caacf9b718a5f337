"""Labelled points in the plane."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from torch import Tensor

from regionscope.errors import InputError
from regionscope.plot import style

_COVERED = 0.6  # share of the axes that markers may cover
_SMALLEST = 1.5  # square points; smaller ones fall between pixels


def data(points: Tensor, labels: Tensor, *, ax: Axes) -> list[PathCollection]:
    """Scatter ``points`` (n, 2) coloured by ``labels`` (n,); one artist for each class, each with its own marker.

    Where there are many, markers are smaller, so that no class covers another.
    """
    if points.ndim != 2 or points.shape[1] != 2:
        raise InputError(f"Expected points of shape (n, 2) for a scatter plot, got {tuple(points.shape)}.")
    size = min(style.MARKER_SIZE, max(_SMALLEST, _COVERED * _area(ax) / max(1, len(points))))
    drawn = []
    for label in labels.unique():
        xy = points[labels == label].detach().cpu().numpy()
        drawn.append(
            ax.scatter(
                xy[:, 0],
                xy[:, 1],
                s=size,
                marker=style.MARKERS[int(label) % len(style.MARKERS)],
                color=np.atleast_2d(style.class_colours(label.reshape(1))),
                linewidths=0,
                alpha=0.8,
                snap=False,
                label=f"class {int(label)}",
            )
        )
    ax.set_aspect("equal")
    return drawn


def _area(ax: Axes) -> float:
    """Area of the axes in square points, the unit of marker sizes."""
    box = ax.get_window_extent()
    return float(box.width * box.height) * (72 / ax.figure.dpi) ** 2
