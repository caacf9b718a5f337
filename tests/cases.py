"""One named list of nasty cases; it feeds the fast engine and its slow twin alike.

A count is given where it is known in closed form. ``turned`` repeats each exact planar case in coordinates rotated by an
irrational angle: the geometry is the same, but lines that meet exactly now meet only up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from case_modules import (
    Apply,
    Dense,
    LongSkip,
    Maxout,
    Pairwise,
    ResidualCNN,
    SharedTwice,
    general_lines,
    generic_head,
    layers,
    linear,
    lines,
    mlp,
    planes,
    pooled_cnn,
    sawtooth,
    seeded,
)
from torch import nn

from regionscope.geometry import Box, Segment, Simplex, Slice

__all__ = ["CASES", "Case"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A network, where to look at it, and what is known: activation, linear and decision regions (None: not known)."""

    name: str
    build: Callable[[], nn.Module]
    piece: Slice
    activation: int | None = None
    linear: int | None = None
    decision: int | None = None

    def __str__(self) -> str:
        return self.name


def square(radius: float = 1.0, x: float = 0.0, y: float = 0.0) -> Box:
    return Box([x, y], torch.eye(2), radius)


def interval(lo: float, hi: float) -> Segment:
    return Segment([lo], [hi])


def case(name: str, build: Callable[[], nn.Module], piece: Slice, *known: int | None) -> Case:
    activation, linear_count, decision = (*known, None, None, None)[:3]
    return Case(name=name, build=build, piece=piece, activation=activation, linear=linear_count, decision=decision)


def turned(original: Case, angle: float = 0.7) -> Case:
    """The same case with its input plane rotated; the first layer undoes the rotation."""
    box = original.piece
    turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64)
    rotated = Box(turn @ box.origin, box.basis @ turn.T, box.corners.amax(0))
    return replace(
        original,
        name=f"{original.name}, turned",
        piece=rotated,
        build=lambda: nn.Sequential(linear(turn.T.tolist()), original.build()),
    )


EYE = [[1.0, 0.0], [0.0, 1.0]]
SPLIT = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]  # relu of these four holds x and y exactly
ABS = [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]  # |x|, |y| from them
BACK = [[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]  # x, y from them


def through(point: tuple[float, float], n: int) -> nn.Sequential:
    """n lines through one point that is no binary fraction, so that they meet only up to rounding."""
    normals = [[math.cos(i + 0.1), math.sin(i + 0.1)] for i in range(n)]
    return lines(normals, [-(a * point[0] + b * point[1]) for a, b in normals])


def rounded_copies() -> nn.Sequential:
    """The same line written with factors that do not cancel exactly in floating point."""
    row = [0.3, 0.7]
    factors = [1.0, 1 / 3, -7.1, 0.1]
    return lines([[f * row[0], f * row[1]] for f in factors], [f * 0.05 for f in factors])


ON_A_LINE = [
    case("|x| as a function", lambda: Apply(nn.Identity(), torch.abs), interval(-1, 1), 2, 2, 1),
    case(
        "|x| from two opposite neurons",
        lambda: layers(([[1], [-1]], None), nn.ReLU(), ([[1, 1]], None)),
        interval(-1, 1),
        2,
        2,
        1,
    ),
    case(
        "x from two opposite neurons",
        lambda: layers(([[1], [-1]], None), nn.ReLU(), ([[1, -1]], None)),
        interval(-1, 1),
        2,
        1,
        2,
    ),
    case(
        "kink at the end of the segment",
        lambda: layers(([[1], [1]], [0, -1]), nn.ReLU(), ([[1, 1]], None)),
        interval(0, 1),
        1,
        1,
        1,
    ),
    case(
        "kinks at 0 and 1 of an extended segment",
        lambda: layers(([[1], [1]], [0, -1]), nn.ReLU(), ([[1, 2]], None)),
        interval(0, 1).extended(-1, 2),
        3,
        3,
        2,
    ),
    case("no nonlinearity", lambda: linear([[1.0], [-1.0]], [0.25, 0.0]), interval(-1, 1), 1, 1, 2),
    case(
        "constant network",
        lambda: layers(([[0], [0]], [1, -1]), nn.ReLU(), ([[0, 0], [0, 0]], [1, 2])),
        interval(-1, 1),
        1,
        1,
        1,
    ),
    case(
        "zero network",
        lambda: layers(([[0], [0]], None), nn.ReLU(), ([[0, 0], [0, 0]], None)),
        interval(-1, 1),
        1,
        1,
        1,
    ),
    case("hardtanh has two kinks", lambda: nn.Hardtanh(), interval(-2, 2), 3, 3, 2),
    case("ReLU6 has two kinks", lambda: nn.ReLU6(), interval(-3, 9), 3, 3, 2),
    case(
        "ReLU6 kinks that coincide",
        lambda: layers(([[1], [1]], [0, 6]), nn.ReLU6(), ([[1, 2]], None)),
        interval(-10, 10),
        4,
        4,
        2,
    ),
    case(
        "ReLU6 resting on its upper kink",
        lambda: layers(([[0], [1]], [6, 0]), nn.ReLU6(), ([[1, 1]], None)),
        interval(-1, 1),
        2,
        2,
        1,
    ),
    case("clamp", lambda: Apply(nn.Identity(), lambda x: x.clamp(-0.5, 0.25)), interval(-1, 1), 3, 3, 2),
    case("continuous Threshold", lambda: nn.Threshold(0.5, 0.5), interval(-1, 1), 2, 2, 1),
    case("LeakyReLU", lambda: nn.LeakyReLU(0.1), interval(-1, 1), 2, 2, 2),
    case("LeakyReLU of slope one folds nothing", lambda: nn.LeakyReLU(1.0), interval(-1, 1), None, 1, 2),
    case("PReLU of slope -1 is |x|", lambda: nn.PReLU(init=-1.0), interval(-1, 1), 2, 2, 1),
    case("max of two tensors", lambda: Pairwise(linear([[1]]), linear([[-1]])), interval(-1, 1), 2, 2, 1),
    case(
        "min of two tensors", lambda: Pairwise(linear([[1]]), linear([[-1]]), smallest=True), interval(-1, 1), 2, 2, 1
    ),
    case("max of two equal tensors", lambda: Pairwise(linear([[1]]), linear([[1]])), interval(-1, 1), 1, 1, 2),
    case(
        "maxout with a piece that only touches", lambda: Maxout(linear([[1], [0], [-1]]), 3), interval(-1, 1), 2, 2, 1
    ),
    case(
        "maxout with a piece in the middle",
        lambda: Maxout(linear([[1], [0], [-1]], [0, 0.5, 0]), 3),
        interval(-1, 1),
        3,
        3,
        1,
    ),
    case("maxout with repeated pieces", lambda: Maxout(linear([[1], [1], [-1], [-1]]), 4), interval(-1, 1), 2, 2, 1),
    case("a logit of 0 is negative", lambda: nn.ReLU(), interval(-1, 1), 2, 2, 2),
    case(
        "a logit that is never positive",
        lambda: layers(([[1]], None), nn.ReLU(), ([[-1]], None)),
        interval(-1, 1),
        2,
        2,
        1,
    ),
    case(
        "two classes tied everywhere",
        lambda: layers(([[1]], None), nn.ReLU(), ([[1], [1]], None)),
        interval(-1, 1),
        2,
        2,
        1,
    ),
    case(
        "two classes tied on a cell, second wins",
        lambda: layers(([[1]], None), nn.ReLU(), ([[0], [1]], None)),
        interval(-1, 1),
        2,
        2,
        2,
    ),
    case(
        "two classes tied on a cell, first wins",
        lambda: layers(([[1]], None), nn.ReLU(), ([[1], [0]], None)),
        interval(-1, 1),
        2,
        2,
        1,
    ),
    case(
        "two classes tied in a point",
        lambda: layers(([[1], [-1]], None), nn.ReLU(), ([[0, 0], [1, 1]], None)),
        interval(-1, 1),
        2,
        2,
        1,
    ),
    case(
        "second layer folds where the first does",
        lambda: layers(([[1], [-1]], None), nn.ReLU(), ([[1, 0], [0, -1], [1, -1]], None), nn.ReLU(), generic_head(3)),
        interval(-1, 1),
        2,
        2,
        1,
    ),
    *[case(f"sawtooth of depth {n}", lambda n=n: sawtooth(n), interval(0, 1), 2**n, 2**n, 1) for n in (1, 2, 3, 6, 10)],
]

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

PLANE_BOXES = [c for c in IN_A_PLANE if isinstance(c.piece, Box)]


def random_points(n: int, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1


def tied_pixels() -> Simplex:
    """Images whose four pixels of each pooling window are equal, so that windows tie on the whole slice."""
    return Simplex(random_points(3, 1, 3, 3).repeat_interleave(2, -1).repeat_interleave(2, -2))


SEEDED = [
    case("MLP on a square", seeded(1, lambda: mlp([2, 10, 10, 10, 3])), square()),
    case("MLP, single logit", seeded(2, lambda: mlp([2, 12, 12, 1])), square(2)),
    case(
        "MLP on a triangle of many inputs", seeded(3, lambda: mlp([20, 12, 12, 4])), Simplex(3 * random_points(3, 20))
    ),
    case(
        "MLP on a skew box",
        seeded(4, lambda: mlp([5, 12, 12, 2])),
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
    case("leaky MLP", seeded(7, lambda: mlp([2, 8, 8, 3], lambda: nn.LeakyReLU(0.2))), square(2)),
    case(
        "PReLU MLP with negative slopes", seeded(8, lambda: mlp([2, 8, 8, 3], lambda: nn.PReLU(init=-0.5))), square(2)
    ),
    case("PReLU with a slope for each unit", seeded(8, lambda: mlp([2, 8, 3], lambda: nn.PReLU(8))), square(2)),
    case("RReLU in eval mode", seeded(8, lambda: mlp([2, 8, 8, 3], nn.RReLU)), square(2)),
    case(
        "ReLU6 MLP",
        seeded(9, lambda: nn.Sequential(linear([[9, 0], [0, 9]]), mlp([2, 6, 6, 3], nn.ReLU6).double())),
        square(2),
    ),
    case("hardtanh MLP", seeded(10, lambda: mlp([2, 6, 6, 3], lambda: nn.Hardtanh(-0.3, 0.4))), square(2)),
    case(
        "abs MLP",
        seeded(11, lambda: Apply(nn.Linear(2, 8), torch.abs, Apply(nn.Linear(8, 6), torch.abs, nn.Linear(6, 3)))),
        square(2),
    ),
    case("maxout network", seeded(12, lambda: Maxout(nn.Linear(2, 12), 3, Maxout(nn.Linear(4, 9), 3))), square(3)),
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
    case("skip across three nonlinearities", seeded(14, lambda: LongSkip(2, 8, 3)), square(3)),
    case(
        "skip across three nonlinearities on a segment",
        seeded(14, lambda: LongSkip(6, 12, 3)),
        Segment(*(5 * random_points(2, 6))),
    ),
    case("dense connections", seeded(15, lambda: Dense(2, 6, 3, 3)), square(3)),
    case("layers and ReLU shared", seeded(16, lambda: SharedTwice(2, 8, 3)), square(3)),
    case(
        "residual CNN with BatchNorm",
        seeded(17, lambda: ResidualCNN(3, 3).eval()),
        Simplex(4 * random_points(3, 1, 6, 6)),
    ),
    case(
        "residual CNN on a segment",
        seeded(17, lambda: ResidualCNN(4, 3).eval()),
        Segment(*(4 * random_points(2, 1, 6, 6))),
    ),
    case("CNN with max pool", seeded(18, lambda: pooled_cnn(3)), Simplex(3 * random_points(3, 1, 6, 6))),
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
        Box(torch.zeros(1, 4, 4), random_points(2, 1, 4, 4), 3),
    ),
    case(
        "max pool of tied pixels",
        seeded(20, lambda: nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(9, 2))),
        tied_pixels(),
        1,
        1,
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

CASES: list[Case] = [*ON_A_LINE, *IN_A_PLANE, *[turned(c) for c in PLANE_BOXES], *SEEDED, *IN_SPACE]
