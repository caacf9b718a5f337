"""Level sets and decision boundaries: curves on a plane, a shaded mesh in space."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from regionscope.checks import check_instance
from regionscope.exact import LevelSet
from regionscope.formatting import counted
from regionscope.plot import style
from regionscope.plot.artists import faces_in_space
from regionscope.plot.regions import frame_slice
from regionscope.plot.ticks import input_ticks

_EYE = np.array([0.394, -0.682, 0.616])  # the direction of the default view
_LAMP = np.array([-0.09, -0.61, 0.79])  # above the reader's left shoulder
_INSIDE = 0.8  # light on faces that are seen from behind
_BASE, _TINT = np.array([0.72, 0.83, 0.93]), 0.4  # a common colour, and how far the tint of a face is from it
_ADVICE = "Compute it with regionscope.level_set(model, slice)"
_EMPTY = "does not\nmeet the slice."
_ZOOM = 0.8  # leaves room for the labels of the axes


def level_set(surface: LevelSet, *, ax: Axes | None = None) -> Any:
    """Draw the segments of a level set on a plane, or its polygons in space, each shaded in its own tint.

    Axes are named and numbered as in the other pictures of a slice. An empty level set is said to be so in words.
    ax: three-dimensional axes for a surface, as from ``figure.add_subplot(projection="3d")``. Returns a
    ``LineCollection`` or a ``Poly3DCollection`` with one entry for each face.
    """
    check_instance("plot.level_set()", surface, LevelSet, advice=_ADVICE)
    space: Any = style.axes_or_current(ax, projection="3d" if surface.dim == 3 else None)
    points, corners, offsets = (array.cpu().numpy() for array in (surface.vertices, *surface.faces))
    if surface.dim == 2:
        drawn = LineCollection(
            points[corners.reshape(-1, 2)], colors=style.BOUNDARY, linewidths=style.line(style.BOUNDARY_WIDTH)
        )
        space.add_collection(drawn, autolim=False)
        frame_slice(surface.slice, space)
        if not len(surface):
            space.text(0.5, 0.5, f"The curve {_EMPTY}", transform=space.transAxes, ha="center", va="center")
        return drawn
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

    normals = surface.normals.cpu().numpy()
    behind = (normals @ _EYE < 0)[:, None]
    light = 0.64 + 0.36 * np.where(behind, -normals, normals) @ _LAMP[:, None]
    light *= np.where(behind, _INSIDE, 1.0)
    colours = (_BASE + _TINT * (style.region_colours(torch.arange(len(surface))) - _BASE)) * light
    faces = faces_in_space(points, corners, offsets)
    drawn = Poly3DCollection(
        faces, facecolors=colours, edgecolors=style.EDGE, linewidths=style.edge_width(len(surface))
    )
    space.add_collection3d(drawn)
    low, high = (end.cpu().numpy() for end in (surface.slice.corners.amin(0), surface.slice.corners.amax(0)))
    if len(surface):
        low, high = points.min(0), points.max(0)
    else:
        space.text2D(0.5, 0.5, f"The surface {_EMPTY}", transform=space.transAxes, ha="center", va="center")
    space.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    space.set_box_aspect(high - low, zoom=_ZOOM)
    input_ticks(surface.slice, (space.xaxis, space.yaxis, space.zaxis))
    style.space_axes(space)
    return drawn


def level_set_figure(surface: LevelSet) -> Figure:
    """One panel with the curves or the surface; the title has the level, or the classes, and the counts."""
    check_instance("plot.level_set_figure()", surface, LevelSet, advice=_ADVICE)
    figure, (ax,) = style.figure(1, 1, width=5.2, height=5.0, **({"projection": "3d"} if surface.dim == 3 else {}))
    level_set(surface, ax=ax)
    if surface.dim == 2:
        style.map_axes([ax])
    noun = "segment" if surface.dim == 2 else "face"
    title = f"{' '.join(level_of(surface))}\n{counted(len(surface), noun)}, Euler characteristic {surface.euler}"
    ax.set_title(title, y=None if surface.dim == 2 else 0.96)  # a surface leaves the top of its panel empty
    return figure


def level_of(surface: LevelSet) -> tuple[str, str]:
    """What the faces are, in words: "level" and its number, or "border of" and the classes."""
    if surface.classes is None:
        return "level", f"{surface.value:.6g}"
    return "border of", f"class{'es' if len(surface.classes) > 1 else ''} {' and '.join(map(str, surface.classes))}"
