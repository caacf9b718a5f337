"""The numbers on the axes of maps: inputs where the slice runs along their axes, slice coordinates elsewhere."""

from __future__ import annotations

import pytest
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

import regionscope as rs
from regionscope import plot
from regionscope.geometry import Slice
from regionscope.plot import style
from regionscope_lab.zoo import mlp

PLANE = [[1.0, 0.0], [0.0, 1.0]]


def shown(axis: Axis) -> dict[float, str]:
    """The label at each tick that is within the axes."""
    low, high = sorted(axis.get_view_interval())
    ticks = [float(tick) for tick in axis.get_majorticklocs()]
    labels = [text.replace("\N{MINUS SIGN}", "-") for text in axis.get_major_formatter().format_ticks(ticks)]
    slack = 1e-9 * (high - low)
    return {t: text for t, text in zip(ticks, labels, strict=True) if low - slack <= t <= high + slack}


def drawn(where: Slice, *, inputs: int = 2, before: bool = False, after: bool = False) -> Axes:
    ax = Figure().add_subplot()
    if before:
        style.map_axes([ax])
    plot.linear_regions(rs.linear_regions(mlp([inputs, 6, 2], seed=0), where), ax=ax)
    if after:
        style.map_axes([ax])
    return ax


@pytest.mark.parametrize(("before", "after"), [(False, False), (True, False), (False, True)])
def test_a_box_shows_inputs_wherever_its_centre_is(before: bool, after: bool) -> None:
    ax = drawn(rs.Box([1.0, 10.0], PLANE, [1.0, 2.0]), before=before, after=after)
    assert ax.get_xlim() == (-1.0, 1.0)  # what is drawn stays where it is
    assert ax.get_ylim() == (-2.0, 2.0)
    assert shown(ax.xaxis) == {-1.0: "0.0", -0.5: "0.5", 0.0: "1.0", 0.5: "1.5", 1.0: "2.0"}
    assert shown(ax.yaxis) == {-2.0: "8", -1.0: "9", 0.0: "10", 1.0: "11", 2.0: "12"}


def test_directions_of_any_length_and_sign() -> None:
    ax = drawn(rs.Box([0.5, -0.5], [[-0.5, 0.0], [0.0, 4.0]], 1.0))
    assert list(shown(ax.xaxis).values()) == ["1.0", "0.5", "0.0"]
    for at, text in shown(ax.xaxis).items():
        assert float(text) == pytest.approx(0.5 - 0.5 * at)
    for at, text in shown(ax.yaxis).items():
        assert float(text) == pytest.approx(-0.5 + 4.0 * at)


def test_close_to_a_point_far_out_the_digits_suffice() -> None:
    ax = drawn(rs.Box([1234.5, -0.25], PLANE, 2e-5))
    for axis, centre in ((ax.xaxis, 1234.5), (ax.yaxis, -0.25)):
        labels = shown(axis)
        assert len(labels) > 2
        for at, text in labels.items():
            assert float(text) == pytest.approx(centre + at, rel=0, abs=1e-7)


@pytest.mark.parametrize(
    ("centre", "radius", "wanted"),
    [
        (0.0, 2e6, ["-2e+06", "-1e+06", "0", "1e+06", "2e+06"]),
        (5e5, 5e5, ["0", "5e+05", "1.0e+06"]),
        (0.0, 2e-4, ["-2e-04", "-1e-04", "0", "1e-04", "2e-04"]),
        (10000.0, 10000.0, ["0", "5000", "10000", "15000", "20000"]),
    ],
)
def test_one_axis_has_one_format(centre: float, radius: float, wanted: list[str]) -> None:
    ax = drawn(rs.Box([centre, 1.0], [[2.0, 0.0], [0.0, 2.0]], [radius / 2, 1.0]))
    assert list(shown(ax.xaxis).values()) == wanted


def test_axes_say_what_they_show() -> None:
    ax = drawn(rs.Box([1.0, 10.0], PLANE, 1.0), after=True)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("input 0", "input 1")
    oblique = drawn(rs.Box([1.0, 1.0], [[1.0, 1.0], [1.0, -1.0]], 1.0))
    assert (oblique.get_xlabel(), oblique.get_ylabel()) == ("slice coordinate 1", "slice coordinate 2")
    assert drawn(rs.Segment([0.0, 0.0], [4.0, 0.0])).get_xlabel() == "position on the slice"
    line = drawn(rs.Segment([-1.0], [3.0]), inputs=1, after=True)
    assert shown(line.xaxis) == {0.0: "-1", 0.25: "0", 0.5: "1", 0.75: "2", 1.0: "3"}
    assert len(line.get_yticks()) == 0
    style.map_axes([ax], ticks=False)
    plot.points(rs.Box([1.0, 10.0], PLANE, 1.0), [[1.0, 10.0]], ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel(), len(ax.get_xticks())) == ("", "", 0)
    ax = Figure().add_subplot(xlabel="distance")
    plot.points(rs.Box([1.0, 10.0], PLANE, 1.0), [[1.0, 10.0]], ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("distance", "input 1")


@pytest.mark.parametrize(
    "where",
    [
        rs.Box([1.0, 1.0], [[1.0, 1.0], [1.0, -1.0]], 1.0),  # oblique
        rs.Box([1.0, 1.0], [[0.0, 1.0], [1.0, 0.0]], 1.0),  # the second input to the right
        rs.Segment([0.0, 0.0], [4.0, 0.0]),  # a line in a plane
    ],
)
def test_other_slices_show_their_own_coordinates(where: Slice) -> None:
    for at, text in shown(drawn(where, after=True).xaxis).items():
        assert float(text) == pytest.approx(at)


@pytest.mark.parametrize(
    ("top", "labels"),
    [
        (8_000, {0: "0", 2_000: "2000", 8_000: "8000"}),
        (12_000, {0: "0", 6_000: "6,000", 12_000: "12,000"}),
        (350_000, {0: "0", 50_000: "50,000", 350_000: "350,000"}),
        (-350_000, {0: "0", -350_000: "-350,000"}),
        (0.8, {0.0: "0.0", 0.8: "0.8"}),
    ],
)
def test_large_numbers_on_charts_are_in_groups_of_digits(top: float, labels: dict[float, str]) -> None:
    ax = Figure().add_subplot()
    ax.set_ylim(*sorted((0, top)))
    style.plain_axes([ax])
    found = shown(ax.yaxis)
    assert {tick: found[tick] for tick in labels} == labels
    ax.set_yticks([0, 50_000], ["none", "many"])
    style.plain_axes([ax])
    assert list(shown(ax.yaxis).values()) == ["none", "many"]  # labels that someone chose stay
