"""Random networks with smooth functions: proven maps against evaluations at random points.

``python -m fuzz.smooth --seeds 0:1000`` maps the slices of these seeds and evaluates each network at points of proven
cells in float64; a point with another label is a contradiction. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from regionscope import Box, DecisionMap, Segment, Simplex, Slice, decision_map

Layer = Callable[[], nn.Module]


class Function(nn.Module):
    """A torch function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def _square(x: Tensor) -> Tensor:
    return 0.2 * torch.square(x)


def _exp(x: Tensor) -> Tensor:
    return torch.exp(0.2 * x)


def _largest(x: Tensor) -> Tensor:
    return torch.maximum(x, 0.3 * x.flip(1))


ACTIVATIONS: dict[str, Layer] = {
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "softplus": lambda: nn.Softplus(beta=2.0, threshold=3.0),
    "elu": lambda: nn.ELU(1.5),
    "selu": nn.SELU,
    "celu": lambda: nn.CELU(0.7),
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "softsign": nn.Softsign,
    "hardswish": nn.Hardswish,
    "sin": lambda: Function(torch.sin),
    "cos": lambda: Function(torch.cos),
    "exp": lambda: Function(_exp),
    "square": lambda: Function(_square),
    "logsigmoid": nn.LogSigmoid,
    "tanhshrink": nn.Tanhshrink,
    "relu": nn.ReLU,
    "leaky": lambda: nn.LeakyReLU(0.2),
    "prelu": lambda: nn.PReLU(init=0.3),
    "relu6": nn.ReLU6,
    "hardsigmoid": nn.Hardsigmoid,
    "softshrink": nn.Softshrink,
    "abs": lambda: Function(torch.abs),
    "maximum": lambda: Function(_largest),
}


class Residual(nn.Module):
    """x + block(x)"""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x)


class Attention(nn.Module):
    """Self-attention over four tokens."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.size = width // 4
        self.maps = nn.Linear(self.size, 3 * self.size)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.reshape(len(x), 4, self.size)
        query, key, value = self.maps(tokens).split(self.size, -1)
        attended = nn.functional.scaled_dot_product_attention(query, key, value)
        return (tokens + attended).flatten(1)


def random_network(seed: int) -> tuple[nn.Module, Slice, str]:
    """A network, a slice of its inputs, and a description of both."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    d, width, depth = int(rng.integers(2, 7)), 4 * int(rng.integers(1, 5)), int(rng.integers(1, 4))
    names = [str(name) for name in rng.choice(list(ACTIVATIONS), depth)]
    extras = {"norm": lambda: nn.LayerNorm(width), "group": lambda: nn.GroupNorm(2, width),
              "rms": lambda: nn.RMSNorm(width), "attention": lambda: Attention(width),
              "softmax": lambda: nn.Softmax(1)}  # fmt: skip
    layers: list[nn.Module] = [nn.Linear(d, width)]
    for i, name in enumerate(names):
        layers.append(ACTIVATIONS[name]())
        if rng.random() < 0.3:
            extra = str(rng.choice(list(extras)))
            layers.append(extras[extra]())
            names[i] = f"{name}+{extra}"
        linear = nn.Linear(width, width)
        layers.append(Residual(nn.Sequential(linear, nn.Tanh())) if rng.random() < 0.3 else linear)
    classes = int(rng.integers(1, 5))
    net = nn.Sequential(*layers, nn.Linear(width, classes)).double()
    scale = float(rng.choice([0.5, 1.0, 2.0, 5.0]))
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, nn.Linear):
                layer.weight.normal_(std=scale / layer.in_features**0.5)
                layer.bias.normal_(std=0.5)
        last = net[-1]
        middle = net(torch.randn(64, d, dtype=torch.float64)).mean(0)
        last.bias -= middle  # so that several labels occur
    points = torch.randn(4, d, dtype=torch.float64) * float(rng.choice([0.3, 1.0, 3.0]))
    kind = int(rng.integers(3))
    slice: Slice = Segment(points[0], points[1])
    if kind == 1:
        slice = Simplex(points[:3]) if d > 1 else slice
    elif kind == 2:
        slice = Box(points[0], points[1:3], 1.0)
    return net, slice, f"{d}-[{width}]^{depth} {', '.join(names)}, {classes} outputs, scale {scale}, {slice!r}"


def contradictions(result: DecisionMap, net: nn.Module, samples: int, seed: int) -> int:
    """Number of random points of proven cells whose label differs from that of a float64 forward pass."""
    labels = result.labels.numpy()
    proven = np.flatnonzero(labels >= 0)
    if not len(proven):
        return 0
    rng, wrong = np.random.default_rng(seed), 0
    for start in range(0, samples, 100_000):
        cell = rng.choice(proven, min(100_000, samples - start))
        corners = result.parts.corners(cell)
        weights = rng.dirichlet(np.full(corners.shape[1], 0.3), len(cell))  # many near corners and sides
        points = np.einsum("nv,nvk->nk", weights, corners)
        with torch.no_grad():
            outputs = net(result.slice.embed(torch.from_numpy(points)))
        predicted = outputs.argmax(1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).long()
        wrong += int((predicted.numpy() != labels[cell]).sum())
    return wrong


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="fuzz.smooth", description=__doc__)
    parser.add_argument("--seeds", default="0:200", metavar="FIRST:END")
    parser.add_argument("--samples", type=int, default=20_000)
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    torch.set_num_threads(1)
    bad = 0
    for seed in range(first, end):
        net, slice, text = random_network(seed)
        result = decision_map(net, slice, undecided=0.05, max_cells=3000)
        wrong = contradictions(result, net, options.samples, seed)
        bad += wrong
        if wrong:
            print(f"seed {seed}: {wrong} contradictions: {text}", flush=True)
    print(f"{end - first} networks, {options.samples} points each: {bad} contradictions")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
