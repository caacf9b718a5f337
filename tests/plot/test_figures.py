"""Whole figures: their panels and titles, that no setting of matplotlib changes, and the results that pictures need."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text

import regionscope as rs
from regionscope import plot
from regionscope.errors import InputError
from regionscope.plot import style
from regionscope.quickstart import QuickstartConfig, quickstart
from regionscope_lab.zoo import mlp
from small_slices import SQUARE

NET = mlp([2, 8, 8, 3], seed=8)
PART, DECISION = rs.linear_regions(NET, SQUARE), rs.decision_regions(NET, SQUARE)


def test_the_quickstart_figure_has_three_panels() -> None:
    result = quickstart(QuickstartConfig(epochs=1, n_points=100, hidden=(6,)))
    left, middle, right = plot.quickstart_figure(result).axes
    assert left.get_title() == f"before training: {result.before.partition.n_linear_regions} linear regions"
    assert middle.get_title() == f"after training: {result.after.partition.n_linear_regions} linear regions"
    assert right.get_title().startswith(f"100 points, {result.after.decision.count} decision region")
    assert left.get_xlim() == middle.get_xlim() == right.get_xlim() == (-1.0, 1.0)
    drawn = sum(len(points.get_offsets()) for points in right.collections[2:])
    assert drawn == 100


def test_titles_count_and_a_line_gets_a_low_panel() -> None:
    assert plot.regions_figure(PART).axes[0].get_title() == f"{PART.n_linear_regions} linear regions"
    assert plot.decision_figure(DECISION).axes[0].get_title() == f"{DECISION.count} decision regions"
    single = rs.decision_regions(torch.nn.Linear(2, 1), rs.Segment([9.0, 9.0], [9.1, 9.0]))
    assert plot.decision_figure(single).axes[0].get_title() == "1 decision region"
    wide, high = plot.regions_figure(rs.linear_regions(NET, rs.Segment([0.0, 0.0], [1.0, 1.0]))).get_size_inches()
    assert wide > 2 * high


def test_drawing_changes_no_setting() -> None:
    before = dict(matplotlib.rcParams)
    for figure in (plot.regions_figure(PART), plot.neurons_figure(PART, DECISION), plot.layer_panels_figure(PART)):
        figure.canvas.draw()
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(("name", "width", "wide"), [("paper", None, 3.25), ("paper", 6.75, 6.75), ("talk", None, 8.0)])
def test_a_look_has_the_width_of_a_column_and_ends_with_its_block(name: str, width: float | None, wide: float) -> None:
    before = dict(matplotlib.rcParams)
    with plot.look(name, width=width):
        figures = [plot.neurons_figure(PART, DECISION), plot.decision_figure(DECISION), plot.layer_panels_figure(PART)]
        figures.append(plot.extremes_figure(PART, PART.extremes(0)))
    assert dict(matplotlib.rcParams) == before
    for figure in figures:
        assert figure.get_size_inches()[0] == pytest.approx(wide)
        figure.draw_without_rendering()  # outside the block: what is made only now looks the same
        texts = [text for text in figure.findobj(Text) if text.get_text()]
        assert {text.get_fontname() for text in texts} == {"STIXGeneral" if name == "paper" else "DejaVu Sans"}
        size, sizes = 9.0 if name == "paper" else 18.0, [text.get_fontsize() for text in texts]
        assert 0.69 * size <= min(sizes) <= max(sizes) <= 1.21 * size
        boxes = [text.get_window_extent() for text in texts]
        assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert plot.decision_figure(DECISION).axes[0].collections[1].get_linewidth()[0] == style.BOUNDARY_WIDTH
    with pytest.raises(InputError, match=r"look, got 'slides'\. Choose from paper, talk"), plot.look("slides"):
        pass


def test_saved_figures_have_fonts_that_publishers_take(tmp_path: Path) -> None:
    plot.decision_figure(DECISION).savefig(tmp_path / "own.pdf")
    with plot.look("paper"):
        own = Figure().add_subplot()
        own.set_title("mine")
        own.figure.savefig(tmp_path / "in_look.pdf")
    for file in tmp_path.iterdir():
        assert b"/Type3" not in file.read_bytes()
        assert b"/CIDFontType2" in file.read_bytes()


def test_layers_are_named_with_their_kind() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2), torch.nn.LeakyReLU())
    part = rs.linear_regions(net, SQUARE)
    assert part.layers == ("1 (ReLU)", "3 (LeakyReLU)")
    assert PART.layers == tuple(PART.by_layer)  # "relu1" says it already
    legend: Any = plot.neurons_figure(part).axes[0].get_legend()
    assert legend.get_title().get_text() == "folds of"
    assert [text.get_text() for text in legend.get_texts()] == list(part.layers)
    light = [np.mean(lines.get_color()[0][:3]) for lines in plot.zero_lines(part, ax=Figure().add_subplot())]
    assert light[0] > light[1]  # regions of earlier layers are drawn lighter


def test_the_names_of_axes_are_inside_the_figure() -> None:
    plane = rs.Box.through(4 * torch.rand(3, 9, generator=torch.Generator().manual_seed(0)), margin=0.2)
    figure = plot.neurons_figure(
        *(find(mlp([9, 4, 3], seed=0), plane) for find in (rs.linear_regions, rs.decision_regions))
    )
    figure.draw_without_rendering()
    (ax,) = figure.axes
    assert ax.get_tightbbox().x0 >= 0


NEED: dict[str, tuple[object, list[Callable[..., object]]]] = {
    r"Expected a Partition .*, got DecisionRegions\. .* \.partition of": (DECISION, [
        plot.linear_regions, plot.zero_lines, plot.function_graph, plot.surface,
        lambda p, ax: plot.layer_panels(p, axes=[ax]), lambda p, ax: plot.region_values(p, torch.zeros(3), ax=ax),
        lambda p, ax: plot.regions_figure(p), lambda p, ax: plot.neurons_figure(p),
        lambda p, ax: plot.layer_panels_figure(p),
    ]),
    r"Expected a DecisionRegions .*, got Partition\. .*decision_regions\(model": (PART, [
        plot.decision_regions, plot.decision_boundary, plot.decision_mosaic, lambda p, ax: plot.decision_figure(p),
    ]),
    r"Expected a RegionCount .*, got int\. .*region_count\(model": (3, [
        plot.count_histogram, lambda p, ax: plot.count_figure(p), lambda p, ax: plot.count_figure({"a": p}),
    ]),
    r"a LabelMap for plot\.label_map\(\), got int": (3, [plot.label_map]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "result", "draw"), [(words, result, draw) for words, (result, draws) in NEED.items() for draw in draws]
)
def test_another_kind_of_result_is_answered_with_where_to_get_the_right_one(
    words: str, result: Any, draw: Callable[..., Any]
) -> None:
    with pytest.raises(InputError, match=words):
        draw(result, ax=Figure().add_subplot())


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1, 2], f"values to hold one number for each of {len(PART)} regions, got shape (2,)."),
        ("ab", "got values that cannot be read"),
        (3, "got shape ()"),
    ],
)
def test_values_that_do_not_fit(values: Any, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        plot.region_values(PART, values, ax=Figure().add_subplot())


def test_several_axes_are_refused_with_advice() -> None:
    axes = Figure().subplots(1, 2)
    with pytest.raises(InputError, match=r"for ax=, got ndarray\. Pass one of its axes, such as ax=axes\.flat\[0\]\."):
        plot.linear_regions(PART, ax=axes)
    with pytest.raises(InputError, match=r"got Figure\. Pass one axes of plt\.subplots\(\)\."):
        plot.linear_regions(PART, ax=axes[0].figure)
    drawn = plot.region_values(PART, list(range(len(PART))), ax=axes[0])
    assert drawn.get_array().tolist() == list(range(len(PART)))
