"""Cases with default initialisation: every architecture, slices of every kind. Fast and slow must agree."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from nasty.case import case, random_points, square
from nasty.modules import (
    Apply,
    Dense,
    LongSkip,
    Maxout,
    Pairwise,
    ResidualCNN,
    SharedTwice,
    linear,
    mlp,
    pooled_cnn,
    seeded,
)
from regionscope.geometry import Box, Segment, Simplex


def tied_pixels() -> Simplex:
    """Images whose four pixels of each pooling window are equal, so that windows tie on the whole slice."""
    return Simplex(0.6 * random_points(3, 1, 3, 3).repeat_interleave(2, -1).repeat_interleave(2, -2))


SEEDED = [
    case("MLP on a square", seeded(1, lambda: mlp([2, 10, 10, 10, 3])), square()),
    case("MLP, single logit", seeded(2, lambda: mlp([2, 12, 12, 1])), square(2)),
    case("MLP on a triangle of many inputs", seeded(3, lambda: mlp([20, 9, 9, 4])), Simplex(3 * random_points(3, 20))),
    case(
        "MLP on a skew box",
        seeded(18, lambda: mlp([5, 9, 9, 2])),
        Box(random_points(1, 5)[0], random_points(2, 5), [1, 3]),
    ),
    case("MLP on a segment", seeded(5, lambda: mlp([20, 30, 30, 3])), Segment(*random_points(2, 20)).extended(-3, 4)),
    case("MLP on a two-point simplex", seeded(5, lambda: mlp([20, 30, 30, 3])), Simplex(5 * random_points(2, 20))),
    case(
        "MLP on a one-dimensional box", seeded(5, lambda: mlp([20, 30, 30, 3])), Box([0] * 20, random_points(1, 20), 4)
    ),
    case("zero-bias MLP around the origin", seeded(6, lambda: mlp([2, 8, 8, 8, 3], bias=False)), square()),
    case("zero-bias MLP, the origin is a corner", seeded(6, lambda: mlp([2, 8, 8, 8, 3], bias=False)), square(1, 1, 1)),
    case(
        "zero-bias MLP, segment through the origin",
        seeded(6, lambda: mlp([2, 8, 8, 3], bias=False)),
        Segment([-1.0, 0.3], [1.0, -0.3]),
    ),
    case("leaky MLP", seeded(5, lambda: mlp([2, 6, 6, 3], lambda: nn.LeakyReLU(0.2))), square(2)),
    case(
        "PReLU MLP with negative slopes", seeded(18, lambda: mlp([2, 6, 6, 3], lambda: nn.PReLU(init=-0.5))), square(2)
    ),
    case("PReLU with a slope for each unit", seeded(8, lambda: mlp([2, 8, 3], lambda: nn.PReLU(8))), square(2)),
    case("RReLU in eval mode", seeded(18, lambda: mlp([2, 6, 6, 3], nn.RReLU)), square(2)),
    case(
        "ReLU6 MLP",
        seeded(15, lambda: nn.Sequential(linear([[9, 0], [0, 9]]), mlp([2, 5, 5, 3], nn.ReLU6).double())),
        square(2),
    ),
    case("hardtanh MLP", seeded(10, lambda: mlp([2, 6, 6, 3], lambda: nn.Hardtanh(-0.3, 0.4))), square(2)),
    case(
        "abs MLP",
        seeded(11, lambda: Apply(nn.Linear(2, 6), torch.abs, Apply(nn.Linear(6, 5), torch.abs, nn.Linear(5, 3)))),
        square(2),
    ),
    case("maxout network", seeded(14, lambda: Maxout(nn.Linear(2, 9), 3, Maxout(nn.Linear(3, 9), 3))), square(3)),
    case(
        "min and max of tensors",
        seeded(
            13,
            lambda: nn.Sequential(
                Pairwise(nn.Linear(2, 6), nn.Linear(2, 6)), Pairwise(nn.Linear(6, 3), nn.Linear(6, 3), smallest=True)
            ),
        ),
        square(3),
    ),
    case("skip across three folds", seeded(14, lambda: LongSkip(2, 8, 3)), square(3)),
    case(
        "skip across three folds on a segment",
        seeded(14, lambda: LongSkip(6, 12, 3)),
        Segment(*(5 * random_points(2, 6))),
    ),
    case("dense connections", seeded(15, lambda: Dense(2, 6, 3, 3)), square(3)),
    case("layers and ReLU shared", seeded(16, lambda: SharedTwice(2, 6, 3)), square(3)),
    case(
        "residual CNN with BatchNorm",
        seeded(17, lambda: ResidualCNN(2, 3).eval()),
        Simplex(4 * random_points(3, 1, 6, 6)),
    ),
    case(
        "residual CNN on a segment",
        seeded(17, lambda: ResidualCNN(4, 3).eval()),
        Segment(*(4 * random_points(2, 1, 6, 6))),
    ),
    case("CNN with max pool", seeded(18, lambda: pooled_cnn(3)), Simplex(0.5 * random_points(3, 1, 6, 6))),
    case(
        "CNN with max pool on a segment", seeded(18, lambda: pooled_cnn(3)), Segment(*(3 * random_points(2, 1, 6, 6)))
    ),
    case(
        "max pool before any ReLU",
        seeded(19, lambda: nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.Flatten(), nn.Linear(9, 2))),
        Simplex(3 * random_points(3, 1, 6, 6)),
    ),
    case(
        "max pool with overlapping padded windows",
        seeded(19, lambda: pooled_cnn(2, 2, 4, lambda: nn.MaxPool2d(3, 1, 1))),
        Box(torch.zeros(1, 4, 4), random_points(2, 1, 4, 4), 0.6),
    ),
    case(
        "max pool of tied pixels",
        seeded(20, lambda: nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(9, 2))),
        tied_pixels(),
        (1, 1),
    ),
    case("max pool of tied pixels after a convolution", seeded(20, lambda: pooled_cnn(2)), tied_pixels()),
    case(
        "average pool and functional ReLU",
        seeded(
            21,
            lambda: Apply(nn.Conv2d(1, 3, 3), F.relu, nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(12, 3))),
        ),
        Simplex(4 * random_points(3, 1, 6, 6)),
    ),
    case("thin box", seeded(22, lambda: mlp([2, 12, 12, 3])), Box([0.1, 0.2], torch.eye(2), [2.0, 1e-8])),
    case("thin triangle", seeded(22, lambda: mlp([2, 12, 12, 3])), Simplex([[-2, -2], [2, 2], [0, 1e-7]])),
    case("short segment", seeded(22, lambda: mlp([2, 12, 12, 3])), Segment([0.1, 0.2], [0.1 + 1e-7, 0.2])),
    case("wide first layer", seeded(23, lambda: mlp([2, 40, 3])), square(3)),
]
