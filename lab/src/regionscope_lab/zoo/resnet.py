"""Residual networks: post-activation, pre-activation, and with squeeze and excitation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from regionscope.checks import one_of, read_integer
from regionscope_lab.zoo.layers import (
    ResidualBlock,
    SqueezeExcite,
    basic_block,
    chain,
    channels_of,
    convolution,
    flag,
    head,
    network,
    projection,
    stages,
    widening,
)

WIDTH = 64
REDUCTION = 16
STEMS = ("cifar", "imagenet")


def resnet18(
    *, classes: int, input_shape: Sequence[int], width: int = WIDTH, bn: bool = True, stem: str = "cifar"
) -> nn.Module:
    """He et al. 2015, "Deep Residual Learning".

    width: channels of the first stage. bn: BatchNorm; without it, convolutions have a bias.
    stem: "cifar" is one 3x3 convolution of stride 1, as is usual for small images; "imagenet" is the paper's own, a 7x7
        convolution and a 3x3 max-pooling, both of stride 2.
    """
    return _resnet((2, 2, 2, 2), classes, input_shape, width, bn, stem)


def resnet34(
    *, classes: int, input_shape: Sequence[int], width: int = WIDTH, bn: bool = True, stem: str = "cifar"
) -> nn.Module:
    """``resnet18`` with 3, 4, 6 and 3 blocks in its stages."""
    return _resnet((3, 4, 6, 3), classes, input_shape, width, bn, stem)


def _resnet(
    depths: Sequence[int], classes: int, input_shape: Sequence[int], width: int, bn: bool, stem: str
) -> nn.Module:
    width, bn = read_integer("width", width), flag("bn", bn)
    start = _stem(channels_of(input_shape), width, bn, one_of("stem", stem, STEMS))
    return network(start, widening(partial(basic_block, bn=bn), width, depths), head(width * 8, classes))


def _stem(channels: int, width: int, bn: bool, kind: str) -> nn.Sequential:
    if kind == "cifar":
        return chain(*convolution(channels, width, bn=bn), nn.ReLU())
    return chain(*convolution(channels, width, 7, stride=2, bn=bn), nn.ReLU(), nn.MaxPool2d(3, 2, 1))


class PreActivation(nn.Module):
    """branch(relu(bn(x))) plus x, or plus a projection of relu(bn(x)) where shapes differ.

    He et al. 2016, "Identity Mappings in Deep Residual Networks". gate: the branch ends in squeeze and excitation.
    bn: BatchNorm; without it, convolutions have a bias.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, *, gate: bool = False, bn: bool = True) -> None:
        super().__init__()
        gates = [SqueezeExcite(outputs, outputs // REDUCTION, nn.ReLU())] if gate else []
        self.before = _active(inputs, bn=bn)
        self.branch = chain(
            *convolution(inputs, outputs, stride=stride, bn=bn),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=not bn),
            *gates,
        )
        keeps_shape = stride == 1 and inputs == outputs
        self.projection = None if keeps_shape else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = self.before(x)
        shortcut = x if self.projection is None else self.projection(active)
        return self.branch(active) + shortcut  # type: ignore[no-any-return]


def _active(channels: int, *, bn: bool) -> nn.Sequential:
    return chain(*([nn.BatchNorm2d(channels)] if bn else []), nn.ReLU())


def preactresnet18(*, classes: int, input_shape: Sequence[int], width: int = WIDTH, bn: bool = True) -> nn.Module:
    """He et al. 2016: BatchNorm and ReLU stand before the convolutions, and once more after the last block.

    width: channels of the first stage. bn: BatchNorm; without it, convolutions have a bias.
    """
    width, bn = read_integer("width", width), flag("bn", bn)
    stem = nn.Conv2d(channels_of(input_shape), width, 3, padding=1, bias=not bn)
    stages = widening(partial(PreActivation, bn=bn), width, (2, 2, 2, 2))
    return network(stem, [*stages, _active(width * 8, bn=bn)], head(width * 8, classes))


def senet18(*, classes: int, input_shape: Sequence[int], width: int = WIDTH) -> nn.Module:
    """Pre-activation blocks, each branch ending in squeeze and excitation with reduction 16. Hu et al. 2018."""
    width = read_integer("width", width, least=REDUCTION)
    stem = chain(*convolution(channels_of(input_shape), width), nn.ReLU())
    stages = widening(partial(PreActivation, gate=True), width, (2, 2, 2, 2))
    return network(stem, stages, head(width * 8, classes))


STAGES = ((24, 1, 1), (56, 1, 1), (152, 4, 2), (368, 7, 2))  # width, depth, stride
GROUP_WIDTH = 8
STEM = 64


def regnetx200mf(*, classes: int, input_shape: Sequence[int]) -> nn.Module:
    """RegNetX at 200 million operations: groups of 8 channels, no bottleneck.

    Radosavovic et al. 2020, "Designing Network Design Spaces". Differs, as usual for CIFAR: a stem of 64 channels and
    stride 1, and the first two stages keep the size of the image.
    """
    stem = chain(*convolution(channels_of(input_shape), STEM), nn.ReLU())
    made = stages(STEM, [(_block, *sizes) for sizes in STAGES])
    return network(stem, made, head(STAGES[-1][0], classes))


def _block(inputs: int, outputs: int, stride: int) -> nn.Module:
    """1x1, grouped 3x3 and 1x1 convolutions, all of the width of the stage."""
    branch = chain(
        *convolution(inputs, outputs, 1),
        nn.ReLU(),
        *convolution(outputs, outputs, stride=stride, groups=outputs // GROUP_WIDTH),
        nn.ReLU(),
        *convolution(outputs, outputs, 1),
    )
    return ResidualBlock(branch, projection(inputs, outputs, stride))
