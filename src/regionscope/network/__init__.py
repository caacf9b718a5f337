"""An ``nn.Module`` read as a piecewise-affine program: affine stretches joined by kinks. Never sees a polygon."""

from .cuts import Cuts, Maxima, Thresholds
from .decision import with_decision
from .pattern import patterns
from .precision import full_precision
from .program import Kink, Program, Values
from .trace import trace
from .untouched import home, same_modes, untouched
from .wrappers import unwrapped

__all__ = [
    "Cuts",
    "Kink",
    "Maxima",
    "Program",
    "Thresholds",
    "Values",
    "full_precision",
    "home",
    "patterns",
    "same_modes",
    "trace",
    "untouched",
    "unwrapped",
    "with_decision",
]
