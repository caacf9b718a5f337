"""Models that do what a measure has to undo."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Careless(nn.Module):
    """``net``, but each forward pass writes to buffers in every way there is, and draws random numbers, in eval mode
    too.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.replaced: Tensor
        self.register_buffer("added", torch.zeros(3))
        self.register_buffer("replaced", torch.zeros(3))
        self.register_buffer("resized", torch.zeros(3))
        self.register_buffer("cached", None)

    def forward(self, x: Tensor) -> Tensor:
        self.added += 1
        self.replaced = self.replaced + 1
        self.resized = torch.ones(len(x))
        self.cached = x.sum()
        return self.net(x) + 0 * torch.rand(())


class Doubled(nn.Module):
    """Twice its inputs, which it overwrites if ``in_place``."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2.0) if self.in_place else 2.0 * x
