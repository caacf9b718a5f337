"""Pictures of the theory lab: what they contain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from regionscope_lab.shallow import (
    Flow,
    FlowOptions,
    effective_regions,
    flow_table,
    gradient_flow,
    initial_network,
    sample,
    teacher_from_switches,
)
from regionscope_lab.shallow.plot import flow_animation, flow_figure, flow_frame

TEACHER = teacher_from_switches([0.1])


@pytest.fixture(scope="module")
def flow() -> Flow:
    data = sample(TEACHER, 8, seed=1)
    return gradient_flow(initial_network(12, sigma_h=1.0, sigma_o=0.1, seed=2), data, FlowOptions(max_log_loss=20.0))


def test_a_frame_shows_function_folds_and_data(flow: Flow) -> None:
    ax = Figure().add_subplot()
    flow_frame(flow, -1, ax=ax, radius=1.0, teacher=TEACHER)
    curve = ax.lines[-1].get_xydata()
    assert curve[0, 0] == -1
    assert curve[-1, 0] == 1
    assert abs(curve[:, 1]).max() == pytest.approx(1.0)
    network = flow.network()
    inside = int(((-network.b / network.w).abs() < 1).sum())
    folds: Any = ax.collections[0]
    assert len(folds.get_segments()) == inside
    assert sum(len(points.get_offsets()) for points in ax.collections[1:]) == 8


def test_the_animation_has_first_and_last_moment(flow: Flow, tmp_path: Path) -> None:
    path = flow_animation(flow, tmp_path / "flow.gif", radius=1.0, frames=5, fps=2)
    picture: Any
    with Image.open(path) as picture:
        assert picture.n_frames >= 5


def test_the_figure_shows_bound_and_minimum(flow: Flow) -> None:
    rows = flow_table(flow, radius=1.0, teacher=TEACHER, every=5)
    last = effective_regions(flow.network(), radius=1.0)
    figure = flow_figure(rows, last, r=2, minimum=1, log_t0=flow.log_t0)
    heights = [line.get_ydata()[0] for line in figure.axes[0].lines if len(set(line.get_ydata())) == 1]
    assert 131 in heights
    assert 1 in heights
    assert len(figure.axes[2].lines[0].get_xdata()) == len(last.tolerances)
    assert not torch.cuda.is_initialized()
