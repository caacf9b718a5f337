"""Walls by layer, the panels of the layers, and a training as a grid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import regionscope as rs
from regionscope import plot
from regionscope.errors import InputError
from regionscope.plot import style
from regionscope_lab.zoo import mlp
from small_slices import SQUARE

NET = mlp([2, 8, 8, 8, 3], seed=8)
PART = rs.linear_regions(NET, SQUARE)


def test_each_wall_has_the_colour_of_the_layer_that_folds_there() -> None:
    drawn = plot.zero_lines(PART, ax=Figure().add_subplot())
    assert [lines.get_label() for lines in drawn] == list(PART.by_layer)
    assert sum(len(lines.get_segments()) for lines in drawn) == len(PART.walls.inner)
    colours = [lines.get_color()[0][:3] for lines in drawn]
    assert np.allclose(colours, style.layer_colours(3))
    first = np.array(drawn[0].get_segments()).reshape(-1, 2)
    values = NET.get_submodule("linear1")(torch.from_numpy(first).float()).detach().abs().min(1).values
    assert float(values.max()) < 1e-5  # some unit of the first layer is zero at both ends of each of its walls
    (only,) = plot.zero_lines(PART, ax=Figure().add_subplot(), layers=["relu3"])
    assert np.allclose(only.get_color()[0][:3], style.layer_colours(3)[2])
    with pytest.raises(InputError, match=r"layer of this partition, got 'relu9'.* Choose from relu1, relu2, relu3\."):
        plot.zero_lines(PART, ax=Figure().add_subplot(), layers=["relu9"])
    part = rs.linear_regions(NET, rs.Segment([-1.0, -0.5], [1.0, 0.75]))
    drawn = plot.zero_lines(part, ax=Figure().add_subplot())  # across the band of a line
    folds = sorted(segment[0, 0] for lines in drawn for segment in lines.get_segments())
    assert folds == pytest.approx(sorted(part.vertices[1:-1, 0].tolist()), abs=1e-12)


@pytest.mark.parametrize("where", [SQUARE, rs.Segment([-1.0, -0.5], [1.0, 0.75])], ids=["plane", "line"])
def test_regions_after_a_layer_are_as_many_as_were_counted(where: rs.Slice) -> None:
    part = rs.linear_regions(NET, where)
    for name, count in part.by_layer.items():
        ids = part.layer_ids(name)
        assert len(ids) == len(part)
        assert len(ids.unique()) == int(ids.max()) + 1 == count
    with pytest.raises(InputError, match=r"layer of this partition, got 'conv'\. Choose from relu1, relu2, relu3\."):
        part.layer_ids("conv")


def test_a_layer_knows_its_regions() -> None:
    """Regions joined into one have equal patterns up to the layer, and others differ."""
    ids = PART.layer_ids("relu2")
    patterns = PART.patterns()[:, :16]
    _, wanted = patterns.unique(dim=0, return_inverse=True)
    assert (
        len({(int(a), int(b)) for a, b in zip(ids, wanted, strict=True)}) == len(wanted.unique()) == len(ids.unique())
    )


def test_panels_show_the_regions_after_each_layer() -> None:
    figure = plot.layer_panels_figure(PART)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == [f"{name}\n{count:,} regions" for name, count in PART.by_layer.items()]
    for ax, name in zip(figure.axes, PART.by_layer, strict=True):
        fill = ax.collections[0]
        assert np.allclose(fill.get_facecolor()[:, :3], style.region_colours(PART.layer_ids(name)))
        walls = sum(len(lines.get_segments()) for lines in ax.collections if isinstance(lines, LineCollection))
        i = list(PART.by_layer).index(name)
        assert walls == int(((PART.walls.layer >= 0) & (PART.walls.layer <= i)).sum())
    assert len(plot.layer_panels_figure(PART, columns=2).axes) == 3
    with pytest.raises(InputError, match="one axes for each of 3 layers, got 1"):
        plot.layer_panels(PART, axes=[Figure().add_subplot()])


def test_neurons_and_boundary_have_a_legend() -> None:
    figure = plot.neurons_figure(PART, rs.decision_regions(NET, SQUARE))
    legend: Any = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [*PART.by_layer, "decision boundary"]


def test_names_of_many_layers_stay_inside_the_figure() -> None:
    """Thirty layers with long names: every entry of the legend is drawn, and no title is wider than its panel."""
    names = [f"stage{i}.block2.branch.activation.relu1" for i in range(30)]
    part = replace(PART, by_layer=dict.fromkeys(names, 5))
    figure = plot.neurons_figure(part)
    figure.draw_without_rendering()
    edges = np.asarray(figure.bbox.extents)
    for text in figure.axes[0].get_legend().get_texts():
        box = np.asarray(text.get_window_extent().extents)
        assert (box[:2] >= edges[:2]).all()
        assert (box[2:] <= edges[2:]).all()
    panels = plot.layer_panels_figure(replace(PART, by_layer=dict(zip(names, PART.by_layer.values(), strict=False))))
    assert all(len(line) <= 26 for ax in panels.axes for line in ax.get_title().splitlines())
    assert panels.axes[0].get_title().startswith("…")
