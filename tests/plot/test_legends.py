"""Ten classes have ten colours, and a legend of those that occur, outside the axes."""

from __future__ import annotations

import inspect
import io
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

import regionscope as rs
from regionscope import plot
from regionscope.errors import InputError
from regionscope.plot import style
from regionscope_lab.zoo import mlp

SQUARE = rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 30.0)
DECISION = rs.decision_regions(mlp([2, 32, 10], seed=1), SQUARE)
NAMES = [f"the class number {i}" for i in range(10)]
OCCUR = sorted(set(DECISION.labels.tolist()))

# Machado, Oliveira and Fernandes 2009: how linear RGB looks without one kind of cone.
SEEN = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def oklab(rgb: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Colours (n, 3) in the perceptual space of Ottosson 2020, in which distances are differences that people see."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ seen.T
    cones = np.array([[0.41222147, 0.53633254, 0.05144599], [0.21190350, 0.68069955, 0.10739696],
                      [0.08830246, 0.28171884, 0.62997870]])  # fmt: skip
    axes = np.array([[0.21045426, 0.79361779, -0.00407205], [1.97799850, -2.42859221, 0.45059371],
                     [0.02590404, 0.78277177, -0.80867577]])  # fmt: skip
    return np.asarray(np.cbrt(np.clip(linear, 0, 1) @ cones.T) @ axes.T)


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize(("pale", "least"), [(False, 0.07), (True, 0.04)])
def test_ten_colours_can_be_told_apart(seen: str, pale: bool, least: float) -> None:
    colours = oklab(style.class_colours(torch.arange(10), pale=pale), SEEN[seen])
    assert len(set(style.MARKERS[:10])) == 10
    apart = np.linalg.norm(colours[:, None] - colours[None], axis=-1) + np.eye(10)
    assert apart.min() > least


@pytest.mark.parametrize("whole", [False, True])
def test_a_legend_names_the_classes_that_occur_outside_the_axes(whole: bool) -> None:
    assert 1 < len(OCCUR) < 10
    figure: Any = plot.decision_figure(DECISION, class_names=NAMES) if whole else Figure()
    if not whole:
        plot.decision_regions(DECISION, ax=figure.add_subplot(), class_names=NAMES)
    figure.savefig(io.BytesIO())
    (ax,) = figure.axes
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [NAMES[label] for label in OCCUR]
    box = legend.get_window_extent()
    assert ax.get_window_extent().x1 <= box.x0 < box.x1 <= figure.bbox.x1  # nothing is cut off
    for label, patch in zip(OCCUR, legend.get_patches(), strict=True):
        assert np.allclose(patch.get_facecolor()[:3], style.class_colours(torch.tensor([label]), pale=True)[0])


def test_a_long_legend_leaves_room_for_the_labels_of_all_panels() -> None:
    plane = DECISION.partition.slice
    figure = Figure(figsize=(9, 4))
    left, right = figure.subplots(1, 2)
    plot.linear_regions(DECISION.partition, ax=left)
    plot.thumbnails(plane, plane.embed(plane.corners[:3]), image_shape=(1, 2), ax=left)
    plot.decision_regions(DECISION, ax=right, class_names=[f"a rather long class name {i}" for i in range(10)])
    figure.savefig(io.BytesIO())
    assert left.yaxis.label.get_window_extent().x0 >= 0
    assert right.yaxis.label.get_window_extent().x0 >= left.get_window_extent().x1
    assert right.get_legend().get_window_extent().x1 <= figure.bbox.x1


@pytest.mark.parametrize("layout", [None, "compressed", "tight"])
def test_a_figure_keeps_its_own_layout_and_is_laid_out_when_it_is_drawn(layout: Any) -> None:
    figure = Figure(figsize=(9, 4), layout=layout)
    before: Any = figure.get_layout_engine()
    if before is not None:
        before.set(w_pad=0.3)
    left, right = figure.subplots(1, 2)
    places = [ax.get_position(original=True).bounds for ax in (left, right)]
    plot.decision_regions(DECISION, ax=left, class_names=NAMES)
    plot.decision_regions(DECISION, ax=right, class_names=NAMES)
    assert [ax.get_position(original=True).bounds for ax in (left, right)] == places
    engine: Any = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine if before is None else type(before))
    if before is not None:
        assert engine.get() == before.get()
        assert getattr(engine, "_compress", None) == getattr(before, "_compress", None)
    figure.draw_without_rendering()
    assert left.get_legend().get_window_extent().x1 <= right.get_window_extent().x0
    assert right.get_legend().get_window_extent().x1 <= figure.bbox.x1


def test_a_second_call_adds_its_classes_and_a_single_output_has_two() -> None:
    ax: Any = Figure().add_subplot()
    plot.class_legend(torch.tensor([4, 2]), ax=ax, class_names=NAMES)
    plot.class_legend(torch.tensor([2, 3, 3]), ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == NAMES[2:5]
    single = rs.decision_regions(mlp([2, 6, 1], seed=0), rs.Box.between(-3, 3, (2,)))
    legend: Any = plot.decision_figure(single, class_names=["no", "yes"]).axes[0].get_legend()
    assert single.n_classes == 2
    assert [text.get_text() for text in legend.get_texts()] == ["no", "yes"]


def test_too_few_names_are_refused() -> None:
    with pytest.raises(InputError, match=r"Expected class_names= to name each class up to 9, got 2 names\. Pass"):
        plot.class_legend(torch.tensor([9]), ax=Figure().add_subplot(), class_names=["a", "b"])
    ax: Any = Figure().add_subplot()
    with pytest.raises(InputError, match="Expected class_names= to name each class up to 2, got 2 names"):
        plot.data(torch.zeros(2, 2), torch.tensor([1, 2]), ax=ax, class_names=["a", "b"])
    assert not ax.collections


@pytest.mark.parametrize("draw", [plot.decision_regions, plot.decision_mosaic, plot.decision_figure])
def test_every_class_of_the_network_has_one_name(draw: Any) -> None:
    corner = rs.decision_regions(mlp([2, 32, 10], seed=0), rs.Box.between(-1, 1, (2,)))
    assert 9 not in corner.labels  # the name that is missing is that of a class which does not occur here
    where: dict[str, Any] = {} if draw is plot.decision_figure else {"ax": Figure().add_subplot()}
    for names in (NAMES[:-1], [*NAMES, "one more"]):
        with pytest.raises(InputError, match=rf"Expected 10 class names, got {len(names)}\. Pass one name for each"):
            draw(corner, class_names=names, **where)
    with pytest.raises(InputError, match="Expected a list of class names, got the text 'abcdefghij'"):
        draw(corner, class_names="abcdefghij", **where)
    assert not any(ax.collections for ax in where.values())


def test_a_flat_axes_has_a_legend_of_several_columns() -> None:
    ax: Any = Figure(figsize=(6, 1.2), layout="constrained").add_subplot()
    legend = plot.class_legend(torch.arange(10), ax=ax)
    ax.figure.draw_without_rendering()
    assert legend.get_window_extent().height <= ax.figure.bbox.height


def test_the_current_axes_are_drawn_into() -> None:
    for name in plot.__all__:
        parameters = getattr(inspect.signature(getattr(plot, name)), "parameters", {})
        assert "ax" not in parameters or parameters["ax"].default is None, name
    figure, ax = plt.subplots()
    try:
        plot.decision_regions(DECISION)
        plot.decision_boundary(DECISION)
        assert len(ax.collections) == 3
        figure.clear()
        plot.surface(DECISION.partition)
        assert [one.name for one in figure.axes] == ["3d"]
    finally:
        plt.close(figure)
