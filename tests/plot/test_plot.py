"""Pictures are checked by their vertices, colours and labels, not by pixels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import regionscope as rs
from regionscope import plot
from regionscope.errors import InputError
from regionscope.lab.quickstart import QuickstartConfig, quickstart
from regionscope.lab.zoo import mlp
from regionscope.plot import style

SQUARE = rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0)
SEGMENT = rs.Segment([-1.0, -0.5], [1.0, 0.75])
NET = mlp([2, 8, 8, 3], seed=8)  # three decision regions on the segment, two on the square


def axes() -> plot.figures.Axes:
    return Figure().add_subplot()


def area(outline: np.ndarray) -> float:
    x, y = outline[:-1].T
    return float(np.abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def test_polygons_are_the_regions() -> None:
    part = rs.linear_regions(NET, SQUARE)
    ax = axes()
    fill = plot.linear_regions(part, ax=ax)
    outlines = [path.vertices for path in fill.get_paths()]
    assert len(outlines) == part.n_activation_regions
    assert [area(outline) for outline in outlines] == pytest.approx(part.sizes.tolist())
    for outline, polygon in zip(outlines, part.polygons(), strict=True):
        assert np.array_equal(outline[:-1], np.asarray(polygon))
    assert ax.get_xlim() == ax.get_ylim() == (-1.0, 1.0)
    assert ax.get_aspect() == 1.0
    assert fill in ax.collections


def test_one_affine_map_has_one_colour() -> None:
    several = plot.linear_regions(rs.linear_regions(NET, SQUARE), ax=axes()).get_facecolor()
    assert len(np.unique(several, axis=0)) > 5
    dead = mlp([2, 8, 8, 2])
    torch.nn.init.constant_(dead.get_submodule("linear2").bias, -100.0)
    part = rs.linear_regions(dead, SQUARE)
    assert part.n_activation_regions > part.n_linear_regions == 1
    assert len(np.unique(plot.linear_regions(part, ax=axes()).get_facecolor(), axis=0)) == 1


def test_decision_regions_show_labels_and_the_exact_boundary() -> None:
    dec = rs.decision_regions(NET, SQUARE)
    ax = axes()
    fill = plot.decision_regions(dec, ax=ax)
    wanted = style.class_colours(dec.piece_labels, pale=True)
    assert np.allclose(fill.get_facecolor()[:, :3], wanted)
    assert len(dec.boundary) > 1
    (lines,) = [artist for artist in ax.collections if isinstance(artist, LineCollection)]
    assert np.allclose(np.array(lines.get_segments()), dec.boundary.numpy())
    assert to_rgb(lines.get_color()[0]) == to_rgb(style.BOUNDARY)


def test_one_dimension_is_drawn_as_bands() -> None:
    part = rs.linear_regions(NET, SEGMENT)
    ax = axes()
    fill = plot.linear_regions(part, ax=ax)
    widths = [np.ptp(path.vertices[:, 0]) for path in fill.get_paths()]
    assert len(widths) == part.n_activation_regions
    assert sum(widths) == pytest.approx(1.0)
    assert ax.get_xlim() == (0.0, 1.0)
    dec = rs.decision_regions(NET, SEGMENT)
    lines = plot.decision_boundary(dec, ax=ax)
    assert [ends[0, 0] for ends in lines.get_segments()] == pytest.approx(dec.boundary.flatten().tolist())


def test_a_boundary_may_be_empty() -> None:
    constant = torch.nn.Sequential(torch.nn.Linear(2, 2))
    torch.nn.init.zeros_(constant[0].weight)
    for where in (SQUARE, SEGMENT):
        dec = rs.decision_regions(constant, where)
        assert dec.count == 1
        assert len(plot.decision_boundary(dec, ax=axes()).get_segments()) == 0


def test_three_dimensions_are_refused() -> None:
    cube = rs.Box(torch.zeros(3), torch.eye(3), 1.0)
    with pytest.raises(InputError, match="dimension 1 or 2"):
        plot.linear_regions(rs.linear_regions(mlp([3, 2, 2]), cube), ax=axes())


def test_points_are_coloured_and_marked_by_class() -> None:
    ax = axes()
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    first, second = plot.data(points, torch.tensor([0, 1, 0]), ax=ax)
    assert np.asarray(first.get_offsets()).tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert np.asarray(second.get_offsets()).tolist() == [[1.0, 0.0]]
    assert not np.array_equal(first.get_facecolor(), second.get_facecolor())
    assert len(first.get_paths()[0].vertices) != len(second.get_paths()[0].vertices)
    with pytest.raises(InputError, match=r"\(n, 2\)"):
        plot.data(torch.zeros(3, 3), torch.zeros(3), ax=ax)


def test_the_colour_of_an_id_never_changes() -> None:
    ids = torch.arange(50)
    assert np.array_equal(style.region_colours(ids)[7], style.region_colours(torch.tensor([7]))[0])
    assert len(np.unique(style.region_colours(ids), axis=0)) > 15


def test_the_quickstart_figure_has_three_panels() -> None:
    result = quickstart(QuickstartConfig(epochs=1, n_points=100, hidden=(6,)))
    left, middle, right = plot.quickstart_figure(result).axes
    assert left.get_title() == "100 points"
    assert middle.get_title() == f"{result.after.partition.n_linear_regions} linear regions"
    assert right.get_title().startswith(f"{result.after.decision.count} decision region")
    assert left.get_xlim() == middle.get_xlim() == right.get_xlim()
