"""A picture of streamed regions: each pixel belongs to the region that holds its middle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import regionscope as rs
from regionscope import plot
from regionscope.errors import InputError
from regionscope.exact import FinishedRegions, stream_regions
from regionscope.monitor.tracking import locate
from regionscope_lab.zoo import mlp

NET = mlp([2, 64, 64, 3], seed=0)


@pytest.mark.parametrize(
    "plane",
    [
        rs.Box([0.1, 0.0], [[1.0, 0.3], [-0.3, 1.0]], [3.0, 1.0]),
        rs.Simplex([[0.0, 0.0], [2.0, 0.3], [0.4, 1.7]]),
    ],
    ids=["box", "triangle"],
)
def test_a_pixel_has_the_region_of_its_middle(plane: rs.Slice) -> None:
    """However the regions are divided into parts."""
    part, image, parts = rs.linear_regions(NET, plane), plot.StreamedImage(plane, pixels=300), []

    def consume(regions: FinishedRegions) -> None:
        parts.append(regions)
        image(regions)

    stream_regions(NET, plane, consume=consume, memory=1 << 20)
    assert len(parts) > 1
    assert image.n == len(part)
    drawn = image.draw(ax=Figure().add_subplot())
    left, right, low, high = drawn.get_extent()
    height, width = image.ids.shape
    x, y = np.meshgrid((np.arange(width) + 0.5) / width, (np.arange(height) + 0.5) / height)
    middles = torch.from_numpy(np.stack([left + (right - left) * x, low + (high - low) * y], -1).reshape(-1, 2))
    wanted = locate(part, middles)
    interior = torch.cat([regions.interior for regions in parts])
    ids = torch.from_numpy(image.ids.reshape(-1))
    found = torch.where(ids >= 0, locate(part, interior)[ids.clamp(min=0)], -1)
    clear = plane.contains(middles, margin=-1e-6) | ~plane.contains(middles, margin=1e-6)  # of the border
    assert clear.double().mean() > 0.99
    assert float((found != wanted)[clear].double().mean()) < 1e-4  # but for middles on a fold, up to rounding
    assert len(ids.unique()) > 0.5 * len(part)


def test_a_line_has_no_image() -> None:
    with pytest.raises(InputError, match="Expected a plane, got a line"):
        plot.StreamedImage(rs.Segment([0.0, 0.0], [1.0, 1.0]))
