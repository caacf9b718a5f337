"""The network and the inputs of a result, from which it answers further questions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regionscope.inputs import Examples
from regionscope.network import Program
from regionscope.points.cells import Cells, cells_at, generic_direction
from regionscope.points.tangents import Tangents


@dataclass(frozen=True, eq=False)
class Source:
    """See the module. tangents: of the network with its decision as the last fold. norm: of distances.
    numbers: the id of each pattern, by its key.
    """

    tangents: Tangents
    examples: Examples
    norm: float
    numbers: dict[bytes, int] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        """The network with its decision as the last fold."""
        return self.tangents.program

    def points(self, which: Sequence[int]) -> Tensor:
        """(p, *input_shape) of the program's dtype and on its device."""
        rows = self.examples.take(torch.tensor(which, device="cpu"))
        return rows.to(self.program.device, self.program.dtype)

    def cells(self, points: Tensor) -> Cells:
        """The cells of points, on the side of the generic direction where a point lies on a fold."""
        return cells_at(self.tangents, points, generic_direction(self.program)[None])

    def keys(self, cells: Cells) -> list[bytes]:
        """A hash of 128 bits of the pattern of each of these cells."""
        rows = cells.patterns(len(self.tangents.folds) - 1).cpu().contiguous().numpy()
        return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
