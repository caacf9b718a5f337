"""New vertices as convex combinations of old ones, applied to any array that has a row for every vertex."""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from regionscope.geometry.ragged import offsets_of

__all__ = ["Interpolation"]

_TERMS = (1, 2, 4, 3)
"""Old vertices in the interpolation of: an old vertex, a point inside an edge, a crossing, a triple point."""


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
        return Interpolation(n_old, a, b, t, a[:0], a[:0], t[:0], a.new_empty((0, 3)), t.new_empty((0, 3)))

    @property
    def n_vertices(self) -> int:
        return self.n_old + len(self.a) + len(self.c) + len(self.triple_points)

    def copy_first(self, labels: Tensor) -> Tensor:
        """Labels of all vertices when a new vertex takes that of its first ancestor (for labels constant on a
        slice).
        """
        with_points = torch.cat([labels, labels[self.a]])
        return torch.cat([with_points, with_points[self.c], labels[self.triple_points[:, 0]]])

    def apply(self, rows: Tensor, vertices: Tensor | None = None) -> Tensor:
        """Rows (w, ...) of the wanted vertices (all by default) from the rows (n_old, ...) of the old ones."""
        return self.matrix(vertices).apply(rows)

    def matrix(self, vertices: Tensor | None = None) -> InterpolationMatrix:
        """The interpolation of the wanted vertices (all by default) as a sparse matrix, for use on several arrays."""
        if vertices is None:
            vertices = torch.arange(self.n_vertices, device=self.a.device)
        first_point, first_crossing = self.n_old, self.n_old + len(self.a)
        first_triple = first_crossing + len(self.c)
        bounds = torch.tensor([first_point, first_crossing, first_triple], device=vertices.device)
        kind = torch.bucketize(vertices, bounds, right=True)
        counts = torch.tensor(_TERMS, device=vertices.device)[kind]
        start = offsets_of(counts)
        columns = torch.empty(int(start[-1]), dtype=torch.int64, device=vertices.device)
        weights = torch.empty(len(columns), dtype=torch.float64, device=vertices.device)
        for k, terms in enumerate((self._olds, self._points, self._crossings, self._triple_points)):
            mine = (kind == k).nonzero()[:, 0]
            if len(mine):
                column, weight = terms(vertices[mine])
                place = start[mine][:, None] + torch.arange(column.shape[1], device=mine.device)
                columns[place], weights[place] = column, weight
        return InterpolationMatrix(start, columns, weights, self.n_old)

    def _olds(self, vertices: Tensor) -> tuple[Tensor, Tensor]:
        return vertices[:, None], torch.ones((len(vertices), 1), dtype=torch.float64, device=vertices.device)

    def _points(self, vertices: Tensor) -> tuple[Tensor, Tensor]:
        i = vertices - self.n_old
        return torch.stack([self.a[i], self.b[i]], 1), torch.stack([1 - self.t[i], self.t[i]], 1)

    def _crossings(self, vertices: Tensor) -> tuple[Tensor, Tensor]:
        i = vertices - self.n_old - len(self.a)
        columns, weights = [], []
        for end, share in ((self.c[i], 1 - self.s[i]), (self.d[i], self.s[i])):
            old = end < self.n_old
            point = (end - self.n_old).clamp(min=0)
            if len(self.a) == 0:
                columns += [end, end]
                weights += [share, torch.zeros_like(share)]
                continue
            t = torch.where(old, 0.0, self.t[point])
            columns += [torch.where(old, end, self.a[point]), torch.where(old, end, self.b[point])]
            weights += [share * (1 - t), share * t]
        return torch.stack(columns, 1), torch.stack(weights, 1)

    def _triple_points(self, vertices: Tensor) -> tuple[Tensor, Tensor]:
        i = vertices - self.n_old - len(self.a) - len(self.c)
        return self.triple_points[i], self.weights[i]


@dataclass(frozen=True)
class InterpolationMatrix:
    """Rows of weights on old vertices: row i has ``weights`` on ``columns`` from ``start[i]`` to ``start[i + 1]``."""

    start: Tensor
    columns: Tensor
    weights: Tensor
    n_old: int

    def apply(self, rows: Tensor) -> Tensor:
        """The interpolated rows (w, ...); one pass over memory."""
        flat = rows.reshape(len(rows), -1)
        if self.n_old < max(_TERMS):  # rows of nothing: cuSPARSE refuses a matrix with more entries than places
            flat = torch.nn.functional.pad(flat, (0, 0, 0, max(_TERMS) - self.n_old))
        shape, weights = (len(self.start) - 1, len(flat)), self.weights.to(flat.dtype)
        kind: dict[str, Any] = {"device": flat.device, "check_invariants": False}
        if flat.is_cuda or torch.backends.mkl.is_available():
            _silence_beta()
            matrix = torch.sparse_csr_tensor(self.start, self.columns, weights, shape, **kind)
        else:
            row = torch.repeat_interleave(self.start.diff())
            index = torch.stack([row, self.columns])
            matrix = torch.sparse_coo_tensor(index, weights, shape, **kind)
        out = flat.new_empty((shape[0], flat.shape[1]))
        if out.numel():
            torch.addmm(out, matrix, flat, beta=0, out=out)
        return out.view(-1, *rows.shape[1:])


_silencing = threading.Lock()


def _silence_beta() -> None:
    """Torch says once in a process that its CSR format is beta; what is used of it here is stable.

    Not around each use: the filters of warnings belong to the whole process, and threads would mix them up.
    """
    with _silencing:
        _say_beta()


@cache
def _say_beta() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse ")
        start, column, weight = torch.tensor([[0, 1], [0, 0], [1, 1]], device="cpu")
        torch.sparse_csr_tensor(start, column[:1], weight[:1], (1, 1), check_invariants=False)
