"""Marks on a picture: inputs where they project onto a slice, and thumbnails at the corners of a plane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch.utils.data import TensorDataset

import regionscope as rs
from regionscope import plot
from regionscope.errors import InputError
from regionscope.plot import style
from regionscope.plot.marks import as_pictures
from regionscope_lab.data import digits

IMAGES = torch.rand(3, 1, 6, 6, generator=torch.Generator().manual_seed(0))
PLANE = rs.Box.through(IMAGES, margin=0.3)


def axes() -> Any:
    return Figure(layout="constrained").add_subplot()


def offsets(artists: Any) -> np.ndarray:
    return np.concatenate([np.asarray(artist.get_offsets()) for artist in artists])


def test_inputs_are_marked_where_they_project() -> None:
    ax = axes()
    drawn = plot.points(PLANE, IMAGES, torch.tensor([2, 0, 2]), ax=ax)
    assert len(drawn) == 2
    wanted = PLANE.project(IMAGES).coords.numpy()
    assert np.allclose(offsets(drawn), wanted[[1, 0, 2]])
    assert np.allclose(drawn[0].get_facecolor()[0, :3], style.hue(0))
    assert np.allclose(ax.get_xlim(), PLANE.corners[:, 0].aminmax())
    pairs = plot.points(PLANE, TensorDataset(IMAGES, torch.tensor([2, 0, 2])), ax=axes())
    assert np.allclose(offsets(pairs), offsets(drawn))


def test_what_is_outside_or_far_away_is_left_out() -> None:
    inside, outside = PLANE.embed([[0.0, 0.0]]), PLANE.embed(1.1 * PLANE.corners[:1])
    far = inside + 5.0 * torch.eye(36, dtype=torch.float64)[0].reshape(1, 1, 6, 6)
    x = torch.cat([inside, outside, far])
    assert len(offsets(plot.points(PLANE, x, ax=axes()))) == 2
    assert np.allclose(offsets(plot.points(PLANE, x, ax=axes(), max_distance=1.0)), 0.0)


def test_points_of_a_segment_lie_in_its_band() -> None:
    drawn = plot.points(rs.Segment(IMAGES[0], IMAGES[1]), IMAGES[:2], ax=axes())
    assert np.allclose(offsets(drawn), [[0.0, 0.5], [1.0, 0.5]])
    labelled = plot.points(rs.Segment(IMAGES[0], IMAGES[1]), IMAGES[:2], torch.tensor([0, 1]), ax=(ax := axes()))
    assert np.allclose(offsets(labelled), [[0.0, 0.5], [1.0, 0.5]])
    assert ax.get_aspect() == "auto"
    assert len(plot.thumbnails(rs.Segment(IMAGES[0], IMAGES[1]), IMAGES[:2], ax=ax)) == 2


def test_names_of_classes_make_a_legend() -> None:
    ax = axes()
    plot.points(PLANE, IMAGES, torch.tensor([2, 0, 2]), ax=ax, class_names=["cat", "dog", "fox"])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["cat", "fox"]
    assert [mark.get_marker() for mark in ax.get_legend().legend_handles] == [style.MARKERS[0], style.MARKERS[2]]
    plot.class_legend(torch.tensor([0, 1]), ax=ax)  # areas: a patch below the marker, and a patch alone
    assert ax.get_legend().areas == {0, 1}
    shown = ax.get_legend().findobj(Line2D)
    assert [mark.get_marker() for mark in shown] == [style.MARKERS[0], style.MARKERS[2]]
    assert len(ax.get_legend().get_patches()) == 2


def test_points_stand_out_and_the_legend_explains_them() -> None:
    ax = axes()
    plot.class_legend(torch.tensor([1]), ax=ax, class_names=["cat", "dog", "fox"])
    (cats, foxes) = plot.points(PLANE, IMAGES, torch.tensor([2, 0, 2]), ax=ax, marker="s", size=50.0, label="mine")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["cat", "dog", "fox", "mine"]
    assert ax.get_legend().markers == {0: "s", 2: "s"}
    for drawn, label in ((cats, 0), (foxes, 2)):
        assert drawn.get_sizes().tolist() == [50.0]
        assert np.allclose(drawn.get_facecolor()[0], (*style.hue(label), 1.0))
        assert np.allclose(drawn.get_edgecolor()[0], 1.0)  # white, and black around it
        assert drawn.get_path_effects()
        assert len(drawn.get_paths()[0].vertices) == 5  # a square
    plot.points(PLANE, IMAGES, torch.tensor([2, 0, 2]), ax=(ax := axes()))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["class 0", "class 2"]
    plot.points(PLANE, PLANE.embed(torch.zeros(30, 2)), torch.arange(30), ax=(ax := axes()))
    assert ax.get_legend() is None  # too many to tell apart


def test_a_thumbnail_lies_beside_its_image_away_from_the_others() -> None:
    ax = axes()
    style.map_axes([ax], ticks=False)
    drawn = plot.thumbnails(PLANE, IMAGES, torch.tensor([2, 0, 1]), ax=ax)
    ax.figure.draw_without_rendering()
    at = PLANE.project(IMAGES).coords.numpy()
    middle = ax.transData.transform(at.mean(0))
    for label, where, thumbnail in zip([2, 0, 1], at, drawn, strict=True):
        box = thumbnail.patch.get_window_extent()
        centre = np.array([box.x0 + box.x1, box.y0 + box.y1]) / 2
        corner = ax.transData.transform(where)
        assert thumbnail.xy == pytest.approx(tuple(where))
        assert np.linalg.norm(centre - middle) > np.linalg.norm(corner - middle)
        assert np.linalg.norm(centre - corner) < 1.2 * box.width
        assert not box.contains(*corner)
        assert np.allclose(thumbnail.patch.get_edgecolor()[:3], style.hue(label))
        image: Any = thumbnail.offsetbox
        shown = np.asarray(image.get_data())
        assert shown.shape == (6, 6)
    figure = ax.figure.bbox
    boxes = [thumbnail.patch.get_window_extent() for thumbnail in drawn]
    assert all(figure.x0 <= box.x0 and box.x1 <= figure.x1 and box.y1 <= figure.y1 for box in boxes)


@pytest.mark.parametrize("margin", [0.0, 0.05, 0.5])
def test_a_thumbnail_is_joined_to_its_point_and_covers_neither_it_nor_the_frame_nor_numbers(margin: float) -> None:
    images = digits().inputs[[13, 8, 15]]
    ax, plane = Figure(figsize=(6.4, 4.8), layout="constrained").add_subplot(), rs.Box.through(images, margin=margin)
    drawn = plot.thumbnails(plane, images, ax=ax)
    ax.figure.draw_without_rendering()
    area = ax.get_window_extent()
    numbers = [label.get_window_extent() for label in (*ax.get_xticklabels(), *ax.get_yticklabels())]
    assert len(numbers) > 6
    for where, thumbnail in zip(plane.project(images).coords.numpy(), drawn, strict=True):
        box, point = thumbnail.patch.get_window_extent(), ax.transData.transform(where)
        assert thumbnail.arrow_patch is not None
        assert not box.padded(2.0 if margin else -3.0).contains(*point)
        assert not any(box.overlaps(label) for label in numbers)
        inside = area.x0 < box.x0 and box.x1 < area.x1 and area.y0 < box.y0 and box.y1 < area.y1
        assert inside or not box.overlaps(area)


@pytest.mark.parametrize(
    ("shape", "given", "wanted"),
    [
        ((1, 5, 4), None, (5, 4)),
        ((3, 5, 4), None, (5, 4, 3)),
        ((5, 4, 3), None, (5, 4, 3)),
        ((5, 4), None, (5, 4)),
        ((16,), None, (4, 4)),
        ((48,), None, (4, 4, 3)),
        ((20,), (5, 4), (5, 4)),
    ],
)
def test_shapes_of_images(shape: tuple[int, ...], given: Any, wanted: tuple[int, ...]) -> None:
    found = as_pictures(torch.rand(2, *shape) * 7 - 3, given)
    assert found.shape == (2, *wanted)
    assert (found.min(), found.max()) == (0.0, 1.0)


@pytest.mark.parametrize(("shape", "given"), [((20,), None), ((5, 5, 5), None), ((20,), (4, 4))])
def test_what_is_no_image_is_refused(shape: tuple[int, ...], given: Any) -> None:
    with pytest.raises(InputError, match="image_shape="):
        as_pictures(torch.rand(2, *shape), given)


@pytest.mark.parametrize("draw", [plot.points, plot.thumbnails])
def test_slices_that_have_no_picture(draw: Any) -> None:
    with pytest.raises(InputError, match="dimension 1 or 2, got dimension 3"):
        draw(rs.Box(torch.zeros(4), torch.eye(4)[:3]), torch.zeros(1, 4), ax=axes())
    with pytest.raises(InputError, match=r"Expected .* to get a Segment, Simplex or Box, got Tensor"):
        draw(torch.zeros(3, 4), torch.zeros(1, 4), ax=axes())


def test_the_thumbnail_at_the_corner_of_a_triangle_is_outside_and_covers_no_tick_label() -> None:
    images = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(0))
    figure = Figure(figsize=(4, 4), layout="constrained")
    ax = figure.add_subplot()
    first, *_ = plot.thumbnails(rs.Simplex(images), images, ax=ax)
    figure.draw_without_rendering()
    box = first.patch.get_window_extent()
    assert not box.overlaps(ax.get_window_extent())
    for label in [*ax.get_xticklabels(), *ax.get_yticklabels()]:
        assert not label.get_text() or not box.overlaps(label.get_window_extent())
    assert box.x0 >= 0
    assert box.y0 >= 0
