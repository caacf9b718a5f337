"""Which units fold at the walls of a partition: "unit 3 of 1 (ReLU) folds first between these two images"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from regionscope.extras import data_frame
from regionscope.geometry.ragged import mean_of_rows
from regionscope.network import Program
from regionscope.types import Reading

_SHOWN = 4  # units in a repr
_BYTES = 1 << 26  # of patterns at a time


@dataclass(frozen=True, eq=False)
class WallUnits:
    """The units that are on different pieces on both sides of a wall, one row for each wall and unit.

    On a line the rows are in order along it, elsewhere in the order of the walls.

    walls: (n,) index of the wall in ``part.walls``. coords: (n, k) the middle of the wall, in slice coordinates.
    layers: (n,) index of the fold in ``names``, those of ``part.layers``.
    units: (n,) index of the unit in its fold, from 0; for images row by row in each channel.
    """

    walls: Tensor
    coords: Tensor
    layers: Tensor
    units: Tensor
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.units)

    def __repr__(self) -> str:
        shown = [f"unit {unit} of {name}" for name, unit in (self[i] for i in range(min(_SHOWN, len(self))))]
        return f"WallUnits({', '.join([f'n={len(self)}', *shown, *(['...'] if len(self) > _SHOWN else [])])})"

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> tuple[str, int]:
        """The name of the layer of row i, and the index of the unit."""
        return self.names[int(self.layers[i])], int(self.units[i])

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row for each wall and unit."""
        columns: dict[str, Any] = {"wall": self.walls.cpu().numpy()}
        columns |= {f"coordinate_{i + 1}": column.cpu().numpy() for i, column in enumerate(self.coords.T)}
        columns |= {"layer": [self.names[i] for i in self.layers.tolist()], "unit": self.units.cpu().numpy()}
        return data_frame(columns)

    def readings(self) -> tuple[Reading, ...]:
        """The number of rows."""
        return (("", len(self), None),)


def wall_units(part: Any, program: Program) -> WallUnits:
    """The units that fold at each inner wall: those whose pieces differ between the middles of the two regions.

    Nothing is recorded while regions are cut. Cost: two forward passes for each wall, some 64 MiB at a time.
    """
    inner = part.walls.inner
    sizes = [fold.n_units for fold in program.folds[: len(part.by_layer)]]
    rows = max(1, _BYTES // max(1, 2 * sum(sizes)) // 2)
    walls, columns = [], []
    for block in inner.split(rows):
        before, after = (part.patterns(side)[:, : sum(sizes)] for side in part.walls.regions[block].T)
        row, column = (before != after).nonzero().T
        walls.append(block[row])
        columns.append(column)
    wall, column = torch.cat(walls), torch.cat(columns)
    bounds = torch.tensor([0, *accumulate(sizes)], device=column.device)
    layers = torch.searchsorted(bounds, column, right=True) - 1
    middles = mean_of_rows(part.vertices[part.walls.vertices], part.walls.offsets)[wall]
    order = middles[:, 0].argsort(stable=True) if part.dim == 1 else torch.arange(len(wall), device=wall.device)
    rows_of = (wall, middles, layers, column - bounds[layers])
    walls_of, coords, layers, units = (values[order] for values in rows_of)
    return WallUnits(walls_of, coords, layers, units, part.layers)
