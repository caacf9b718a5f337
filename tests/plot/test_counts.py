"""Pictures of counts are checked by their bars, cells and colours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import regionscope as rs
from regionscope.errors import InputError
from regionscope.formatting import counted, estimated
from regionscope.plot import style
from regionscope.plot.counts import count_figure, count_histogram, label_map
from regionscope.sampled.grid import LabelMap, label_maps
from regionscope.sampled.labels import open_labeller
from regionscope_lab.zoo import mlp

DATA = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)) * 3
NET = mlp([3, 12, 3], seed=1)


def maps(dim: int, grid: int) -> list[LabelMap]:
    slices = [rs.sampled.Hulls(DATA, dim=dim).draw(i) for i in range(2)]
    with open_labeller(NET, DATA, (3,)) as labeller:
        return label_maps(labeller, slices, grid)


def test_bars_are_the_counts() -> None:
    result = rs.region_count(NET, DATA, slices=30)
    ax = Figure().add_subplot()
    bars = count_histogram(result, ax=ax)
    found = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in bars}
    assert found == {int(n): int((result.counts == n).sum()) for n in result.counts.unique()}
    result = replace(result, counts=torch.tensor([1] * 33 + [2] * 56 + [3] * 10 + [4]))
    ax = Figure().add_subplot()
    count_histogram(result, ax=ax)
    assert ax.get_yticks().tolist() == [0, 10, 20, 30, 40, 50, 60]  # at round numbers
    assert [tick for tick in ax.get_xticks() if 1 <= tick <= 4] == [1, 2, 3, 4]


@pytest.mark.parametrize(("dim", "grid"), [(1, 9), (2, 6)])
def test_cells_stand_at_the_points_in_the_colour_of_their_label(dim: int, grid: int) -> None:
    found = maps(dim, grid)[0]
    ax = Figure().add_subplot()
    cells = label_map(found, ax=ax, class_names=list("abcdefghij"))
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown == ["abcdefghij"[label] for label in found.labels.unique().tolist()]
    centres = np.array([path.vertices[:4].mean(0) for path in cells.get_paths()])
    assert np.allclose(centres[:, :dim], found.coords.numpy())
    assert np.allclose(cells.get_facecolor()[:, :3], style.class_colours(found.labels, pale=True))
    assert np.allclose([np.ptp(path.vertices[:, 0]) for path in cells.get_paths()], 1 / (grid - 1))
    assert ax.get_xlim() == (0.0, 1.0)


def test_a_figure_has_the_histogram_and_the_examples() -> None:
    examples = maps(2, 8)
    figure = count_figure(rs.region_count(NET, DATA, dim=2, slices=5), examples)
    assert len(figure.axes) == 3
    assert "5 slices" in figure.axes[0].get_title()
    shown = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert shown == ["mean", "95% interval of the mean"]
    for i, (ax, found) in enumerate(zip(figure.axes[1:], examples, strict=True)):
        assert ax.get_title() == f"example slice {i}: {counted(found.count, 'region')}"
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("slice coordinate 1", "slice coordinate 2")
        names = [text.get_text() for text in ax.get_legend().get_texts()]
        assert names == [f"class {label}" for label in found.labels.unique().tolist()]
    result = rs.region_count(NET, DATA, dim=2, slices=5)
    _, ax, _ = count_figure(result, examples, class_names=["cat", "dog", "fox"]).axes
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == [["cat", "dog", "fox"][label] for label in examples[0].labels.unique().tolist()]


def test_several_counts_stand_beside_each_other() -> None:
    one, two = rs.region_count(NET, DATA, slices=30), rs.region_count(NET, DATA * 3, slices=20)
    (ax,) = count_figure({"near": one, "far": two}).axes
    entries = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [entry.split(":")[0] for entry in entries] == ["near", "far"]
    assert estimated(two.value, two.stderr) in entries[1]
    near, far = ax.containers
    for bars, found in ((near, one), (far, two)):
        share = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in bars if bar.get_height()}
        assert share == pytest.approx({int(n): float((found.counts == n).double().mean()) for n in found.counts})
    assert all(a.get_x() + a.get_width() == pytest.approx(b.get_x()) for a, b in zip(near, far, strict=True))
    assert [line.get_xdata()[0] for line in ax.lines] == [one.value, two.value]


def test_many_numbers_of_regions_share_bars_and_a_list_is_numbered() -> None:
    one = replace(rs.region_count(NET, DATA, slices=4), counts=torch.tensor([1, 50, 90, 100]))
    (ax,) = count_figure([one, one]).axes
    first, second = ax.containers
    assert len(first) == len(second) == 20
    assert sum(bar.get_height() for bar in first) == pytest.approx(1)
    assert ax.get_legend().get_texts()[1].get_text().startswith("count 1: mean")


def test_three_dimensions_are_refused() -> None:
    with pytest.raises(InputError, match="dimension 1 or 2"):
        label_map(maps(3, 4)[0], ax=Figure().add_subplot())


def test_the_axis_says_which_regions_were_counted() -> None:
    decision = rs.region_count(NET, DATA, slices=8)
    linear = rs.measures.linear_region_count(NET, DATA, slices=8)
    folds = rs.measures.linear_region_count(NET, DATA, slices=8, pieces="activation")
    wanted = ((decision, ""), (linear, "linear "), (folds, "activation "))
    for found, kind in wanted:
        assert count_figure(found).axes[0].get_xlabel() == f"{kind}regions on a slice"
    assert count_figure([linear, linear]).axes[0].get_xlabel() == "linear regions on a slice"
    assert count_figure([decision, linear]).axes[0].get_xlabel() == "regions on a slice"
    assert "pieces='linear'" in repr(linear)
    single, large = (replace(decision, counts=torch.tensor(counts)) for counts in ([4], [12000, 15000]))
    assert count_figure(single).axes[0].get_title() == "4 regions, 1 slice"
    assert "RegionCount(13500 ± 1500, 95% [12000, 15000]" in repr(large)
    with pytest.raises(InputError, match="at least one RegionCount"):
        count_figure([])
