"""regionscope: look at a network on a slice of its input space, partition the slice, measure the pieces."""

from regionscope.errors import (
    CheckFailed,
    InputError,
    LimitReached,
    NotPiecewiseAffine,
    RegionscopeError,
    SliceError,
    UntraceableModel,
)
from regionscope.geometry import Box, Segment, Simplex, Slice
from regionscope.network import trace
from regionscope.regions import DecisionRegions, Partition, decision_regions, linear_regions
from regionscope.tolerance import Tolerance

__version__ = "0.1.0"

__all__ = [
    "Box",
    "CheckFailed",
    "DecisionRegions",
    "InputError",
    "LimitReached",
    "NotPiecewiseAffine",
    "Partition",
    "RegionscopeError",
    "Segment",
    "Simplex",
    "Slice",
    "SliceError",
    "Tolerance",
    "UntraceableModel",
    "__version__",
    "decision_regions",
    "linear_regions",
    "trace",
]
