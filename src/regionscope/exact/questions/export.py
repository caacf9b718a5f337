"""Regions in the words of other libraries: a graph, GeoJSON, SVG paths, a pandas table.

Coordinates are those of the slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from regionscope.errors import InputError
from regionscope.extras import import_extra
from regionscope.types import Array

Columns = Mapping[str, Array]


def dual_graph(n: int, pairs: Array) -> Any:
    """A symmetric ``scipy.sparse.csr_array`` (n, n) of int8: 1 where two regions share a wall."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    graph = csr_array((np.ones(len(both), dtype=np.int8), (both[:, 0], both[:, 1])), shape=(n, n))
    graph.sum_duplicates()
    graph.data[:] = 1
    return graph


def networkx_graph(nodes: Columns, pairs: Array, edges: Mapping[str, Sequence[Any]]) -> Any:
    """A ``networkx.Graph`` with the columns of ``nodes`` and of ``edges`` as attributes."""
    networkx = import_extra("networkx", who="to_networkx needs", library="networkx", extra="graph")
    graph = networkx.Graph()
    names = list(nodes)
    rows = zip(*(nodes[name].tolist() for name in names), strict=True)
    graph.add_nodes_from((i, dict(zip(names, row, strict=True))) for i, row in enumerate(rows))
    names = list(edges)
    rows = zip(*(edges[name] for name in names), strict=True)
    graph.add_edges_from(
        (i, j, dict(zip(names, row, strict=True))) for (i, j), row in zip(pairs.tolist(), rows, strict=True)
    )
    return graph


def geojson(polygons: Sequence[Array], columns: Columns) -> dict[str, Any]:
    """A FeatureCollection (RFC 7946) with a Polygon for each region and the columns as its properties.

    Rings are closed and counter-clockwise. The coordinates are not longitudes and latitudes.
    """
    _planar(polygons, "GeoJSON")
    names, rows = list(columns), _rows(columns)
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "id": i,
                "geometry": {"type": "Polygon", "coordinates": [[*ring.tolist(), ring[0].tolist()]]},
                "properties": dict(zip(names, row, strict=True)),
            }
            for i, (ring, row) in enumerate(zip(polygons, rows, strict=True))
        ],
    }


def svg_paths(polygons: Sequence[Array]) -> list[str]:
    """The ``d`` attribute of an SVG path for each region; the second coordinate is negated, since it points down there.

    >>> svg_paths([np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.5]])])
    ['M0.0,0.0L1.0,0.0L0.0,-0.5Z']
    """
    _planar(polygons, "SVG paths")
    return [f"M{'L'.join(f'{x},{0.0 - y}' for x, y in ring.tolist())}Z" for ring in polygons]


def pandas_table(polygons: Sequence[Array], columns: Columns) -> Any:
    """A ``pandas.DataFrame`` with a row for each region: the columns, and ``corners``, an array (m, k)."""
    pandas = import_extra("pandas", who="polygon_table needs", library="pandas", extra="notebook")
    return pandas.DataFrame({**columns, "corners": pandas.Series(list(polygons), dtype=object)})


def _rows(columns: Columns) -> list[tuple[Any, ...]]:
    return list(zip(*(values.tolist() for values in columns.values()), strict=True))


def _planar(polygons: Sequence[Array], what: str) -> None:
    if polygons and polygons[0].shape[1] != 2:
        raise InputError(
            f"Expected a slice of dimension 2 for {what}, got dimension {polygons[0].shape[1]}. "
            "Use a plane, such as a Box of two axes."
        )
