"""VGG: plain stacks of 3x3 convolutions with max-pooling between them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from regionscope_lab.zoo.checks import channels_of
from regionscope_lab.zoo.layers import chain, convolution, head

STACKS = ((2, 64), (2, 128), (4, 256), (4, 512), (4, 512))


def vgg19(*, classes: int, input_shape: Sequence[int]) -> nn.Module:
    """Sixteen convolutions (with a bias) with BatchNorm, five max-poolings, one linear layer.

    Simonyan and Zisserman 2015, configuration E. Differs, as usual for CIFAR: BatchNorm, and one linear layer in place
    of three. Pooling rounds up, so that a 28x28 image is not used up before the last one; 32x32 is halved evenly.
    """
    inputs = channels_of(input_shape)
    layers: list[nn.Module] = []
    for depth, width in STACKS:
        for _ in range(depth):
            layers += [*convolution(inputs, width, bias=True), nn.ReLU()]
            inputs = width
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return nn.Sequential(OrderedDict(features=chain(*layers), head=head(inputs, classes)))
