"""Points to measure at: a fixed draw of training points, of test points, and uniform random points of the domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.geometry.points import read_array

__all__ = ["MeasurePoints", "draw_points", "uniform_points"]


@dataclass(frozen=True, eq=False)
class MeasurePoints:
    """Where local complexity is followed over training: the same points at every step."""

    train: Tensor
    test: Tensor
    random: Tensor

    def items(self) -> tuple[tuple[str, Tensor], ...]:
        """The three sets with their names, in the order of the paper's figures."""
        return ("train", self.train), ("test", self.test), ("random", self.random)


def uniform_points(
    n: int, input_shape: Sequence[int], *, domain: tuple[float, float] = (0.0, 1.0), seed: int = 0
) -> Tensor:
    """n points (n, *input_shape), uniform in [low, high]^d; the paper takes (0, 1) for MNIST and (-1, 1) for CIFAR-10.

    >>> points = uniform_points(5, (1, 2, 2), domain=(-1, 1))
    >>> points.shape, bool((points.abs() <= 1).all())
    (torch.Size([5, 1, 2, 2]), True)
    """
    low, high = domain
    if n < 1 or not low < high:
        raise InputError(f"uniform_points needs n >= 1 and low < high; n is {n} and the domain is {domain}.")
    source = torch.Generator().manual_seed(seed)
    unit = torch.rand(n, *input_shape, generator=source, device=source.device, dtype=torch.float32)
    return low + (high - low) * unit


def draw_points(
    train: Tensor | np.ndarray[Any, Any],
    test: Tensor | np.ndarray[Any, Any],
    n: int = 1000,
    *,
    domain: tuple[float, float] = (0.0, 1.0),
    seed: int = 0,
) -> MeasurePoints:
    """Up to n training and n test points, drawn without replacement, and n uniform random points of the domain."""
    inside, outside = read_array(train), read_array(test)
    if inside.shape[1:] != outside.shape[1:] or min(len(inside), len(outside)) == 0:
        raise InputError(
            f"train has shape {tuple(inside.shape)} and test {tuple(outside.shape)}; both must hold inputs of "
            "one shape."
        )
    generator = torch.Generator().manual_seed(seed)
    chosen = [
        data[torch.randperm(len(data), generator=generator, device="cpu")[:n].to(data.device)]
        for data in (inside, outside)
    ]
    random = uniform_points(n, inside.shape[1:], domain=domain, seed=seed)
    return MeasurePoints(chosen[0], chosen[1], random)
