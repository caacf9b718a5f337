"""Which kind of result a picture needs; another one is answered by a sentence that says where to get it."""

from __future__ import annotations

from regionscope.checks import of_kind
from regionscope.exact import DecisionRegions, Partition
from regionscope.measures.region_count import RegionCount


def partition_for(who: str, part: Partition) -> Partition:
    """The partition that ``plot.who()`` was given."""
    advice = "regionscope.linear_regions(model, slice) gives one, and a DecisionRegions has one as .partition"
    return of_kind(f"plot.{who}()", part, Partition, advice=advice)


def decision_for(who: str, dec: DecisionRegions) -> DecisionRegions:
    """The decision regions that ``plot.who()`` was given."""
    return of_kind(f"plot.{who}()", dec, DecisionRegions, advice="regionscope.decision_regions(model, slice) gives one")


def count_for(who: str, result: RegionCount) -> RegionCount:
    """The region count that ``plot.who()`` was given."""
    return of_kind(f"plot.{who}()", result, RegionCount, advice="regionscope.region_count(model, points) gives one")
