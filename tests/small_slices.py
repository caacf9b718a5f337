"""Small networks, and the slices on which the tests of results cut them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

import regionscope as rs

SQUARE = rs.Box(torch.zeros(2), torch.eye(2), 1.0)


CUBE = rs.Box(torch.zeros(3), torch.eye(3), 1.0)


class Function(nn.Module):
    """A network given by a function of its inputs (v, k)."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x).reshape(x.shape[0], -1)


def mlp(*sizes: int, seed: int = 0, bias: bool = True) -> nn.Sequential:
    """ReLU layers of these widths, with random weights."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


PENTAGON = torch.tensor([[3.0, 0.2], [1.0, 2.0], [-2.0, 1.0], [-1.7, -1.1], [2.0, -1.0]], dtype=torch.float64)

SLICES = {
    "segment": (mlp(4, 10, 10, 3), rs.Segment([0.0, 1, 0, -1], [1.0, -2, 1, 2])),
    "triangle": (mlp(4, 10, 10, 3), rs.Simplex([[0.0, 1, 0, -1], [2.0, -2, 1, 2], [-2.0, 0, 3, 1]])),
    "square": (mlp(2, 10, 10, 3), SQUARE),
    "pentagon": (mlp(4, 10, 10, 3), rs.Polygon(PENTAGON @ torch.tensor([[1.0, 0.3, -1, 0], [0.2, 1, 0, 2]]).double())),
    "cube": (mlp(3, 6, 6, 3), CUBE),
    "box through points": (
        mlp(4, 10, 10, 3),
        rs.Box.through([[0.0, 1, 0.3, -1], [2.0, -0.7, 1, 2], [-2.0, 0, 3.1, 1]], 0.1),
    ),
}
