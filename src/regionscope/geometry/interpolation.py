"""New vertices as convex combinations of old ones, applied to any array that has a row for every vertex."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import scipy  # its parts are imported when they are used: that takes a tenth of the time that torch takes
import torch
from torch import Tensor

from regionscope.geometry import arrays as xp
from regionscope.geometry.ragged import gather_rows, offsets_of

_TERMS = (1, 2, 4, 3)
"""Old vertices in the interpolation of: an old vertex, a point inside an edge, a crossing, a triple point."""
_SMALL = 1 << 16  # numbers in a result below which a matrix does not pay
_LARGE = 1 << 18  # numbers in a result from which the threads of MKL pay


@dataclass(frozen=True)
class Interpolation:
    """How new vertices arise from old ones, in two stages, each ``(1 - t) * first + t * second``.

    n_old: number of old vertices; they come first and stay as they are.
    a, b, t: (p,) points inside edges, of old vertices a and b; numbered after the old ones.
    c, d, s: (x,) crossings of chords, of old vertices or points c and d; numbered after the points.
    triple_points, weights: (h, 3) points inside a cell, of three old vertices each; numbered last.
    """

    n_old: int
    a: Tensor
    b: Tensor
    t: Tensor
    c: Tensor
    d: Tensor
    s: Tensor
    triple_points: Tensor
    weights: Tensor

    @staticmethod
    def of_points(n_old: int, a: Tensor, b: Tensor, t: Tensor) -> Interpolation:
        """Only points inside edges."""
        none = xp.full((0, 3), 0, a)
        return Interpolation(n_old, a, b, t, a[:0], a[:0], t[:0], none, xp.double(none))

    @property
    def n_vertices(self) -> int:
        return self.n_old + len(self.a) + len(self.c) + len(self.triple_points)

    def copy_first(self, labels: Tensor) -> Tensor:
        """Labels of all vertices when a new vertex takes that of its first ancestor (for labels constant on a
        slice).
        """
        with_points = xp.cat([labels, xp.take(labels, self.a)])
        return xp.cat([with_points, xp.take(with_points, self.c), xp.take(labels, self.triple_points[:, 0])])

    def apply(self, rows: Tensor, vertices: Tensor | None = None) -> Tensor:
        """Rows (w, ...) of the wanted vertices (all by default) from the rows (n_old, ...) of the old ones."""
        return self.apply_all([rows])[0] if vertices is None else self.matrix().of(vertices).apply(rows)

    def apply_all(self, arrays: Sequence[Tensor]) -> list[Tensor]:
        """For arrays with rows (n_old, ...) of the old vertices those of all vertices.

        A few numbers take up to half the time in two stages that they take with a matrix, and need no SciPy.
        """
        small = [self.n_vertices * math.prod(rows.shape[1:]) < _SMALL for rows in arrays]
        matrix = None if all(small) else self.matrix()
        return [
            xp.as_tensors(self._in_stages(xp.numpy_on_cpu(rows))) if matrix is None or few else matrix.apply(rows)
            for rows, few in zip(arrays, small, strict=True)
        ]

    def _in_stages(self, old: Tensor) -> Tensor:
        """Rows of all vertices; as NumPy arrays or tensors, with the same bits."""
        weights = xp.numpy_on_cpu(self)
        size = (self.n_vertices, *old.shape[1:])
        out: Tensor = xp.numpy.empty(size, old.dtype) if isinstance(old, np.ndarray) else old.new_empty(size)
        out[: self.n_old] = old
        start, shape = self.n_old, (-1, *[1] * (old.ndim - 1))
        for first, second, t in ((weights.a, weights.b, weights.t), (weights.c, weights.d, weights.s)):
            if len(first):
                t, new = t.reshape(shape), out[start : start + len(first)]
                new[:] = xp.take(out, first) * (1 - t)
                new += xp.take(out, second) * t
                start += len(first)
        for i in range(3 if len(weights.triple_points) else 0):
            term = xp.take(old, weights.triple_points[:, i]) * weights.weights[:, i].reshape(shape)
            out[start:] = term if i == 0 else out[start:] + term
        return out

    def matrix(self) -> InterpolationMatrix:
        """The interpolation of all vertices as a sparse matrix, for use on several arrays."""
        arrays = xp.numpy_on_cpu(self)
        old = xp.arange(self.n_old, arrays.a)
        columns = [old, xp.stack(arrays.a, arrays.b).reshape(-1)]
        weights = [xp.double(xp.full(self.n_old, 1, arrays.a)), xp.stack(1 - arrays.t, arrays.t).reshape(-1)]
        if len(self.c):  # the ends of a chord as two old vertices each
            first, second = xp.cat([old, arrays.a]), xp.cat([old, arrays.b])
            t = xp.cat([xp.double(xp.full(self.n_old, 0, arrays.a)), arrays.t])
            at_c, at_d = xp.take(t, arrays.c), xp.take(t, arrays.d)
            ends = (
                xp.take(first, arrays.c),
                xp.take(second, arrays.c),
                xp.take(first, arrays.d),
                xp.take(second, arrays.d),
            )
            shares = (1 - arrays.s) * (1 - at_c), (1 - arrays.s) * at_c, arrays.s * (1 - at_d), arrays.s * at_d
            columns.append(xp.stack(*ends).reshape(-1))
            weights.append(xp.stack(*shares).reshape(-1))
        columns.append(arrays.triple_points.reshape(-1))
        weights.append(arrays.weights.reshape(-1))
        counts = xp.array([self.n_old, len(self.a), len(self.c), len(self.triple_points)], arrays.a)
        start = offsets_of(xp.repeat(xp.array(_TERMS, arrays.a), counts, self.n_vertices))
        return InterpolationMatrix(start, xp.cat(columns), xp.cat(weights), self.n_old)


@dataclass(frozen=True)
class InterpolationMatrix:
    """Rows of weights on old vertices: row i has ``weights`` on ``columns`` from ``start[i]`` to ``start[i + 1]``."""

    start: Tensor
    columns: Tensor
    weights: Tensor
    n_old: int

    def of(self, vertices: Tensor) -> InterpolationMatrix:
        """The rows of the wanted vertices."""
        index, start = gather_rows(self.start, xp.numpy_on_cpu(vertices))
        return InterpolationMatrix(start, xp.take(self.columns, index), xp.take(self.weights, index), self.n_old)

    def apply(self, rows: Tensor) -> Tensor:
        """The interpolated rows (w, ...); one pass over memory."""
        flat = rows if rows.ndim == 2 else rows.reshape(len(rows), -1)
        n = len(self.start) - 1
        if flat.device.type != "cpu" or (n * flat.shape[1] >= _LARGE and torch.backends.mkl.is_available()):
            out = self._product(flat, n)
        else:
            out = torch.from_numpy(self._csr @ flat.numpy()).to(flat.dtype)
        return out if rows.ndim == 2 else out.view(-1, *rows.shape[1:])

    @cached_property
    def _csr(self) -> Any:
        return scipy.sparse.csr_array((self.weights, self.columns, self.start), shape=(len(self.start) - 1, self.n_old))

    def _product(self, flat: Tensor, n: int) -> Tensor:
        if self.n_old < max(_TERMS):  # rows of nothing: cuSPARSE refuses a matrix with more entries than places
            flat = torch.nn.functional.pad(flat, (0, 0, 0, max(_TERMS) - self.n_old))
        tensors = xp.as_tensors(self)
        skip_csr_warning()
        matrix = torch.sparse_csr_tensor(
            tensors.start, tensors.columns, tensors.weights.to(flat.dtype), (n, len(flat)), device=flat.device,
            check_invariants=False,
        )  # fmt: skip
        out = flat.new_empty((n, flat.shape[1]))
        if out.numel():
            torch.addmm(out, matrix, flat, beta=0, out=out)
        return out


@dataclass(frozen=True)
class OnEdges:
    """Rows of vertices ``(1 - t) * a + t * b``, for a, b (w,) of the ``n_old`` old vertices."""

    a: Tensor
    b: Tensor
    t: Tensor
    n_old: int

    def apply(self, rows: Tensor) -> Tensor:
        """The interpolated rows (w, ...)."""
        if not rows.is_cpu or len(self.a) * rows[:1].numel() >= _LARGE:
            return self._matrix.apply(rows)
        old, new = xp.numpy_on_cpu(rows), xp.nonzero(self.t)
        values = xp.take(old, self.a)
        t = xp.take(self.t, new).reshape(-1, *[1] * (rows.ndim - 1))
        first, second = xp.take(values, new), xp.take(old, xp.take(self.b, new))
        first *= 1 - t
        second *= t
        first += second
        values[new] = first
        return xp.as_tensors(values)

    @cached_property
    def _matrix(self) -> InterpolationMatrix:
        columns, weights = xp.stack(self.a, self.b).reshape(-1), xp.stack(1 - self.t, self.t).reshape(-1)
        return InterpolationMatrix(2 * xp.arange(len(self.a) + 1, self.a), columns, weights, self.n_old)


_csr_warning_lock = threading.Lock()


def skip_csr_warning() -> None:
    """Take the warning that CSR tensors are in beta state, which torch raises once in a process; what we use is stable.

    Not around each use: the filters of warnings belong to the whole process, and threads would mix them up.
    """
    with _csr_warning_lock:
        _raise_csr_warning()


@cache
def _raise_csr_warning() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse ")
        start, column, weight = torch.tensor([[0, 1], [0, 0], [1, 1]], device="cpu")
        torch.sparse_csr_tensor(start, column[:1], weight[:1], (1, 1), check_invariants=False)
