"""SimpleDLA: a tree of residual blocks whose leaves are joined in pairs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regionscope_lab.zoo.layers import basic_block, chain, channels_of, convolution, head, network

TREES = ((64, 1, 1), (128, 2, 2), (256, 2, 2), (512, 1, 2))  # width, levels, stride
STEM = 16


class Tree(nn.Module):
    """root(cat(left(x), right(left(x)))): a 1x1 convolution joins two subtrees, at the last level two basic blocks.

    Yu et al. 2018, "Deep Layer Aggregation", section 3.2, with the root joining its two children alone.
    """

    def __init__(self, inputs: int, outputs: int, *, levels: int, stride: int) -> None:
        super().__init__()
        self.left = _child(inputs, outputs, levels - 1, stride)
        self.right = _child(outputs, outputs, levels - 1, 1)
        self.root = chain(*convolution(2 * outputs, outputs, 1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        left = self.left(x)
        return self.root(torch.cat([left, self.right(left)], dim=1))  # type: ignore[no-any-return]


def _child(inputs: int, outputs: int, levels: int, stride: int) -> nn.Module:
    return Tree(inputs, outputs, levels=levels, stride=stride) if levels else basic_block(inputs, outputs, stride)


def simpledla(*, classes: int, input_shape: Sequence[int]) -> nn.Module:
    """Deep layer aggregation for CIFAR: three convolutions, then trees of 1, 2, 2 and 1 levels."""
    stem = chain(
        *convolution(channels_of(input_shape), STEM), nn.ReLU(),
        *convolution(STEM, STEM), nn.ReLU(),
        *convolution(STEM, 2 * STEM), nn.ReLU(),
    )  # fmt: skip
    stages: list[nn.Module] = []
    inputs = 2 * STEM
    for width, levels, stride in TREES:
        stages.append(Tree(inputs, width, levels=levels, stride=stride))
        inputs = width
    return network(stem, stages, head(inputs, classes))
