"""regionscope: look at a network on a slice of its input space, partition the slice, measure the pieces.

This module offers the instruments, the slices they look at, their results and the errors. Everything else lives in its
chapter: ``geometry``, ``network``, ``certificate``, ``exact``, ``points``, ``sampled``, ``complexity``, ``measures``,
``smooth``, ``verification``, ``monitor``, ``plot``. Importing the package is quick: torch and the chapters are loaded
when a name is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regionscope.version import __version__

if TYPE_CHECKING:
    from regionscope.certificate import Certificate
    from regionscope.complexity import ComplexityWatch, LocalComplexity, local_complexity
    from regionscope.errors import (
        CheckFailed,
        InputError,
        LimitReached,
        NotPiecewiseAffine,
        RegionscopeError,
        SliceError,
        UntraceableModel,
    )
    from regionscope.exact import (
        Attributions,
        DecisionRegions,
        Flips,
        LevelSet,
        Partition,
        decision_regions,
        first_flip,
        flips,
        integrated_gradients,
        level_set,
        linear_regions,
    )
    from regionscope.geometry import Box, Polygon, Polyline, Segment, Simplex, Slice
    from regionscope.measures import RegionCount, region_count
    from regionscope.monitor import Monitor, every, log_spaced
    from regionscope.network import Program, block, select_output, trace
    from regionscope.network.onnx import read_onnx
    from regionscope.points import PointRegions, regions_at, walk_regions
    from regionscope.provenance import show_versions
    from regionscope.sampled import embedding_slice
    from regionscope.smooth import DecisionMap, decision_map
    from regionscope.tolerance import Tolerance
    from regionscope.types import Estimate
    from regionscope.verification import Property, Verification, read_vnnlib, verify

__all__ = [
    "Attributions",
    "Box",
    "Certificate",
    "CheckFailed",
    "ComplexityWatch",
    "DecisionMap",
    "DecisionRegions",
    "Estimate",
    "Flips",
    "InputError",
    "LevelSet",
    "LimitReached",
    "LocalComplexity",
    "Monitor",
    "NotPiecewiseAffine",
    "Partition",
    "PointRegions",
    "Polygon",
    "Polyline",
    "Program",
    "Property",
    "RegionCount",
    "RegionscopeError",
    "Segment",
    "Simplex",
    "Slice",
    "SliceError",
    "Tolerance",
    "UntraceableModel",
    "Verification",
    "__version__",
    "block",
    "decision_map",
    "decision_regions",
    "embedding_slice",
    "every",
    "first_flip",
    "flips",
    "integrated_gradients",
    "level_set",
    "linear_regions",
    "local_complexity",
    "log_spaced",
    "read_onnx",
    "read_vnnlib",
    "region_count",
    "regions_at",
    "select_output",
    "show_versions",
    "trace",
    "verify",
    "walk_regions",
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
