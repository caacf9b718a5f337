"""A partition or a model -> a number: counts over many slices, gap, norms, margin, sharpness, correlations."""

from regionscope.measures.bounds import Bound, region_bounds
from regionscope.measures.correlate import correlate, correlation_difference, correlation_table
from regionscope.measures.expected_counts import hanin_rolnick, kac_rice, qi_wei_neurons
from regionscope.measures.gap import error_rate, generalisation_gap
from regionscope.measures.margin import output_margin, slice_margin
from regionscope.measures.norms import ParameterNorms, distance_from, parameter_norms
from regionscope.measures.over_slices import SliceValues, over_slices
from regionscope.measures.region_count import RegionCount, linear_region_count, region_count
from regionscope.measures.sharpness import Sharpness, sharpness

__all__ = [
    "Bound",
    "ParameterNorms",
    "RegionCount",
    "Sharpness",
    "SliceValues",
    "correlate",
    "correlation_difference",
    "correlation_table",
    "distance_from",
    "error_rate",
    "generalisation_gap",
    "hanin_rolnick",
    "kac_rice",
    "linear_region_count",
    "output_margin",
    "over_slices",
    "parameter_norms",
    "qi_wei_neurons",
    "region_bounds",
    "region_count",
    "sharpness",
    "slice_margin",
]
