"""All public names. ``regionscope`` imports this module when you first use one of them."""

import sys

from regionscope.certificate import Certificate
from regionscope.complexity import (
    ComplexityGap,
    ComplexityWatch,
    Deformation,
    LocalComplexity,
    Migration,
    SplineFeatures,
    complexity_gap,
    deformation,
    draw_points,
    fold_migration,
    local_complexity,
    orthonormal_frames,
    soft_local_complexity,
    spline_features,
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
from regionscope.exact import (
    Attributions,
    ClassTopology,
    DecisionRegions,
    Extremes,
    FinishedRegions,
    Flip,
    Flips,
    LevelSet,
    Lipschitz,
    Partition,
    RegionTotals,
    SizeHistogram,
    StepsNeeded,
    decision_regions,
    first_flip,
    flips,
    integrated_gradients,
    level_set,
    linear_regions,
    stream_regions,
)
from regionscope.geometry import Box, Segment, Simplex, Slice
from regionscope.lab.monitor import Monitor, every, log_spaced
from regionscope.measures import (
    Correlation,
    Gap,
    LinearProbe,
    ParameterNorms,
    RegionCount,
    Sharpness,
    correlate,
    correlation_difference,
    correlation_table,
    distance_from,
    error_rate,
    generalisation_gap,
    linear_probe,
    linear_region_count,
    output_margin,
    parameter_norms,
    region_count,
    sharpness,
    slice_margin,
)
from regionscope.network import Block, Embedded, block, embedded, select_output, trace
from regionscope.network.onnx import OnnxNetwork, read_onnx
from regionscope.sampled import (
    EmbeddingSlice,
    Hulls,
    LinesFromOrigin,
    RandomDirections,
    count_components,
    embedding_slice,
)
from regionscope.tolerance import Tolerance
from regionscope.types import Estimate, Readable
from regionscope.verification import Property, Verification, read_vnnlib, verify

if "IPython" in sys.modules:  # in a notebook, results show a table and a figure
    import regionscope.plot
