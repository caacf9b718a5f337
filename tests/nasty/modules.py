"""Small networks that the nasty cases are made of: exact weights where a count is known, seeded ones elsewhere."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Rows = Sequence[Sequence[float]]
Part = nn.Module | Rows | tuple[Rows, Sequence[float]]


def linear(weight: Rows, bias: Sequence[float] | None = None) -> nn.Linear:
    """A float64 layer with the given weights; no bias means zeros."""
    w = torch.tensor(weight, dtype=torch.float64)
    layer = nn.Linear(w.shape[1], w.shape[0], dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(w)
        layer.bias.copy_(torch.tensor(bias, dtype=torch.float64) if bias is not None else torch.zeros(w.shape[0]))
    return layer


def layers(*parts: Part) -> nn.Sequential:
    """A Sequential in which (weight, bias) or weights without a bias stand for a linear layer."""

    def read(part: Part) -> nn.Module:
        if isinstance(part, nn.Module):
            return part
        return linear(*part) if isinstance(part, tuple) else linear(part)

    return nn.Sequential(*map(read, parts))


def relu_net(first: Part, last: Part) -> nn.Sequential:
    return layers(first, nn.ReLU(), last)


def seeded(seed: int, build: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """A factory whose default initialisation is that of ``torch.manual_seed(seed)``; the global stream is restored."""

    def factory() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return build()

    return factory


def mlp(widths: Sequence[int], act: Callable[[], nn.Module] = nn.ReLU, bias: bool = True) -> nn.Sequential:
    """Linear layers of the given widths (inputs and outputs included) with ``act`` between them."""
    parts: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        parts += [nn.Linear(a, b, bias=bias), act()]
    return nn.Sequential(*parts[:-1])


PRIMES = [p for p in range(2, 500) if all(p % q for q in range(2, p))]


def generic_head(n: int, c: int = 1) -> nn.Linear:
    """An output layer on which no two activation regions agree: square roots of distinct primes."""
    return linear([[math.sqrt(PRIMES[i * n + j]) for j in range(n)] for i in range(c)], [0.5 - i for i in range(c)])


def lines(normals: Rows, offsets: Sequence[float]) -> nn.Sequential:
    """One hidden ReLU layer: unit i folds along normals[i] @ x + offsets[i] = 0."""
    return layers((normals, offsets), nn.ReLU(), generic_head(len(normals)))


def general_lines(n: int) -> nn.Sequential:
    """n lines in general position whose crossings all lie in [-20, 20]^2: tangents of a circle at spread angles."""
    angles = [math.pi * (i + 0.3 * math.sin(i + 1)) / n for i in range(n)]
    return lines([[math.cos(a), math.sin(a)] for a in angles], [-1.0] * n)


def planes(n: int, offset: float) -> nn.Sequential:
    """n planes in general position in 3-D: normals on the moment curve, distance of about ``offset`` to the origin."""
    t = [(i - (n - 1) / 2) / n * 2 for i in range(n)]
    return lines([[1.0, x, x * x] for x in t], [offset * math.sin(2 * i + 1) for i in range(n)])


def sawtooth(depth: int) -> nn.Sequential:
    """The tent map 2 relu(x) - 4 relu(x - 1/2) composed ``depth`` times: 2^depth pieces on [0, 1] (Telgarsky 2015)."""
    parts: list[nn.Module] = []
    for _ in range(depth):
        parts += [linear([[1.0], [1.0]], [0.0, -0.5]), nn.ReLU(), linear([[2.0, -4.0]])]
    return nn.Sequential(*parts)


class Apply(nn.Module):
    """A linear layer, a function, a linear layer."""

    def __init__(self, before: nn.Module, function: Callable[[Tensor], Tensor], after: nn.Module | None = None) -> None:
        super().__init__()
        self.before, self.function, self.after = before, function, after or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.function(self.before(x)))


class Pairwise(nn.Module):
    """maximum(a(x), b(x)) or minimum(a(x), b(x)) of two tensors."""

    def __init__(self, a: nn.Module, b: nn.Module, smallest: bool = False) -> None:
        super().__init__()
        self.a, self.b, self.smallest = a, b, smallest

    def forward(self, x: Tensor) -> Tensor:
        return torch.minimum(self.a(x), self.b(x)) if self.smallest else torch.maximum(self.a(x), self.b(x))


class Maxout(nn.Module):
    """Maxout written by hand: the largest of ``pieces`` affine functions, for each unit."""

    def __init__(self, before: nn.Linear, pieces: int, after: nn.Module | None = None) -> None:
        super().__init__()
        self.before, self.pieces, self.after = before, pieces, after or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        z = self.before(x)
        return self.after(z.reshape(z.shape[0], -1, self.pieces).amax(dim=2))


class LongSkip(nn.Module):
    """A residual connection that crosses three folds, inside another that crosses all five."""

    def __init__(self, d: int, width: int, c: int) -> None:
        super().__init__()
        self.stem = nn.Linear(d, width)
        self.body = nn.ModuleList([nn.Linear(width, width) for _ in range(4)])
        self.head = nn.Linear(width, c)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        stem = self.stem(x)
        y = self.relu(stem)
        z = self.relu(self.body[0](y))
        z = self.relu(self.body[1](z))
        z = self.relu(self.body[2](z)) + y
        return self.head(F.relu(self.body[3](z)) + stem)


class Dense(nn.Module):
    """Every layer sees all earlier ones (concatenation)."""

    def __init__(self, d: int, growth: int, depth: int, c: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(d + i * growth, growth) for i in range(depth)])
        self.head = nn.Linear(d + depth * growth, c)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = torch.cat([x, torch.relu(block(x))], dim=1)
        return self.head(x)


class SharedTwice(nn.Module):
    """One linear layer and one ReLU module, each called three times."""

    def __init__(self, d: int, width: int, c: int) -> None:
        super().__init__()
        self.stem, self.shared, self.relu, self.head = (
            nn.Linear(d, width),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, c),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.relu(self.shared(self.relu(self.shared(self.relu(self.stem(x)))))))


class ResidualCNN(nn.Module):
    """Convolutions with BatchNorm statistics that are not trivial, a projection shortcut and average pooling."""

    def __init__(self, channels: int, c: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = (
            nn.Conv2d(channels, channels, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.short = nn.Conv2d(channels, channels, 1, stride=2)
        self.head = nn.Linear(channels, c)
        for bn in (self.bn1, self.bn2):
            nn.init.uniform_(bn.running_mean, -0.5, 0.5)
            nn.init.uniform_(bn.running_var, 0.5, 2.0)
            nn.init.uniform_(bn.weight, -1.0, 1.5)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)) + self.short(y))
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))


def pooled_cnn(
    c: int, channels: int = 3, side: int = 6, pool: Callable[[], nn.Module] = lambda: nn.MaxPool2d(2)
) -> nn.Sequential:
    """conv, ReLU, max pool, linear on 1 x side x side images."""
    front = nn.Sequential(nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), pool())
    with torch.no_grad():
        n = front(torch.zeros(1, 1, side, side)).numel()
    return nn.Sequential(*front, nn.Flatten(), nn.Linear(n, c))
