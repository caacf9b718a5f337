"""Networks that learned the signed distance to a shape, for the benchmarks of level sets."""

from __future__ import annotations

import math
from collections.abc import Callable

import safetensors.torch
import torch
from torch import Tensor, nn

from regionscope_lab.zoo import mlp
from results import FOLDER

__all__ = ["SHAPES", "mean_error", "points", "trained"]


def torus(x: Tensor) -> Tensor:
    return torch.hypot(x[:, :2].norm(dim=1) - 0.5, x[:, 2]) - 0.25


def ball(x: Tensor) -> Tensor:
    return x.norm(dim=1) - 0.6


def two_balls(x: Tensor) -> Tensor:
    centre = x.new_tensor([0.4, 0.0, 0.0])
    return torch.minimum((x - centre).norm(dim=1), (x + centre).norm(dim=1)) - 0.3


def gyroid(x: Tensor) -> Tensor:
    """To first order: the function of the gyroid, divided by a typical length of its gradient."""
    angle = math.pi * x
    return (torch.sin(angle) * torch.cos(angle.roll(-1, dims=1))).sum(1) / (1.2 * math.pi)


SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "torus": torus, "ball": ball, "two balls": two_balls, "gyroid": gyroid,
}  # fmt: skip


def points(n: int, generator: torch.Generator) -> Tensor:
    """(n, 3) uniform on [-1, 1]^3."""
    return 2 * torch.rand(n, 3, generator=generator) - 1


def trained(shape: str, steps: int, seed: int = 0) -> nn.Module:
    """A 3-[32]*8-1 network after ``steps`` steps of Adam, with a learning rate that decays to 0.

    Its weights are kept beside the results, and the next call reads them.
    """
    model = mlp([3, *[32] * 8, 1], seed=seed)
    kept = FOLDER / f"{shape.replace(' ', '-')}-{steps}-{seed}.safetensors"
    if kept.exists():
        model.load_state_dict(safetensors.torch.load_file(kept))
        return model.double().eval()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        x = points(1024, generator)
        optimizer.zero_grad()
        (model(x)[:, 0] - SHAPES[shape](x)).abs().mean().backward()
        optimizer.step()
        decay.step()
    FOLDER.mkdir(exist_ok=True)
    safetensors.torch.save_file(model.state_dict(), kept)
    return model.double().eval()


def mean_error(model: nn.Module, shape: str) -> float:
    """Mean distance between network and shape function over 10,000 points that were not trained on."""
    x = points(10_000, torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        return float((model(x)[:, 0] - SHAPES[shape](x)).abs().mean())
