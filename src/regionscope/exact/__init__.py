"""Geometry x network: exact partitions of slices into linear regions and decision regions."""

from regionscope.exact.decision import DecisionRegions, decision_regions
from regionscope.exact.linear import linear_regions
from regionscope.exact.partition import Partition
from regionscope.exact.walls import Walls

__all__ = ["DecisionRegions", "Partition", "Walls", "decision_regions", "linear_regions"]
