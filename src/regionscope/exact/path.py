"""The regions along a ``Polyline``: those of its legs, joined where the path continues in the same one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regionscope.certificate import Certificate
from regionscope.errors import InputError
from regionscope.exact.affine_maps import AffineMaps
from regionscope.exact.check import check_coverage
from regionscope.exact.partition import Partition
from regionscope.exact.region_batch import Walls
from regionscope.exact.slope_jumps import slope_jumps
from regionscope.geometry import Box, Polyline
from regionscope.network import patterns
from regionscope.types import Stats


@dataclass(frozen=True, eq=False, repr=False)
class PathPartition(Partition):
    """The exact partition of a path: pieces in order along it, each inside one leg and one region.

    legs: the partitions of the legs. continues: (legs - 1,) whether the activation region before each inner corner of
        the path is the one behind it. Then the wall between its two pieces has the layer ``len(by_layer)``, as it folds
        nothing; otherwise it has that of the first fold whose pattern differs.

    A region that continues through a corner counts once; one that the path leaves and enters again counts again.
    ``slice.corners`` are the places of the corners. ``lipschitz``, ``certify`` and ``save`` need straight slices: ask
    the legs.
    """

    legs: tuple[Partition, ...] = ()
    continues: Tensor | None = None

    @property
    def _n_activation(self) -> int:
        return len(self) - (0 if self.continues is None else int(self.continues.sum()))

    @cached_property
    def _compared(self) -> tuple[Tensor, Tensor]:
        """As in ``Partition``; at a corner, maps are equal if they are on the plane of both legs."""
        self._require_complete()
        if self.compared is not None:
            return self.compared
        parts: list[tuple[Tensor, Tensor]] = []
        n, yes = len(self.by_layer), torch.ones(1, dtype=torch.bool, device=self.vertices.device)
        for i, leg in enumerate(self.legs):
            if i:
                folds = int(self.walls.layer[sum(map(len, self.legs[:i]))]) < n
                parts.append(self._compared_at(i) if folds else (yes, ~yes))
            inner = leg.walls.inner
            order = leg.vertices[leg.walls.vertices[inner], 0].argsort()
            parts.append((leg._compared[0][order], leg._compared[1][order]))
        return torch.cat([same for same, _ in parts]), torch.cat([undecided for _, undecided in parts])

    def _compared_at(self, i: int) -> tuple[Tensor, Tensor]:
        """Whether the maps on both sides of corner i are equal, and whether that is undecided, (1,) each."""
        before, after = self.legs[i - 1], self.legs[i]
        basis = torch.stack([before.slice.basis[0], after.slice.basis[0]])
        plane = Box.from_parts(origin=after.slice.origin, basis=basis, radius=basis.new_ones(2))
        points = torch.zeros(1, 2, 2, dtype=torch.float64, device=self.vertices.device)
        points[0, 0, 0], points[0, 1, 1] = before.interior.max() - 1, after.interior.min()
        program = self._network().shortened(len(self.by_layer))
        return slope_jumps(program, plane, points)

    @cached_property
    def _doubts(self) -> Certificate | None:
        """Those of the first leg that has any."""
        return next((leg._doubts for leg in self.legs if leg._doubts is not None), None)

    @cached_property
    def n_undecided(self) -> int:
        """Those of the legs, and the corners at which rounding leaves open whether the map changes."""
        if self.compared is not None:
            return int(self.compared[1].sum())
        own = int(self._compared[1].sum()) - sum(int(leg._compared[1].sum()) for leg in self.legs)
        return own + sum(leg.n_undecided for leg in self.legs)

    @cached_property
    def maps(self) -> AffineMaps:
        """As in ``Partition``: ``outputs = constant + coords @ slope`` with the coordinate of the path."""
        maps, orders = [leg.maps for leg in self.legs], [in_order(leg)[0] for leg in self.legs]
        in_turn = list(enumerate(zip(maps, orders, strict=True)))
        slope = torch.cat([leg.slope[order] for _, (leg, order) in in_turn])
        constants = [leg.constant[order] - i * leg.slope[order, 0] for i, (leg, order) in in_turn]
        noise = torch.cat([leg.noise[order] for _, (leg, order) in in_turn])
        return AffineMaps(
            slope, torch.cat(constants), noise,
            max(leg.error for leg in maps), max(leg.extent for leg in maps), max(leg.size for leg in maps),
        )  # fmt: skip

    def check(self) -> None:
        """Raise CheckFailed with the reason unless every leg passes ``Partition.check`` and they cover the path."""
        for leg in self.legs:
            leg.check()
        check_coverage(self.sizes, self.slice.size)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Raises ``InputError``: a file holds one straight slice."""
        raise InputError(
            "Expected the partition of a straight slice to save, got that of a path. Save each of its legs."
        )


def join_legs(path: Polyline, legs: Sequence[Partition]) -> PathPartition:
    """One partition from those of the legs. Cost: a forward pass over two points for each corner."""
    if legs[0].program is not None:
        legs[0].program.require_continuous("a Polyline")
    orders = [in_order(leg) for leg in legs]
    last = len(legs) - 1
    rows = [vertices if i == last else vertices[:-1] for i, (_, vertices) in enumerate(orders)]
    vertices = torch.cat([leg.vertices[row] + i for i, (leg, row) in enumerate(zip(legs, rows, strict=True))])
    outputs = torch.cat([leg.outputs[row] for leg, row in zip(legs, rows, strict=True)])
    layer = torch.cat([_layers(leg)[row] for leg, row in zip(legs, rows, strict=True)])
    by_layer = {name: sum(leg.by_layer[name] for leg in legs) for name in legs[0].by_layer}
    changes, n_folds = _first_changes(legs, [cells for cells, _ in orders])
    starts = torch.tensor([len(row) for row in rows[:-1]], dtype=torch.int64).cumsum(0).to(layer.device)
    layer[starts] = changes.clamp(max=len(by_layer)).to(layer)
    for i, name in enumerate(by_layer):
        by_layer[name] -= int((changes > i).sum())
    index = torch.arange(len(vertices), device=layer.device)
    regions = torch.stack([index - 1, index], 1)
    regions[-1, 1] = -1
    sizes = torch.cat([leg.sizes[cells] for leg, (cells, _) in zip(legs, orders, strict=True)])
    walls = Walls(index, torch.arange(len(vertices) + 1, device=layer.device), regions, layer)
    stats = Stats(
        sum(leg.stats.snapped for leg in legs), max(leg.stats.rounding for leg in legs), legs[0].stats.seconds
    )
    return PathPartition(
        path, vertices, outputs, torch.stack([index[:-1], index[1:]], 1).reshape(-1), 2 * index, sizes, walls,
        by_layer, legs[0].tolerance, stats, legs[0].status, legs[0].program, None, tuple(legs), changes == n_folds,
    )  # fmt: skip


def in_order(leg: Partition) -> tuple[Tensor, Tensor]:
    """The regions of a line in order along it, and its vertices."""
    cells = leg.interior[:, 0].argsort()
    ends = leg.corners.reshape(-1, 2)[cells]
    ends = ends.gather(1, leg.vertices[ends, 0].argsort(dim=1))
    return cells, torch.cat([ends[:, 0], ends[-1:, 1]])


def _layers(leg: Partition) -> Tensor:
    """The layer of the wall at each vertex of a line."""
    layer = leg.walls.layer.new_empty(len(leg.vertices))
    return layer.index_copy_(0, leg.walls.vertices, leg.walls.layer)


def _first_changes(legs: Sequence[Partition], cells: Sequence[Tensor]) -> tuple[Tensor, int]:
    """For each inner corner the first fold whose pattern differs on both sides, else their number; and that."""
    program = legs[0].program
    assert program is not None
    if not legs[0].status:
        program = program.shortened(len(legs[0].by_layer))
    n, units = len(program.folds), [fold.n_units for fold in program.folds]
    corners = range(1, len(legs))
    before = [legs[i - 1].slice.embed(legs[i - 1].interior[cells[i - 1][-1:]], dtype=program.dtype) for i in corners]
    after = [legs[i].slice.embed(legs[i].interior[cells[i][:1]], dtype=program.dtype) for i in corners]
    if not corners or not sum(units):
        return torch.full((len(corners),), n, device="cpu"), n
    with torch.no_grad():
        pieces = patterns(program, torch.cat([*before, *after]).to(program.device)).cpu()
    layer = torch.arange(n, device="cpu").repeat_interleave(torch.tensor(units, device="cpu"))
    return torch.where(pieces[: len(corners)] != pieces[len(corners) :], layer, n).amin(1), n
