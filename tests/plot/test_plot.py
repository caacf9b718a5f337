"""Pictures are checked by their vertices, colours and labels, not by pixels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from torch.utils.data import TensorDataset

import regionscope as rs
from regionscope import plot
from regionscope.errors import InputError
from regionscope.plot import style
from regionscope_lab.zoo import mlp
from small_slices import SQUARE

SEGMENT = rs.Segment([-1.0, -0.5], [1.0, 0.75])
NET = mlp([2, 8, 8, 3], seed=8)  # three decision regions on the segment, two on the square
PART, DECISION = rs.linear_regions(NET, SQUARE), rs.decision_regions(NET, SQUARE)


def axes() -> Axes:
    return Figure().add_subplot()


def area(outline: np.ndarray) -> float:
    x, y = outline[:-1].T
    return float(np.abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def lines_of(ax: Axes) -> list[LineCollection]:
    return [artist for artist in ax.collections if isinstance(artist, LineCollection)]


def test_polygons_are_the_regions_and_edges_the_inner_walls() -> None:
    ax = axes()
    fill = plot.linear_regions(PART, ax=ax)
    outlines = [path.vertices for path in fill.get_paths()]
    assert len(outlines) == PART.n_activation_regions
    assert [area(outline) for outline in outlines] == pytest.approx(PART.sizes.tolist())
    for outline, polygon in zip(outlines, PART.polygons(), strict=True):
        assert np.array_equal(outline[:-1], np.asarray(polygon))
    assert ax.get_xlim() == ax.get_ylim() == (-1.0, 1.0)
    assert ax.get_aspect() == 1.0
    (edges,) = lines_of(ax)
    assert len(edges.get_segments()) == len(PART.walls.inner)
    ends = {tuple(point) for segment in edges.get_segments() for point in segment}
    assert ends <= {tuple(vertex) for vertex in PART.vertices.tolist()}
    bare = axes()
    plot.linear_regions(PART, ax=bare, edges=False)
    assert not lines_of(bare)


def test_one_affine_map_has_one_colour() -> None:
    several = plot.linear_regions(rs.linear_regions(NET, SQUARE), ax=axes()).get_facecolor()
    assert len(np.unique(several, axis=0)) > 5
    dead = mlp([2, 8, 8, 2])
    torch.nn.init.constant_(dead.get_submodule("linear2").bias, -100.0)
    part = rs.linear_regions(dead, SQUARE)
    assert part.n_activation_regions > part.n_linear_regions == 1
    ax = axes()
    assert len(np.unique(plot.linear_regions(part, ax=ax).get_facecolor(), axis=0)) == 1
    assert len(lines_of(ax)[0].get_segments()) == 0  # no wall inside one map
    dec, ax = rs.decision_regions(dead, SQUARE), axes()
    assert len(np.unique(plot.decision_mosaic(dec, ax=ax).get_facecolor(), axis=0)) == len(dec.labels.unique())
    assert len(lines_of(ax)[0].get_segments()) == 0
    ax = axes()
    plot.linear_regions(part, ax=ax, ids=torch.arange(len(part)))
    assert len(lines_of(ax)[0].get_segments()) == len(part.walls.inner)
    ids = torch.randperm(len(PART), generator=torch.Generator().manual_seed(0))
    colours = plot.linear_regions(PART, ax=axes(), ids=ids).get_facecolor()[:, :3]
    assert np.allclose(colours, style.region_colours(ids))  # a region that keeps its id keeps its colour
    with pytest.raises(InputError, match=r"ids .* regions, got shape \(2,\)"):
        plot.linear_regions(PART, ax=axes(), ids=torch.zeros(2))


def test_values_have_a_scale_of_colours_with_a_label() -> None:
    figure = Figure()
    shown = figure.add_subplot()
    plot.region_values(PART, PART.sizes, ax=shown, label="drawn before")
    fill = plot.region_values(PART, PART.sizes.log(), ax=shown, label="log area")
    assert np.allclose(fill.get_array(), PART.sizes.log().numpy())
    assert fill.get_clim() == pytest.approx((float(PART.sizes.min().log()), float(PART.sizes.max().log())))
    bar = fill.colorbar.ax
    assert [scale.get_ylabel() for scale in shown.child_axes] == [bar.get_ylabel()] == ["log area"]
    figure.draw_without_rendering()
    assert bar.get_tightbbox().x1 <= figure.bbox.x1
    assert bar.bbox.height == pytest.approx(shown.get_window_extent().height)
    assert not bar.bbox.overlaps(shown.get_window_extent())
    other = Figure()
    left, right = other.subplots(1, 2)
    other.colorbar(left.imshow([[0.0, 1.0]]), ax=left)  # a scale of another kind beside it
    plot.region_values(PART, PART.sizes, ax=right)
    other.draw_without_rendering()
    assert len(right.child_axes) == 1
    alone = axes()
    plot.region_values(PART, PART.sizes, ax=alone, colorbar=False)
    assert not alone.child_axes
    with pytest.raises(InputError, match="one number for each of 58 regions"):
        plot.region_values(PART, PART.sizes[1:], ax=axes())


@pytest.mark.parametrize("legend_first", [True, False])
def test_a_class_legend_and_a_colour_bar_do_not_overlap(legend_first: bool) -> None:
    part, figure = PART, Figure()
    ax = figure.add_subplot()
    x, labels = torch.rand(6, 2), torch.arange(6) % 3
    if legend_first:
        plot.data(x, labels, ax=ax, class_names=["cat", "dog", "horse"])
    fill = plot.region_values(part, part.sizes, ax=ax)
    if not legend_first:
        plot.data(x, labels, ax=ax, class_names=["cat", "dog", "horse"])
    figure.draw_without_rendering()
    legend = ax.get_legend().get_window_extent()
    assert not legend.overlaps(fill.colorbar.ax.get_tightbbox())
    assert not legend.overlaps(ax.xaxis.get_tightbbox())
    assert legend.y0 >= 0


def test_decision_regions_show_labels_and_the_exact_boundary() -> None:
    dec = DECISION
    ax = axes()
    fill = plot.decision_regions(dec, ax=ax)
    wanted = style.class_colours(dec.piece_labels, pale=True)
    assert np.allclose(fill.get_facecolor()[:, :3], wanted)
    assert len(dec.boundary) > 1
    (lines,) = lines_of(ax)
    assert np.allclose(np.array(lines.get_segments()), dec.boundary.numpy())
    assert to_rgb(lines.get_color()[0]) == to_rgb(style.BOUNDARY)
    assert lines.get_zorder() > fill.get_zorder()


def test_a_mosaic_has_the_hue_of_the_class_and_the_shade_of_the_region() -> None:
    dec = DECISION
    ax = axes()
    colours = plot.decision_mosaic(dec, ax=ax).get_facecolor()[:, :3]
    ids = dec.partition.linear_ids
    assert np.allclose(colours, style.shaded_colours(ids, dec.piece_labels))
    per_class = [len(np.unique(colours[dec.piece_labels.numpy() == label], axis=0)) for label in dec.labels.unique()]
    assert min(per_class) > 2
    edges, boundary = lines_of(ax)
    a, b = ids[dec.partition.walls.regions[dec.partition.walls.inner]].T
    assert len(edges.get_segments()) == int((a != b).sum()) < len(a)
    assert len(boundary.get_segments()) == len(dec.boundary)


def test_one_dimension_is_drawn_as_bands() -> None:
    part = rs.linear_regions(NET, SEGMENT)
    ax = axes()
    fill = plot.linear_regions(part, ax=ax)
    widths = [np.ptp(path.vertices[:, 0]) for path in fill.get_paths()]
    assert len(widths) == part.n_activation_regions
    assert sum(widths) == pytest.approx(1.0)
    assert ax.get_xlim() == (0.0, 1.0)
    dec = rs.decision_regions(NET, SEGMENT)
    lines = plot.decision_boundary(dec, ax=ax)
    assert [ends[0, 0] for ends in lines.get_segments()] == pytest.approx(dec.boundary.flatten().tolist())


def test_a_boundary_may_be_empty() -> None:
    constant = torch.nn.Sequential(torch.nn.Linear(2, 2))
    torch.nn.init.zeros_(constant[0].weight)
    for where in (SQUARE, SEGMENT):
        dec = rs.decision_regions(constant, where)
        assert dec.count == 1
        assert len(plot.decision_boundary(dec, ax=axes()).get_segments()) == 0
        plot.decision_figure(dec).canvas.draw()


def test_three_dimensions_are_refused() -> None:
    cube = rs.Box(torch.zeros(3), torch.eye(3), 1.0)
    part = rs.linear_regions(mlp([3, 2, 2]), cube)
    with pytest.raises(InputError, match="dimension 1 or 2"):
        plot.linear_regions(part, ax=axes())
    with pytest.raises(InputError, match="dimension 1 or 2"):
        plot.zero_lines(part, ax=axes())


def test_points_are_coloured_and_marked_by_class() -> None:
    ax = axes()
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    first, second = plot.data(TensorDataset(points, torch.tensor([0, 1, 0])), ax=ax)
    assert np.asarray(first.get_offsets()).tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert np.asarray(second.get_offsets()).tolist() == [[1.0, 0.0]]
    assert not np.array_equal(first.get_facecolor(), second.get_facecolor())
    assert len(first.get_paths()[0].vertices) != len(second.get_paths()[0].vertices)
    assert not np.array_equal(first.get_edgecolor(), first.get_facecolor())  # seen on a region of their class
    small = Figure(figsize=(2, 2), dpi=200).subplots()  # where the last class would cover the first ones otherwise
    few, many = (plot.data(torch.rand(n, 2), torch.zeros(n, dtype=torch.int64), ax=small)[0] for n in (50, 5_000))
    assert few.get_sizes()[0] == style.MARKER_SIZE
    assert 5_000 * many.get_sizes()[0] < 0.6 * (72 * 2) ** 2
    with pytest.raises(InputError, match=r"\(n, 2\)"):
        plot.data(torch.zeros(3, 3), torch.zeros(3), ax=ax)


def test_neighbours_rarely_share_a_colour() -> None:
    part = rs.linear_regions(mlp([2, 32, 32, 32, 2], seed=0), rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 3.0))
    pairs = part.linear_ids[part.walls.regions[part.walls.inner]]
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    assert len(pairs) > 500
    sides = [style.region_colours(pairs[:, i]) for i in (0, 1)]
    assert np.mean(np.all(sides[0] == sides[1], axis=1)) < 0.06  # 28 colours: 0.036 by chance


def test_lines_between_many_regions_of_a_segment_are_thin_or_left_out() -> None:
    few, some, many = (
        rs.linear_regions(mlp([2, width, width, 2], seed=0), rs.Segment([-9.0, -8.0], [9.0, 9.0]))
        for width in (16, 64, 400)
    )
    assert len(few) < 60 < len(some) < 200 < 300 < len(many)
    widths = []
    for part in (few, some):
        ax = Figure(figsize=(6, 1)).add_subplot()
        plot.linear_regions(part, ax=ax)
        widths.append(float(ax.collections[1].get_linewidth()[0]))
    assert widths[1] < widths[0] == style.EDGE_WIDTH
    ax = Figure(figsize=(6, 1)).add_subplot()
    plot.linear_regions(many, ax=ax)
    assert len(ax.collections) == 1
    layers = plot.zero_lines(many, ax=ax)  # these are the picture
    assert sum(len(lines.get_segments()) for lines in layers) == len(many) - 1
    assert max(float(lines.get_linewidth()[0]) for lines in layers) < 0.6


def test_a_triangle_has_an_outline() -> None:
    triangle = rs.Simplex([[0.0, 0.0], [1.0, 0.2], [0.3, 1.0]])
    part, ax = rs.linear_regions(NET, triangle), axes()
    plot.linear_regions(part, ax=ax)
    plot.zero_lines(part, ax=ax)
    (outline,) = ax.patches  # one, however many pictures there are on the axes
    assert isinstance(outline, Polygon)
    assert outline.get_xy()[:-1].tolist() == triangle.corners.tolist()
    assert not outline.get_fill()
    assert not ax.spines["top"].get_visible()
    box = axes()
    plot.linear_regions(rs.linear_regions(NET, SQUARE), ax=box)
    assert not box.patches
    assert box.spines["top"].get_visible()


def test_edges_are_left_out_where_they_would_hide_the_regions() -> None:
    part = rs.linear_regions(mlp([2, 40, 40, 2], seed=0), SQUARE)
    widths = {}
    for inches in (0.3, 2.0, 6.0, 12.0):
        ax = Figure(figsize=(inches, inches)).add_subplot()
        plot.linear_regions(part, ax=ax)
        widths[inches] = [float(lines.get_linewidth()[0]) for lines in ax.collections[1:]]
    assert widths[0.3] == []
    assert widths[2.0][0] < widths[6.0][0] == widths[12.0][0] == style.EDGE_WIDTH
    wide = Figure(figsize=(6, 2)).add_subplot()  # equal scales: the map is no larger than in a square of 2 inches
    plot.linear_regions(part, ax=wide)
    assert float(wide.collections[1].get_linewidth()[0]) == pytest.approx(widths[2.0][0], rel=0.1)
