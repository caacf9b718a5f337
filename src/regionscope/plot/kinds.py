"""Check the kind of result that a plot function gets."""

from __future__ import annotations

from collections.abc import Sequence

from regionscope.checks import check_class_names, check_instance
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, Partition
from regionscope.geometry import Slice
from regionscope.measures.region_count import RegionCount


def partition_for(who: str, part: Partition) -> Partition:
    """The partition that ``plot.who()`` was given."""
    advice = "Compute it with regionscope.linear_regions(model, slice), or pass .partition of a DecisionRegions"
    return check_instance(f"plot.{who}()", part, Partition, advice=advice)


def decision_for(who: str, dec: DecisionRegions) -> DecisionRegions:
    """The decision regions that ``plot.who()`` was given."""
    return check_instance(
        f"plot.{who}()", dec, DecisionRegions, advice="Compute it with regionscope.decision_regions(model, slice)"
    )


def class_names_for(dec: DecisionRegions, class_names: Sequence[str] | None) -> Sequence[str] | None:
    """The names of the classes by label, checked; by default those of an estimator, and None for other models."""
    names = class_names if class_names is not None else [str(name) for name in dec.classes] or None
    return None if names is None else check_class_names(names, dec.n_classes)


def slice_for(who: str, slice: Slice) -> Slice:
    """The slice of dimension 1 or 2 that ``plot.who()`` was given."""
    if not hasattr(type(slice), "embed"):
        raise InputError(
            f"Expected plot.{who}() to get a Segment, Simplex or Box, got {type(slice).__name__}. "
            "Pass result.slice to use the slice of a result."
        )
    if slice.dim > 2:
        raise InputError(
            f"Expected a slice of dimension 1 or 2, got dimension {slice.dim}. "
            "Pass a plane, such as Box.through(inputs[:3])."
        )
    return slice


def count_for(who: str, result: RegionCount) -> RegionCount:
    """The region count that ``plot.who()`` was given."""
    return check_instance(
        f"plot.{who}()", result, RegionCount, advice="Compute it with regionscope.region_count(model, inputs)"
    )
