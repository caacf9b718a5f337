"""The same layers as torch modules, for regionscope."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from fuzz.program import Layer


class Residual(nn.Module):
    """x + body(x)."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x, self.body(x))


class Concat(Residual):
    """x and body(x), one after the other."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], dim=1)


class Maximum(Residual):
    """The larger of x and body(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(x, self.body(x))


class Maxout(nn.Module):
    """The largest of each n consecutive units."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], -1, self.n).amax(dim=2)


class Abs(nn.Module):
    """The absolute value."""

    def forward(self, x: Tensor) -> Tensor:
        return x.abs()


OWN: dict[str, Callable[..., nn.Module]] = {"Maxout": Maxout, "Abs": Abs}
AROUND = {"Residual": Residual, "Concat": Concat, "Maximum": Maximum}


def build(layers: Sequence[Layer]) -> nn.Sequential:
    """The layers as one module; its weights are not initialised in any particular way."""
    built: list[nn.Module] = []
    for kind, *arguments in layers:
        if kind == "Again":
            built.append(built[arguments[0]])
        elif kind in AROUND:
            built.append(AROUND[kind](build(arguments[0])))
        else:
            built.append((OWN.get(kind) or getattr(nn, kind))(*arguments))
    return nn.Sequential(*built)
