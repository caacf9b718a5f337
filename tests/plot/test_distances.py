"""The histogram of distances holds each input once."""

from __future__ import annotations

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import regionscope as rs
from nasty.modules import relu_net
from regionscope.plot import distance_figure, distance_histogram

NET = relu_net(([[1.0, 0.0], [1.0, 0.0]], [0.0, -2.0]), [[1.0, 1.0]])


def test_bars_hold_all_inputs_that_are_off_the_folds() -> None:
    x = torch.tensor([[0.5, 0.0], [1.0, 0.0], [0.0, 0.0], [-3.0, 0.0], [-4.0, 1.0]])
    result = rs.regions_at(NET, x)
    ax = Figure().add_subplot()
    right, wrong = distance_histogram(result, [1, 0, 1, 1, 0], ax=ax)
    assert sum(bar.get_height() for bar in right) == 2
    assert sum(bar.get_height() for bar in wrong) == 2
    assert ax.get_title() == "2 regions, 1 input on a fold"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["predicted right", "predicted wrong"]
    with pytest.raises(rs.InputError, match="one for each input"):
        distance_histogram(result, [1, 0], ax=ax)


def test_equal_distances_and_none_make_a_figure() -> None:
    [ax] = distance_figure(rs.regions_at(NET, torch.tensor([[1.0, 0.0], [1.0, 1.0]]))).axes
    assert sum(bar.get_height() for bar in ax.patches if isinstance(bar, Rectangle)) == 2
    constant = relu_net(([[0.0]], [1.0]), [[1.0]])
    [ax] = distance_figure(rs.regions_at(constant, torch.zeros(2, 1))).axes
    assert ax.get_title() == "1 region, 2 inputs without a fold"
