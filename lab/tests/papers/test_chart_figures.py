"""Figures of studies: nothing covers the data, nothing collides, and what is not known is not drawn."""

from __future__ import annotations

from functools import partial
from itertools import count, pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.transforms import Bbox

import regionscope as rs
from regionscope_lab.papers.chart_figures import chart_figure
from regionscope_lab.papers.charts import Bars, Chart, Lines, Picture, Pictures, Scatter, Series
from regionscope_lab.zoo import mlp

NAN = float("nan")
BOTH: dict[str, Any] = {"interval": ((0.5, 2.0), (1.0, 2.5)), "stderr": (9.0, 9.0)}


def lines(*series: Series, **options: Any) -> Lines:
    return Lines(title="Title", x_label="x", y_label="y", series=series, **options)


def bars(*series: Series, names: tuple[str, ...] = ("a", "b"), x_label: str = "") -> Bars:
    return Bars(title="Title", y_label="y", names=names, series=series, x_label=x_label)


def one(y: list[float], *, label: str = "", x: list[float] | None = None, **options: Any) -> Series:
    at = tuple(range(len(y))) if x is None else tuple(x)
    return Series(label=label, x=at, y=tuple(y), **options)


def drawn(chart: Chart) -> tuple[Any, Any]:
    figure = chart_figure(chart)
    figure.draw_without_rendering()
    return figure, figure.axes[0]


def legend_of(figure: Figure) -> Legend:
    inside = [legend for ax in figure.axes if (legend := ax.get_legend()) is not None]
    (found,) = figure.legends + inside
    return found


def covered(ax: Any, box: Bbox) -> int:
    """How many of many points on curves, in bands, in bars and of scatter plots are in a box of the figure."""
    places: list[Any] = []
    for line in ax.lines:
        ends = line.get_transform().transform(line.get_xydata())
        places += [np.linspace(a, b, 50) for a, b in pairwise(ends)]
    for patch in ax.patches:
        x, y = patch.get_window_extent().get_points().T
        places += [np.stack(np.meshgrid(np.linspace(x[0], x[1], 20), np.linspace(y[0], y[1], 50)), -1).reshape(-1, 2)]
    for collection in ax.collections:
        for path in collection.get_paths():
            outline = collection.get_transform().transform_path(path)
            grid = np.stack(np.meshgrid(np.linspace(box.x0, box.x1, 20), np.linspace(box.y0, box.y1, 20)), -1)
            places += [grid.reshape(-1, 2)[outline.contains_points(grid.reshape(-1, 2))]]
        places += [np.asarray(collection.get_offset_transform().transform(collection.get_offsets()))]
    every = np.concatenate([np.asarray(place).reshape(-1, 2) for place in places])
    return int(((box.min < every) & (every < box.max)).all(1).sum())


def labels(axis: Any) -> list[str]:
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
    return [text.get_text() for at, text in ticks if low <= at <= high]


def collisions(axis: Any) -> int:
    shown = [*axis.get_majorticklabels(), *axis.get_minorticklabels()]
    boxes = [text.get_window_extent() for text in shown if text.get_text()]
    return sum(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


FULL = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]
CLOUD = torch.rand(3, 2, 300, generator=torch.Generator().manual_seed(0))
CROWDED: dict[str, Chart] = {
    "a free corner": lines(one([0.0, 1.0, 2.0], label="rising"), one([0.0, 0.5, 1.0], label="slower")),
    "curves everywhere": lines(one(FULL, label="zigzag"), one([1 - y for y in FULL], label="zagzig")),
    "a band everywhere": lines(one([0.0, 0.1, 0.0], label="band", stderr=(1.0, 1.0, 1.0))),
    "long names": lines(*(one(FULL, label=f"a curve with quite a long name, {i}") for i in range(5))),
    "high bars": bars(one([1.0, 1.0], label="cnn"), one([1.0, 1.0], label="mlp")),
    "bars both ways": bars(one([1.0, -1.0], label="cnn"), one([-1.0, 1.0], label="mlp")),
    "a cloud": Scatter(
        title="",
        x_label="",
        y_label="",
        series=tuple(one(y.tolist(), x=x.tolist(), label=str(i)) for i, (x, y) in enumerate(CLOUD)),
    ),
}


@pytest.mark.parametrize("chart", CROWDED.values(), ids=CROWDED)
def test_a_legend_covers_no_data_and_is_not_cut(chart: Chart) -> None:
    figure, ax = drawn(chart)
    box = legend_of(figure).get_window_extent()
    assert covered(ax, box) == 0
    assert figure.bbox.x0 <= box.x0
    assert box.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= box.y0
    assert box.y1 <= figure.bbox.y1
    assert covered(ax, ax.get_window_extent()) > 0


def test_a_legend_stays_inside_where_a_corner_is_free() -> None:
    assert drawn(CROWDED["a free corner"])[1].get_legend() is not None
    assert drawn(CROWDED["high bars"])[1].get_legend() is None


def test_one_series_of_bars_or_points_needs_no_legend() -> None:
    points = Scatter(title="Count and gap", x_label="", y_label="", series=(one([1.0, 2.0], label="cnn"),))
    for chart in (bars(one([1.0, 2.0], label="only")), points):
        figure, ax = drawn(chart)
        assert ax.get_legend() is None
        assert not figure.legends
    assert figure.get_suptitle() == "Count and gap, cnn"


@pytest.mark.parametrize(
    ("x", "named"),
    [
        ([0.14, 0.2, 0.31, 0.44, 0.6, 0.61, 0.88, 1.2, 1.5, 2.0, 2.7], ["0.2", "0.5", "1", "2"]),
        ([0.137, 0.44123, 2.7], ["0.2", "0.5", "1", "2"]),  # few, and too long
        ([5.5123, 6.12, 9.93], ["6", "7", "8", "9", "10"]),
        ([700.5, 1000.5, 30000.5], ["1,000", "2,000", "5,000", "10,000", "20,000"]),
        ([0.001, 0.01, 0.1], ["0.001", "0.01", "0.1"]),
        ([1.0, 1.3, 1.35, 2.0, 16.0], ["1", "1.3", "", "2", "16"]),  # the settings themselves, where there is room
        ([1.0, 1.3, 1.5, 2.0, 16.0], ["1", "1.3", "1.5", "2", "16"]),
    ],
)
def test_ticks_of_logarithmic_axes_are_plain_and_do_not_collide(x: list[float], named: list[str]) -> None:
    _, ax = drawn(lines(one(x, x=x), x_scale="log", y_scale="log"))
    assert labels(ax.xaxis) == named
    assert collisions(ax.xaxis) == 0
    assert collisions(ax.yaxis) == 0


def test_dashes_can_be_seen_in_a_legend() -> None:
    ours, theirs = one([1.0, 2.0], label="ours"), one([2.0, 1.0], label="theirs", beside="ours")
    lengths = [legend_of(drawn(chart)[0]).handlelength for chart in (lines(ours), lines(ours, theirs))]
    assert lengths == [2.0, 4.0]


def test_many_decades_have_powers_of_ten_alone() -> None:
    _, ax = drawn(lines(one([1.0, 1e5], x=[1.234567, 1e6]), x_scale="log", y_scale="log"))
    assert all("10^" in text for text in labels(ax.xaxis) + labels(ax.yaxis))
    assert not any(text.get_text() for text in ax.xaxis.get_minorticklabels())


def test_counted_things_have_whole_ticks() -> None:
    assert labels(drawn(lines(one([1.0, 2.0, 3.0], x=[0, 10, 20])))[1].xaxis) == ["0", "5", "10", "15", "20"]
    assert all("." not in text for text in labels(drawn(lines(one([1.0, 2.0, 3.0])))[1].xaxis))
    assert any("." in text for text in labels(drawn(lines(one([1.0, 2.0], x=[0.5, 1.0])))[1].xaxis))
    assert labels(drawn(bars(one([1.0, 3.0])))[1].yaxis) == ["0", "1", "2", "3"]
    assert labels(drawn(bars(one([NAN, 1.0])))[1].yaxis) == ["0", "1"]
    assert any("." in text for text in labels(drawn(bars(one([1.0, 2.5])))[1].yaxis))


def test_the_end_of_a_short_axis_can_be_counted() -> None:
    for last, unnamed in ((11, [1, 3, 5, 7, 9, 11]), (12, [1, 3, 5, 7, 9, 11]), (110, [])):
        axis = drawn(lines(one([1.0, 2.0], x=[0, last])))[1].xaxis
        assert [tick for tick in axis.get_minorticklocs() if 0 <= tick <= last] == unnamed
        assert len(set(np.diff(axis.get_majorticklocs()))) == 1


def test_bands_and_error_bars_show_the_error_or_the_interval() -> None:
    _, ax = drawn(lines(one([1.0, 2.0], stderr=(0.25, 0.5)), one([1.0, 2.0], **BOTH)))
    error, interval = (set(map(tuple, band.get_paths()[0].vertices.tolist())) for band in ax.collections)
    assert {(0.0, 0.75), (0.0, 1.25), (1.0, 1.5), (1.0, 2.5)} <= error
    assert {(0.0, 0.5), (0.0, 2.0), (1.0, 1.0), (1.0, 2.5)} <= interval
    for series, ends in ((one([1.0, 2.0], stderr=(0.25, 0.5)), [(0.75, 1.25), (1.5, 2.5)]),
                         (one([1.0, 2.0], **BOTH), [(0.5, 2.0), (1.0, 2.5)])):  # fmt: skip
        (errors,) = drawn(bars(series))[1].collections
        assert [tuple(path.vertices[:, 1]) for path in errors.get_paths()] == ends
    assert not drawn(bars(one([1.0, 2.0])))[1].collections


def test_an_undefined_value_is_no_bar() -> None:
    _, ax = drawn(bars(one([0.5, NAN], stderr=(0.1, NAN)), one([0.7, 0.8])))
    assert sorted(patch.get_height() for patch in ax.patches) == [0.5, 0.7, 0.8]
    (text,) = ax.texts
    assert text.get_text() == "n/a"
    assert text.xy == (pytest.approx(0.8), 0)
    assert ax.get_xlim()[0] < text.xy[0] < ax.get_xlim()[1]


def test_an_undefined_value_does_not_cover_the_bars_beside() -> None:
    figure, ax = drawn(
        bars(*[one([0.5, 0.6, 0.7])] * 4, one([0.5, NAN, 0.7]), *[one([0.5, 0.6, 0.7])] * 3, names=("a", "b", "c"))
    )
    (text,) = ax.texts
    figure.canvas.draw()
    assert text.get_window_extent().width < max(patch.get_window_extent().width for patch in ax.patches)


def test_the_names_of_bars_do_not_collide_and_have_a_label() -> None:
    names = tuple(f"a long name, number {i}" for i in range(6))
    _, ax = drawn(bars(one([1.0] * 6), names=names, x_label="setting"))
    assert {text.get_rotation() for text in ax.get_xticklabels()} == {30.0}
    assert {text.get_rotation() for text in drawn(bars(one([1.0, 2.0])))[1].get_xticklabels()} == {0.0}
    assert ax.get_xlabel() == "setting"


def test_the_axes_show_the_whole_line_and_its_band() -> None:
    x, y = [1.0, 1.1, 1.2, 1.3, 2.0], [98.0, 98.0, 97.0, 97.0, 70.0]
    chart = Scatter.fitted(title="", x_label="", y_label="", series=(one(y, x=x, label="cnn"),))
    assert chart.fit is not None
    assert chart.fit.at([1.0])[0] > 100  # beyond every point
    _, ax = drawn(chart)
    at, line = map(np.asarray, ax.lines[0].get_data())
    assert (at.min(), at.max()) == (1.0, 2.0)
    low, high = ax.get_ylim()
    assert low < line.min() < line.max() < high
    (band,) = [one for one in ax.collections if one.get_alpha() == 0.12]
    heights = band.get_paths()[0].vertices[:, 1]
    assert low < heights.min() < heights.max() < high


def test_a_band_of_few_runs_does_not_flatten_the_points() -> None:
    few = Scatter.fitted(title="", x_label="", y_label="", series=(one([1.0, 4.0, 3.0], label="cnn"),))
    low, high = drawn(few)[1].get_ylim()
    assert high - low < 2.5 * 3.0


def test_the_name_of_a_level_covers_nothing() -> None:
    rising = one([0.0, 1.0, 2.0, 3.0], label="rising")
    _, ax = drawn(lines(rising, levels=(("the bound", 0.2), ("the other bound", 2.9))))
    for text in ax.texts:
        box = text.get_window_extent()
        assert covered(ax, box) == 0
        assert ax.get_window_extent().y0 <= box.y0
        assert box.y1 <= ax.get_window_extent().y1
    zigzag = lines(one(FULL, label="zigzag"), levels=(("a rather long name of a level", 0.5),))
    figure, ax = drawn(zigzag)
    (text,) = ax.texts
    assert covered(ax, text.get_window_extent()) == 0
    assert text.get_window_extent().x1 <= figure.bbox.x1
    assert not text.get_window_extent().overlaps(legend_of(figure).get_window_extent())


def test_long_titles_fit_on_the_figure() -> None:
    title = " ".join(["a long title"] * 12)
    part = Picture(title, None, points=torch.rand(5, 2), labels=torch.zeros(5))
    for chart in (
        Lines(title=title, x_label=title, y_label=title, series=(one([1.0, 2.0], label="a"),)),
        Pictures(title=title, columns=2, pictures=(part, part)),
    ):
        figure, ax = drawn(chart)
        for text in (figure._suptitle, ax.title, ax.xaxis.label, ax.yaxis.label):
            box = text.get_window_extent()
            if not text.get_text():
                continue
            assert figure.bbox.x0 <= box.x0
            assert box.x1 <= figure.bbox.x1
            assert box.y1 <= figure.bbox.y1


def box(half: tuple[float, float]) -> rs.Partition:
    return rs.linear_regions(mlp([2, 6, 2], seed=0), rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], list(half)))


def test_points_alone_line_up_with_slices() -> None:
    points, ids = torch.tensor([[0.0, 0.1], [0.3, 0.2]]), torch.tensor([0, 1])
    alone = Picture("points", None, points=points, labels=ids)
    figure, ax = drawn(Pictures(title="", columns=2, pictures=(alone, Picture("slice", box((1.0, 1.0))))))
    assert (ax.get_xlim(), ax.get_ylim()) == ((-1, 1), (-1, 1))
    assert ax.get_window_extent().height == pytest.approx(figure.axes[1].get_window_extent().height)
    wider = Picture("more", None, points=10 * points, labels=ids)
    figure, ax = drawn(Pictures(title="", columns=2, pictures=(alone, wider)))
    assert ax.get_xlim() == figure.axes[1].get_xlim()
    assert ax.get_ylim() == figure.axes[1].get_ylim()
    assert ax.get_xlim()[0] < 0
    assert ax.get_xlim()[1] > 3
    line = rs.linear_regions(mlp([2, 6, 2], seed=0), rs.Segment([0.0, 0.0], [9.0, 9.0]))
    _, ax = drawn(Pictures(title="", columns=2, pictures=(alone, Picture("line", line))))
    assert ax.get_xlim()[1] < 0.5  # a line has no plane to share


@pytest.mark.parametrize("half", [(1.0, 1.0), (1.0, 0.6), (0.6, 1.0)])
@pytest.mark.parametrize(("columns", "n", "title"), [(2, 2, "one"), (3, 5, "one\ntwo"), (1, 3, "one\ntwo\nthree")])
def test_pictures_fill_their_figure(half: tuple[float, float], columns: int, n: int, title: str) -> None:
    part = box(half)
    figure, _ = drawn(Pictures(title="All", columns=columns, pictures=(Picture(title, part),) * n, inches=2.0))
    shown = [ax.get_window_extent() for ax in figure.axes if ax.axison]
    inch = figure.dpi
    assert min(extent.width for extent in shown) > 1.85 * inch
    assert min(extent.y0 for extent in shown) < 0.15 * inch


def test_a_slow_machine_gets_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matplotlib.legend.time", SimpleNamespace(perf_counter=partial(next, count(0, 10))))
    drawn(lines(one([1.0, 2.0], label="a"), one([2.0, 1.0], label="b")))  # warnings are errors
