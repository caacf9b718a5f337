"""The picture of a level set holds its faces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regionscope import plot
from regionscope.errors import InputError
from regionscope.exact import LevelSet, level_set
from regionscope.geometry import Box
from regionscope.plot import style
from regionscope.plot.notebook import as_html


class Diamond(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.abs().sum(1, keepdim=True) - 1


def diamond(k: int, radius: float = 1.5) -> LevelSet:
    return level_set(Diamond(), Box(torch.zeros(k), torch.eye(k), radius))


def test_curves_are_lines_between_their_vertices() -> None:
    curves = diamond(2)
    figure = plot.level_set_figure(curves)
    (drawn,) = figure.axes[0].collections
    ends = np.stack([path.vertices for path in drawn.get_paths()])
    assert np.array_equal(ends, curves.vertices[curves.corners.view(-1, 2)].numpy())
    assert figure.axes[0].get_title() == "level 0\n4 segments, Euler characteristic 0"
    assert not figure.axes[0].texts
    (text,) = plot.level_set_figure(diamond(2, radius=0.2)).axes[0].texts
    assert text.get_text() == "The curve does not\nmeet the slice."


def test_the_title_names_the_level_or_the_classes() -> None:
    pair = nn.Linear(2, 2)
    square = Box(torch.zeros(2), torch.eye(2), 1.0)
    for options, words in (
        ({"value": 0.125, "target": 0}, "level 0.125"),
        ({"classes": (0, 1)}, "border of classes 0 and 1"),
        ({"classes": 1}, "border of class 1"),
    ):
        curves = level_set(pair, square, **options)
        figure = plot.level_set_figure(curves)
        assert figure.axes[0].get_title().startswith(f"{words}\n")
        figure.draw_without_rendering()
        title = figure.axes[0].title.get_window_extent()
        assert figure.bbox.x0 < title.x0 < title.x1 < figure.bbox.x1
    assert plot.level_set_figure(diamond(3)).axes[0].get_title() == "level 0\n8 faces, Euler characteristic 2"


def test_faces_of_a_surface_are_shaded_polygons() -> None:
    surface = diamond(3)
    figure, (ax,) = style.figure(1, 1, width=4, height=4, projection="3d")
    drawn = plot.level_set(surface, ax=ax)
    figure.canvas.draw()
    assert len(drawn.get_facecolor()) == len(surface) == 8
    assert len(np.unique(drawn.get_facecolor(), axis=0)) == 8
    assert figure.axes[0].get_xlim()[1] == pytest.approx(1.0)
    nothing = plot.level_set_figure(diamond(3, radius=0.2))
    nothing.canvas.draw()
    assert [text.get_text() for text in nothing.axes[0].texts] == ["The surface does not\nmeet the slice."]
    with pytest.raises(InputError, match="three-dimensional axes"):
        plot.level_set(surface, ax=Figure().add_subplot())


def test_a_face_is_lit_from_both_sides() -> None:
    wall = nn.Linear(3, 1, bias=False)
    for side in (1.0, -1.0):
        wall.weight.data = side * torch.tensor([[0.4, -0.7, 0.6]])  # towards the default view
        _, (ax,) = style.figure(1, 1, width=4, height=4, projection="3d")
        (colour,) = plot.level_set(level_set(wall, Box(torch.zeros(3), torch.eye(3), 1.0)), ax=ax).get_facecolor()
        assert 0.4 < colour[:3].mean() < 0.9


def test_a_notebook_shows_the_numbers_and_the_picture() -> None:
    shown = as_html(diamond(3))
    assert "<td>euler</td><td>2</td>" in shown
    assert "data:image/png" in shown
    assert "<td>area</td>" in shown
    on_a_plane = as_html(diamond(2))
    assert "<td>level</td><td>0</td>" in on_a_plane
    assert "<td>segments</td><td>4</td>" in on_a_plane
    assert "<td>length</td><td>5.657</td>" in on_a_plane


@pytest.mark.parametrize("k", [2, 3])
def test_axes_show_inputs_as_in_other_pictures(k: int) -> None:
    around_ten = nn.Linear(k, 1)
    around_ten.weight.data[:], around_ten.bias.data[:] = 1.0, -10.0 * k
    figure = plot.level_set_figure(level_set(around_ten, Box.between(9, 11, (k,))))
    figure.draw_without_rendering()
    ax: Any = figure.axes[0]
    axes = [ax.xaxis, ax.yaxis, *([ax.zaxis] if k == 3 else [])]
    assert [axis.get_label_text() for axis in axes] == [f"input {i}" for i in range(k)]
    for axis in axes:
        numbers = [text.get_text() for text in axis.get_ticklabels()]
        assert {"9.5", "10.0", "10.5"} <= {*numbers} <= {"9.0", "9.5", "10.0", "10.5", "11.0"}
