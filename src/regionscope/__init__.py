"""regionscope: look at a network on a slice of its input space, partition the slice, measure the pieces.

This module offers the instruments, the slices they look at, their results and the errors. Everything else lives in its
chapter: ``geometry``, ``network``, ``exact``, ``sampled``, ``complexity``, ``measures``, ``shallow``, ``verify``,
``lab``, ``plot``.
"""

from regionscope.complexity import (
    ComplexityGap,
    ComplexityWatch,
    Deformation,
    LocalComplexity,
    Migration,
    complexity_gap,
    deformation,
    draw_points,
    fold_migration,
    local_complexity,
    orthonormal_frames,
    trusted_radius,
    uniform_points,
)
from regionscope.errors import (
    CheckFailed,
    InputError,
    LimitReached,
    NotPiecewiseAffine,
    RegionscopeError,
    SliceError,
    UntraceableModel,
)
from regionscope.exact import DecisionRegions, Partition, decision_regions, linear_regions
from regionscope.geometry import Box, Segment, Simplex, Slice
from regionscope.lab.monitor import Monitor, every, log_spaced
from regionscope.measures import (
    Correlation,
    Gap,
    ParameterNorms,
    RegionCount,
    Sharpness,
    correlate,
    correlation_difference,
    correlation_table,
    distance_from,
    error_rate,
    generalisation_gap,
    linear_region_count,
    output_margin,
    parameter_norms,
    region_count,
    sharpness,
    slice_margin,
)
from regionscope.network import trace
from regionscope.network.onnx import OnnxNetwork, read_onnx
from regionscope.sampled import Hulls, LinesFromOrigin, RandomDirections, count_components
from regionscope.tolerance import Tolerance
from regionscope.types import Estimate, Readable
from regionscope.verify import Property, Verification, read_vnnlib, verify
from regionscope.version import __version__

__all__ = [
    "Box",
    "CheckFailed",
    "ComplexityGap",
    "ComplexityWatch",
    "Correlation",
    "DecisionRegions",
    "Deformation",
    "Estimate",
    "Gap",
    "Hulls",
    "InputError",
    "LimitReached",
    "LinesFromOrigin",
    "LocalComplexity",
    "Migration",
    "Monitor",
    "NotPiecewiseAffine",
    "OnnxNetwork",
    "ParameterNorms",
    "Partition",
    "Property",
    "RandomDirections",
    "Readable",
    "RegionCount",
    "RegionscopeError",
    "Segment",
    "Sharpness",
    "Simplex",
    "Slice",
    "SliceError",
    "Tolerance",
    "UntraceableModel",
    "Verification",
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
    "read_onnx",
    "read_vnnlib",
    "region_count",
    "sharpness",
    "slice_margin",
    "trace",
    "trusted_radius",
    "uniform_points",
    "verify",
]
