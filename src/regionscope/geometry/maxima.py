"""Upper envelopes: which of several affine functions is the largest, decided at vertices and followed along edges.

A *group* is a set of m candidates, each affine on every cell; the network takes their maximum (a pooling window, the
logits).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.geometry.arrays import rows_at_a_time
from regionscope.geometry.bitsets import holds, n_words, pack, unpack


@dataclass(frozen=True)
class Candidates:
    """values: (v, n); groups: (w, m) columns of the candidates of each group; tolerance: (v,) what counts as a tie."""

    values: Tensor
    groups: Tensor
    tolerance: Tensor

    @property
    def n_groups(self) -> int:
        return self.groups.shape[0]

    @property
    def n_candidates(self) -> int:
        return self.groups.shape[1]

    def of_group(self, vertices: Tensor, group: Tensor) -> Tensor:
        """Values (x, m) of all candidates of ``group`` (x,) at ``vertices`` (x,)."""
        return self.values[vertices[:, None], self.groups[group]].double()

    def tolerance_at(self, vertices: Tensor, pairs: Tensor) -> Tensor:
        """What counts as a tie of any pair of candidates at these vertices."""
        return self.tolerance[vertices]

    def pair(self, group: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """One number for "candidate i against candidate j of this group", in either order."""
        return (group * self.n_candidates + torch.minimum(i, j)) * self.n_candidates + torch.maximum(i, j)

    def columns_of(self, breaks: Breaks) -> Tensor:
        """(x,): one number for the columns of the two candidates, which windows that overlap may share."""
        before, after = (self.groups[breaks.group, x] for x in (breaks.before, breaks.after))
        return before * self.values.shape[1] + after

    def __call__(self, vertices: Tensor, pairs: Tensor) -> Tensor:
        """Value of the lower candidate minus the higher one at ``vertices``, for numbers made by ``pair``."""
        m = self.n_candidates
        group, i, j = pairs // (m * m), pairs // m % m, pairs % m
        first, second = self.values[vertices, self.groups[group, i]], self.values[vertices, self.groups[group, j]]
        return first.double() - second.double()


def leaders(candidates: Candidates) -> Tensor:
    """Which candidates are the largest, up to the tolerance, at every vertex: bit sets (v, w, words) int64."""
    v = len(candidates.values)
    w, m = candidates.groups.shape
    out = torch.empty((v, w, n_words(m)), dtype=torch.int64, device=candidates.values.device)
    step = rows_at_a_time(8 * w * m, out.device)
    for start in range(0, v, step):
        block = candidates.values[start : start + step][:, candidates.groups]
        tolerance = candidates.tolerance[start : start + step, None, None].to(block.dtype)
        out[start : start + step] = pack(block >= block.amax(-1, keepdim=True) - tolerance)
    return out


def cell_leaders(leading: Tensor, corners: Tensor, offsets: Tensor, cells: Tensor | None = None) -> Tensor:
    """Candidates that lead at all corners of each cell (listed or all): bit sets (r, w, words)."""
    counts = offsets.diff() if cells is None else offsets.diff()[cells]
    start = offsets[:-1] if cells is None else offsets[cells]
    common = leading[corners[start]]
    for step in range(1, int(counts.max()) if len(counts) else 0):
        more = (counts > step).nonzero()[:, 0]
        common[more] &= leading[corners[start[more] + step]]
    return common


def disjoint(leading: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs (row, group) such that no candidate leads at both ``a[row]`` and ``b[row]``."""
    rows, groups = [], []
    step = rows_at_a_time(leading[0].numel() * 8, a.device) if len(leading) else 1
    for start in range(0, len(a), step):
        common = leading[a[start : start + step]] & leading[b[start : start + step]]
        row, group = (common == 0).all(-1).nonzero(as_tuple=True)
        rows.append(row + start)
        groups.append(group)
    empty = torch.empty(0, dtype=torch.int64, device=a.device)
    return torch.cat([empty, *rows]), torch.cat([empty, *groups])


@dataclass(frozen=True)
class Breaks:
    """Where the largest candidate changes along an edge: (row, group), from candidate ``before`` to ``after``.

    Sorted by row. ``ua``, ``ub``: value of ``before`` minus ``after`` at the two ends of the edge.
    """

    row: Tensor
    group: Tensor
    before: Tensor
    after: Tensor
    ua: Tensor
    ub: Tensor


def breaks_along(candidates: Candidates, leading: Tensor, a: Tensor, b: Tensor) -> Breaks:
    """All breaks of the upper envelopes along the edges from ``a`` to ``b`` (x,), found by walking along each edge.

    Cost: one test of bit sets per edge and group, plus work in proportion to the number of breaks.
    """
    row, group = disjoint(leading, a, b)
    at_a, at_b = candidates.of_group(a[row], group), candidates.of_group(b[row], group)
    slope = at_b - at_a
    leading_a = unpack(leading[a[row], group], candidates.n_candidates)
    leader = torch.where(leading_a, slope, -torch.inf).argmax(1)
    t = torch.zeros(len(row), dtype=torch.float64, device=row.device)
    alive = torch.arange(len(row), device=row.device)
    changes: list[tuple[Tensor, Tensor, Tensor]] = []
    while len(alive):
        end = leading[b[row[alive]], group[alive]]
        alive = alive[~holds(end, leader[alive])]
        if len(alive) == 0:
            break
        now = leader[alive]
        gain = slope[alive] - slope[alive].gather(1, now[:, None])
        lag = at_a[alive].gather(1, now[:, None]) - at_a[alive]
        lead = at_b[alive] - at_b[alive].gather(1, now[:, None])
        ahead = lead > candidates.tolerance[b[row[alive]]][:, None]  # else both tie along the whole rest of the edge
        when = torch.where((gain > 0) & ahead, lag / gain, torch.inf).clamp(min=t[alive, None])
        soonest = when.amin(1, keepdim=True)
        after = torch.where(when <= soonest, gain, -torch.inf).argmax(1)
        on_edge = soonest[:, 0] < 1  # else rounding: the leader changes no more before the end
        alive, now, after, soonest = alive[on_edge], now[on_edge], after[on_edge], soonest[on_edge]
        changes.append((alive, now, after))
        leader[alive], t[alive] = after, soonest[:, 0]
    empty = torch.empty(0, dtype=torch.int64, device=row.device)
    which, order = torch.cat([empty, *(change[0] for change in changes)]).sort(stable=True)
    before = torch.cat([empty, *(change[1] for change in changes)])[order]
    after = torch.cat([empty, *(change[2] for change in changes)])[order]
    ua = at_a[which, before] - at_a[which, after]
    ub = at_b[which, before] - at_b[which, after]
    return Breaks(row[which], group[which], before, after, ua, ub)
