"""Labelled points in the plane."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from torch import Tensor

from regionscope.errors import InputError
from regionscope.plot import style

__all__ = ["data"]


def data(points: Tensor, labels: Tensor, *, ax: Axes) -> list[PathCollection]:
    """Scatter ``points`` (n, 2) coloured by ``labels`` (n,); one artist for each class, each with its own marker."""
    if points.ndim != 2 or points.shape[1] != 2:
        raise InputError(f"A scatter plot needs points of shape (n, 2), and they came as {tuple(points.shape)}.")
    drawn = []
    for label in labels.unique():
        xy = points[labels == label].detach().cpu().numpy()
        drawn.append(
            ax.scatter(
                xy[:, 0],
                xy[:, 1],
                s=style.MARKER_SIZE,
                marker=style.MARKERS[int(label) % len(style.MARKERS)],
                color=np.atleast_2d(style.class_colours(label.reshape(1))),
                linewidths=0,
                alpha=0.8,
                label=f"class {int(label)}",
            )
        )
    ax.set_aspect("equal")
    return drawn
