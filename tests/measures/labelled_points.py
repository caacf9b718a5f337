"""Forty points of three classes, for measures that compare a model with labels."""

from __future__ import annotations

import torch

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long() + (X[:, 1] > 0.5).long()
