"""A partition or a model -> a number: counts, local complexity, gap, norms, margin, sharpness, correlations."""

from regionscope.measures.deformation import Deformation, deformation, trusted_radius
from regionscope.measures.frames import orthonormal_frames
from regionscope.measures.history import ComplexityHistory, ComplexityRow, ComplexityWatch
from regionscope.measures.local_complexity import LocalComplexity, local_complexity
from regionscope.measures.membership import ComplexityGap, complexity_gap
from regionscope.measures.migration import FoldProfile, Migration, fold_migration, fold_profiles
from regionscope.measures.sampling import MeasurePoints, draw_points, uniform_points

__all__ = [
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
    "local_complexity",
    "orthonormal_frames",
    "trusted_radius",
    "uniform_points",
]
