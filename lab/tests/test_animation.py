"""Frames of an animation: everything is within the picture, and axes show what they should."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

import regionscope as rs
from regionscope.geometry import Slice
from regionscope.monitor.frames import ModelAtStep, TrainingFrames, frames_of_models
from regionscope_lab import animation
from regionscope_lab.animation import draw_frame
from regionscope_lab.zoo import mlp

BOX = rs.Box([1.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], 1.0)
LINE = rs.Segment([-1.0, -0.5], [1.0, 0.75])


def training(where: Slice, *, frames: int = 2) -> TrainingFrames:
    moments = [ModelAtStep(300 * (i + 1), mlp([2, 12, 2], seed=i), 30.0 * (i + 1)) for i in range(frames)]
    rows = [{"step": 300 * (i + 1), "epoch": 30.0 * (i + 1), "name": "loss", "value": 1.0} for i in range(frames)]
    return frames_of_models(moments, where, rows=rows)


def picture(shown: TrainingFrames, *, size: int = 640) -> Figure:
    figure = Figure(figsize=(size / 100, size * 1.12 / 100), dpi=100)
    FigureCanvasAgg(figure).draw()
    draw_frame(shown, len(shown.frames) - 1, figure=figure)
    return figure


@pytest.mark.parametrize(("where", "size"), [(BOX, 100), (LINE, 250), (LINE, 1000)])
def test_nothing_is_cut_at_any_size(where: Slice, size: int) -> None:
    figure = picture(training(where), size=size)
    box, (wide, high) = figure.get_tightbbox(), figure.get_size_inches()
    assert 0 <= box.x0 <= box.x1 <= wide
    assert 0 <= box.y0 <= box.y1 <= high
    moment, count = (text.get_window_extent() for text in figure.texts)
    assert moment.x1 < count.x0


def test_axes_are_named_and_epochs_are_whole() -> None:
    moments = [ModelAtStep(10 * i, mlp([2, 12, 2], seed=i), float(i)) for i in range(3)]
    rows = [{"step": 10 * i, "epoch": float(i), "name": "loss", "value": 1.0} for i in range(3)]
    figure = picture(frames_of_models(moments, BOX, rows=rows))
    ax, strip = figure.axes
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0.0", "0.5", "1.0", "1.5", "2.0"]
    assert ax.get_xlim() == (-1.0, 1.0)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("input 0", "input 1")
    for axis in (strip.xaxis, strip.yaxis):
        assert all(float(tick).is_integer() for tick in axis.get_majorticklocs())
    figure.draw_without_rendering()
    name, numbers = ax.xaxis.label.get_window_extent(), strip.get_tightbbox()
    assert numbers.y1 < name.y0  # the name stands above the curve


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (BOX, ("petal length", "petal width")),
        (rs.Box([0.0], [[1.0]], 1.0), ("petal length", "")),
        (rs.Box([0.0, 0.0], [[1.0, 1.0], [1.0, -1.0]], 1.0), ("slice coordinate 1", "slice coordinate 2")),
    ],
)
def test_axes_have_the_names_of_the_inputs_that_they_show(where: Slice, names: tuple[str, str]) -> None:
    d = len(where.origin)
    shown = frames_of_models([ModelAtStep(0, mlp([d, 12, 2], seed=0), 0.0)], where)
    ax = picture(replace(shown, input_names=("petal length", "petal width")[:d])).axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == names


def test_decision_regions_have_a_legend_of_all_classes_of_a_training() -> None:
    moments = [ModelAtStep(i, mlp([2, 12, 3], seed=2 + i), float(i)) for i in range(3)]
    shown = frames_of_models(moments, BOX, class_names=["cat", "dog", "fox"])
    labels = [{*frame.decision.labels.tolist()} for frame in shown.frames if frame.decision is not None]
    for size, seen in ((640, True), (100, False)):
        for i in range(3):
            figure = Figure(figsize=(size / 100, size * 1.12 / 100), dpi=100)
            draw_frame(shown, i, figure=figure, kind="decision")
            legend = figure.axes[0].get_legend()
            names = [text.get_text() for text in legend.get_texts()] if legend is not None else []
            assert names == ([["cat", "dog", "fox"][label] for label in sorted(set.union(*labels))] if seen else [])
    assert labels[0] != set.union(*labels)


def test_the_legend_hides_no_part_of_a_wide_map() -> None:
    wide = rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], [2.0, 1.0])
    for box, above in ((wide, True), (BOX, False)):
        names = ["a very long name of a class", "another one that is even longer than that", "the third"]
        shown = frames_of_models([ModelAtStep(0, mlp([2, 12, 3], seed=2), 0.0)], box, class_names=names)
        figure = Figure(figsize=(6.4, 7.16), dpi=100)
        draw_frame(shown, 0, figure=figure, kind="decision")
        figure.draw_without_rendering()
        legend = figure.axes[0].get_legend().get_window_extent()
        assert (legend.y0 >= figure.axes[0].get_window_extent().y1) == above
        assert legend.x1 <= figure.axes[0].get_window_extent().x1
        assert all(legend.y1 < text.get_window_extent().y0 for text in figure.texts)


def test_an_animation_counts_each_frame_once_and_holds_few_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    made: list[weakref.ref[object]] = []
    alive: list[int] = []
    count, take = animation._count, animation._picture

    def picture_of(figure: Figure) -> object:
        alive.append(sum(one() is not None for one in made))
        found = take(figure)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(animation, "_count", lambda frame, kind: counted.append(frame.step) or count(frame, kind))
    monkeypatch.setattr(animation, "_picture", picture_of)
    shown = training(BOX, frames=6)
    path = animation.animate(shown, tmp_path / "training.gif", fps=1, size=100)
    assert len(counted) == 2 * 6  # for the curve and for the title
    assert len(made) == 7  # the last one stays a while
    assert max(alive) <= 2
    stored: Any
    with Image.open(path) as stored:
        assert stored.n_frames == 6
