"""Activation patterns: on which piece of every fold an input lies."""

from __future__ import annotations

import torch
from torch import Tensor

from regionscope.network.program import Program


def patterns(program: Program, x: Tensor) -> Tensor:
    """(v, units) int16: the pieces of all folds side by side, in execution order.

    Two inputs in the interior of the same activation region have equal rows. Cost: one forward pass.
    """
    values = program.begin(x)
    columns = []
    for fold in program.folds:
        columns.append(fold.pattern(values).to(torch.int16))
        values = fold.advance(values, consume=True)
    if not columns:
        return torch.zeros((x.shape[0], 0), dtype=torch.int16, device=program.device)
    return torch.cat(columns, dim=1)
