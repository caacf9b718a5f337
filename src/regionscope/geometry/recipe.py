"""New vertices as convex combinations of old ones, applied to any array that has a row for every vertex."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Recipe"]

_BLOCK_BYTES = 1 << 20  # rows are combined in blocks that stay in cache


@dataclass(frozen=True)
class Recipe:
    """How new vertices arise from old ones, in two stages, each ``(1 - t) * first + t * second``.

    n_old: number of old vertices; they come first and stay as they are.
    a, b, t: (p,) points inside edges, of old vertices a and b; numbered after the old ones.
    c, d, s: (x,) crossings of chords, of old vertices or points c and d; numbered after the points.
    hubs, weights: (h, 3) points inside a cell, of three old vertices each; numbered last.
    """

    n_old: int
    a: Tensor
    b: Tensor
    t: Tensor
    c: Tensor
    d: Tensor
    s: Tensor
    hubs: Tensor
    weights: Tensor

    @staticmethod
    def of_points(n_old: int, a: Tensor, b: Tensor, t: Tensor) -> Recipe:
        """Only points inside edges."""
        return Recipe(n_old, a, b, t, a[:0], a[:0], t[:0], a.new_empty((0, 3)), t.new_empty((0, 3)))

    @property
    def n_vertices(self) -> int:
        return self.n_old + len(self.a) + len(self.c) + len(self.hubs)

    def apply(self, rows: Tensor, vertices: Tensor | None = None) -> Tensor:
        """Rows (w, ...) of the wanted vertices (all by default) from the rows (n_old, ...) of the old ones."""
        flat = rows.reshape(len(rows), -1)
        if vertices is None:
            out = self._all(flat)
        else:
            out = flat.new_empty((len(vertices), flat.shape[1]))
            first, second, t = self._first_stage()
            simple = vertices < len(first)
            self._fill_points(out, simple.nonzero()[:, 0], vertices[simple], flat, first, second, t)
            hub = vertices >= len(first) + len(self.c)
            crossing = (~simple & ~hub).nonzero()[:, 0]
            self._fill_crossings(out, crossing, vertices[crossing] - len(first), flat, first, second, t)
            out[hub] = self._hub_rows(flat, vertices[hub] - len(first) - len(self.c))
        return out.view(-1, *rows.shape[1:])

    def copy_first(self, labels: Tensor) -> Tensor:
        """Labels of all vertices when a new vertex takes that of its first ancestor (for labels constant on a slice)."""
        with_points = torch.cat([labels, labels[self.a]])
        return torch.cat([with_points, with_points[self.c], labels[self.hubs[:, 0]]])

    def _first_stage(self) -> tuple[Tensor, Tensor, Tensor]:
        old = torch.arange(self.n_old, device=self.a.device)
        t = torch.cat([self.t.new_zeros(self.n_old), self.t])
        return torch.cat([old, self.a]), torch.cat([old, self.b]), t

    def _all(self, flat: Tensor) -> Tensor:
        out = flat.new_empty((self.n_vertices, flat.shape[1]))
        out[: self.n_old] = flat
        n = self.n_old + len(self.a)
        for start, stop in _blocks(len(self.a), flat):
            here = slice(start, stop)
            lerp_into(out[self.n_old + start : self.n_old + stop], flat[self.a[here]], flat[self.b[here]], self.t[here])
        for start, stop in _blocks(len(self.c), flat):
            here = slice(start, stop)
            lerp_into(out[n + start : n + stop], out[self.c[here]], out[self.d[here]], self.s[here])
        if len(self.hubs):
            out[n + len(self.c) :] = self._hub_rows(flat, torch.arange(len(self.hubs), device=flat.device))
        return out

    def _hub_rows(self, flat: Tensor, which: Tensor) -> Tensor:
        weights = self.weights[which].to(flat.dtype)
        return torch.einsum("hi,hin->hn", weights, flat[self.hubs[which]])

    @staticmethod
    def _fill_points(
        out: Tensor, place: Tensor, wanted: Tensor, flat: Tensor, first: Tensor, second: Tensor, t: Tensor
    ) -> None:
        for start, stop in _blocks(len(place), flat):
            ids = wanted[start:stop]
            out[place[start:stop]] = _combine(flat[first[ids]], flat[second[ids]], t[ids])

    def _fill_crossings(
        self, out: Tensor, place: Tensor, wanted: Tensor, flat: Tensor, first: Tensor, second: Tensor, t: Tensor
    ) -> None:
        for start, stop in _blocks(len(place), flat):
            ids = wanted[start:stop]
            c, d = self.c[ids], self.d[ids]
            low = _combine(flat[first[c]], flat[second[c]], t[c])
            high = _combine(flat[first[d]], flat[second[d]], t[d])
            out[place[start:stop]] = _combine(low, high, self.s[ids])


def _blocks(n: int, flat: Tensor) -> list[tuple[int, int]]:
    step = max(1, _BLOCK_BYTES // max(1, flat.shape[1] * flat.element_size()))
    if flat.is_cuda:
        step *= 256
    return [(start, min(n, start + step)) for start in range(0, n, step)]


def _combine(first: Tensor, second: Tensor, t: Tensor) -> Tensor:
    return lerp_into(first, first, second, t)


def lerp_into(out: Tensor, first: Tensor, second: Tensor, t: Tensor) -> Tensor:
    """``(1 - t) * first + t * second`` row by row, written to ``out``."""
    return torch.lerp(first, second, t[:, None].to(first.dtype), out=out)
