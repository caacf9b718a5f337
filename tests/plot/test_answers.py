"""Pictures of answers: markers stand where the answer says, and legends carry its numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text
from torch import Tensor, nn

import regionscope as rs
from regionscope import plot
from regionscope.errors import InputError
from regionscope.plot import style
from regionscope.plot.legends import spread
from regionscope_lab.zoo import mlp

NET = mlp([2, 8, 8, 3], seed=4)
SQUARE = rs.Box(torch.zeros(2), torch.eye(2), 4.0)
LINE = rs.Segment([-4.0, -3.0], [4.0, 2.0])


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_extremes_are_marked_where_they_are() -> None:
    part, line = rs.linear_regions(NET, SQUARE), rs.linear_regions(NET, LINE)
    extremes, on_line = part.extremes(1), line.extremes((0, 1))
    figure = plot.extremes_figure(part, extremes)
    fill, low, high = figure.axes[0].collections
    assert fill.get_array().tolist() == extremes.by_region.max.tolist()
    assert low.get_offsets().tolist() == [extremes.coords_of_min.tolist()]
    assert high.get_offsets().tolist() == [extremes.coords_of_max.tolist()]
    ends = [f"min = {extremes.min:.4g}", f"max = {extremes.max:.4g}"]
    assert texts(figure) == [text.replace("-", "\N{MINUS SIGN}") for text in ends]
    assert figure.axes[0].get_title() == "output 1"
    ax = plot.extremes_figure(line, on_line).axes[0]  # on the graph
    assert ax.lines[0].get_ydata().max() == on_line.max
    assert ax.get_title() == "output 0 minus output 1"
    assert ax.collections[1].get_offsets().tolist() == [[on_line.coords_of_max.item(), on_line.max]]


def test_the_steepest_region_is_marked() -> None:
    part = rs.linear_regions(NET, SQUARE)
    found = part.lipschitz()
    figure = plot.lipschitz_figure(part, found)
    fill, mark = figure.axes[0].collections
    assert fill.get_array().tolist() == found.by_region.tolist()
    assert mark.get_offsets().tolist() == [found.coords.tolist()]
    assert texts(figure) == [f"L = {found.value:.4g}"]
    line = rs.linear_regions(NET, LINE)
    assert plot.lipschitz_figure(line, line.lipschitz()).axes[0].get_title() == "norm 2 of the slope"
    stairs: Any = plot.lipschitz_figure(line, line.lipschitz(target=0)).axes[0].patches[0]
    assert stairs.get_data().values.max() == line.lipschitz(target=0).value


@pytest.mark.parametrize("named", [False, True])
def test_flips_are_dotted_lines_with_both_classes(named: bool) -> None:
    dec, flips = rs.decision_regions(NET, LINE), rs.flips(NET, LINE)
    names = [f"animal {i}" if named else str(i) for i in range(dec.n_classes)]
    ax = plot.flips_figure(dec, flips, class_names=names if named else None).axes[0]
    pairs = zip(flips.before.tolist(), flips.after.tolist(), strict=True)
    assert [text.get_text() for text in ax.texts] == [f"{names[a]}→{names[b]}" for a, b in pairs]
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    outputs = [f"output {i}{f' (animal {i})' if named else ''}" for i in sorted(set(dec.labels.tolist()))]
    assert legend == [*outputs, *(f"folds of {name}" for name in dec.partition.by_layer)]
    curves = [line for line in ax.lines if line.get_linestyle() == "-"]
    assert [line.get_color() for line in curves] == [style.hue(label) for label in sorted(set(dec.labels.tolist()))]
    dotted = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"]
    assert dotted == flips.coords.tolist()
    with pytest.raises(InputError, match="Expected decision regions on a line"):
        plot.flips_figure(rs.decision_regions(NET, SQUARE), flips)


class Zigzag(nn.Module):
    """Crosses zero 2^n times on [0, 1], at distances of 2^-n."""

    def __init__(self, n: int, width: float = 1.0) -> None:
        super().__init__()
        self.n, self.width = n, width

    def forward(self, x: Tensor) -> Tensor:
        y = (x - 0.5) / self.width
        for i in range(self.n):
            y = y.abs() - 0.5 ** (i + 2)
        return torch.cat([0 * x, y], 1)


@pytest.mark.parametrize(("n", "width", "upright"), [(3, 0.01, False), (4, 1.0, False), (5, 1.0, True)])
def test_the_classes_of_close_flips_do_not_overlap(n: int, width: float, upright: bool) -> None:
    line, net = rs.Segment([0.0], [1.0]), Zigzag(n, width)
    found = rs.flips(net, line)
    figure = plot.flips_figure(rs.decision_regions(net, line), found)
    figure.draw_without_rendering()
    texts: list[Any] = list(figure.axes[0].texts)
    assert len(texts) == len(found.coords) == 2**n
    assert [text.xy[0] for text in texts] == found.coords.tolist()
    assert {text.get_rotation() for text in texts} == {90.0 if upright else 0.0}
    boxes = [Text.get_window_extent(text) for text in texts]
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))
    assert all(box.y0 > figure.axes[0].bbox.y1 for box in boxes)


def test_more_flips_than_there_is_room_for_have_no_classes() -> None:
    line, net = rs.Segment([0.0], [1.0]), Zigzag(7)
    ax = plot.flips_figure(rs.decision_regions(net, line), rs.flips(net, line)).axes[0]
    assert not ax.texts
    assert sum(one.get_linestyle() == ":" for one in ax.lines) == 128


def test_names_are_spread_as_little_as_possible() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        wanted, wide = np.sort(generator.uniform(0, 30, 8)), generator.uniform(1, 4, 8)
        found = spread(wanted, wide, 1000.0)
        room = found[1:] - found[:-1] - (wide[1:] + wide[:-1]) / 2
        assert room.min() > -1e-9
        together = np.split(np.arange(8), np.flatnonzero(room > 1e-9) + 1)
        for group in together:  # the best shift of boxes that touch is none
            assert (found - wanted)[group].mean() == pytest.approx(0, abs=1e-9) or found[group[0]] == 0.0


def test_a_single_output_and_a_line_without_flips() -> None:
    net = mlp([2, 8, 1], seed=6)
    ax = plot.flips_figure(rs.decision_regions(net, LINE), rs.flips(net, LINE), class_names=["no", "yes"]).axes[0]
    (only,) = ax.get_legend().get_texts()
    assert only.get_text().startswith("folds of")
    assert ax.get_ylabel() == "output"
    assert {text.get_text() for text in ax.texts} & {"no→yes", "yes→no"}
    line = rs.Segment([0.0, 0.0], [1e-3, 0.0])
    dec, none = rs.decision_regions(NET, line), rs.flips(NET, line)
    assert len(none) == 0
    (label,) = dec.labels.tolist()
    for names, wanted in ((None, f"output {label}"), (["animal"] * 3, f"output {label} (animal)")):
        assert plot.flips_figure(dec, none, class_names=names).axes[0].get_ylabel() == wanted


def test_the_legend_of_the_topology_counts_components_and_holes() -> None:
    dec = rs.decision_regions(NET, SQUARE)
    topology, names = dec.topology(), [f"name {i}" for i in range(dec.n_classes)]
    for text, (label, row) in zip(texts(plot.topology_figure(dec, topology)), topology.items(), strict=True):
        assert text.startswith(f"class {label}: {row.components} component")
        assert "hole" in text
    shown = texts(plot.topology_figure(dec, topology, class_names=names))
    assert [text.split(":")[0] for text in shown] == [names[label] for label in topology]
    with pytest.raises(InputError, match="class names, got 1"):
        plot.topology_figure(dec, topology, class_names=["a"])
