"""Blocks that several families share: residual sums, squeeze and excitation, drop-connect, stages of blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from regionscope_lab.zoo.layers import chain, convolution

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
