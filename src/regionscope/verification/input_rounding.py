"""How far rounding the box, and the affine layers before the first fold, may move an output.

A decimal such as 0.1 is not a float64 number, and the terms of the first layer may cancel: 0.1 + 0.2 - 0.3 is 0, but
5.6e-17 in float64. The running error bound of the search starts from the values behind these layers.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from regionscope.exact.bounding.stages import Staged
from regionscope.network import Program
from regionscope.tolerance import UNIT
from regionscope.types import FloatArray
from regionscope.verification.property import Case

_ROWS = 64  # inputs whose weights are read at once
_SCALE = 2.0**100  # of the inputs at which weights are read, so that an offset does not hide small ones
_MOVED = 16  # inputs around a point


def output_error(program: Program, staged: Staged, case: Case, factors: FloatArray) -> float:
    """Bound of the error of the slacks ``bounds - factors @ outputs`` on the box of a case.

    staged: the network up to its outputs. Each value before the first fold is a sum of n products, read at k + 1
    corners of the box whose entries are rounded too; its error grows through the absolute weights.
    Cost: the affine layers before the first fold, on as many rows as there are inputs.
    """
    sizes, terms = _first_sums(program, case)
    error = (1 + 2 * len(case.free)) * (terms + 8) * UNIT * sizes
    for stage in staged.stages:
        error = abs(stage.matrix) @ np.concatenate([error, error[stage.units]])
    return float((np.abs(factors) @ error).max(initial=0.0))


def _first_sums(program: Program, case: Case) -> tuple[FloatArray, FloatArray]:
    """For each value before the first fold, the largest sum of its absolute terms on the box, and their number."""
    ends = [float(max(abs(a), abs(b))) for a, b in zip(case.low, case.high, strict=True)]
    largest = torch.tensor(ends, dtype=torch.float64)
    with torch.no_grad():
        offset = _packed(program, torch.zeros(1, len(largest), dtype=torch.float64))
        sizes, terms = offset[0].abs(), torch.ones(offset.shape[1], dtype=torch.float64)
        for start in range(0, len(largest), _ROWS):
            n = min(_ROWS, len(largest) - start)
            units = torch.zeros(n, len(largest), dtype=torch.float64)
            units.diagonal(start).fill_(_SCALE)
            weights = (_packed(program, units) - offset).abs() / _SCALE
            sizes = sizes + largest[start : start + n] @ weights
            terms = terms + (weights != 0).sum(0)
    return sizes.numpy(), terms.numpy()


def _packed(program: Program, rows: Tensor) -> Tensor:
    """All values before the first fold side by side, for flat inputs."""
    values = program.begin(rows.reshape(len(rows), *program.input_shape))
    return torch.cat([value.reshape(len(rows), -1) for value in values.values()], 1).double()


def output_shift(program: Program, point: Tensor, case: Case) -> float:
    """How far the outputs at a point move where fixed inputs that float64 rounds are moved by one unit: an estimate."""
    flat = point.reshape(-1).double()
    rounded = [i for i, value in enumerate(case.low) if i not in case.free and Fraction(float(flat[i])) != value]
    if not rounded:
        return 0.0
    signs = torch.randint(2, (_MOVED, len(rounded)), generator=torch.Generator().manual_seed(0)).double() * 2 - 1
    rows = flat.repeat(_MOVED + 1, 1)
    rows[1:, rounded] = torch.nextafter(rows[1:, rounded], signs * torch.inf)
    with torch.no_grad():
        outputs = program(rows.reshape(-1, *program.input_shape)).double()
    return 2 * float((outputs[1:] - outputs[0]).abs().max())
