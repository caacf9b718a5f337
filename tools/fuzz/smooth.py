"""Random networks with smooth functions: proven maps and counts against evaluations and exact regions.

A map is evaluated in float64 at random points of its proven cells, and its number of regions is compared with that on
many points of a segment. Where a network has folds only, exact regions have the areas and the number.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from fuzz.compare import Difference, Outcome
from regionscope import Box, DecisionMap, Polygon, Segment, Simplex, Slice, decision_map, decision_regions
from regionscope.smooth import RegionBounds

SMOOTH, LARGE = 6_000_000, 7_000_000
"""Seeds of this family, and those of it that are evaluated at a million points each."""
FEW, MANY = 20_000, 1_000_000  # points

Layer = Callable[[], nn.Module]


@dataclass(frozen=True)
class SmoothNetwork:
    """A network with a slice of its inputs, and a description of both. weights_kind: the scale of its weights."""

    seed: int
    net: nn.Module
    slice: Slice
    text: str
    weights_kind: str
    has_folds_only: bool
    family: str = "smooth"
    dtype: str = "float64"

    @property
    def dim(self) -> int:
        return self.slice.dim


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


def _sqrt(x: Tensor) -> Tensor:
    return torch.sqrt(torch.square(x) + 1)


def _rsqrt(x: Tensor) -> Tensor:
    return x * torch.rsqrt(torch.square(x) + 0.5)


def _reciprocal(x: Tensor) -> Tensor:
    return 2 / (1 + torch.square(x))


def _log(x: Tensor) -> Tensor:
    return torch.log(torch.square(x) + 0.3)


def _cube(x: Tensor) -> Tensor:
    return 0.1 * x**3 - x


def _gated(x: Tensor) -> Tensor:
    return x * torch.tanh(x.flip(1))


def _largest(x: Tensor) -> Tensor:
    return torch.maximum(x, 0.3 * x.flip(1))


SMOOTH_FUNCTIONS: dict[str, Layer] = {
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
    "erf": lambda: Function(torch.erf),
    "sqrt": lambda: Function(_sqrt),
    "rsqrt": lambda: Function(_rsqrt),
    "reciprocal": lambda: Function(_reciprocal),
    "log": lambda: Function(_log),
    "cube": lambda: Function(_cube),
    "gated": lambda: Function(_gated),
}
FOLDS: dict[str, Layer] = {
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


EXTRAS: dict[str, Callable[[int], nn.Module]] = {
    "norm": nn.LayerNorm,
    "group": lambda width: nn.GroupNorm(2, width),
    "rms": nn.RMSNorm,
    "attention": Attention,
    "softmax": lambda width: nn.Softmax(1),
}


def random_network(seed: int) -> SmoothNetwork:
    """The network and the slice of a seed; one in ten has folds only, and one in ten convolutions."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    folds_only, is_image = (bool(flag) for flag in rng.random(2) < 0.1)
    functions = FOLDS if folds_only else SMOOTH_FUNCTIONS | FOLDS
    classes = int(rng.integers(1, 5))
    draw = _convolutional if is_image else _dense
    layers, shape, text = draw(rng, functions, classes)
    net = nn.Sequential(*layers).double()
    scale = float(rng.choice([0.5, 1.0, 2.0, 5.0, 1e6], p=[0.25, 0.25, 0.25, 0.2, 0.05]))
    with torch.no_grad():
        parts = [layer for layer in net.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
        for layer in parts:
            layer.weight.normal_(std=min(scale, 5.0) / layer.weight[0].numel() ** 0.5)
            layer.bias.normal_(std=0.5)
        if scale > 5:  # large numbers that cancel or saturate
            parts[0].weight.mul_(scale)
            parts[0].bias.mul_(scale)
            parts[1].weight.div_(scale)
        middle = net(torch.randn(64, *shape, dtype=torch.float64)).mean(0)  # so that several labels occur
        parts[-1].bias -= middle.nan_to_num(0.0, 0.0, 0.0)
    slice = _random_slice(rng, shape)
    described = f"{text}, {classes} outputs, scale {scale:g}, {slice!r}"
    return SmoothNetwork(seed, net, slice, described, f"scale {scale:g}", folds_only)


Drawn = tuple[list[nn.Module], tuple[int, ...], str]
"""Layers, the shape of an input, and a description."""


def _dense(rng: np.random.Generator, functions: dict[str, Layer], classes: int) -> Drawn:
    d, width, depth = int(rng.integers(2, 7)), 4 * int(rng.integers(1, 5)), int(rng.integers(1, 4))
    names = [str(name) for name in rng.choice(list(functions), depth)]
    layers: list[nn.Module] = [nn.Linear(d, width)]
    for i, name in enumerate(names):
        layers.append(functions[name]())
        if functions is not FOLDS and rng.random() < 0.3:
            extra = str(rng.choice(list(EXTRAS)))
            layers.append(EXTRAS[extra](width))
            names[i] = f"{name}+{extra}"
        linear = nn.Linear(width, width)
        middle = functions[str(rng.choice(list(functions)))]()
        layers.append(Residual(nn.Sequential(linear, middle)) if rng.random() < 0.3 else linear)
    return [*layers, nn.Linear(width, classes)], (d,), f"{d}-[{width}]^{depth} {', '.join(names)}"


def _convolutional(rng: np.random.Generator, functions: dict[str, Layer], classes: int) -> Drawn:
    channels, pool = int(rng.integers(1, 4)), str(rng.choice(["MaxPool2d", "AvgPool2d"]))
    names = [str(name) for name in rng.choice([name for name in functions if name != "attention"], 2)]
    layers = [
        nn.Conv2d(1, channels, 3), functions[names[0]](), getattr(nn, pool)(2), nn.Conv2d(channels, 4, 2, padding=1),
        functions[names[1]](), nn.Flatten(), nn.Linear(36, classes),
    ]  # fmt: skip
    return layers, (1, 6, 6), f"CNN of {channels} channels, {', '.join(names)}, {pool}"


def _random_slice(rng: np.random.Generator, shape: tuple[int, ...]) -> Slice:
    points = torch.randn(4, *shape, dtype=torch.float64) * float(rng.choice([0.1, 0.5, 2.0]))
    kind = str(rng.choice(["segment", "simplex", "box", "polygon", "space"], p=[0.4, 0.2, 0.2, 0.15, 0.05]))
    if kind == "simplex":
        return Simplex(points[:3])
    if kind == "box":
        return Box(points[0], points[1:3], 1.0)
    if kind == "polygon":
        angles = torch.linspace(0.3, 5.3, int(rng.integers(4, 8)), dtype=torch.float64)
        ones = (-1,) + (1,) * len(shape)
        return Polygon(points[0] + angles.cos().view(ones) * points[1] + angles.sin().view(ones) * points[2])
    if kind == "space" and points[0].numel() > 2:
        return Box(points[0], points[1:], 0.3)
    return Segment(points[0], points[1])


def outcome(seed: int) -> Outcome:
    """Map the slice of a seed and compare."""
    start = time.process_time()
    case = random_network(seed)
    try:
        result = decision_map(case.net, case.slice, undecided=0.05, max_cells=2000)
        different = differences(case, result, MANY if seed >= LARGE else FEW)
    except Exception as error:  # noqa: BLE001  an error of any kind is a finding here
        different = [Difference("raised", f"{type(error).__name__}: {error}", "no error", close=False)]
    return Outcome(case, different, time.process_time() - start)


def differences(case: SmoothNetwork, result: DecisionMap, samples: int) -> list[Difference]:
    """What contradicts a map of the slice."""
    wrong = contradictions(result, case.net, samples, case.seed)
    different = [Difference("labels", wrong, 0, close=False)] if wrong else []
    if not result.status:
        return different  # a limit stopped the map; its number of regions would be as open
    if case.dim == 1:
        coords = torch.linspace(*case.slice.corners[:, 0].tolist(), FEW, dtype=torch.float64)[:, None]
        changes = int((_labels(case.net, case.slice, coords).diff() != 0).sum())
        different += _outside("regions", result.counted, 1 + changes, None)
    if case.has_folds_only:
        exact = decision_regions(case.net, case.slice)
        different += _outside("regions", result.counted, exact.count, exact.count)
        areas = np.bincount(exact.labels, weights=exact.sizes, minlength=result.possible.shape[1])
        for label, area in enumerate(areas.tolist()):
            low, high = result.area(label)
            slack = 1e-9 * case.slice.size
            if not low - slack <= area <= high + slack:
                different.append(Difference(f"area of label {label}", (low, high), area, close=False))
    return different


def _outside(what: str, bounds: RegionBounds, least: int, most: int | None) -> list[Difference]:
    """Whether a number of regions between ``least`` and ``most`` contradicts its bounds."""
    holds = (bounds.high is None or least <= bounds.high) and (most is None or bounds.low <= most)
    return [] if holds else [Difference(what, (bounds.low, bounds.high), (least, most), close=False)]


def _labels(net: nn.Module, slice: Slice, coords: Tensor) -> Tensor:
    with torch.no_grad():
        outputs = net(slice.embed(coords))
    return outputs.argmax(1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).long()


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
        wrong += int((_labels(net, result.slice, torch.from_numpy(points)).numpy() != labels[cell]).sum())
    return wrong
