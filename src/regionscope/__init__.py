"""regionscope: look at a network on a slice of its input space, partition the slice, measure the pieces.

This module offers the instruments, the slices they look at, their results and the errors. Everything else lives in its
chapter: ``geometry``, ``network``, ``certificate``, ``exact``, ``sampled``, ``complexity``, ``measures``,
``verification``, ``monitor``, ``plot``. Importing the package is quick: torch and the chapters are loaded when a name
is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regionscope.version import __version__

if TYPE_CHECKING:
    from regionscope.public import *

__all__ = [
    "Attributions",
    "Block",
    "Box",
    "Certificate",
    "CheckFailed",
    "ClassTopology",
    "Coefficient",
    "ComplexityGap",
    "ComplexityWatch",
    "Correlation",
    "CorrelationRow",
    "Damaged",
    "DecisionRegions",
    "Deformation",
    "DiskFull",
    "Embedded",
    "EmbeddingSlice",
    "Estimate",
    "Extremes",
    "FinishedRegions",
    "Flip",
    "Flips",
    "Gap",
    "Hulls",
    "InputError",
    "LevelSet",
    "LimitReached",
    "LinearProbe",
    "LinesFromOrigin",
    "Lipschitz",
    "LocalComplexity",
    "MeasurePoints",
    "Migration",
    "MissingLibrary",
    "Monitor",
    "NotPiecewiseAffine",
    "OnnxNetwork",
    "ParameterNorms",
    "Partition",
    "Program",
    "Projection",
    "Property",
    "RandomDirections",
    "Readable",
    "Refutation",
    "RegionCount",
    "RegionTotals",
    "RegionscopeError",
    "Row",
    "Schedule",
    "Segment",
    "Sharpness",
    "Simplex",
    "SizeHistogram",
    "Slice",
    "SliceError",
    "SplineFeatures",
    "Stats",
    "Status",
    "StepsNeeded",
    "Tolerance",
    "UntraceableModel",
    "Verification",
    "Walls",
    "__version__",
    "block",
    "complexity_gap",
    "correlate",
    "correlation_difference",
    "correlation_table",
    "count_components",
    "decision_regions",
    "deformation",
    "distance_from",
    "draw_points",
    "embedded",
    "embedding_slice",
    "error_rate",
    "every",
    "first_flip",
    "flips",
    "fold_migration",
    "generalisation_gap",
    "integrated_gradients",
    "level_set",
    "linear_probe",
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
    "select_output",
    "sharpness",
    "slice_margin",
    "soft_local_complexity",
    "spline_features",
    "stream_regions",
    "trace",
    "trusted_radius",
    "uniform_points",
    "verify",
]


if not TYPE_CHECKING:  # else a type checker would accept every name

    def __getattr__(name: str) -> Any:
        if name in __all__:
            public = import_module("regionscope.public")
            globals().update({each: getattr(public, each) for each in __all__ if each != "__version__"})
            return globals()[name]
        if name.startswith("_"):
            raise AttributeError(f"module 'regionscope' has no attribute {name!r}")
        try:
            return import_module(f"regionscope.{name}")  # a chapter, such as regionscope.exact
        except ModuleNotFoundError as error:
            if error.name != f"regionscope.{name}":
                raise
            raise AttributeError(f"module 'regionscope' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
