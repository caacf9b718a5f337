"""A small training for the tests of monitors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regionscope_lab.config import Training
from regionscope_lab.data import Dataset

TRAINING = Training(epochs=4, lr=0.05, batch_size=16)  # 5 steps an epoch


def halves(n: int = 80) -> Dataset:
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(0))
    return Dataset("halves", x, (x[:, 0] > 0).long(), 2)


def noisy() -> nn.Module:
    """A network with everything that a look could disturb."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))


def weight(model: nn.Module) -> Tensor:
    return next(model.parameters()).detach().norm()
