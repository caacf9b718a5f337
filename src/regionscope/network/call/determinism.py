"""Whether a model gives each input one answer: the same each time, and whatever else is in the batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from regionscope.errors import InputError
from regionscope.network.call.draws import Draws
from regionscope.network.call.forward import call_model

_ALIKE = 0.02  # of the largest output: what differs by less may be rounding, of weights that are quantised as they run


def refuse_other_answers(model: nn.Module, pair: Tensor) -> None:
    """An ``InputError`` where the model, in eval mode, draws random numbers or lets the inputs of a batch mix.

    pair: two different inputs (2, *shape), of the model's dtype and on its device. Call it inside ``untouched``. What
    the two inputs do not show is not found. Cost: three forward passes of one or two inputs, and one more where random
    numbers are drawn.
    """
    both = _answers(model, pair)
    with Draws(pair.device) as draws:
        first = _answers(model, pair[:1])
    if draws.happened and _differ(first, _answers(model, pair[:1])):
        raise InputError(
            "The model draws random numbers in eval mode too, so that an input has no fixed answer; pass "
            "training=self.training to dropout, or fix the random numbers."
        )
    second = _answers(model, pair[1:])
    alone = [torch.cat(rows) for rows in zip(first, second, strict=False)]
    if pair.dtype in (torch.float32, torch.float64) and _differ(_numbers(both), _numbers(alone)):
        raise InputError(
            "The model's answer to an input depends on the other inputs of its batch, so that an input has none of "
            "its own; keep dimension 0 for the batch, and normalise by fixed numbers."
        )


def two_inputs(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Two different inputs (2, *shape), of numbers between -1 and 1."""
    up = torch.linspace(-1, 1, torch.Size(shape).numel() + 2, dtype=dtype, device=device)[1:-1].reshape(shape)
    return torch.stack([up, 0.5 - up / 2])


def _answers(model: nn.Module, inputs: Tensor) -> list[Tensor]:
    """The tensors that the model returns with one row for each input."""
    found: Any = call_model(model, inputs.clone())  # it may write into them
    return [leaf for leaf in tree_leaves(found) if isinstance(leaf, Tensor) and leaf.shape[:1] == inputs.shape[:1]]


def _numbers(answers: list[Tensor]) -> list[Tensor]:
    """Without labels: rounding may turn one where two classes are level."""
    return [answer for answer in answers if answer.is_floating_point()]


def _differ(these: list[Tensor], those: list[Tensor]) -> bool:
    return len(these) == len(those) and any(
        a.shape == b.shape and bool(((a.double() - b.double()).abs() > _ALIKE * b.double().abs().max()).any())
        for a, b in zip(these, those, strict=True)
        if b.numel()
    )
