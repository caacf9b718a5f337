"""Figures of items: what is drawn is what the finding has."""

from __future__ import annotations

import pytest

from regionscope_lab.papers.figures import Figure, Series, draw, side_by_side


def test_curves_of_one_label_share_a_colour_and_one_line_of_the_legend() -> None:
    series = [Series("a", (1, 2), (3.0, 4.0)), Series("a", (1, 2), (5.0, 6.0)), Series("b", (1, 2), (0.0, 1.0))]
    drawing = draw(Figure(title="a title", x_label="step", y_label="count", series=series, log_x=True))
    (ax,) = drawing.axes
    assert [line.get_ydata().tolist() for line in ax.lines] == [[3.0, 4.0], [5.0, 6.0], [0.0, 1.0]]
    first, second, third = (line.get_color() for line in ax.lines)
    assert first == second != third
    assert (ax.get_xscale(), ax.get_xlabel(), ax.get_ylabel()) == ("symlog", "step", "count")
    legends = [*drawing.legends, *([ax.get_legend()] if ax.get_legend() else [])]
    assert [text.get_text() for legend in legends for text in legend.get_texts()] == ["a", "b"]


def test_intervals_stand_beside_each_other_at_the_place_of_their_name() -> None:
    bars = [Series(name, (0, 1), (y, y), [(y - 0.2, y + 0.1)] * 2) for name, y in (("a", 0.5), ("b", 0.7))]
    (ax,) = draw(side_by_side("a title", "r", ("regions", "margin"), bars)).axes
    assert [text.get_text() for text in ax.get_xticklabels()] == ["regions", "margin"]
    left, right = (line.get_xdata()[0] for line in ax.lines)
    assert left < 0 < right
    assert ax.collections[0].get_paths()[0].vertices.tolist() == [
        [pytest.approx(left), pytest.approx(0.3)],
        [pytest.approx(left), pytest.approx(0.6)],
    ]
