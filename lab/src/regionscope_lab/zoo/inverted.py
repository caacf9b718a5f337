"""Networks of separable convolutions for CIFAR: MobileNetV2, EfficientNetB0 and ShuffleNetV2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from regionscope.checks import one_of
from regionscope_lab.zoo.layers import (
    ACTIVATIONS,
    DropConnect,
    ResidualBlock,
    SqueezeExcite,
    chain,
    channels_of,
    convolution,
    head,
    network,
    number,
    projection,
    stages,
)

STEM = 32
MOBILE = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""expansion, width, depth, stride of each stage"""
MOBILE_FEATURES = 1280
EFFICIENT = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip
"""expansion, width, depth, stride, kernel of each stage"""
SQUEEZE = 4


def _bottleneck(
    inputs: int, outputs: int, stride: int, *, expansion: int, kernel: int, activation: str, gate: bool = False
) -> list[nn.Module]:
    """Widen by a 1x1 convolution, convolve each channel alone, perhaps gate, narrow without an activation."""
    kind, wide = ACTIVATIONS[activation], inputs * expansion
    gates = [SqueezeExcite(wide, max(1, inputs // SQUEEZE), kind())] if gate else []
    return [
        *convolution(inputs, wide, 1),
        kind(),
        *convolution(wide, wide, kernel, stride=stride, groups=wide),
        kind(),
        *gates,
        *convolution(wide, outputs, 1),
    ]


def _mobile_block(inputs: int, outputs: int, stride: int, *, expansion: int, activation: str) -> nn.Module:
    layers = _bottleneck(inputs, outputs, stride, expansion=expansion, kernel=3, activation=activation)
    return ResidualBlock(chain(*layers), projection(inputs, outputs, 1) if stride == 1 else None, relu=False)


def mobilenetv2(*, classes: int, input_shape: Sequence[int], activation: str = "relu") -> nn.Module:
    """Sandler et al. 2018, "MobileNetV2", Table 2.

    Differs, as usual for CIFAR: the stem and the second stage keep the size of the image; blocks of stride 1 that
    change the number of channels have a shortcut too, by a 1x1 convolution; the first stage has an expansion layer, of
    factor 1. activation: "relu", or the paper's "relu6".
    """
    kind = ACTIVATIONS[one_of("activation", activation, ("relu", "relu6"))]
    stem = chain(*convolution(channels_of(input_shape), STEM), kind())
    block = partial(_mobile_block, activation=activation)
    made = stages(STEM, [(partial(block, expansion=e), width, depth, stride) for e, width, depth, stride in MOBILE])
    last = chain(*convolution(MOBILE[-1][1], MOBILE_FEATURES, 1), kind())
    return network(stem, [*made, last], head(MOBILE_FEATURES, classes))


def _efficient_block(
    inputs: int, outputs: int, stride: int, *, expansion: int, kernel: int, rates: Iterator[float]
) -> nn.Module:
    """``rates`` hands out the drop-connect rate of each block in turn; only blocks with a shortcut can be skipped."""
    layers = _bottleneck(inputs, outputs, stride, expansion=expansion, kernel=kernel, activation="silu", gate=True)
    rate = next(rates)
    if stride != 1 or inputs != outputs:
        return ResidualBlock(chain(*layers), None, relu=False)
    return ResidualBlock(chain(*layers, *([DropConnect(rate)] if rate else [])), nn.Identity(), relu=False)


def efficientnetb0(
    *, classes: int, input_shape: Sequence[int], dropout: float = 0.2, drop_connect: float = 0.2
) -> nn.Module:
    """Tan and Le 2019, "EfficientNet", Table 1. Not piecewise affine: SiLU (swish), squeeze and excitation.

    Differs, as usual for CIFAR: the stem has stride 1, the classes follow the last stage directly; the first stage has
    an expansion layer, of factor 1. dropout: before the linear layer. drop_connect: the share of a batch that skips the
    branch of a block, growing from 0 at the first block towards this value at the last. Both rest in eval mode.
    """
    dropout = number("dropout", dropout, below=1.0)
    highest = number("drop_connect", drop_connect, below=1.0)
    blocks = sum(depth for _, _, depth, _, _ in EFFICIENT)
    rates = iter([highest * i / blocks for i in range(blocks)])
    stem = chain(*convolution(channels_of(input_shape), STEM), nn.SiLU())
    block = partial(_efficient_block, rates=rates)
    plan = [(partial(block, expansion=e, kernel=k), width, depth, stride) for e, width, depth, stride, k in EFFICIENT]
    return network(stem, stages(STEM, plan), head(EFFICIENT[-1][1], classes, dropout=dropout))


SHUFFLE = ((116, 4), (232, 8), (464, 4))
"""width, depth of each stage"""
SHUFFLE_STEM, SHUFFLE_FEATURES = 24, 1024


class ShuffleUnit(nn.Module):
    """Shuffle(cat(rest, branch)). Ma et al. 2018, "ShuffleNet V2", Figure 3.

    With stride 1 the branch works on the second half of the channels and the first half is the rest; with stride 2
    both halves come from all channels, the rest by a convolution of its own.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        self.splits = stride == 1
        self.rest: nn.Module = nn.Identity()
        if not self.splits:
            self.rest = chain(
                *convolution(inputs, inputs, stride=stride, groups=inputs), *convolution(inputs, half, 1), nn.ReLU()
            )
        self.branch = chain(
            *convolution(half if self.splits else inputs, half, 1),
            nn.ReLU(),
            *convolution(half, half, stride=stride, groups=half),
            *convolution(half, half, 1),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=1) if self.splits else (x, x)
        joined = torch.cat([self.rest(first), self.branch(second)], dim=1)
        # Channels 0, h, 1, h + 1...: the next unit's halves hold channels of both.
        shuffled: Tensor = joined.unflatten(1, (2, joined.shape[1] // 2)).transpose(1, 2).flatten(1, 2)
        return shuffled


def shufflenetv2(*, classes: int, input_shape: Sequence[int]) -> nn.Module:
    """Ma et al. 2018, Table 5, 1x. Differs, as usual for CIFAR: a stem of stride 1 without max-pooling."""
    stem = chain(*convolution(channels_of(input_shape), SHUFFLE_STEM), nn.ReLU())
    made = stages(SHUFFLE_STEM, [(ShuffleUnit, width, depth, 2) for width, depth in SHUFFLE])
    last = chain(*convolution(SHUFFLE[-1][0], SHUFFLE_FEATURES, 1), nn.ReLU())
    return network(stem, [*made, last], head(SHUFFLE_FEATURES, classes))
