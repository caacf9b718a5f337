"""Cases in the plane with counts in closed form: coincidences, ties and regions that touch in a point."""

from __future__ import annotations

import math

from torch import nn

from nasty.case import ABS, BACK, EYE, SPLIT, case, square
from nasty.modules import Maxout, Pairwise, general_lines, generic_head, layers, linear, lines


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
            *[1 + n + math.comb(n, 2)] * 2,
            1,
        )
        for n in (1, 2, 3, 5, 8)
    ],
    *[
        case(f"{n} lines through one point", lambda n=n: through((0.3, -0.2), n), square(), 2 * n, 2 * n, 1)
        for n in (2, 3, 7)
    ],
    case(
        "zero bias, the point is a corner of the box",
        lambda: lines([[1, -1], [2, -1], [-1, 3], [1, 1]], [0] * 4),
        square(1, 1, 1),
        4,
        4,
        1,
    ),
    case(
        "zero bias, the point is on an edge of the box",
        lambda: lines([[1, -1], [2, 1], [0, 1]], [0] * 3),
        square(1, 0, 1),
        3,
        3,
        1,
    ),
    case("parallel lines", lambda: lines([[1, 2]] * 4, [-0.5, 0, 0.25, 0.5]), square(), 5, 5, 1),
    case("parallel lines a millionth apart", lambda: lines([[1, 2]] * 2, [0.1, 0.1 + 1e-6]), square(), 3, 3, 1),
    case("identical neurons", lambda: lines([[1, 2]] * 3, [0.1] * 3), square(), 2, 2, 1),
    case(
        "identical neurons of different size",
        lambda: lines([[1, 2], [512, 1024], [1 / 64, 1 / 32]], [0.125, 64, 1 / 512]),
        square(),
        2,
        2,
        1,
    ),
    case("identical neurons up to rounding", rounded_copies, square(), 2, 2, 1),
    case("opposite neurons", lambda: lines([[1, 2], [-1, -2]], [0.1, -0.1]), square(), 2, 2, 1),
    case(
        "dead first layer",
        lambda: layers((EYE, [-9, -9]), nn.ReLU(), (EYE, [1, 2]), nn.ReLU(), (EYE, None)),
        square(),
        1,
        1,
        1,
    ),
    case(
        "dead second layer",
        lambda: layers((EYE, [0.1, 0.2]), nn.ReLU(), (EYE, [-9, -9]), nn.ReLU(), (EYE, [1, 0])),
        square(),
        4,
        1,
        1,
    ),
    case("boundary along an edge of the box", lambda: lines([[1, 0], [0, -1]], [-1, -1]), square(), 1, 1, 1),
    case("boundary through corners of the box", lambda: lines([[1, -1], [1, 1]], [0, -2]), square(), 2, 2, 1),
    case(
        "zero on a cell and along edges",
        lambda: layers((EYE, None), nn.ReLU(), ([[1, -1], [1, 0], [0, 1]], None), nn.ReLU(), generic_head(3)),
        square(),
        5,
        5,
        1,
    ),
    case(
        "boundary through a vertex",
        lambda: layers((SPLIT, None), nn.ReLU(), ([[1, -1, -1, 1]], None), nn.ReLU(), ([[1]], None)),
        square(),
        6,
        2,
        2,
    ),
    case(
        "two boundaries through a vertex",
        lambda: layers((SPLIT, None), nn.ReLU(), ([[1, -1, -1, 1], [2, -2, 1, -1]], None), nn.ReLU(), generic_head(2)),
        square(),
        8,
        4,
        1,
    ),
    case(
        "diamond through four vertices",
        lambda: layers(
            ([*SPLIT, [1, 1], [1, -1]], [0, 0, 0, 0, 0, 0]),
            nn.ReLU(),
            ([[1, 1, 1, 1, 0, 0]], [-1]),
            nn.ReLU(),
            ([[1]], None),
        ),
        square(),
        16,
        5,
        5,
    ),
    case("identity through a ReLU layer", lambda: layers((SPLIT, None), nn.ReLU(), (BACK, None)), square(), 4, 1, 2),
    case("max of two coordinates", lambda: Pairwise(linear([[1, 0]]), linear([[0, 1]])), square(), 2, 2, 2),
    case("maxout with a triple point", lambda: Maxout(linear([[1, 0], [0, 1], [-1, -1]]), 3), square(), 3, 3, 1),
    case("maxout with a quadruple point", lambda: Maxout(linear(SPLIT), 4), square(), 4, 4, 1),
    case(
        "maxout with two triple points and a repeated piece",
        lambda: Maxout(linear([*SPLIT, [1, 0]], [0, 0, -0.5, -0.5, 0]), 5),
        square(),
        4,
        4,
        1,
    ),
    case(
        "maxout with a piece that only touches along a line",
        lambda: Maxout(linear([[1, 2], [0, 0], [-1, -2]]), 3),
        square(),
        2,
        2,
        1,
    ),
    case(
        "maxout with a piece that is nowhere the largest",
        lambda: Maxout(linear([[1, 0], [-1, 0], [0, 0.5]], [1, 1, 0]), 3),
        square(),
        2,
        2,
        1,
    ),
    case(
        "two maxout units",
        lambda: Maxout(linear([[1, 0], [-1, 0], [0, 1], [0, -1]]), 2, linear([[1, 2]])),
        square(),
        4,
        4,
        1,
    ),
    case("no nonlinearity, three classes meet", lambda: linear([[1, 0], [0, 1], [-1, -1]]), square(), 1, 1, 3),
    case("no nonlinearity, four classes meet", lambda: linear(SPLIT), square(), 1, 1, 4),
    case(
        "no nonlinearity, one class never wins",
        lambda: linear([[1, 0], [-1, 0], [0, 0]], [0, 0, -1]),
        square(),
        1,
        1,
        2,
    ),
    case("three classes, two of them equal", lambda: linear([[1, 0], [1, 0], [0, 1]]), square(), 1, 1, 2),
    case(
        "single logit, regions touch in a point",
        lambda: layers((SPLIT, None), nn.ReLU(), ([[1, 1, -1, -1]], None)),
        square(),
        4,
        4,
        4,
    ),
    case(
        "two classes, regions touch in a point",
        lambda: layers((SPLIT, None), nn.ReLU(), (ABS, None)),
        square(),
        4,
        4,
        4,
    ),
    case("two classes tied on a quadrant", lambda: layers((EYE, None), nn.ReLU(), (EYE, None)), square(), 4, 4, 2),
    case(
        "two classes tied along a line only",
        lambda: layers((SPLIT, None), nn.ReLU(), ([[0, 0, 0, 0], [1, 1, 0, 0]], None)),
        square(),
        4,
        2,
        1,
    ),
    case("a far away box", lambda: lines([[1, -1], [1, 1]], [0, -2000]), square(1, 1000, 1000), 4, 4, 1),
    case("ReLU6 grid", lambda: layers((EYE, None), nn.ReLU6(), generic_head(2)), square(9), 9, 9, 1),
]
