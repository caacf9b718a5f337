"""The predicted label, or a level of the outputs, as one more fold behind the last layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from regionscope.network.operations import FoldSites, Maxima, Thresholds
from regionscope.network.program import Instruction, Kink, Program


def with_decision(program: Program) -> Program:
    """The program with a last kink at the decision boundary; the outputs stay the same.

    Several outputs: the largest wins. A single output: its sign, where 0 counts as negative.
    """
    c = program.n_outputs
    folds = partial(_largest, groups=torch.arange(c, device=program.device)[None])
    return _with_last(program, "decision", folds)


def with_level(program: Program, weights: Tensor, value: float) -> Program:
    """The program with a last kink where ``outputs @ weights`` equals ``value``; the outputs stay the same."""
    return _with_last(program, "level", partial(_level, weights=weights.to(program.device), value=value))


def _with_last(program: Program, title: str, folds: Callable[..., FoldSites]) -> Program:
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
    kink = Kink(name=title, kind="argmax", n_units=1, row_bytes=row_bytes, folds=folds, instructions=(keep,))
    return replace(program, kinks=(*program.kinks, kink))


def _level(outputs: Tensor, *, weights: Tensor, value: float) -> FoldSites:
    return Thresholds(outputs.reshape(outputs.shape[0], -1) @ weights.to(outputs.dtype)[:, None], (value,))


def _largest(outputs: Tensor, *, groups: Tensor) -> FoldSites:
    c = groups.shape[1]
    rows = outputs.reshape(outputs.shape[0], c)
    return Thresholds(rows, (0.0,)) if c == 1 else Maxima(rows, groups)


def _same(outputs: Tensor) -> Tensor:
    return outputs
