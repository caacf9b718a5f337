"""The slow, obvious twin of ``regions_at``: one input, one unit, one gradient by autograd at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.network import Program, Thresholds, Values

_ZERO = 1e-9  # of the largest gradient of the layer: smaller ones, and gaps of such units, are rounding


@dataclass(frozen=True)
class Wall:
    """Where one unit folds, seen from one input: fold, unit, candidate (-1: none), gap and gradient (d,)."""

    fold: int
    unit: int
    candidate: int
    gap: float
    gradient: Tensor

    def distance(self, norm: float) -> float:
        """In this norm, by the dual norm of the gradient."""
        dual = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}[norm]
        return self.gap / float(torch.linalg.vector_norm(self.gradient, dual))


def walls(program: Program, point: Tensor) -> list[Wall]:
    """The walls of the cell of ``point`` (*input_shape,), which lies on no fold, without constant values."""
    x = point.to(program.dtype).clone().requires_grad_(True)
    values: Values = {program.input_name: x[None]}
    for instruction in program.instructions:
        instruction.run(values, consume=False, pure=True)
    all_walls: list[Wall] = []
    for k, fold in enumerate(program.folds):
        compared = fold.compared(values)
        if isinstance(compared, Thresholds):
            row = compared.values[0]
            terms = [
                (t * len(row) + i, -1, (value - threshold) * torch.sign(value.detach() - threshold))
                for t, threshold in enumerate(compared.at)
                for i, value in enumerate(row)
            ]
        else:
            rows = compared.values[0, compared.groups]
            top = rows.argmax(1)
            terms = [
                (g, j, rows[g, top[g]] - rows[g, j])
                for g in range(len(rows))
                for j in range(rows.shape[1])
                if compared.groups[g, j] != compared.groups[g, top[g]]
            ]
        all_walls += _walls_of(k, terms, x)
        for instruction in fold.instructions:
            instruction.run(values, consume=False, pure=True)
    return all_walls


def _walls_of(fold: int, terms: list[tuple[int, int, Tensor]], x: Tensor) -> list[Wall]:
    walls = []
    for unit, candidate, gap in terms:
        gradient = torch.zeros_like(x)
        if gap.requires_grad:
            (gradient,) = torch.autograd.grad(gap, x, retain_graph=True, materialize_grads=True)
        walls.append(Wall(fold, unit, candidate, gap.item(), gradient.flatten()))
    largest = max((float(wall.gradient.norm()) for wall in walls), default=0.0)
    return [wall for wall in walls if float(wall.gradient.norm()) > _ZERO * largest]
