"""Numbers from partitions, samples and models.

- Counts over many slices: ``region_count`` (also ``linear_region_count``) and ``over_slices``.
- Scalars of a model: ``gap`` (error rates and the margin of the outputs), ``norms``, ``sharpness``.
- What theory says: ``bounds``.
- Relations between numbers: ``correlate``.

To offer a measure in ``train`` and sweeps, add it to ``instruments/registry.py`` of the lab.
"""

from regionscope.measures.bounds import Bound, kac_rice, region_bounds
from regionscope.measures.correlate import (
    Coefficient,
    Correlation,
    correlate,
    correlation_difference,
)
from regionscope.measures.gap import Gap, error_rate, generalisation_gap, output_margin
from regionscope.measures.norms import ParameterNorms, distance_from, parameter_norms
from regionscope.measures.over_slices import SliceValues, over_slices
from regionscope.measures.region_count import RegionCount, linear_region_count, region_count
from regionscope.measures.sharpness import Sharpness, sharpness

__all__ = [
    "Bound",
    "Coefficient",
    "Correlation",
    "Gap",
    "ParameterNorms",
    "RegionCount",
    "Sharpness",
    "SliceValues",
    "correlate",
    "correlation_difference",
    "distance_from",
    "error_rate",
    "generalisation_gap",
    "kac_rice",
    "linear_region_count",
    "output_margin",
    "over_slices",
    "parameter_norms",
    "region_bounds",
    "region_count",
    "sharpness",
]
