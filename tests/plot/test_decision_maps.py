"""Pictures of proven maps: which cells are filled, which are hatched, what the figure says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from torch import nn

import regionscope as rs
from regionscope import plot
from regionscope.errors import InputError
from regionscope.plot.artists import Segments


def result(dim: int) -> rs.DecisionMap:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 3))
    return rs.decision_map(net, rs.Box([0.0] * 3, torch.eye(3)[:dim], 3.0), undecided=0.05)


@pytest.mark.parametrize("dim", [1, 2])
def test_proven_cells_are_filled_and_open_ones_hatched(dim: int) -> None:
    m = result(dim)
    ax = Figure().add_subplot()
    fill = plot.decision_map(m, ax=ax, edges=True, class_names=["a", "b", "c"])
    proven = int((m.labels >= 0).sum())
    assert len(fill.get_paths()) == proven
    hatched = [artist for artist in ax.collections if type(artist) is PolyCollection]
    assert sum(len(artist.get_paths()) for artist in hatched) == len(m) - proven
    assert all(artist.get_hatch() for artist in hatched)
    sides = [artist for artist in ax.collections if isinstance(artist, Segments)]
    assert len(sides) == 1
    assert ax.get_xlim() == (-3.0, 3.0)
    legend = ax.get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == len(np.unique(m.labels[m.labels >= 0]))


def test_the_figure_states_the_undecided_share() -> None:
    m = result(2)
    figure = plot.decision_map_figure(m)
    assert figure.axes[0].get_title().endswith(f"{100 * m.undecided:.2g} % undecided")


def test_what_is_no_map_is_refused() -> None:
    with pytest.raises(InputError, match="decision_map"):
        plot.decision_map(3)
    with pytest.raises(InputError, match="dimension 1 or 2"):
        plot.decision_map(result(3))
