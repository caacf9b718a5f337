"""Cases on segments: kinks at ends, coinciding kinks, every kind of nonlinearity on one number."""

from __future__ import annotations

import torch
from torch import nn

from nasty.case import case, interval
from nasty.modules import Apply, Maxout, Pairwise, generic_head, layers, linear, sawtooth

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
