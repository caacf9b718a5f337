"""The affine map of one input's region, in the shapes of inputs and outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from regionscope.points.cells import Cells, Source
from regionscope.points.distances import Blocks, Directions
from regionscope.points.tangents import Tangents


@dataclass(frozen=True, eq=False)
class PointMap:
    """f(x) = matrix x + offset on the region of an input.

    matrix: (*output_shape, *input_shape). offset: (*output_shape).
    """

    matrix: Tensor
    offset: Tensor

    def __repr__(self) -> str:
        return f"PointMap(matrix={tuple(self.matrix.shape)}, offset={tuple(self.offset.shape)})"

    def __call__(self, inputs: Tensor) -> Tensor:
        """(n, *output_shape) of inputs (n, *input_shape), also outside the region."""
        d = self.matrix.ndim - self.offset.ndim
        slopes = self.matrix.movedim(tuple(range(-d, 0)), tuple(range(d)))
        linear: Tensor = torch.tensordot(inputs.to(self.matrix), slopes, d)
        return linear + self.offset


def point_map(source: Source, i: int, memory: int) -> PointMap:
    """The map at input ``i``. Cost: a backward pass for each output, or fewer tangents if there are fewer inputs."""
    program = source.program
    x = source.points([i])
    with torch.no_grad():
        cells = source.cells(x)
        matrix = _jacobian(source.tangents, cells, memory)
        offset = cells.outputs[0] - matrix @ x.flatten()
    matrix = matrix.reshape(*program.output_shape, *program.input_shape)
    return PointMap(matrix.cpu(), offset.reshape(program.output_shape).cpu())


def _jacobian(tangents: Tangents, cells: Cells, memory: int) -> Tensor:
    """(c, d) of the cell of a single point."""
    program = tangents.program
    c, d = program.n_outputs, math.prod(program.input_shape)
    rows = min(max(c, d), max(1, memory // 4 // program.row_bytes), Blocks.of(tangents, max(c, d), memory).directions)
    if d < c:
        axes = Directions(tangents, d, None)
        parts = [cells.through(tangents, axes.live(start, min(start + rows, d))) for start in range(0, d, rows)]
        return torch.cat([part[0] for part in parts]).T
    return tangents.gradients(partial(cells.through, tangents), c, rows)
