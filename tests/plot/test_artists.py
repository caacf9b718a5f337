"""Many shapes as few paths: what reaches the file is the same picture, as vectors or as an image."""

from __future__ import annotations

import io
import itertools
import re

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure

import regionscope as rs
from regionscope import plot
from regionscope.plot.artists import Cells, Segments, chains, merged
from regionscope_lab.zoo import mlp
from small_slices import SQUARE

PART = rs.linear_regions(mlp([2, 8, 8, 2], seed=8), SQUARE)


def pixels(artist: PolyCollection | LineCollection, dpi: int = 100) -> np.ndarray:
    figure = Figure(figsize=(2, 2), dpi=dpi)
    ax = figure.add_axes((0, 0, 1, 1), xlim=(-1, 1), ylim=(-1, 1))
    ax.add_collection(artist, autolim=False)
    ax.axis("off")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(float)


def file(extension: str, **options: bool) -> bytes:
    figure = Figure(figsize=(2, 2))
    plot.linear_regions(PART, ax=figure.add_subplot(), **options)
    target = io.BytesIO()
    figure.savefig(target, format=extension)
    return target.getvalue()


def test_cells_look_like_a_collection_of_polygons() -> None:
    colours = np.random.default_rng(0).random((len(PART), 3))
    mine = pixels(Cells(PART.polygons(), colours))
    plain = pixels(PolyCollection(PART.polygons(), facecolors=colours, edgecolors=colours, linewidths=0.35))
    assert np.abs(mine - plain).mean() < 3  # of 255; only pixels on the seams differ
    assert np.abs(mine - pixels(Cells(PART.polygons(), colours[::-1]))).mean() > 20


def test_every_colour_covers_the_area_of_its_cells() -> None:
    """Also where cells are smaller than a pixel: the picture is that of a finer one, whose pixels are averaged."""
    part = rs.linear_regions(mlp([2, 100, 100, 2], seed=8), SQUARE)
    cells = [Cells(part.polygons(), plot.style.region_colours(part.linear_ids)) for _ in range(2)]
    mine, fine = pixels(cells[0]), pixels(cells[1], dpi=1600)
    truth = fine.reshape(200, 16, 200, 16, 3).mean((1, 3))
    assert np.abs((mine - truth).mean((0, 1))).max() < 2.0  # of 255
    assert np.abs(mine - truth).mean() < 2.0


def test_no_background_shows_between_cells() -> None:
    part = rs.linear_regions(mlp([2, 40, 40, 2], seed=8), SQUARE)
    dark = np.array([[0.2, 0.0, 0.0], [0.0, 0.2, 0.0], [0.0, 0.0, 0.2]])[part.linear_ids.numpy() % 3]
    assert pixels(Cells(part.polygons(), dark)).max() <= 0.2 * 255 + 1


def test_neighbours_of_one_colour_become_one_shape() -> None:
    """Also around a hole, through a corner that two parts share, and where polygons lie on top of each other."""

    def square(x: float, y: float) -> np.ndarray:
        return np.array([[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1]])

    def area(line: np.ndarray) -> float:
        x, y = line.T
        return float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2)

    ring = [square(x, y) for x in range(3) for y in range(3) if (x, y) != (1, 1)]
    assert sorted(map(area, merged(ring))) == [-1.0, 9.0]
    assert all(len(line) == 4 for line in merged(ring))
    diagonal = [square(0, 0), square(0, 1), square(1, 2), square(1, 3)]
    assert sum(map(area, merged(diagonal))) == 4.0
    assert sum(map(area, merged([square(0, 0), square(0, 0), square(1, 0), square(2, 0), square(3, 0)]))) == 5.0
    dec = rs.decision_regions(mlp([2, 40, 40, 3], seed=8), SQUARE)
    for label in dec.piece_labels.unique():
        rows = (dec.piece_labels == label).nonzero()[:, 0].tolist()
        lines = merged([dec.partition.polygons()[i] for i in rows])
        assert sum(map(area, lines)) == pytest.approx(float(dec.partition.sizes[rows].sum()))
        assert len(lines) < len(rows) / 3


def test_transparent_cells_are_drawn_once() -> None:
    square = [np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])]
    assert pixels(Cells(square, np.array([[0.0, 0.0, 0.0, 0.5]])))[100, 100] == pytest.approx(127.5, abs=1)


def test_segments_look_like_a_collection_of_lines() -> None:
    ends = plot.regions.wall_segments(PART, PART.walls.inner)
    mine = pixels(Segments(ends, colour="black", width=1.5))
    plain = pixels(LineCollection(list(ends), colors="black", linewidths=1.5))
    assert np.abs(mine - plain).mean() < 3
    assert (mine < 128).mean() > 0.02


def test_a_vector_file_has_paths_or_an_image() -> None:
    svg = file("svg").decode()
    assert "<image" not in svg
    cells = svg[svg.index('<g id="Cells') : svg.index('<g id="Segments')]
    colours = plot.linear_regions(PART, ax=Figure().add_subplot()).get_facecolor()
    distinct, which = np.unique(colours, axis=0, return_inverse=True)
    groups = [[PART.polygons()[i] for i in np.flatnonzero(which == k)] for k in range(len(distinct))]
    assert len(re.findall("<path", cells)) == 2 * len(distinct)  # with strokes, and on top of them without
    assert len(re.findall(r"\bz\b", cells)) == 2 * sum(len(merged(group)) for group in groups)
    assert b"/Subtype /Image" not in file("pdf")
    svg = file("svg", rasterized=True).decode()
    assert "<image" in svg
    assert '<g id="Cells' not in svg
    assert b"/Subtype /Image" in file("pdf", rasterized=True)


def test_an_invisible_or_empty_artist_draws_nothing() -> None:
    hidden = Cells(PART.polygons(), np.zeros((len(PART), 3)))
    hidden.set_visible(False)
    for artist in (hidden, Cells([], np.zeros((0, 3))), Segments(np.zeros((0, 2, 2)), colour="black", width=1.0)):
        assert (pixels(artist) == 255).all()


@pytest.mark.parametrize(
    ("segments", "lengths"),
    [
        ([[[0, 0], [1, 0]], [[1, 0], [1, 1]], [[0, 1], [1, 1]]], [4]),
        ([[[0, 0], [1, 0]], [[1, 0], [1, 1]], [[1, 1], [0, 0]]], [4]),  # closed: the first point comes again
        ([[[0, 0], [1, 0]], [[1, 0], [2, 1]], [[1, 0], [2, -1]]], [2, 2, 2]),  # three meet: all end there
        ([[[0, 0], [1, 0]], [[3, 0], [4, 0]]], [2, 2]),
    ],
    ids=["open", "closed", "fork", "apart"],
)
def test_segments_are_put_end_to_end(segments: list[list[list[int]]], lengths: list[int]) -> None:
    given = np.array(segments, dtype=float)
    lines = chains(given)
    assert sorted(len(line) for line in lines) == lengths
    drawn = {frozenset(map(tuple, pair)) for line in lines for pair in itertools.pairwise(line)}
    assert drawn == {frozenset(map(tuple, pair)) for pair in given}
