"""The one place where colours, widths and sizes live.

Hues are those of Okabe and Ito (2008), "Color universal design", which stay apart for colour-blind readers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "BOUNDARY",
    "BOUNDARY_WIDTH",
    "DPI",
    "EDGE",
    "EDGE_WIDTH",
    "MARKERS",
    "MARKER_SIZE",
    "PANEL_INCHES",
    "class_colours",
    "region_colours",
]

Colours = np.ndarray[Any, np.dtype[np.float64]]

DPI = 150
PANEL_INCHES = 4.0
EDGE, EDGE_WIDTH = "#444444", 0.3
BOUNDARY, BOUNDARY_WIDTH = "#000000", 1.4
MARKERS, MARKER_SIZE = "osD^vP*X", 10.0

# Blue and vermillion come first: two classes are the common case, and these two are the furthest apart.
_HUES = np.array(
    [
        [0, 114, 178],  # blue
        [213, 94, 0],  # vermillion
        [0, 158, 115],  # bluish green
        [230, 159, 0],  # orange
        [86, 180, 233],  # sky blue
        [204, 121, 167],  # reddish purple
        [240, 228, 66],  # yellow
    ],
    dtype=np.float64,
)
_TINTS = np.array([0.30, 0.45, 0.60, 0.75])  # share of white in a region's colour
_CLASS_TINT = 0.62


def region_colours(ids: Tensor) -> Colours:
    """A colour (r, 3) for each region id (r,): pseudo-random, and the same for the same id in every picture."""
    scrambled = (ids.cpu().numpy().astype(np.uint64) * np.uint64(2654435761)) % np.uint64(2**32)
    cell = (scrambled >> np.uint64(16)) % np.uint64(len(_HUES) * len(_TINTS))
    hue, tint = np.divmod(cell.astype(np.int64), len(_TINTS))
    return _tinted(_HUES[hue], _TINTS[tint][:, None])


def class_colours(labels: Tensor, *, pale: bool = False) -> Colours:
    """The colour (n, 3) of each class label (n,); ``pale`` for areas, full for points."""
    hues = _HUES[labels.to(torch.int64).cpu().numpy() % len(_HUES)]
    return _tinted(hues, np.float64(_CLASS_TINT if pale else 0.0))


def _tinted(rgb: Colours, white: Colours | np.float64) -> Colours:
    return np.asarray((rgb + (255.0 - rgb) * white) / 255.0)
