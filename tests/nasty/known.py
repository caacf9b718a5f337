"""Cases on lines, in planes and in space: coincidences, ties, regions that touch, every kind of fold."""

from __future__ import annotations

import math

import torch
from torch import nn

from nasty.case import ABS, BACK, EYE, SPLIT, case, cube, interval, random_points, square
from nasty.modules import (
    Apply,
    Maxout,
    Pairwise,
    general_lines,
    generic_head,
    layers,
    linear,
    lines,
    mlp,
    planes,
    relu_net,
    sawtooth,
    seeded,
)
from regionscope.geometry import Box, Simplex

ON_A_LINE = [
    case("|x| as a function", lambda: Apply(nn.Identity(), torch.abs), interval(), (2, 2, 1)),
    case("|x| from two opposite neurons", lambda: relu_net([[1], [-1]], [[1, 1]]), interval(), (2, 2, 1)),
    case("x from two opposite neurons", lambda: relu_net([[1], [-1]], [[1, -1]]), interval(), (2, 1, 2)),
    case(
        "fold at the end of the segment", lambda: relu_net(([[1], [1]], [0, -1]), [[1, 1]]), interval(0, 1), (1, 1, 1)
    ),
    case(
        "folds at 0 and 1 of an extended segment",
        lambda: relu_net(([[1], [1]], [0, -1]), [[1, 2]]),
        interval(0, 1).extended(-1, 2),
        (3, 3, 2),
    ),
    case("no fold", lambda: linear([[1.0], [-1.0]], [0.25, 0.0]), interval(), (1, 1, 2)),
    case(
        "constant network", lambda: relu_net(([[0], [0]], [1, -1]), ([[0, 0], [0, 0]], [1, 2])), interval(), (1, 1, 1)
    ),
    case("zero network", lambda: relu_net([[0], [0]], [[0, 0], [0, 0]]), interval(), (1, 1, 1)),
    case("hardtanh has two folds", lambda: nn.Hardtanh(), interval(-2, 2), (3, 3, 2)),
    case("ReLU6 has two folds", lambda: nn.ReLU6(), interval(-3, 9), (3, 3, 2)),
    case(
        "ReLU6 folds that coincide",
        lambda: layers(([[1], [1]], [0, 6]), nn.ReLU6(), [[1, 2]]),
        interval(-10, 10),
        (4, 4, 2),
    ),
    case(
        "ReLU6 resting on its upper fold",
        lambda: layers(([[0], [1]], [6, 0]), nn.ReLU6(), [[1, 1]]),
        interval(),
        (2, 2, 1),
    ),
    case("clamp", lambda: Apply(nn.Identity(), lambda x: x.clamp(-0.5, 0.25)), interval(), (3, 3, 2)),
    case("continuous Threshold", lambda: nn.Threshold(0.5, 0.5), interval(), (2, 2, 1)),
    case("LeakyReLU", lambda: nn.LeakyReLU(0.1), interval(), (2, 2, 2)),
    case("LeakyReLU of slope one folds nothing", lambda: nn.LeakyReLU(1.0), interval(), (None, 1, 2)),
    case("PReLU of slope -1 is |x|", lambda: nn.PReLU(init=-1.0), interval(), (2, 2, 1)),
    case("max of two tensors", lambda: Pairwise(linear([[1]]), linear([[-1]])), interval(), (2, 2, 1)),
    case("min of two tensors", lambda: Pairwise(linear([[1]]), linear([[-1]]), smallest=True), interval(), (2, 2, 1)),
    case("max of two equal tensors", lambda: Pairwise(linear([[1]]), linear([[1]])), interval(), (1, 1, 2)),
    case("maxout with a piece that only touches", lambda: Maxout(linear([[1], [0], [-1]]), 3), interval(), (2, 2, 1)),
    case(
        "maxout with a piece in the middle",
        lambda: Maxout(linear([[1], [0], [-1]], [0, 0.5, 0]), 3),
        interval(),
        (3, 3, 1),
    ),
    case("maxout with repeated pieces", lambda: Maxout(linear([[1], [1], [-1], [-1]]), 4), interval(), (2, 2, 1)),
    case("a logit of 0 is negative", lambda: nn.ReLU(), interval(), (2, 2, 2)),
    case("a logit that is never positive", lambda: relu_net([[1]], [[-1]]), interval(), (2, 2, 1)),
    case("two classes tied everywhere", lambda: relu_net([[1]], [[1], [1]]), interval(), (2, 2, 1)),
    case("two classes tied on a cell, second wins", lambda: relu_net([[1]], [[0], [1]]), interval(), (2, 2, 2)),
    case("two classes tied on a cell, first wins", lambda: relu_net([[1]], [[1], [0]]), interval(), (2, 2, 1)),
    case("two classes tied in a point", lambda: relu_net([[1], [-1]], [[0, 0], [1, 1]]), interval(), (2, 2, 1)),
    case(
        "second layer folds where the first does",
        lambda: layers([[1], [-1]], nn.ReLU(), [[1, 0], [0, -1], [1, -1]], nn.ReLU(), generic_head(3)),
        interval(),
        (2, 2, 1),
    ),
    *[
        case(f"sawtooth of depth {n}", lambda n=n: sawtooth(n), interval(0, 1), (2**n, 2**n, 1))
        for n in (1, 2, 3, 6, 10)
    ],
]


def through(point: tuple[float, float], n: int) -> nn.Sequential:
    """n lines through one point that is no binary fraction, so that they meet only up to rounding."""
    normals = [[math.cos(i + 0.1), math.sin(i + 0.1)] for i in range(n)]
    return lines(normals, [-(a * point[0] + b * point[1]) for a, b in normals])


def rounded_copies() -> nn.Sequential:
    """The same line written with factors that do not cancel exactly in floating point."""
    row = [0.3, 0.7]
    factors = [1.0, 1 / 3, -7.1, 0.1]
    return lines([[f * row[0], f * row[1]] for f in factors], [f * 0.05 for f in factors])


IN_A_PLANE = [
    *[
        case(
            f"{n} lines in general position",
            lambda n=n: general_lines(n),
            square(20),
            (*[1 + n + math.comb(n, 2)] * 2, 1),
        )
        for n in (1, 2, 3, 5, 8)
    ],
    *[
        case(f"{n} lines through one point", lambda n=n: through((0.3, -0.2), n), square(), (2 * n, 2 * n, 1))
        for n in (2, 3, 7)
    ],
    case(
        "zero bias, the point is a corner of the box",
        lambda: lines([[1, -1], [2, -1], [-1, 3], [1, 1]], [0] * 4),
        square(1, 1, 1),
        (4, 4, 1),
    ),
    case(
        "zero bias, the point is on an edge of the box",
        lambda: lines([[1, -1], [2, 1], [0, 1]], [0] * 3),
        square(1, 0, 1),
        (3, 3, 1),
    ),
    case("parallel lines", lambda: lines([[1, 2]] * 4, [-0.5, 0, 0.25, 0.5]), square(), (5, 5, 1)),
    case("parallel lines a millionth apart", lambda: lines([[1, 2]] * 2, [0.1, 0.1 + 1e-6]), square(), (3, 3, 1)),
    case("identical neurons", lambda: lines([[1, 2]] * 3, [0.1] * 3), square(), (2, 2, 1)),
    case(
        "identical neurons of different size",
        lambda: lines([[1, 2], [512, 1024], [1 / 64, 1 / 32]], [0.125, 64, 1 / 512]),
        square(),
        (2, 2, 1),
    ),
    case("identical neurons up to rounding", rounded_copies, square(), (2, 2, 1)),
    case("opposite neurons", lambda: lines([[1, 2], [-1, -2]], [0.1, -0.1]), square(), (2, 2, 1)),
    case(
        "dead first layer",
        lambda: layers((EYE, [-9, -9]), nn.ReLU(), (EYE, [1, 2]), nn.ReLU(), EYE),
        square(),
        (1, 1, 1),
    ),
    case(
        "dead second layer",
        lambda: layers((EYE, [0.1, 0.2]), nn.ReLU(), (EYE, [-9, -9]), nn.ReLU(), (EYE, [1, 0])),
        square(),
        (4, 1, 1),
    ),
    case("boundary along an edge of the box", lambda: lines([[1, 0], [0, -1]], [-1, -1]), square(), (1, 1, 1)),
    case("boundary through corners of the box", lambda: lines([[1, -1], [1, 1]], [0, -2]), square(), (2, 2, 1)),
    case(
        "zero on a cell and along edges",
        lambda: layers(EYE, nn.ReLU(), [[1, -1], [1, 0], [0, 1]], nn.ReLU(), generic_head(3)),
        square(),
        (5, 5, 1),
    ),
    case(
        "boundary through a vertex",
        lambda: layers(SPLIT, nn.ReLU(), [[1, -1, -1, 1]], nn.ReLU(), [[1]]),
        square(),
        (6, 2, 2),
    ),
    case(
        "two boundaries through a vertex",
        lambda: layers(SPLIT, nn.ReLU(), [[1, -1, -1, 1], [2, -2, 1, -1]], nn.ReLU(), generic_head(2)),
        square(),
        (8, 4, 1),
    ),
    case(
        "diamond through four vertices",
        lambda: layers(
            ([*SPLIT, [1, 1], [1, -1]], [0, 0, 0, 0, 0, 0]), nn.ReLU(), ([[1, 1, 1, 1, 0, 0]], [-1]), nn.ReLU(), [[1]]
        ),
        square(),
        (16, 5, 5),
    ),
    case("identity through a ReLU layer", lambda: relu_net(SPLIT, BACK), square(), (4, 1, 2)),
    case("max of two coordinates", lambda: Pairwise(linear([[1, 0]]), linear([[0, 1]])), square(), (2, 2, 2)),
    case("maxout with a triple point", lambda: Maxout(linear([[1, 0], [0, 1], [-1, -1]]), 3), square(), (3, 3, 1)),
    case("maxout with a quadruple point", lambda: Maxout(linear(SPLIT), 4), square(), (4, 4, 1)),
    case(
        "maxout with two triple points and a repeated piece",
        lambda: Maxout(linear([*SPLIT, [1, 0]], [0, 0, -0.5, -0.5, 0]), 5),
        square(),
        (4, 4, 1),
    ),
    case(
        "maxout with a piece that only touches along a line",
        lambda: Maxout(linear([[1, 2], [0, 0], [-1, -2]]), 3),
        square(),
        (2, 2, 1),
    ),
    case(
        "maxout with a piece that is nowhere the largest",
        lambda: Maxout(linear([[1, 0], [-1, 0], [0, 0.5]], [1, 1, 0]), 3),
        square(),
        (2, 2, 1),
    ),
    case(
        "two maxout units",
        lambda: Maxout(linear([[1, 0], [-1, 0], [0, 1], [0, -1]]), 2, linear([[1, 2]])),
        square(),
        (4, 4, 1),
    ),
    case("no fold, three classes meet", lambda: linear([[1, 0], [0, 1], [-1, -1]]), square(), (1, 1, 3)),
    case("no fold, four classes meet", lambda: linear(SPLIT), square(), (1, 1, 4)),
    case(
        "no fold, one class never wins",
        lambda: linear([[1, 0], [-1, 0], [0, 0]], [0, 0, -1]),
        square(),
        (1, 1, 2),
    ),
    case("three classes, two of them equal", lambda: linear([[1, 0], [1, 0], [0, 1]]), square(), (1, 1, 2)),
    case("single logit, regions touch in a point", lambda: relu_net(SPLIT, [[1, 1, -1, -1]]), square(), (4, 4, 4)),
    case("two classes, regions touch in a point", lambda: relu_net(SPLIT, ABS), square(), (4, 4, 4)),
    case("two classes tied on a quadrant", lambda: relu_net(EYE, EYE), square(), (4, 4, 2)),
    case(
        "two classes tied along a line only", lambda: relu_net(SPLIT, [[0, 0, 0, 0], [1, 1, 0, 0]]), square(), (4, 2, 1)
    ),
    case("a far away box", lambda: lines([[1, -1], [1, 1]], [0, -2000]), square(1, 1000, 1000), (4, 4, 1)),
    case("ReLU6 grid", lambda: layers(EYE, nn.ReLU6(), generic_head(2)), square(9), (9, 9, 1)),
]


IN_SPACE = [
    case("octants", lambda: lines(torch.eye(3).tolist(), [0.1, 0.2, 0.3]), cube(1), (8, 8, 1)),
    case(
        "five planes in general position",
        lambda: planes(5, 0.02),
        cube(40),
        (*[1 + 5 + math.comb(5, 2) + math.comb(5, 3)] * 2,),
    ),
    case("four planes through one point", lambda: planes(4, 0.0), cube(1), (14, 14)),
    case("largest of three coordinates", lambda: Maxout(linear(torch.eye(3).tolist()), 3), cube(1), (3, 3, 2)),
    case(
        "largest of six that meet in a point",
        lambda: Maxout(linear([*torch.eye(3).tolist(), *(-torch.eye(3)).tolist()]), 6),
        cube(1),
        (6, 6, 1),
    ),
    case("regions that touch along a line", lambda: relu_net([[*row, 0] for row in SPLIT], ABS), cube(1), (4, 4, 4)),
    case("three classes in space", lambda: linear(torch.eye(3).tolist()), cube(1), (1, 1, 3)),
    case(
        "dead second layer in space",
        lambda: layers(torch.eye(3).tolist(), nn.ReLU(), ([[1, 1, 1]], [-9]), nn.ReLU(), [[1]]),
        cube(1),
        (8, 1, 1),
    ),
    case("MLP on a cube", seeded(30, lambda: mlp([3, 6, 5, 2])), cube(2)),
    case("MLP on a tetrahedron", seeded(31, lambda: mlp([6, 6, 5, 3])), Simplex(4 * random_points(4, 6))),
    case(
        "max pool on a cube",
        seeded(32, lambda: nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 2))),
        Box(torch.zeros(1, 4, 4), random_points(3, 1, 4, 4), 2),
    ),
    case("zero-bias MLP on a cube", seeded(33, lambda: mlp([3, 5, 4, 2], bias=False)), cube(1)),
    case("MLP in four dimensions", seeded(34, lambda: mlp([4, 5, 3, 2])), Box([0] * 4, torch.eye(4), 2)),
]
