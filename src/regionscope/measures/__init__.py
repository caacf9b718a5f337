"""A partition or a model -> a number: counts, local complexity, gap, norms, margin, sharpness, correlations."""

from regionscope.measures.bounds import Bound, region_bounds
from regionscope.measures.correlate import correlate, correlation_difference, correlation_table
from regionscope.measures.deformation import Deformation, deformation, trusted_radius
from regionscope.measures.directions import orthonormal_frames
from regionscope.measures.expected_counts import hanin_rolnick, kac_rice, qi_wei_neurons
from regionscope.measures.gap import error_rate, generalisation_gap
from regionscope.measures.history import ComplexityHistory, ComplexityRow, ComplexityWatch
from regionscope.measures.local_complexity import LocalComplexity, local_complexity
from regionscope.measures.margin import output_margin, slice_margin
from regionscope.measures.membership import ComplexityGap, complexity_gap
from regionscope.measures.migration import FoldProfile, Migration, fold_migration, fold_profiles
from regionscope.measures.norms import ParameterNorms, distance_from, parameter_norms
from regionscope.measures.over_slices import SliceValues, over_slices
from regionscope.measures.region_count import RegionCount, linear_region_count, region_count
from regionscope.measures.sampling import MeasurePoints, draw_points, uniform_points
from regionscope.measures.sharpness import Sharpness, sharpness

__all__ = [
    "Bound",
    "ComplexityGap",
    "ComplexityHistory",
    "ComplexityRow",
    "ComplexityWatch",
    "Deformation",
    "FoldProfile",
    "LocalComplexity",
    "MeasurePoints",
    "Migration",
    "ParameterNorms",
    "RegionCount",
    "Sharpness",
    "SliceValues",
    "complexity_gap",
    "correlate",
    "correlation_difference",
    "correlation_table",
    "deformation",
    "distance_from",
    "draw_points",
    "error_rate",
    "fold_migration",
    "fold_profiles",
    "generalisation_gap",
    "hanin_rolnick",
    "kac_rice",
    "linear_region_count",
    "local_complexity",
    "orthonormal_frames",
    "output_margin",
    "over_slices",
    "parameter_norms",
    "qi_wei_neurons",
    "region_bounds",
    "region_count",
    "sharpness",
    "slice_margin",
    "trusted_radius",
    "uniform_points",
]
