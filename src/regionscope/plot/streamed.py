"""A picture of any number of regions in bounded memory: streamed regions become the pixels of one image.

A convex polygon covers one interval of each row of pixels. Its edges that go down give the left ends of the intervals,
those that go up the right ends, for all polygons of a part and all rows at once:

        ____                row y:   left end of the interval = x of the edge that goes down,
       /    \\                       right end                = x of the edge that goes up
      /______\\              pixels whose middle lies between both have the colour of the region
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from regionscope.errors import InputError
from regionscope.exact import FinishedRegions
from regionscope.geometry import Slice
from regionscope.geometry.ragged import next_in_row, owners
from regionscope.plot import style
from regionscope.plot.kinds import slice_for
from regionscope.plot.regions import frame_slice
from regionscope.types import IntArray

_BLOCK = 1 << 20  # rows of edges, or pixels, at a time


@dataclass(eq=False)
class StreamedImage:
    """The activation regions of a plane as an image. Pass it as ``consume`` to ``stream_regions``, then ``draw`` it.

    slice: the plane. pixels: number of pixels along its longer side. A pixel has the colour of the region that holds
    its middle, so that regions smaller than a pixel may be missing; neighbours with one map have two colours. Memory: 8
    bytes for each pixel and one part of the regions. Cost: proportional to the corners and the pixels.
    """

    slice: Slice
    pixels: int = 1000
    n: int = field(default=0, init=False)
    ids: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if slice_for("StreamedImage", self.slice).dim != 2:
            raise InputError("Expected a plane, got a line. Draw plot.linear_regions() of it.")
        corners = self.slice.corners.cpu().numpy()
        self._low, size = corners.min(0), np.ptp(corners, axis=0)
        self._scale = self.pixels / size.max()
        self.ids = np.full(np.maximum(1, np.round(self._scale * size[::-1])).astype(int), -1, dtype=np.int64)

    def __call__(self, regions: FinishedRegions) -> None:
        """Draw these regions."""
        corner, ends = regions.corners.cpu(), regions.offsets.cpu()
        points = (regions.vertices.cpu().numpy()[corner.numpy()] - self._low) * self._scale - 0.5
        region = owners(ends).numpy()
        for low in range(0, len(points), _BLOCK):  # whole regions at a time
            first, last = (int(region[i]) if i < len(region) else len(regions) for i in (low, low + _BLOCK))
            start, stop = int(ends[first]), int(ends[last])
            following = next_in_row(ends)[start:stop].numpy()
            self._fill(points[start:stop], points[following], region[start:stop])
        self.n += len(regions)

    def _fill(self, start: Any, end: Any, region: Any) -> None:
        """Colour the pixels between the edges from ``start`` to ``end`` (e, 2) of regions, counter-clockwise."""
        height, width = self.ids.shape
        low, high = np.minimum(start[:, 1], end[:, 1]), np.maximum(start[:, 1], end[:, 1])
        first, last = (np.clip(np.ceil(y), 0, height).astype(np.int64) for y in (low, high))
        edge = np.repeat(np.arange(len(start)), last - first)
        row = _counted(last - first) + first[edge]
        along = (row - start[edge, 1]) / (end[edge, 1] - start[edge, 1])
        x = np.clip(np.ceil(start[edge, 0] + along * (end[edge, 0] - start[edge, 0])), 0, width).astype(np.int64)
        up = end[edge, 1] > start[edge, 1]
        place = region[edge] * height + row
        left, right = (
            side[np.argsort(place[side], kind="stable")] for side in (np.flatnonzero(~up), np.flatnonzero(up))
        )
        counts = np.maximum(x[right] - x[left], 0)
        pixel = np.repeat(row[left] * width + x[left], counts) + _counted(counts)
        self.ids.reshape(-1)[pixel] = self.n + np.repeat(region[edge[left]], counts)

    def draw(self, *, ax: Axes | None = None) -> AxesImage:
        """Add the image to the axes."""
        ax = style.axes_or_current(ax)
        colours = np.ones((*self.ids.shape, 3))
        shown = self.ids >= 0
        colours[shown] = style.region_colours(torch.from_numpy(self.ids[shown]))
        high = self._low + np.array(self.ids.shape[::-1]) / self._scale
        box = (self._low[0], high[0], self._low[1], high[1])
        drawn = ax.imshow(colours, extent=box, origin="lower", interpolation="antialiased")
        frame_slice(self.slice, ax)
        return drawn


def _counted(counts: Any) -> Any:
    """0, 1, ... up to each count."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
