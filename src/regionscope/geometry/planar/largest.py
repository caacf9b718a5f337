"""Cutting cells of the plane where the k largest of several affine functions change.

The sum of the functions of a set of k is an affine function too, and the k largest are the set with the largest sum. So
the pieces are those of a maximum over sets of k functions, of which ``envelope.py`` cuts the cells. Few of all sets
lead somewhere in a cell; they are found by walking from each set to its neighbours, in which one function takes the
place of another.

    piece of {1, 2}: the cell, cut by the line on which 2 and 3 tie, and so on, until no other function is among the two
    largest at any corner; across that line lies the piece of {1, 3}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regionscope.errors import CheckFailed
from regionscope.geometry.maxima import Candidates
from regionscope.geometry.planar.cut import PlanarCut
from regionscope.geometry.planar.envelope import Leaders, cut_maxima
from regionscope.geometry.planar.mesh import Mesh
from regionscope.types import Array, FloatArray, IntArray

_LOST = 1e-6  # of the area of a cell: pieces that leave more of it open were not all found
_TOGETHER = 1 << 24  # sums of sets at vertices that are held at a time

Members = tuple[int, ...]
"""Columns of the functions of a set, ascending."""


def cut_largest(
    mesh: Mesh, candidates: Candidates, k: int, coords: Tensor, *, layer: int, cells: Tensor | None = None,
    extent: float = math.inf,
) -> PlanarCut:  # fmt: skip
    """Cut the cells (all, or the listed ones) into the pieces where the same k candidates of each group are largest.

    extent: as in ``Units``. Cost: for each piece one evaluation of all candidates for each of its corners.
    """
    if k == 1:
        return cut_maxima(mesh, candidates, coords, layer=layer, cells=cells, extent=extent)
    contested = _contested(mesh, candidates, k, cells)
    columns: list[dict[Members, int]] = [{} for _ in range(candidates.n_groups)]
    known: dict[tuple[int, int], Leaders] = {}
    chosen: list[int] = []
    for cell, groups in contested.items():
        for group in groups:
            known[cell, group] = _leading_sets(mesh, candidates, k, coords, cell, group, columns[group])
        chosen.append(cell)
        if len(candidates.values) * sum(map(len, columns)) > _TOGETHER:
            break
    sets, sums = _sums(candidates, columns)
    cut = cut_maxima(
        mesh, Candidates(sums, sets, candidates.tolerance), coords, layer=layer,
        cells=torch.tensor(chosen, dtype=torch.int64, device=coords.device), extent=extent, known=known,
    )  # fmt: skip
    waiting = torch.tensor(list(contested)[len(chosen) :], dtype=torch.int64, device=coords.device)
    later = torch.isin(cut.old_cell, waiting).nonzero()[:, 0]
    return PlanarCut(
        cut.mesh, cut.old_cell, cut.interpolation, cut.zeros, torch.cat([cut.unsettled, later]).unique(), cut.snapped
    )


def _contested(mesh: Mesh, candidates: Candidates, k: int, cells: Tensor | None) -> dict[int, list[int]]:
    """The groups of each cell of which no set of k candidates leads at all its corners."""
    listed = torch.arange(mesh.n_cells, device=mesh.offsets.device) if cells is None else cells
    contested: dict[int, list[int]] = {}
    for cell in listed.tolist():
        corners = mesh.corners[mesh.offsets[cell] : mesh.offsets[cell + 1]]
        values = candidates.values[corners][:, candidates.groups].double()  # (corners, groups, m)
        kept = torch.zeros(values.shape[1:], dtype=torch.bool, device=values.device)
        kept.scatter_(1, values.mean(0).topk(k, dim=1).indices, True)
        lowest = values.masked_fill(~kept, torch.inf).amin(2)
        highest = values.masked_fill(kept, -torch.inf).amax(2)
        open_groups = (highest - lowest > candidates.tolerance[corners, None]).any(0).nonzero()[:, 0]
        if len(open_groups):
            contested[cell] = open_groups.tolist()
    return contested


def _leading_sets(
    mesh: Mesh, candidates: Candidates, k: int, coords: Tensor, cell: int, group: int, columns: dict[Members, int]
) -> Leaders:
    """The columns of the sets that lead in a cell, and the triples that meet inside. Adds columns for new sets."""
    corners = mesh.corners[mesh.offsets[cell] : mesh.offsets[cell + 1]]
    values = candidates.of_group(corners, torch.full_like(corners, group)).cpu().numpy()
    walk = _Walk.of(coords[corners].cpu().numpy(), values, float(candidates.tolerance[corners].max()))
    first = tuple(sorted(np.argsort(-values.mean(0), kind="stable")[:k].tolist()))
    waiting, pieces = [first], {first: walk.piece(first)}
    while waiting:
        members = waiting.pop()
        for neighbour in pieces[members].neighbours(members):
            if neighbour is not None and neighbour not in pieces:
                pieces[neighbour] = walk.piece(neighbour)
                waiting.append(neighbour)
    pieces = {members: piece for members, piece in pieces.items() if len(piece.points) > 2}
    areas = [piece.area for piece in pieces.values()]
    if abs(sum(areas) - walk.area) > _LOST * walk.area:
        raise CheckFailed(
            f"Expected pieces that cover a cell, got pieces that cover {sum(areas) / walk.area:.6f} of it, where the "
            f"{k} largest of {values.shape[1]} values change. Move the slice a little, and report the case."
        )
    for members in pieces:
        columns.setdefault(members, len(columns))
    triples = set()
    for members, piece in pieces.items():
        around = piece.neighbours(members)
        for before, after in zip(around, around[1:] + around[:1], strict=True):
            if before in pieces and after in pieces and before != after:
                triples.add(tuple(sorted(columns[neighbour] for neighbour in (before, members, after))))
    return Leaders(sorted(columns[members] for members in pieces), sorted(triples))


def _sums(candidates: Candidates, columns: list[dict[Members, int]]) -> tuple[Tensor, Tensor]:
    """Groups (g, m) of sets, of which shorter ones repeat the last, and the sums (v, n) of sets at vertices."""
    blocks, first, longest = [candidates.values[:, :1].double()], 1, max(1, *map(len, columns))
    rows = []
    for group, sets in enumerate(columns):
        rows.append([first + min(i, len(sets) - 1) if sets else 0 for i in range(longest)])
        if sets:
            members = torch.tensor(list(sets), dtype=torch.int64, device=candidates.values.device)
            picked = candidates.groups[group][members]  # (sets, k)
            blocks.append(sum((candidates.values[:, picked[:, i]].double() for i in range(1, picked.shape[1])),
                              candidates.values[:, picked[:, 0]].double()))  # fmt: skip
        first += len(sets)
    return torch.tensor(rows, dtype=torch.int64, device=candidates.values.device), torch.cat(blocks, 1)


@dataclass(frozen=True)
class _Piece:
    """The convex piece of a set: points (p, 2), and for each side from a point to the next the (old, new) functions
    that tie there, None on the border of the cell.
    """

    points: FloatArray
    ties: list[tuple[int, int] | None]

    @property
    def area(self) -> float:
        x, y = (self.points - self.points[0]).T
        return float(0.5 * (x * np.roll(y, -1) - np.roll(x, -1) * y).sum())

    def neighbours(self, members: Members) -> list[Members | None]:
        """The set on the other side of each side."""
        return [None if tie is None else tuple(sorted({*members} - {tie[0]} | {tie[1]})) for tie in self.ties]


@dataclass(frozen=True)
class _Walk:
    """A cell as a polygon (p, 2) in a frame of its own, and the functions there: values = [1, x, y] @ functions."""

    cell: FloatArray
    functions: FloatArray
    tolerance: float
    area: float

    @staticmethod
    def of(points: FloatArray, values: FloatArray, tolerance: float) -> _Walk:
        """From the corners (p, 2) and the values (p, m) there; the frame has its axes along two sides that are long."""
        far = int(((points - points[0]) ** 2).sum(1).argmax())
        sides = points - points[0]
        turn = np.abs(sides[far, 0] * sides[:, 1] - sides[far, 1] * sides[:, 0])
        wide = int(turn.argmax())
        frame = np.stack([sides[far], sides[wide]], 1)
        place = np.linalg.solve(frame, sides.T).T
        if np.linalg.det(frame) < 0:
            place, far, wide = place[:, ::-1].copy(), wide, far
        functions = np.stack([values[0], values[far] - values[0], values[wide] - values[0]])
        cell = _Piece(place, [None] * len(place))
        return _Walk(place, functions, tolerance, cell.area)

    def piece(self, members: Members) -> _Piece:
        """The piece of a set: the cell, cut until no other function is among the largest at a corner."""
        inside = np.zeros(self.functions.shape[1], dtype=bool)
        inside[list(members)] = True
        kept, others = np.flatnonzero(inside), np.flatnonzero(~inside)
        points, ties = self.cell, list[tuple[int, int] | None]([None] * len(self.cell))
        lows, highs, margins = self._tightest(points, kept, others)
        while len(points) > 2 and margins.max() > self.tolerance:
            worst = int(margins.argmax())
            old, new = int(lows[worst]), int(highs[worst])
            difference = self.functions[:, old] - self.functions[:, new]
            points, ties, fresh = _clipped(points, ties, difference, (old, new))
            low, high, margin = self._tightest(points[fresh < 0], kept, others)
            lows, highs, margins = (
                _merged(fresh, before, after) for before, after in ((lows, low), (highs, high), (margins, margin))
            )
        return _Piece(points, ties)

    def _tightest(self, points: FloatArray, kept: IntArray, others: IntArray) -> tuple[Array, Array, Array]:
        """At each point the smallest function of the set, the largest other one, and by how much that is larger."""
        values = np.concatenate([np.ones((len(points), 1)), points], 1) @ self.functions
        low, high = kept[values[:, kept].argmin(1)], others[values[:, others].argmax(1)]
        rows = np.arange(len(points))
        return low, high, values[rows, high] - values[rows, low]


def _merged(fresh: IntArray, before: Array, after: Array) -> Array:
    """Numbers of old points, and those of new ones, in order."""
    merged = before[np.maximum(fresh, 0)]
    merged[fresh < 0] = after
    return merged


def _clipped(
    points: FloatArray, ties: list[tuple[int, int] | None], function: FloatArray, tie: tuple[int, int]
) -> tuple[FloatArray, list[tuple[int, int] | None], IntArray]:
    """The part of a convex polygon where [1, x, y] @ function >= 0, and the old number of each point (-1: new)."""
    values = function[0] + points @ function[1:]
    kept: list[FloatArray] = []
    sides: list[tuple[int, int] | None] = []
    fresh: list[int] = []
    n = len(points)
    for i in range(n):
        j = (i + 1) % n
        if values[i] >= 0:
            kept.append(points[i])
            sides.append(ties[i])
            fresh.append(i)
        if (values[i] >= 0) != (values[j] >= 0):
            t = values[i] / (values[i] - values[j])
            kept.append(points[i] + t * (points[j] - points[i]))
            sides.append(tie if values[i] >= 0 else ties[i])
            fresh.append(-1)
    return np.array(kept).reshape(-1, 2), sides, np.array(fresh, dtype=np.int64)
