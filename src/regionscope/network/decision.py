"""The predicted label, or a level of the outputs, as one more fold behind the last layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from regionscope.network.operations import Compared, Maxima, Thresholds
from regionscope.network.program import Fold, Instruction, Program


def with_decision(program: Program) -> Program:
    """The program with a last fold at the decision boundary; the outputs stay the same.

    Several outputs: the largest wins. A single output: its sign, where 0 counts as negative.
    """
    c = program.n_outputs
    compare = partial(_largest, groups=torch.arange(c, device=program.device)[None])
    return _with_last(program, "decision", compare)


def with_level(program: Program, weights: Tensor, value: float) -> Program:
    """The program with a last fold where ``outputs @ weights`` equals ``value``; the outputs stay the same."""
    return _with_last(program, "level", partial(_level, weights=weights.to(program.device), value=value))


def _with_last(program: Program, title: str, compare: Callable[..., Compared]) -> Program:
    name = program.output_name
    keep = Instruction(
        function=_same,
        in_place=None,
        reads=(name,),
        constants=(),
        writes=name,
        frees=(name,),
        overwrite="never",
    )
    row_bytes = 2 * program.n_outputs * torch.empty((), dtype=program.dtype, device="cpu").element_size()
    fold = Fold(title, "argmax", 1, row_bytes, compare, pieces=None, instructions=(keep,))
    return replace(program, folds=(*program.folds, fold))


def _level(outputs: Tensor, *, weights: Tensor, value: float) -> Compared:
    return Thresholds(outputs.reshape(outputs.shape[0], -1) @ weights.to(outputs.dtype)[:, None], (value,))


def _largest(outputs: Tensor, *, groups: Tensor) -> Compared:
    c = groups.shape[1]
    rows = outputs.reshape(outputs.shape[0], c)
    return Thresholds(rows, (0.0,)) if c == 1 else Maxima(rows, groups)


def _same(outputs: Tensor) -> Tensor:
    return outputs
