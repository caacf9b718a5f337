"""Points to measure at: a fixed draw of training points, of test points, and uniform random points of the domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.checks import check_shape, read_generator, read_integer, read_number
from regionscope.errors import InputError
from regionscope.inputs import Inputs, read_examples


@dataclass(frozen=True, eq=False)
class MeasurePoints:
    """The points at which local complexity is measured during training, the same at every step."""

    train: Tensor
    test: Tensor
    random: Tensor

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={len(points)}" for name, points in self.items())
        return f"MeasurePoints({sizes}, input_shape={tuple(self.random.shape[1:])})"

    def items(self) -> tuple[tuple[str, Tensor], ...]:
        """The three sets with their names, in the order of the paper's figures."""
        return ("train", self.train), ("test", self.test), ("random", self.random)


def uniform_points(
    n: int, input_shape: Sequence[int], *, domain: tuple[float, float] = (0.0, 1.0), seed: int = 0
) -> Tensor:
    """n uniform random points (n, *input_shape) in [low, high]^d.

    Humayun et al. 2023 use (0, 1) for MNIST and (-1, 1) for CIFAR-10.

    >>> points = uniform_points(5, (1, 2, 2), domain=(-1, 1))
    >>> points.shape, bool((points.abs() <= 1).all())
    (torch.Size([5, 1, 2, 2]), True)
    """
    read_integer("n", n)
    shape = check_shape(input_shape)
    if (
        not isinstance(domain, Sequence)
        or len(domain) != 2
        or not read_number("low", domain[0]) < read_number("high", domain[1])
    ):
        raise InputError(
            f"Expected a domain (low, high) with low < high, got {domain!r}. Write (-1.0, 1.0), for example."
        )
    low, high = domain
    source = read_generator(None, seed)
    unit = torch.rand(n, *shape, generator=source, device=source.device, dtype=torch.float32)
    return low + (high - low) * unit


def draw_points(
    train: Inputs, test: Inputs, *, n: int = 1000, domain: tuple[float, float] = (0.0, 1.0), seed: int = 0
) -> MeasurePoints:
    """Up to n training and n test points, drawn without replacement, and n uniform random points of the domain.

    Only the points that are drawn are loaded from a Dataset or DataLoader.
    """
    read_integer("n", n)
    parts = [read_examples(part) for part in (train, test)]
    if min(map(len, parts)) == 0 or parts[0].first.shape != parts[1].first.shape:
        shapes = [(len(part), *(part.first.shape if len(part) else ())) for part in parts]
        raise InputError(
            f"Expected train and test inputs of one shape, got {shapes[0]} and {shapes[1]}. "
            "Pass two batches of the same data set."
        )
    generator = read_generator(None, seed)
    chosen = [part.take(torch.randperm(len(part), generator=generator, device="cpu")[:n]) for part in parts]
    return MeasurePoints(chosen[0], chosen[1], uniform_points(n, chosen[0].shape[1:], domain=domain, seed=seed))
