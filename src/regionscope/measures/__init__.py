"""A partition or a model -> a number: counts, local complexity, gap, norms, margin, sharpness, correlations."""

from regionscope.measures.bounds import Bound, region_bounds
from regionscope.measures.deformation import Deformation, deformation, trusted_radius
from regionscope.measures.expected_counts import hanin_rolnick, kac_rice, qi_wei_neurons
from regionscope.measures.frames import orthonormal_frames
from regionscope.measures.history import ComplexityHistory, ComplexityRow, ComplexityWatch
from regionscope.measures.local_complexity import LocalComplexity, local_complexity
from regionscope.measures.membership import ComplexityGap, complexity_gap
from regionscope.measures.migration import FoldProfile, Migration, fold_migration, fold_profiles
from regionscope.measures.sampling import MeasurePoints, draw_points, uniform_points

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
    "complexity_gap",
    "deformation",
    "draw_points",
    "fold_migration",
    "fold_profiles",
    "hanin_rolnick",
    "kac_rice",
    "local_complexity",
    "orthonormal_frames",
    "qi_wei_neurons",
    "region_bounds",
    "trusted_radius",
    "uniform_points",
]
