"""One named list of nasty cases; it feeds the fast engine and its slow twin alike.

A count is given where it is known in closed form. ``turned`` repeats each exact planar case in coordinates rotated by
an irrational angle: the geometry is the same, but lines that meet exactly now meet only up to rounding.
"""

from __future__ import annotations

from typing import Any

import pytest

from nasty.case import Case, turned
from nasty.known import IN_A_PLANE, IN_SPACE, ON_A_LINE
from nasty.seeded import SEEDED
from regionscope.network import Program, trace
from twins.reference import ReferenceDecision, ReferencePartition, reference_regions

__all__ = ["CASES", "Case", "marked", "program_of", "reference_of"]

CASES: list[Case] = [*ON_A_LINE, *IN_A_PLANE, *[turned(case) for case in IN_A_PLANE], *SEEDED, *IN_SPACE]

_SLOW = {  # the slowest of the slow twin
    "residual CNN with BatchNorm", "CNN with max pool", "max pool with overlapping padded windows",
    "max pool of tied pixels after a convolution", "skip across three folds", "wide first layer",
    "MLP on a cube", "zero-bias MLP on a cube", "max pool on a cube", "MLP in four dimensions",
    "average pool and functional ReLU", "sawtooth of depth 10", "MLP on a tetrahedron",
    "five planes in general position", "MLP, single logit", "max pool before any ReLU", "maxout network",
    "MLP on a triangle of many inputs", "four planes through one point", "layers and ReLU shared",
    "zero-bias MLP around the origin", "RReLU in eval mode", "residual CNN on a segment",
}  # fmt: skip
_PROGRAMS: dict[str, Program] = {}
_FOUND: dict[str, tuple[ReferencePartition, ReferenceDecision]] = {}


def program_of(case: Case) -> Program:
    """The network of one of ``CASES``, read once for all tests of a process."""
    if case.name not in _PROGRAMS:
        _PROGRAMS[case.name] = trace(case.build(), case.slice.input_shape)
    return _PROGRAMS[case.name]


def reference_of(case: Case) -> tuple[ReferencePartition, ReferenceDecision]:
    """What the slow twin finds for one of ``CASES``, computed once for all tests of a process."""
    if case.name not in _FOUND:
        _FOUND[case.name] = reference_regions(program_of(case), case.slice)
    return _FOUND[case.name]


def marked(case: Case) -> Any:
    """A case that is slow, or repeats another one in turned coordinates, is left out of the quick tests."""
    slow = case.name in _SLOW or case.name.endswith(", turned")
    return pytest.param(case, marks=[pytest.mark.slow] if slow else [])
