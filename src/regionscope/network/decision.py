"""The predicted label as one more fold: where the largest output changes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from regionscope.network.cuts import Cuts, Maxima, Thresholds
from regionscope.network.program import Instruction, Kink, Program


def with_decision(program: Program) -> Program:
    """The program with a last kink at the decision boundary; the outputs stay the same.

    Several outputs: the largest wins. A single output: its sign, where 0 counts as negative.
    """
    c = program.n_outputs
    folds = partial(_largest, groups=torch.arange(c, device=program.device)[None])
    name = program.output_name
    keep = Instruction(
        function=_same,
        into=None,
        reads=(name,),
        constants=(),
        writes=name,
        frees=(name,),
        overwrite="never",
    )
    row_bytes = 2 * c * torch.empty((), dtype=program.dtype, device="cpu").element_size()
    kink = Kink(name="decision", kind="argmax", n_units=1, row_bytes=row_bytes, folds=folds, instructions=(keep,))
    return replace(program, kinks=(*program.kinks, kink))


def _largest(outputs: Tensor, *, groups: Tensor) -> Cuts:
    c = groups.shape[1]
    rows = outputs.reshape(outputs.shape[0], c)
    return Thresholds(rows, (0.0,)) if c == 1 else Maxima(rows, groups)


def _same(outputs: Tensor) -> Tensor:
    return outputs
