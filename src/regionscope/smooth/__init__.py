"""Proven pictures of networks with smooth activations: labels, levels and numbers of regions, without an exact
partition.

Start at ``decision_map``. ``network`` reads a program as steps on affine ``forms``, whose bounds of single functions
are in ``bounds`` and of affine operations in ``operators``. ``verdicts`` says what the forms prove of ``cells``, which
the map cuts until little of the slice is open. ``counts``: how many regions that proves.
"""

from regionscope.smooth.decision_map import DecisionMap, RegionBounds, decision_map

__all__ = ["DecisionMap", "RegionBounds", "decision_map"]
