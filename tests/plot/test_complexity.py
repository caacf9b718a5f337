"""Curves and bars are checked by their data, not by pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from torch import nn

from regionscope import plot
from regionscope.complexity import ComplexityHistory, ComplexityWatch, draw_points, local_complexity
from regionscope.errors import InputError
from regionscope_lab.zoo import mlp


@cache
def history(*, start: int = 0, accuracy: bool = True) -> ComplexityHistory:
    watch = ComplexityWatch(draw_points(torch.rand(9, 6), torch.rand(8, 6)), dims=4, radius=0.3)
    for i, step in enumerate((start, 10, 100)):
        told = {"train_accuracy": 0.1 * i, "test_accuracy": 0.05 * i} if accuracy else {}
        watch(step, mlp([6, 20, 2], seed=i), **told)
    return watch.history


def test_accuracy_on_the_left_complexity_on_the_right() -> None:
    told = history()
    drawn = plot.complexity_history(told, ax=Figure().add_subplot())
    assert list(drawn.lines) == ["train accuracy", "test accuracy", "train", "test", "random"]
    assert drawn.lines["train accuracy"].axes is drawn.accuracy
    assert drawn.lines["train"].axes is drawn.complexity
    assert drawn.complexity.yaxis.get_label_position() == "right"
    assert list(drawn.lines["test accuracy"].get_ydata()) == pytest.approx([0.0, 0.05, 0.1])
    assert drawn.accuracy.get_xscale() == "symlog"  # step 0 has a place, too
    bands = [artist for artist in drawn.complexity.collections if isinstance(artist, PolyCollection)]
    for name, band in zip(told.names, bands, strict=True):
        assert list(drawn.lines[name].get_xdata()) == [0, 10, 100]
        assert list(drawn.lines[name].get_ydata()) == pytest.approx(told.means(name))
        corners = band.get_paths()[0].vertices
        for step, mean, std in zip(told.steps, told.means(name), told.stds(name), strict=True):
            heights = corners[corners[:, 0] == step, 1]
            assert (heights.min(), heights.max()) == pytest.approx((mean - 0.25 * std, mean + 0.25 * std))
        assert max(told.stds(name)) > 0
    texts = [text.get_text() for text in plot.complexity_figure(told).axes[0].get_legend().get_texts()]
    assert texts[-1] == "LC ± 0.25 standard deviations over points"
    assert len(plot.complexity_figure(told, band=0.0).axes[0].get_legend().get_texts()) == 5


def test_a_value_at_a_single_step_is_a_marker() -> None:
    first, second, third = history().rows
    second, third = replace(second, train_accuracy=None, test_accuracy=None), replace(third, test_accuracy=None)
    told = ComplexityHistory((first, second, third))
    lines = plot.complexity_history(told, ax=Figure().add_subplot()).lines
    assert list(lines["train accuracy"].get_xdata()) == [0, 100]  # a line from one to the other
    assert lines["train accuracy"].get_marker() == lines["train"].get_marker() == ""
    assert list(lines["test accuracy"].get_xdata()) == [0]
    assert lines["test accuracy"].get_marker() == "D"


def test_a_single_step_is_markers_with_error_bars() -> None:
    told = ComplexityHistory(history().rows[2:])
    drawn = plot.complexity_history(told, ax=Figure().add_subplot())
    assert all(line.get_marker() in tuple("sDo") for line in drawn.lines.values())
    bars = [artist for artist in drawn.complexity.collections if isinstance(artist, LineCollection)]
    for name, bar in zip(told.names, bars, strict=True):
        low, high = bar.get_segments()[0][:, 1]
        assert high - low == pytest.approx(0.5 * told.stds(name)[0])


def test_steps_are_log_scaled_and_accuracy_may_be_missing() -> None:
    drawn = plot.complexity_history(history(start=1, accuracy=False), ax=Figure().add_subplot())
    assert not drawn.accuracy.yaxis.get_visible()  # an empty scale would be taken for that of LC
    assert drawn.accuracy.get_xscale() == "log"
    assert list(drawn.lines) == ["train", "test", "random"]
    with pytest.raises(InputError, match="empty"):
        plot.complexity_history(ComplexityHistory(()), ax=Figure().add_subplot())
    assert plot.complexity_figure(history(), title="digits").axes[0].get_title() == "digits"


@pytest.mark.parametrize(
    ("steps", "scale", "wanted"),
    [
        (range(0, 51, 10), "linear", [0, 10, 20, 30, 40, 50]),
        ((0, 1, 2, 5, 10, 20, 50), "symlog", [0, 1, 2, 5, 10, 20, 50]),
        ((1, 7, 60), "log", [1, 2, 5, 10, 20, 60]),
        ((0, 1, 10, 100, 1000, 16200), "symlog", [0, 1, 10, 100, 1000, 16200]),
        (range(12), "linear", [0, 2, 4, 6, 8, 10]),
        ((0, 1, *range(10, 101, 10)), "linear", [0, 20, 40, 60, 80, 100]),
        ((5, 100), "linear", [20, 40, 60, 80, 100]),
        ((0,), "linear", [0]),
    ],
)
def test_short_ranges_of_steps_have_enough_ticks(steps: Sequence[int], scale: str, wanted: list[int]) -> None:
    row = history().rows[0]
    ax = plot.complexity_figure(ComplexityHistory(tuple(replace(row, step=step) for step in steps))).axes[0]
    low, high = ax.get_xlim()
    assert ax.get_xscale() == scale
    assert [tick for tick in ax.get_xticks() if low <= tick <= high] == wanted


def test_the_scale_and_the_name_of_the_steps_can_be_chosen() -> None:
    row = history().rows[0]
    told = ComplexityHistory(tuple(replace(row, step=step) for step in range(12)))
    ax = plot.complexity_figure(told, scale="log", x_label="epoch").axes[0]
    assert (ax.get_xscale(), ax.get_xlabel(), list(ax.get_xticks())) == ("symlog", "epoch", [0, 1, 2, 5, 11])
    ax = plot.complexity_figure(told, scale="linear").axes[0]
    assert (ax.get_xscale(), ax.get_xlabel()) == ("linear", "step")
    with pytest.raises(InputError, match="Choose from auto, linear, log"):
        plot.complexity_figure(told, scale="logarithmic")


def test_bars_of_layers() -> None:
    model = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 10), nn.Tanh())
    found = {name: local_complexity(model, torch.rand(9, 6), dims=4, radius=0.3) for name in ("train", "random")}
    ax = Figure().add_subplot()
    plot.complexity_layers(found, ax=ax)
    assert ax.get_ylabel() == "local complexity ± standard error"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "3"]
    bars: list[Any] = list(ax.patches)
    heights = [bar.get_height() for bar in bars]
    wanted = [float(counts.double().mean()) for each in found.values() for counts in each.by_layer.values()]
    assert heights == pytest.approx(wanted)
    lines: Any = [drawn for drawn in ax.collections if isinstance(drawn, LineCollection)]
    assert len(lines) == 2
    for bar, line in zip(bars[::2], lines, strict=True):  # both halves of an error bar can be seen
        seen = np.asarray(bar.get_facecolor()[:3]) * bar.get_alpha() + 1 - bar.get_alpha()
        assert (seen - line.get_color()[0, :3]).mean() > 0.3
    with pytest.raises(InputError, match="from names to results of local_complexity, got an empty one"):
        plot.complexity_layers({}, ax=ax)
