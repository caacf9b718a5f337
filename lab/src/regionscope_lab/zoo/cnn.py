"""Plain convolutional networks: a small one with a number of layers of one width, and VGG19 for CIFAR."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from regionscope.checks import one_of, read_integer
from regionscope_lab.zoo.dense import scaled
from regionscope_lab.zoo.layers import activation_layer, chain, channels_of, convolution, flag, head

POOLINGS = ("max", "avg", "stride", "none")


def cnn(
    *,
    classes: int,
    input_shape: Sequence[int],
    depth: int = 4,
    width: int = 32,
    bn: bool = True,
    activation: str = "relu",
    pooling: str = "max",
    flatten: bool = False,
    scale: float = 1.0,
) -> nn.Module:
    """``depth`` 3x3 convolutions of ``width`` channels, a global mean, and a linear layer.

    bn: BatchNorm after each convolution; without it, convolutions have a bias.
    pooling: how the image is halved after every second convolution but the last one: "max", "avg", by the next
        convolution's "stride", or "none".
    flatten: whether the linear layer sees every position of the last convolution, in place of the mean over them.
    scale: all initial parameters are multiplied by it.
    """
    inputs, depth, width = channels_of(input_shape), read_integer("depth", depth), read_integer("width", width)
    bn, pooling = flag("bn", bn), one_of("pooling", pooling, POOLINGS)
    layers: list[nn.Module] = []
    for i in range(depth):
        halves = i > 0 and i % 2 == 0
        if halves and pooling in ("max", "avg"):
            # Rounding up keeps images of any size, down to one pixel.
            layers.append((nn.MaxPool2d if pooling == "max" else nn.AvgPool2d)(2, ceil_mode=True))
        stride = 2 if halves and pooling == "stride" else 1
        layers += [*convolution(width if i else inputs, width, stride=stride, bn=bn), activation_layer(activation)]
    end = head(width, classes)
    if flag("flatten", flatten):
        halvings = 0 if pooling == "none" else (depth - 1) // 2
        pixels = math.prod(-(-side // 2**halvings) for side in input_shape[1:])
        end = nn.Sequential(OrderedDict(flatten=nn.Flatten(), linear=nn.Linear(width * pixels, classes)))
    return scaled(nn.Sequential(OrderedDict(features=chain(*layers), head=end)), scale)


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
