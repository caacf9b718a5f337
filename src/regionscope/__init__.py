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
from regionscope.lab.monitor import Monitor, every, log_spaced
from regionscope.measures import (
    ComplexityWatch,
    LocalComplexity,
    complexity_gap,
    deformation,
    draw_points,
    fold_migration,
    local_complexity,
    orthonormal_frames,
    trusted_radius,
    uniform_points,
)
from regionscope.measures.correlate import correlate, correlation_difference, correlation_table
from regionscope.measures.gap import error_rate, generalisation_gap
from regionscope.measures.margin import output_margin, slice_margin
from regionscope.measures.norms import distance_from, parameter_norms
from regionscope.measures.region_count import RegionCount, linear_region_count, region_count
from regionscope.measures.sharpness import sharpness
from regionscope.network import trace
from regionscope.regions import DecisionRegions, Partition, decision_regions, linear_regions
from regionscope.regions.components import count_components
from regionscope.regions.sampler import Hulls, Rays
from regionscope.tolerance import Tolerance
from regionscope.types import Estimate
from regionscope.version import __version__

__all__ = [
    "Box",
    "CheckFailed",
    "ComplexityWatch",
    "DecisionRegions",
    "Estimate",
    "Hulls",
    "InputError",
    "LimitReached",
    "LocalComplexity",
    "Monitor",
    "NotPiecewiseAffine",
    "Partition",
    "Rays",
    "RegionCount",
    "RegionscopeError",
    "Segment",
    "Simplex",
    "Slice",
    "SliceError",
    "Tolerance",
    "UntraceableModel",
    "__version__",
    "complexity_gap",
    "correlate",
    "correlation_difference",
    "correlation_table",
    "count_components",
    "decision_regions",
    "deformation",
    "distance_from",
    "draw_points",
    "error_rate",
    "every",
    "fold_migration",
    "generalisation_gap",
    "linear_region_count",
    "linear_regions",
    "local_complexity",
    "log_spaced",
    "orthonormal_frames",
    "output_margin",
    "parameter_norms",
    "region_count",
    "sharpness",
    "slice_margin",
    "trace",
    "trusted_radius",
    "uniform_points",
]
