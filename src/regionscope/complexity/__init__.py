"""Local complexity: how many units fold the neighbourhood of a data point, and how that changes while training.

- ``local_complexity``: the instrument; ``neighbourhoods``, ``layers``, ``layer_listing``, ``sign_changes``,
  ``activations`` and ``forward_observer`` are its parts.
- ``soft``: the same number with a gradient.
- ``measure_points``: where to measure; ``history``: the same points again and again over a training.
- ``complexity_gap``: train against test points. ``deformation``: up to which radius the numbers can be trusted.
"""

from regionscope.complexity.complexity_gap import ComplexityGap, complexity_gap
from regionscope.complexity.deformation import Deformation, deformation, trusted_radius
from regionscope.complexity.history import ComplexityHistory, ComplexityRow, ComplexityWatch
from regionscope.complexity.local_complexity import LocalComplexity, local_complexity
from regionscope.complexity.measure_points import MeasurePoints, draw_points, uniform_points
from regionscope.complexity.neighbourhoods import orthonormal_frames
from regionscope.complexity.soft import soft_local_complexity

__all__ = [
    "ComplexityGap",
    "ComplexityHistory",
    "ComplexityRow",
    "ComplexityWatch",
    "Deformation",
    "LocalComplexity",
    "MeasurePoints",
    "complexity_gap",
    "deformation",
    "draw_points",
    "local_complexity",
    "orthonormal_frames",
    "soft_local_complexity",
    "trusted_radius",
    "uniform_points",
]
