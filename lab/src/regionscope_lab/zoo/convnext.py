"""ConvNeXt for small images: 7x7 convolutions of each channel, LayerNorm and GELU. Not piecewise affine."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn

from regionscope.checks import read_integer
from regionscope_lab.zoo.layers import channels_of, network

WIDTH, BLOCKS = 64, 3
EXPANSION = 4  # units of an MLP over the channels


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of each pixel of (b, c, h, w)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    """x plus an MLP on each pixel of norm(depthwise(x)). Liu et al. 2022, Figure 4, without the scale of the branch."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        wide = EXPANSION * channels
        self.branch = nn.Sequential(
            OrderedDict(
                depthwise=nn.Conv2d(channels, channels, 7, padding=3, groups=channels),
                norm=ChannelNorm(channels),
                expand=nn.Conv2d(channels, wide, 1),
                gelu=nn.GELU(),
                project=nn.Conv2d(wide, channels, 1),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)  # type: ignore[no-any-return]


def convnext(*, classes: int, input_shape: Sequence[int], width: int = WIDTH) -> nn.Module:
    """Liu et al. 2022, small: three stages of three blocks with ``width``, 2 and 4 times ``width`` channels.

    Each stage starts with a 3x3 convolution of stride 2, so that images of any size are accepted.
    """
    width = read_integer("width", width)
    channels = (channels_of(input_shape), width, 2 * width, 4 * width)
    stem = nn.Sequential(OrderedDict(conv=_halved(channels[0], width), norm=ChannelNorm(width)))
    stages = [_stage(None, width), *(_stage(channels[i], channels[i + 1]) for i in (1, 2))]
    end = nn.Sequential(
        OrderedDict(
            pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), norm=nn.LayerNorm(channels[-1]),
            linear=nn.Linear(channels[-1], classes),
        )
    )  # fmt: skip
    return network(stem, stages, end)


def _stage(inputs: int | None, outputs: int) -> nn.Sequential:
    """Blocks, after a convolution from ``inputs`` channels that halves the image; None: no such convolution."""
    named: OrderedDict[str, nn.Module] = OrderedDict()
    if inputs is not None:
        named.update(norm=ChannelNorm(inputs), conv=_halved(inputs, outputs))
    named.update((f"block{i}", ConvNextBlock(outputs)) for i in range(1, BLOCKS + 1))
    return nn.Sequential(named)


def _halved(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)
