"""Cases in three and four dimensions."""

from __future__ import annotations

import math

import torch
from torch import nn

from nasty.case import ABS, SPLIT, case, random_points
from nasty.modules import Maxout, layers, linear, lines, mlp, planes, seeded
from regionscope.geometry import Box, Simplex

IN_SPACE = [
    case("octants", lambda: lines(torch.eye(3).tolist(), [0.1, 0.2, 0.3]), Box([0] * 3, torch.eye(3), 1), 8, 8, 1),
    case(
        "five planes in general position",
        lambda: planes(5, 0.02),
        Box([0] * 3, torch.eye(3), 40),
        *[1 + 5 + math.comb(5, 2) + math.comb(5, 3)] * 2,
    ),
    case("four planes through one point", lambda: planes(4, 0.0), Box([0] * 3, torch.eye(3), 1), 14, 14),
    case(
        "largest of three coordinates",
        lambda: Maxout(linear(torch.eye(3).tolist()), 3),
        Box([0] * 3, torch.eye(3), 1),
        3,
        3,
        2,
    ),
    case(
        "largest of six that meet in a point",
        lambda: Maxout(linear([*torch.eye(3).tolist(), *(-torch.eye(3)).tolist()]), 6),
        Box([0] * 3, torch.eye(3), 1),
        6,
        6,
        1,
    ),
    case(
        "regions that touch along a line",
        lambda: layers(([[*row, 0] for row in SPLIT], None), nn.ReLU(), (ABS, None)),
        Box([0] * 3, torch.eye(3), 1),
        4,
        4,
        4,
    ),
    case("three classes in space", lambda: linear(torch.eye(3).tolist()), Box([0] * 3, torch.eye(3), 1), 1, 1, 3),
    case(
        "dead second layer in space",
        lambda: layers((torch.eye(3).tolist(), None), nn.ReLU(), ([[1, 1, 1]], [-9]), nn.ReLU(), ([[1]], None)),
        Box([0] * 3, torch.eye(3), 1),
        8,
        1,
        1,
    ),
    case("MLP on a cube", seeded(30, lambda: mlp([3, 6, 5, 2])), Box([0] * 3, torch.eye(3), 2)),
    case("MLP on a tetrahedron", seeded(31, lambda: mlp([6, 6, 5, 3])), Simplex(4 * random_points(4, 6))),
    case(
        "max pool on a cube",
        seeded(32, lambda: nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 2))),
        Box(torch.zeros(1, 4, 4), random_points(3, 1, 4, 4), 2),
    ),
    case("zero-bias MLP on a cube", seeded(33, lambda: mlp([3, 5, 4, 2], bias=False)), Box([0] * 3, torch.eye(3), 1)),
    case("MLP in four dimensions", seeded(34, lambda: mlp([4, 5, 3, 2])), Box([0] * 4, torch.eye(4), 2)),
]
