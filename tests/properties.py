"""Properties and a network for the tests of ``verify``."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor, nn

from regionscope.verification.property import Case, Constraint, Property


def box(low: str, high: str, *rows: Constraint, n: int = 2) -> Property:
    case = Case((Fraction(low),) * n, (Fraction(high),) * n, (rows,))
    return Property(n, 2, (case,), None, "test")


def at_least(i: int, value: str) -> Constraint:
    return Constraint(((i, Fraction(-1)),), -Fraction(value))


class Skip(nn.Module):
    """A value that is folded, used again without the fold, and joined with a leaky and a clipped branch."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(k, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        g = nn.functional.leaky_relu(self.b(torch.relu(h)), 0.2)
        return self.c(torch.clamp(g + h, -0.5, 0.8) + torch.abs(h))
