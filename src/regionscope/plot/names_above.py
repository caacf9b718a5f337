r"""Names above the axes of a chart that do not overlap: close ones move apart, and a line leads to their places.

 1→0 0→1      2→1
   \  /        |
----||---------|----
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from numpy.typing import NDArray

from regionscope.plot import style
from regionscope.plot.legends import lay_out

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
        wide = np.array([each.get_window_extent().width for each in drawn]) / point + _GAP
        if wide.sum() <= ax.bbox.width / point + wide.mean():
            lay_out(ax)
            area = ax.get_window_extent()
            wanted = (ax.transData.transform([(places[i], 0.0) for i in order])[:, 0] - area.x0) / point
            for each, shift in zip(drawn, spread(wanted, wide, area.width / point) - wanted, strict=True):
                each.set_position((float(shift), _LEADER))
            return drawn
        for each in drawn:
            each.remove()
    return []


def spread(wanted: NDArray[np.float64], wide: NDArray[np.float64], room: float) -> NDArray[np.float64]:
    """Middles of boxes in one row, as close as possible (least squares) to the sorted ones wanted, without overlaps.

    wide: widths of the boxes. room: the middles stay between 0 and this where the boxes fit. Isotonic regression by
    pooling adjacent violators, of the places less the widths before them.

    >>> spread(np.array([1.0, 1.0, 9.0]), np.array([2.0, 2.0, 2.0]), 10.0).tolist()
    [0.0, 2.0, 9.0]
    """
    before = np.concatenate([[0.0], np.cumsum((wide[:-1] + wide[1:]) / 2)])
    pools: list[tuple[float, int]] = []
    for target in wanted - before:
        mean, n = float(target), 1
        while pools and pools[-1][0] > mean:
            last, m = pools.pop()
            mean, n = (last * m + mean * n) / (m + n), m + n
        pools.append((mean, n))
    fitted = np.concatenate([np.full(n, mean) for mean, n in pools])
    return np.asarray(np.clip(fitted, 0.0, max(0.0, room - float(before[-1]))) + before)


def _name(name: str, place: float, rotation: int, ax: Axes) -> Annotation:
    """A name straight above its place, with a thin line down to it."""
    return ax.annotate(
        name, (place, 1.0), xycoords=ax.get_xaxis_transform(), xytext=(0.0, _LEADER), textcoords="offset points",
        ha="center", va="bottom", rotation=rotation, fontsize="x-small", annotation_clip=False,
        arrowprops={"arrowstyle": "-", "color": style.GREY, "linewidth": 0.6, "shrinkA": 0.0, "shrinkB": 0.0},
    )  # fmt: skip
