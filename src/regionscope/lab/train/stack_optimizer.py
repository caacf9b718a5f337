"""SGD, Adam, AdamW and Adagrad on stacked parameters, each member with its own settings.

The formulas are those of ``torch.optim`` with its defaults; only the learning rate, momentum and weight decay differ
between members.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from regionscope.lab.config import Training
from regionscope.lab.train.stack import Stack

__all__ = ["StackedOptimizer", "stacked_optimizer"]

Factor = Tensor | float


class StackedOptimizer(ABC):
    """What all have in common: flat parameters and gradients, and a factor for each member."""

    def __init__(self, stack: Stack, settings: Sequence[Training]) -> None:
        self.flat = stack.flat
        self.gradient = torch.empty_like(stack.flat)
        self.lr = stack.spread([each.lr for each in settings])
        self.momentum = stack.spread([each.momentum for each in settings])
        self.decay = stack.spread([each.weight_decay for each in settings])

    def step(self, gradients: Sequence[Tensor], factor: float) -> None:
        """One step along ``gradients``, in the order of the stack, with ``factor`` times the learning rates."""
        with torch.no_grad():
            torch.cat([gradient.reshape(-1) for gradient in gradients], out=self.gradient)
            self._move(factor)

    @abstractmethod
    def _move(self, factor: float) -> None: ...

    def _add_decay(self) -> None:
        """Weight decay as a part of the gradient."""
        if isinstance(self.decay, Tensor):
            self.gradient.addcmul_(self.flat, self.decay)
        elif self.decay:
            self.gradient.add_(self.flat, alpha=self.decay)

    def _descend(self, direction: Tensor, factor: float) -> None:
        """flat -= factor * lr * direction."""
        if isinstance(self.lr, Tensor):
            self.flat.addcmul_(direction, self.lr, value=-factor)
        else:
            self.flat.add_(direction, alpha=-factor * self.lr)


class _Sgd(StackedOptimizer):
    def __init__(self, stack: Stack, settings: Sequence[Training]) -> None:
        super().__init__(stack, settings)
        self.velocity = torch.zeros_like(stack.flat)

    def _move(self, factor: float) -> None:
        self._add_decay()
        if isinstance(self.momentum, float) and self.momentum == 0:
            self._descend(self.gradient, factor)
            return
        self.velocity.mul_(self.momentum).add_(self.gradient)
        self._descend(self.velocity, factor)


class _Adam(StackedOptimizer):
    BETAS, EPS = (0.9, 0.999), 1e-8

    def __init__(self, stack: Stack, settings: Sequence[Training]) -> None:
        super().__init__(stack, settings)
        self.mean, self.square = torch.zeros_like(stack.flat), torch.zeros_like(stack.flat)
        self.steps = 0

    def _move(self, factor: float) -> None:
        self._decay(factor)
        self.steps += 1
        first, second = self.BETAS
        self.mean.lerp_(self.gradient, 1 - first)
        self.square.mul_(second).addcmul_(self.gradient, self.gradient, value=1 - second)
        below = torch.sqrt(self.square).div_(math.sqrt(1 - second**self.steps)).add_(self.EPS)
        self._descend(torch.div(self.mean, below, out=below), factor / (1 - first**self.steps))

    def _decay(self, factor: float) -> None:
        self._add_decay()


class _AdamW(_Adam):
    def _decay(self, factor: float) -> None:
        """Decoupled: the weights shrink by themselves."""
        shrink = self.lr * self.decay * factor
        self.flat.mul_(1 - shrink)


class _Adagrad(StackedOptimizer):
    EPS = 1e-10

    def __init__(self, stack: Stack, settings: Sequence[Training]) -> None:
        super().__init__(stack, settings)
        self.square = torch.zeros_like(stack.flat)

    def _move(self, factor: float) -> None:
        self._add_decay()
        self.square.addcmul_(self.gradient, self.gradient)
        self._descend(self.gradient / torch.sqrt(self.square).add_(self.EPS), factor)


def stacked_optimizer(stack: Stack, settings: Sequence[Training]) -> StackedOptimizer:
    """The optimiser that the settings name."""
    kinds: dict[str, type[StackedOptimizer]] = {"sgd": _Sgd, "adam": _Adam, "adamw": _AdamW, "adagrad": _Adagrad}
    return kinds[settings[0].optimizer](stack, settings)
