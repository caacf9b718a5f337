"""The function itself, and two measures over many runs."""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import regionscope as rs
from regionscope import plot
from regionscope.errors import InputError
from regionscope.plot import graphs, style
from regionscope_lab.zoo import mlp
from small_slices import SQUARE

SEGMENT = rs.Segment([-1.0, -0.5], [1.0, 0.75])
NET = mlp([2, 8, 8, 3], seed=8)


def test_the_graph_is_the_network() -> None:
    part = rs.linear_regions(NET, SEGMENT)
    drawn = plot.function_graph(part, ax=Figure().add_subplot())
    assert len(drawn.lines) == 3
    grid = torch.linspace(0, 1, 57, dtype=torch.float64)[:, None]
    wanted = NET(SEGMENT.embed(grid).float()).detach().numpy()
    for i, line in enumerate(drawn.lines):
        x, y = line.get_data()
        assert np.allclose(np.interp(grid[:, 0].numpy(), x, y), wanted[:, i], atol=1e-5)
    assert sum(len(dots.get_offsets()) for dots in drawn.breakpoints.values()) == 3 * (len(part) - 1)
    assert list(drawn.breakpoints) == list(part.by_layer)


def test_many_breakpoints_are_ticks_below_the_lines() -> None:
    net = mlp([2, 80, 80, 3], seed=8)
    part = rs.linear_regions(net, rs.Segment([-3.0, -2.0], [3.0, 2.5]))
    ax = Figure().add_subplot()
    drawn = plot.function_graph(part, ax=ax)
    assert len(part) > 100
    ax.figure.draw_without_rendering()
    lowest = min(line.get_transform().transform(line.get_xydata())[:, 1].min() for line in drawn.lines)
    folds = []
    for ticks in drawn.breakpoints.values():
        at = ticks.get_offset_transform().transform(ticks.get_offsets())
        half = math.sqrt(ticks.get_sizes()[0]) / 2 * ax.figure.dpi / 72
        assert ax.bbox.y0 < at[:, 1].min() - half
        assert at[:, 1].max() + half < lowest
        folds += ticks.get_offsets()[:, 0].tolist()
    inner = part.vertices[:, 0].sort().values[1:-1]
    assert sorted(folds) == pytest.approx(inner.tolist())


def test_dots_cover_at_most_half_of_a_line() -> None:
    part = rs.linear_regions(mlp([2, 40, 40, 3], seed=8), rs.Segment([-3.0, -2.0], [3.0, 2.5]))
    ax = Figure().add_subplot()
    wide = ax.bbox.width / ax.figure.dpi * 72
    (size,) = {float(dots.get_sizes()[0]) for dots in plot.function_graph(part, ax=ax).breakpoints.values()}
    assert 2.0 <= math.sqrt(size) < math.sqrt(style.MARKER_SIZE)
    assert math.sqrt(size) * (len(part) - 1) == pytest.approx(0.5 * wide)


def test_the_lines_of_a_graph_are_named() -> None:
    part = rs.linear_regions(NET, SEGMENT)
    ax, alone = Figure().add_subplot(), Figure().add_subplot()
    plot.function_graph(part, ax=ax)
    assert ax.get_ylabel() == "output"
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    folds = [f"folds of {name}" for name in part.by_layer]
    assert shown == ["output 0", "output 1", "output 2", *folds]
    ax.figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1
    assert ax.get_legend().get_window_extent().x1 <= ax.figure.bbox.x1
    (line,) = plot.function_graph(part, ax=alone, outputs=[2]).lines
    assert sorted(line.get_ydata()) == pytest.approx(sorted(part.outputs[:, 2].tolist()))
    assert alone.get_ylabel() == "output 2"
    assert [text.get_text() for text in alone.get_legend().get_texts()] == folds
    plot.function_graph(rs.linear_regions(mlp([2, 8, 25], seed=8), SEGMENT), ax=(many := Figure().add_subplot()))
    assert len(many.lines) == 25
    assert many.get_legend() is None
    with pytest.raises(InputError, match="an output from 0 to 2, got 3"):
        plot.function_graph(part, ax=ax, outputs=[3])
    with pytest.raises(InputError, match="dimension 1"):
        plot.function_graph(rs.linear_regions(NET, SQUARE), ax=ax)


def test_a_surface_is_flat_on_each_region() -> None:
    part = rs.linear_regions(NET, SQUARE)
    ax = Figure().add_subplot(projection="3d")
    drawn = plot.surface(part, ax=ax, output=1)
    ax.figure.canvas.draw()
    faces = drawn._faces if hasattr(drawn, "_faces") else [drawn._vec[:3, one].T for one in drawn._segslices]
    assert len(drawn.get_facecolor()) == len(part) == len(faces)
    polygon = part.polygons()[0]
    wanted = part.outputs[part.corners[: len(polygon)], 1].numpy()
    first = np.asarray(faces[0])[: len(polygon)]
    assert np.allclose(first, np.column_stack([polygon, wanted]))
    assert len(np.unique(drawn.get_facecolor(), axis=0)) > 5


def test_a_face_is_as_bright_as_its_slope_says() -> None:
    part = rs.linear_regions(NET, SQUARE)
    heights = part.outputs[:, 1].numpy()
    slope = part.maps.slope[:, :, 1].numpy() * graphs._HEIGHT * 2.0 / np.ptp(heights)  # the square is 2 wide
    normal = np.column_stack([-slope, np.ones(len(part))])
    cosine = normal @ graphs._LAMP / np.linalg.norm(normal, axis=1)
    light = graphs._light(np.column_stack([part.vertices.numpy(), heights]), part)
    assert np.allclose(light, np.clip(0.78 + 0.3 * cosine, 0, 1))
    assert np.ptp(light) > 0.05


@pytest.mark.parametrize("radii", [(1.0, 1.0), (3.0, 1.0), (1.0, 10.0)])
def test_a_surface_fills_the_figure_of_pyplot(radii: tuple[float, float]) -> None:
    plt.close("all")
    plot.surface(rs.linear_regions(NET, rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], radii)))
    figure = plt.gcf()
    figure.draw_without_rendering()
    space: Any = figure.axes[0]
    assert (space.get_xlabel(), space.get_ylabel(), space.get_zlabel()) == ("input 0", "input 1", "output 0")
    box = space.get_tightbbox()
    assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1
    assert space.bbox.height >= 0.85 * figure.bbox.height
    plt.close("all")


def test_a_surface_says_what_it_needs() -> None:
    part = rs.linear_regions(NET, SQUARE)
    space = Figure().add_subplot(projection="3d")
    with pytest.raises(InputError, match="projection"):
        plot.surface(part, ax=Figure().add_subplot())
    with pytest.raises(InputError, match=r"one height for each of 74 vertices, got shape \(2,\)"):
        plot.surface(part, ax=space, heights=torch.zeros(2))
    with pytest.raises(InputError, match="dimension 2"):
        plot.surface(rs.linear_regions(NET, SEGMENT), ax=space)
    flat = plot.surface(part, ax=space, heights=torch.zeros(len(part.vertices)))
    assert np.isfinite(flat.get_facecolor()).all()
