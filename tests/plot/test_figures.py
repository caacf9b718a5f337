"""Whole figures: their panels and titles, and that no setting of matplotlib changes."""

from __future__ import annotations

import matplotlib
import torch

import regionscope as rs
from regionscope import plot
from regionscope.plot import style
from regionscope.quickstart import QuickstartConfig, quickstart
from regionscope_lab.zoo import mlp
from small_slices import SQUARE

NET = mlp([2, 8, 8, 3], seed=8)


def test_the_quickstart_figure_has_three_panels() -> None:
    result = quickstart(QuickstartConfig(epochs=1, n_points=100, hidden=(6,)))
    left, middle, right = plot.quickstart_figure(result).axes
    assert left.get_title() == f"before training: {result.before.partition.n_linear_regions} linear regions"
    assert middle.get_title() == f"after training: {result.after.partition.n_linear_regions} linear regions"
    assert right.get_title().startswith(f"100 points, {result.after.decision.count} decision region")
    assert left.get_xlim() == middle.get_xlim() == right.get_xlim() == (-1.0, 1.0)
    drawn = sum(len(points.get_offsets()) for points in right.collections[2:])
    assert drawn == 100


def test_titles_count() -> None:
    part, dec = rs.linear_regions(NET, SQUARE), rs.decision_regions(NET, SQUARE)
    assert plot.regions_figure(part).axes[0].get_title() == f"{part.n_linear_regions} linear regions"
    assert plot.decision_figure(dec).axes[0].get_title() == f"{dec.count} decision regions"
    one = rs.decision_regions(torch.nn.Linear(2, 1), rs.Segment([9.0, 9.0], [9.1, 9.0]))
    assert plot.decision_figure(one).axes[0].get_title() == "1 decision region"


def test_a_line_gets_a_low_panel() -> None:
    wide, high = plot.regions_figure(rs.linear_regions(NET, rs.Segment([0.0, 0.0], [1.0, 1.0]))).get_size_inches()
    assert wide > 2 * high


def test_panels_are_a_flat_list_row_by_row() -> None:
    figure, (_, upper_right, lower_left, _) = style.figure(2, 2, width=1, height=1)
    figure.draw_without_rendering()
    assert upper_right.get_window_extent().x0 > lower_left.get_window_extent().x0
    assert upper_right.get_window_extent().y0 > lower_left.get_window_extent().y0


def test_drawing_changes_no_setting() -> None:
    before = dict(matplotlib.rcParams)
    part, dec = rs.linear_regions(NET, SQUARE), rs.decision_regions(NET, SQUARE)
    for figure in (plot.regions_figure(part), plot.neurons_figure(part, dec), plot.layer_panels_figure(part)):
        figure.canvas.draw()
    assert dict(matplotlib.rcParams) == before


def test_the_names_of_axes_are_inside_the_figure() -> None:
    plane = rs.Box.through(4 * torch.rand(3, 9, generator=torch.Generator().manual_seed(0)), margin=0.2)
    figure = plot.neurons_figure(
        *(find(mlp([9, 4, 3], seed=0), plane) for find in (rs.linear_regions, rs.decision_regions))
    )
    figure.draw_without_rendering()
    (ax,) = figure.axes
    assert ax.get_tightbbox().x0 >= 0
