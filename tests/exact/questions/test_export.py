"""Graphs and tables for other libraries."""

from __future__ import annotations

import pytest
import torch
from scipy.sparse.csgraph import connected_components

import regionscope as rs
from regionscope.errors import InputError
from small_slices import mlp

SQUARE = rs.Box(torch.zeros(2), torch.eye(2), 4.0)
NET = mlp(2, 10, 10, 3, seed=4)
PART, DEC = rs.linear_regions(NET, SQUARE), rs.decision_regions(NET, SQUARE)


def test_the_dual_graph_has_an_edge_for_each_pair_of_neighbours() -> None:
    graph = PART.graph()
    assert graph.shape == (len(PART), len(PART))
    assert graph.nnz == 2 * len(PART.neighbours)
    assert set(graph.data.tolist()) == {1}
    assert (graph != graph.T).nnz == 0
    assert {tuple(sorted(pair)) for pair in zip(*graph.nonzero(), strict=True)} == {
        tuple(sorted(pair)) for pair in PART.neighbours.tolist()
    }
    assert connected_components(graph)[0] == 1


def test_a_path_on_a_line() -> None:
    line = rs.linear_regions(NET, rs.Segment([-1.0, -1.0], [1.0, 0.5]))
    degrees = line.graph().sum(0)
    assert sorted(degrees.tolist()) == [1, 1] + [2] * (len(line) - 2)
    assert rs.linear_regions(NET, rs.Segment([0.0, 0.0], [1e-6, 0.0])).graph().shape == (1, 1)


@pytest.mark.slow
def test_pandas_has_a_row_for_each_region() -> None:
    pytest.importorskip("pandas", reason="the extra 'notebook' is not installed")
    table = DEC.polygon_table()
    assert list(table.columns) == ["size", "linear_region", "decision_region", "label", "corners"]
    assert len(table) == len(DEC.partition)
    assert table.groupby("label")["size"].sum().to_dict() == pytest.approx(DEC.volumes())
    assert table.corners[0].shape[1] == 2
    assert list(PART.polygon_table().columns) == ["size", "linear_region", "corners"]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(InputError, match=r"polygon_table needs pandas, .* pip install 'regionscope\[notebook\]'"):
        PART.polygon_table()
