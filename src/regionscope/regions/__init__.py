"""Geometry x network: exact partitions of slices into linear regions and decision regions."""

from regionscope.regions.decision import DecisionRegions, decision_regions
from regionscope.regions.linear import linear_regions
from regionscope.regions.partition import Partition, Walls

__all__ = ["DecisionRegions", "Partition", "Walls", "decision_regions", "linear_regions"]
