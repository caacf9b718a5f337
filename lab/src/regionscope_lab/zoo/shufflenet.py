"""ShuffleNetV2: half of the channels is worked on, then the halves are shuffled."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regionscope_lab.zoo.blocks import stages
from regionscope_lab.zoo.checks import channels_of
from regionscope_lab.zoo.layers import chain, convolution, head, network

STAGES = ((116, 4), (232, 8), (464, 4))  # width, depth
STEM, FEATURES = 24, 1024


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
    stem = chain(*convolution(channels_of(input_shape), STEM), nn.ReLU())
    made = stages(STEM, [(ShuffleUnit, width, depth, 2) for width, depth in STAGES])
    last = chain(*convolution(STAGES[-1][0], FEATURES, 1), nn.ReLU())
    return network(stem, [*made, last], head(FEATURES, classes))
