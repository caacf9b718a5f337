"""What a case is: a network, a slice, and the counts that are known in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from nasty.modules import linear
from regionscope.geometry import Box, Segment, Slice

EYE = [[1.0, 0.0], [0.0, 1.0]]
SPLIT = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]  # relu of these four holds x and y exactly
ABS = [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]  # |x|, |y| from them
BACK = [[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]  # x, y from them


@dataclass(frozen=True, kw_only=True)
class Case:
    """A network, where to look at it, and what is known: activation, linear and decision regions (None: not known)."""

    name: str
    build: Callable[[], nn.Module]
    slice: Slice
    activation: int | None = None
    linear: int | None = None
    decision: int | None = None

    def __str__(self) -> str:
        return self.name


def square(radius: float = 1.0, x: float = 0.0, y: float = 0.0) -> Box:
    return Box([x, y], torch.eye(2), radius)


def interval(lo: float = -1.0, hi: float = 1.0) -> Segment:
    return Segment([lo], [hi])


def cube(radius: float) -> Box:
    return Box(torch.zeros(3), torch.eye(3), radius)


def case(name: str, build: Callable[[], nn.Module], slice: Slice, known: tuple[int | None, ...] = ()) -> Case:
    activation, linear_count, decision = (*known, None, None, None)[:3]
    return Case(name=name, build=build, slice=slice, activation=activation, linear=linear_count, decision=decision)


def turned(original: Case, angle: float = 0.7) -> Case:
    """The same case with its input plane rotated; the first layer undoes the rotation."""
    box = original.slice
    turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64)
    rotated = Box(turn @ box.origin, box.basis @ turn.T, box.corners.amax(0))
    return replace(
        original,
        name=f"{original.name}, turned",
        slice=rotated,
        build=lambda: nn.Sequential(linear(turn.T.tolist()), original.build()),
    )


def random_points(n: int, *shape: int) -> torch.Tensor:
    """n fixed points of the cube [-1, 1]^shape."""
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
