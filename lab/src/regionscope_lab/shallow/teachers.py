"""Teachers and samples: the setting of Assumption 2.2 of Safran, Vardi and Lee 2022."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.checks import check_instance, check_positive, read_generator, read_integer
from regionscope.errors import InputError
from regionscope.inputs import read_array
from regionscope_lab.shallow.network import Network
from regionscope_lab.shallow.pieces import sign_pieces

_BATCHES = 100  # of 1,000 random teachers, in which one is looked for


@dataclass(frozen=True)
class Teacher:
    """A network N* of width r whose sign gives the labels on [-R, R].

    switches: (s,) where the sign changes. rho: length of the shortest interval of one sign.
    """

    network: Network
    radius: float
    switches: Tensor
    rho: float

    def __repr__(self) -> str:
        return f"Teacher(width={self.width}, radius={self.radius:g}, switches={len(self.switches)}, rho={self.rho:.4g})"

    @property
    def width(self) -> int:
        """r."""
        return self.network.width

    @staticmethod
    def of(network: Network, radius: float) -> Teacher:
        """The teacher ``network`` on [-radius, radius], its switches found exactly."""
        check_positive(radius=radius)
        ends, signs = sign_pieces(network, radius)
        if bool((signs == 0).any()):
            raise InputError(
                "Expected a teacher with a sign almost everywhere, got one that is zero on an interval of [-R, "
                "R]. Use other weights, or build it with teacher_from_switches()."
            )
        return Teacher(network, radius, ends[1:-1], float(ends.diff().min()))


def teacher_from_switches(points: Sequence[float] | Tensor, *, radius: float = 1.0) -> Teacher:
    """The teacher of width s + 1 that is positive at -R and changes its sign exactly at the s given points.

    A chain of units relu(x - c): N* starts from zero left of -R, is +-1 half-way to the first switch, and turns
    half-way between two switches. (With width s, N* would have to vanish on a whole end of [-R, R].)

    >>> teacher_from_switches([-0.5, 0.5]).network.width
    3
    """
    check_positive(radius=radius)
    switches = read_array(points, "switches, a list of numbers").to(torch.float64).flatten()
    if len(switches) and not bool((switches.diff() > 0).all() and switches[0] > -radius and switches[-1] < radius):
        raise InputError(
            f"Expected switches in ascending order inside (-{radius}, {radius}), got {switches.tolist()}. "
            "Sort them, and raise radius if some lie outside."
        )
    ends = torch.cat([switches.new_tensor([-radius]), switches, switches.new_tensor([radius])])
    turns = torch.cat([switches.new_tensor([-1.5 * radius]), (ends[:-2] + ends[1:-1]) / 2])
    heights = [0.0] if len(switches) == 0 else [0.0, 1.0]
    for j in range(1, len(switches)):
        heights.append(-heights[-1] * float((turns[j + 1] - switches[j - 1]) / (switches[j - 1] - turns[j])))
    rise = [1.0] if len(switches) == 0 else [heights[1] / float(turns[1] - turns[0])]
    rise += [-heights[j] / float(switches[j - 1] - turns[j]) for j in range(1, len(switches) + 1)]
    slopes = torch.tensor([0.0, *rise], dtype=torch.float64, device="cpu")
    return Teacher.of(Network(torch.ones_like(turns), -turns, slopes.diff()), radius)


def random_teacher(width: int, *, radius: float = 1.0, seed: int = 0) -> Teacher:
    """A teacher with standard normal weights, drawn again until its sign changes width - 1 times on [-R, R].

    That is the maximum for a chain of units. Intervals of one sign have at least a quarter of the even spacing. Raises
    InputError if none of 100,000 draws fits.
    """
    read_integer("width", width)
    check_positive(radius=radius)
    wanted, least = width - 1, radius / (2 * width)
    generator = read_generator(None, seed)
    probe = torch.linspace(-radius, radius, 257, dtype=torch.float64, device="cpu")
    for _ in range(_BATCHES):
        theta = torch.randn((1000, 3, width), generator=generator, dtype=torch.float64, device="cpu")
        w, b, v = theta[:, :, None].unbind(1)
        values = (torch.relu(probe[:, None] * w + b) * v).sum(-1)
        likely = ((values.sign().diff(dim=1) != 0).sum(1) == wanted) & (values != 0).all(1)
        for row in likely.nonzero()[:, 0].tolist():
            teacher = Teacher.of(Network.of(theta[row]), radius)
            if len(teacher.switches) == wanted and teacher.rho >= least:
                return teacher
    raise InputError(
        f"Expected a random teacher of width {width} with {wanted} sign changes and intervals of at least "
        f"{least:.3g}, got none. Choose a smaller width, or set the switches yourself."
    )


def alternating_teacher(switches: int, *, radius: float = 1.0) -> Teacher:
    """The teacher with evenly spaced switches, the hardest for a given number of switches."""
    read_integer("switches", switches, least=0)
    check_positive(radius=radius)
    ends = torch.linspace(-radius, radius, switches + 2, dtype=torch.float64, device="cpu")
    return teacher_from_switches(ends[1:-1], radius=radius)


@dataclass(frozen=True)
class Sample:
    """n labelled points: x (n,) strictly ascending and y (n,) in {-1, 1}."""

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            check_instance(name, getattr(self, name), Tensor, advice="Pass a tensor of float64")
        if self.x.ndim != 1 or self.x.shape != self.y.shape or len(self.x) == 0:
            raise InputError(
                f"Expected x and y to be vectors of one length n >= 1, got {tuple(self.x.shape)} and "
                f"{tuple(self.y.shape)}. "
                "Pass one label for each point."
            )
        if not bool(torch.isfinite(self.x).all()):
            raise InputError("Expected finite x, got NaN or infinite values. Replace these values.")
        if not bool((self.x.diff() > 0).all()):
            raise InputError(
                "Expected x in strictly ascending order, got other values. Sort the points and remove duplicates."
            )
        if not bool((self.y.abs() == 1).all()):
            raise InputError("Expected labels y of -1 or 1, got other values. Map your labels to -1 and 1.")

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return f"Sample(n={len(self)}, positive={int((self.y > 0).sum())})"

    @property
    def switches(self) -> int:
        """Number of neighbouring labels that differ."""
        return int((self.y.diff() != 0).sum())


def sample(teacher: Teacher, n: int, *, seed: int = 0) -> Sample:
    """n uniform points of [-R, R], sorted, with the labels sign N*(x)."""
    check_instance("teacher", teacher, Teacher, advice="Make one, for example with random_teacher(3)")
    read_integer("n", n)
    # The first n numbers are left out, so that a seed gives the sample that stored runs have.
    drawn = torch.rand(2 * n, generator=read_generator(None, seed), dtype=torch.float64, device="cpu")[n:]
    x = (drawn * (2 * teacher.radius) - teacher.radius).unique()
    return Sample(x, torch.where(teacher.network(x) > 0, 1.0, -1.0).to(torch.float64))
