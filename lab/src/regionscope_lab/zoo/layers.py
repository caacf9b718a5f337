"""Layers and blocks that several architectures share, initial weights from a seed, and checks of options."""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regionscope.checks import check_shape, is_integer, one_of
from regionscope.errors import InputError

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "relu6": nn.ReLU6,
    "hardtanh": nn.Hardtanh,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
}
"""Activations by their names, as options give them; the first four are piecewise affine."""

_NAMES: dict[type[nn.Module], str] = {
    **{kind: name for name, kind in ACTIVATIONS.items()},
    nn.Conv2d: "conv",
    nn.BatchNorm2d: "bn",
    nn.MaxPool2d: "pool",
    nn.AvgPool2d: "pool",
}


def activation_layer(name: str) -> nn.Module:
    """A new layer for one of ``ACTIVATIONS``."""
    return ACTIVATIONS[one_of("activation", name, ACTIVATIONS)]()


def chain(*layers: nn.Module) -> nn.Sequential:
    """One layer after the other, called by kind and number: ``conv1``, ``bn1``, ``relu1``, ``conv2``...

    >>> chain(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    Sequential(
      (linear1): Linear(in_features=2, out_features=3, bias=True)
      (relu1): ReLU()
      (linear2): Linear(in_features=3, out_features=1, bias=True)
    )
    """
    seen: Counter[str] = Counter()
    named: OrderedDict[str, nn.Module] = OrderedDict()
    for layer in layers:
        kind = _NAMES.get(type(layer), re.sub("(?<=[a-z])(?=[A-Z])", "_", type(layer).__name__).lower())
        seen[kind] += 1
        separator = "_" if kind[-1].isdigit() else ""  # relu6_1
        named[f"{kind}{separator}{seen[kind]}"] = layer
    return nn.Sequential(named)


def convolution(
    inputs: int,
    outputs: int,
    kernel: int = 3,
    *,
    stride: int = 1,
    groups: int = 1,
    bn: bool = True,
    bias: bool | None = None,
) -> tuple[nn.Module, ...]:
    """A convolution that keeps the size of the image (up to ``stride``), and BatchNorm unless ``bn`` is False.

    bias: of the convolution; by default only without BatchNorm, whose own shift would make it idle.
    """
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=not bn if bias is None else bias)
    return (conv, nn.BatchNorm2d(outputs)) if bn else (conv,)


def head(inputs: int, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """The mean of each channel over the image, whatever its size, and a linear layer to the classes."""
    parts: OrderedDict[str, nn.Module] = OrderedDict(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten())
    if dropout:
        parts["dropout"] = nn.Dropout(dropout)
    parts["linear"] = nn.Linear(inputs, classes)
    return nn.Sequential(parts)


def network(stem: nn.Module, stages: Sequence[nn.Module], end: nn.Module) -> nn.Sequential:
    """``stem``, ``stage1``, ``stage2``..., ``head``."""
    named: OrderedDict[str, nn.Module] = OrderedDict(stem=stem)
    named.update((f"stage{i}", stage) for i, stage in enumerate(stages, 1))
    named["head"] = end
    return nn.Sequential(named)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, torch's generator of the CPU starts from ``seed``; afterwards it goes on as if nothing had been drawn.

    The generators of GPUs are left alone: networks are built on the CPU.
    """
    if not (is_integer(seed, least=-(2**63)) and seed < 2**64):
        raise InputError(f"Expected seed to be a whole number of at most 64 bits, got {seed!r}. Choose 0, for example.")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def flag(name: str, value: object) -> bool:
    """``value`` as a truth value; 0 and 1 are not taken for one."""
    if not isinstance(value, bool):
        raise InputError(f"Expected {name} to be True or False, got {value!r}. Replace it by True or False.")
    return value


def number(name: str, value: object, *, below: float = math.inf) -> float:
    """``value`` as a finite number, 0 or more and smaller than ``below``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < below:
        end = "" if math.isinf(below) else f" and smaller than {below:g}"
        raise InputError(
            f"Expected {name} to be a finite number of at least 0{end}, got {value!r}. "
            "Set it to a number in this range, such as 0.5."
        )
    return float(value)


def channels_of(input_shape: Sequence[int]) -> int:
    """The channels of an image (channels, height, width); other shapes cannot be convolved."""
    sizes = check_shape(input_shape)
    if len(sizes) != 3:
        raise InputError(
            "Expected an input_shape (channels, height, width) for a convolutional network, such as (3, 32, 32), "
            f"got {sizes}. For other inputs use 'mlp'."
        )
    return sizes[0]


MakeBlock = Callable[[int, int, int], nn.Module]
"""block(inputs, outputs, stride)"""


class ResidualBlock(nn.Module):
    """relu(branch(x) + shortcut(x)); without ``shortcut`` the branch alone, without ``relu`` the sum alone."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module | None, *, relu: bool = True) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut = shortcut
        self.relu = nn.ReLU() if relu else None

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.branch(x)
        if self.shortcut is not None:
            out = out + self.shortcut(x)
        return out if self.relu is None else self.relu(out)


def projection(inputs: int, outputs: int, stride: int, *, bn: bool = True) -> nn.Module:
    """The shortcut of a residual block: x itself where shapes agree, else a 1x1 convolution."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return chain(*convolution(inputs, outputs, 1, stride=stride, bn=bn))


def basic_block(inputs: int, outputs: int, stride: int, *, bn: bool = True) -> nn.Module:
    """Two 3x3 convolutions and a shortcut. He et al. 2015, "Deep Residual Learning", Figure 2."""
    branch = chain(
        *convolution(inputs, outputs, stride=stride, bn=bn), nn.ReLU(), *convolution(outputs, outputs, bn=bn)
    )
    return ResidualBlock(branch, projection(inputs, outputs, stride, bn=bn))


class SqueezeExcite(nn.Module):
    """x * sigmoid(W2 act(W1 mean(x))): each channel is scaled by a gate that looks at the means of all channels.

    Hu et al. 2018, "Squeeze-and-Excitation Networks", section 3. Not piecewise affine.
    """

    def __init__(self, channels: int, squeezed: int, activation: nn.Module) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.activation = activation
        self.excite = nn.Conv2d(squeezed, channels, 1)
        self.sigmoid = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        squeezed = self.activation(self.squeeze(self.pool(x)))
        return x * self.sigmoid(self.excite(squeezed))  # type: ignore[no-any-return]


class DropConnect(nn.Module):
    """In training, zero for a share ``rate`` of the inputs of a batch, x / (1 - rate) for the others; else x.

    Huang et al. 2016, "Deep Networks with Stochastic Depth"; called drop-connect in EfficientNet.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.rate:
            return x
        kept = torch.rand(len(x), *(1,) * (x.ndim - 1), device=x.device) >= self.rate
        return x * kept / (1 - self.rate)

    def extra_repr(self) -> str:
        return f"rate={self.rate:g}"


def stages(inputs: int, plan: Iterable[tuple[MakeBlock, int, int, int]]) -> list[nn.Module]:
    """A stage (``block1``, ``block2``...) for each block, channels, depth and stride of its first block."""
    made: list[nn.Module] = []
    for block, outputs, depth, stride in plan:
        blocks = ((f"block{i + 1}", block(outputs if i else inputs, outputs, 1 if i else stride)) for i in range(depth))
        made.append(nn.Sequential(OrderedDict(blocks)))
        inputs = outputs
    return made


def widening(block: MakeBlock, width: int, depths: Sequence[int]) -> list[nn.Module]:
    """The stages of a ResNet: each after the first doubles the channels and halves the image."""
    return stages(width, [(block, width * 2**i, depth, 2 if i else 1) for i, depth in enumerate(depths)])
