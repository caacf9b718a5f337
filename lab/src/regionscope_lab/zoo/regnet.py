"""RegNet: bottleneck blocks of grouped convolutions, with widths from a rule."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from regionscope_lab.zoo.blocks import ResidualBlock, projection, stages
from regionscope_lab.zoo.checks import channels_of
from regionscope_lab.zoo.layers import chain, convolution, head, network

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
