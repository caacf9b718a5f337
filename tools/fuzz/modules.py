"""The same layers as torch modules, for regionscope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

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


class Operator(nn.Module):
    """A layer of the family of operators, on (v, n)."""

    def __init__(self, kind: str, *arguments: Any) -> None:
        super().__init__()
        self.kind, self.arguments = kind, arguments

    def forward(self, x: Tensor) -> Tensor:
        return FUNCTIONS[self.kind](x, *self.arguments)


class Rnn(nn.Module):
    """The last state of a recurrent layer of ReLU."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.size, self.rnn = size, nn.RNN(size, hidden, nonlinearity="relu", batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x.reshape(x.shape[0], -1, self.size))[0][:, -1]


def _fill(x: Tensor, low: float, high: float) -> Tensor:
    return x.masked_fill(x < low, low).masked_fill(x > high, high)


def _messages(x: Tensor, reduce: str, edges: list[list[int]]) -> Tensor:
    pairs = [(source, i) for i, sources in enumerate(edges) for source in sources]
    sources, targets = torch.tensor(pairs, device="cpu").T
    index = targets.expand(x.shape[0], -1)
    if reduce == "sum":
        return x.scatter_add(1, index, x[:, sources])
    return x.scatter_reduce(1, index, x[:, sources], reduce, include_self=False)


def _spectrum(x: Tensor) -> Tensor:
    f = torch.fft.rfft(x.reshape(x.shape[0], -1, 4))
    return torch.cat([f.real, f.imag], 2).flatten(1)


def _constant(x: Tensor, numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64, device="cpu").to(x)


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "Where": lambda x, slope: torch.where(x > 0, x, slope * x),
    "Gate": lambda x: x * (x > 0),
    "Fill": _fill,
    "Shrink": lambda x, bound: torch.sign(x) * torch.relu(x.abs() - bound),
    "Sort": lambda x, size: x.reshape(x.shape[0], -1, size).sort(-1).values.flatten(1),
    "TopK": lambda x, k: x.topk(k, 1).values,
    "KthValue": lambda x, k: x.kthvalue(k, 1, True).values,
    "Median": lambda x: x.median(1, True).values,
    "CumMax": lambda x: x.cummax(1).values,
    "CumMin": lambda x: x.cummin(1).values,
    "AMinMax": lambda x: torch.stack([*x.aminmax(dim=1)], 1),
    "Norm": lambda x, size, order: x.reshape(x.shape[0], -1, size).norm(p=float(order), dim=-1),
    "CDist": lambda x, points: torch.cdist(x[:, None], _constant(x, points), p=1.0)[:, 0],
    "Lerp": lambda x, weights: torch.lerp(x, x.relu(), _constant(x, weights)),
    "Addcmul": lambda x, weights: torch.addcmul(x, x.abs(), _constant(x, weights)),
    "Messages": _messages,
    "Diff": lambda x: x.diff(dim=1),
    "RFFT": _spectrum,
}

OWN: dict[str, Callable[..., nn.Module]] = {
    "Maxout": Maxout,
    "Abs": Abs,
    "RNN": Rnn,
    **{kind: partial(Operator, kind) for kind in FUNCTIONS},
}
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
