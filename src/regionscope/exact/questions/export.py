"""Regions in the words of other libraries: a sparse matrix for graph algorithms, and a pandas table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy

from regionscope.extras import import_extra
from regionscope.types import Array

Columns = Mapping[str, Array]


def dual_graph(n: int, pairs: Array) -> Any:
    """A symmetric ``scipy.sparse.csr_array`` (n, n) of int8: 1 where two regions share a wall."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    graph = scipy.sparse.csr_array((np.ones(len(both), dtype=np.int8), (both[:, 0], both[:, 1])), shape=(n, n))
    graph.sum_duplicates()
    graph.data[:] = 1
    return graph


def pandas_table(polygons: Sequence[Array], columns: Columns) -> Any:
    """A ``pandas.DataFrame`` with a row for each region: the columns, and ``corners``, an array (m, k)."""
    pandas = import_extra("pandas", who="polygon_table needs", library="pandas", extra="notebook")
    return pandas.DataFrame({**columns, "corners": pandas.Series(list(polygons), dtype=object)})
