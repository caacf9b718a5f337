"""Graphs and polygons for other libraries."""

from __future__ import annotations

import json
import re

import numpy as np
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
def test_networkx_knows_sizes_and_layers() -> None:
    networkx = pytest.importorskip("networkx")
    graph = PART.to_networkx()
    assert graph.number_of_nodes() == len(PART)
    assert graph.number_of_edges() == len(PART.neighbours)
    assert sum(size for _, size in graph.nodes(data="size")) == pytest.approx(64.0)
    assert {layer for _, _, layer in graph.edges(data="layer")} <= set(PART.by_layer)
    assert networkx.is_connected(graph)
    cut = {layer for _, _, layer in DEC.partition.to_networkx().edges(data="layer")}
    assert "decision" in cut


def test_geojson_closes_its_rings_and_survives_json() -> None:
    found = json.loads(json.dumps(DEC.to_geojson()))
    assert found["type"] == "FeatureCollection"
    area = 0.0
    for feature, label in zip(found["features"], DEC.piece_labels.tolist(), strict=True):
        (ring,) = feature["geometry"]["coordinates"]
        assert ring[0] == ring[-1]
        x, y = np.array(ring).T
        own = float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum() / 2)
        assert own > 0  # counter-clockwise
        area += own
        assert feature["properties"]["label"] == label
        assert set(feature["properties"]) == {"size", "linear_region", "decision_region", "label"}
    assert area == pytest.approx(64.0)
    assert set(PART.to_geojson()["features"][0]["properties"]) == {"size", "linear_region"}


def test_svg_paths_hold_the_corners() -> None:
    paths = PART.svg_paths()
    assert len(paths) == len(PART)
    for path, polygon in zip(paths, PART.polygons(), strict=True):
        assert re.fullmatch(r"M[^ML Z]+(L[^MLZ ]+)*Z", path)
        numbers = np.array([point.split(",") for point in path[1:-1].split("L")], dtype=float)
        np.testing.assert_array_equal(numbers * [1, -1], polygon)
    assert DEC.svg_paths() == DEC.partition.svg_paths()
    assert len(DEC.svg_paths()) == len(DEC.piece_labels)


def test_polygons_need_a_plane() -> None:
    line = rs.linear_regions(NET, rs.Segment([-1.0, -1.0], [1.0, 0.5]))
    with pytest.raises(InputError, match="a slice of dimension 2 for GeoJSON, got dimension 1"):
        line.to_geojson()
    with pytest.raises(InputError, match="a slice of dimension 2 for SVG paths, got dimension 1"):
        line.svg_paths()


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
