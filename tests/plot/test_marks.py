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


def test_markers_are_smaller_the_farther_their_inputs_are() -> None:
    away = torch.linalg.qr(torch.cat([PLANE.basis.flatten(1), torch.eye(36, dtype=torch.float64)[:1]]).T)[0][:, 2]
    x = PLANE.embed(torch.zeros(3, 2)) + torch.tensor([2.0, 0.0, 1.0])[:, None, None, None] * away.reshape(1, 1, 6, 6)
    (drawn,) = plot.points(PLANE, x, ax=(ax := axes()), size=40.0)
    assert drawn.get_sizes().tolist() == pytest.approx([10.0, 25.0, 40.0])  # the nearest is drawn last
    entries = {
        text.get_text(): mark
        for text, mark in zip(ax.get_legend().get_texts(), ax.get_legend().legend_handles, strict=True)
    }
    assert list(entries) == ["on the plane", "2 away"]
    assert [mark.get_markersize() ** 2 for mark in entries.values()] == pytest.approx([40.0, 10.0])
    (drawn,) = plot.points(PLANE, x, ax=axes(), size=40.0, max_distance=4.0)
    assert drawn.get_sizes().tolist() == pytest.approx([25.0, 32.5, 40.0])
    corner = plot.points(PLANE, PLANE.embed(PLANE.corners), torch.zeros(4, dtype=torch.int64), ax=axes())[0]
    assert not corner.get_clip_on()


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
        assert set(drawn.get_sizes().tolist()) == {50.0}
        assert drawn.get_linewidth()[0] < 0.2 * 50.0**0.5  # the colour of the class is seen
        assert np.allclose(drawn.get_facecolor()[0], (*style.hue(label), 1.0))
        assert np.allclose(drawn.get_edgecolor()[0], 1.0)  # white, and black around it
        assert drawn.get_path_effects()
        assert len(drawn.get_paths()[0].vertices) == 5  # a square
    plot.points(PLANE, IMAGES, torch.tensor([2, 0, 2]), ax=(ax := axes()))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["class 0", "class 2"]
    plot.points(PLANE, PLANE.embed(torch.zeros(30, 2)), torch.arange(30), ax=(ax := axes()))
    assert ax.get_legend() is None  # too many to tell apart


@pytest.mark.parametrize("margin", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("ticks", [True, False])
def test_thumbnails_stand_outside_the_axes_and_cover_nothing(margin: float, ticks: bool) -> None:
    images, labels = digits().inputs[[13, 8, 15]], torch.tensor([2, 0, 1])
    ax, plane = Figure(figsize=(6.4, 4.8), layout="constrained").add_subplot(), rs.Box.through(images, margin=margin)
    plot.class_legend(labels, ax=ax)
    style.map_axes([ax], ticks=ticks)
    drawn = plot.thumbnails(plane, images, labels, ax=ax)
    ax.figure.draw_without_rendering()
    area, boxes = ax.get_window_extent(), [thumbnail.patch.get_window_extent() for thumbnail in drawn]
    others = [ax.get_legend().get_window_extent(), area]
    others += [
        label.get_window_extent() for label in (*ax.get_xticklabels(), *ax.get_yticklabels()) if label.get_text()
    ]
    for i, (where, thumbnail, box) in enumerate(zip(plane.project(images).coords.numpy(), drawn, boxes, strict=True)):
        assert thumbnail.xy == pytest.approx(tuple(where))
        assert thumbnail.arrow_patch is not None
        assert np.allclose(thumbnail.patch.get_edgecolor()[:3], style.hue(int(labels[i])))
        assert not any(box.overlaps(other) for other in [*others, *boxes[:i]])
        assert ax.figure.bbox.x0 <= box.x0 < box.x1 <= ax.figure.bbox.x1
        assert area.y0 - 2 <= box.y0 < box.y1 <= area.y1 + 2
        image: Any = thumbnail.offsetbox
        assert np.asarray(image.get_data()).shape == (8, 8)
    assert area.width > 0.4 * ax.figure.bbox.width


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
