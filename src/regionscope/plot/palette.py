"""The colours of classes: the same for a label in every figure, and apart for readers who do not see red or green.

The first seven hues are those of Okabe and Ito (2008), "Color universal design"; three dark ones complete ten classes.
Each further class has the colour of a grid that is farthest from those before it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from torch import Tensor

Colours = np.ndarray[Any, np.dtype[np.float64]]

# Blue and vermillion come first: two classes are the common case, and these two are the furthest apart.
FIRST_HUES = np.array(
    [
        [0, 114, 178],  # blue
        [213, 94, 0],  # vermillion
        [0, 158, 115],  # bluish green
        [230, 159, 0],  # orange
        [86, 180, 233],  # sky blue
        [204, 121, 167],  # reddish purple
        [240, 228, 66],  # yellow
        [24, 0, 192],  # ultramarine
        [96, 72, 48],  # brown
        [72, 0, 96],  # dark violet
    ],
    dtype=np.float64,
)
_CLASSES = 256  # with colours of their own; then from the start again
CLASS_TINT = 0.45  # share of white in the area of a class
_GRID = np.linspace(0, 255, 16)  # of each channel
_GREYS = np.linspace(0, 255, 6)[:, None].repeat(3, 1)  # of paper, lines and text
_TINTS_COUNT = 1.7
_DARKEST, _BRIGHTEST = 0.3, 0.93  # lightness in Oklab: the boundary is black, and paper is white

# Linear RGB as people without the cones for green and for red see it (Machado, Oliveira and Fernandes 2009).
_DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
_PROTANOPIA = np.array(
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
)
_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)  # from linear RGB (Ottosson 2020)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)  # from the cube roots of the cones' signals


def class_hues(labels: Tensor) -> Colours:
    """The colour (n, 3) of each class label (n,), from 0 to 255."""
    index = labels.long().cpu().numpy() % _CLASSES
    return np.asarray((FIRST_HUES if index.max(initial=0) < len(FIRST_HUES) else _all_hues())[index])


@cache
def _all_hues() -> Colours:
    """The colours (256, 3) of all classes.

    After the first ten, always the one that is farthest from those before it and from greys, in full or as the tint of
    an area, whichever is closer.
    """
    grid = np.stack(np.meshgrid(_GRID, _GRID, _GRID), -1).reshape(-1, 3)
    lightness = appearances(grid)[:, 0, 0]
    grid = grid[(lightness > _DARKEST) & (lightness < _BRIGHTEST)]
    looks, distance, hues = _full_and_tinted(grid), np.full(len(grid), np.inf), list(FIRST_HUES)
    for avoided in _full_and_tinted(np.concatenate([_GREYS, FIRST_HUES])):
        distance = np.minimum(distance, np.linalg.norm(looks - avoided, axis=2).min(1))
    while len(hues) < _CLASSES:
        farthest = int(distance.argmax())
        hues.append(grid[farthest])
        distance = np.minimum(distance, np.linalg.norm(looks - looks[farthest], axis=2).min(1))
    return np.stack(hues)


def _full_and_tinted(rgb: Colours) -> Colours:
    """Appearances of the colours and of their tints, which are closer and count for more (n, 6, 3)."""
    return np.concatenate([appearances(rgb), _TINTS_COUNT * appearances(tinted(rgb, CLASS_TINT))], 1)


def tinted(rgb: Colours, white: Colours | float) -> Colours:
    """Colours (n, 3) mixed with a share of white."""
    return np.asarray(rgb + (255.0 - rgb) * white)


def appearances(rgb: Colours) -> Colours:
    """How colours (n, 3), from 0 to 255, look to people with all cones, without green and without red ones (n, 3, 3).

    In the space Oklab (Ottosson 2020), where equal distances look about equally large.
    """
    share = rgb / 255.0
    light = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    seen = np.stack([light, light @ _DEUTERANOPIA.T, light @ _PROTANOPIA.T], 1).clip(0.0, 1.0)
    return np.asarray(np.cbrt(seen @ _CONES.T) @ _LAB.T)
