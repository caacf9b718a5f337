"""One named list of nasty cases; it feeds the fast engine and its slow twin alike.

A count is given where it is known in closed form. ``turned`` repeats each exact planar case in coordinates rotated by
an irrational angle: the geometry is the same, but lines that meet exactly now meet only up to rounding.
"""

from __future__ import annotations

from nasty.case import Case, turned
from nasty.line import ON_A_LINE
from nasty.plane import IN_A_PLANE
from nasty.seeded import SEEDED
from nasty.space import IN_SPACE
from regionscope.exact.reference import ReferenceDecision, ReferencePartition, reference_regions
from regionscope.network import trace

__all__ = ["CASES", "Case", "reference_of"]

CASES: list[Case] = [*ON_A_LINE, *IN_A_PLANE, *[turned(case) for case in IN_A_PLANE], *SEEDED, *IN_SPACE]

_FOUND: dict[str, tuple[ReferencePartition, ReferenceDecision]] = {}


def reference_of(case: Case) -> tuple[ReferencePartition, ReferenceDecision]:
    """What the slow twin finds for one of ``CASES``, computed once for all tests of a process."""
    if case.name not in _FOUND:
        _FOUND[case.name] = reference_regions(trace(case.build(), case.piece.input_shape), case.piece)
    return _FOUND[case.name]
