"""An ``nn.Module`` read as a piecewise-affine program: affine stretches joined by kinks. Never sees a polygon."""

from regionscope.network.call.precision import full_precision
from regionscope.network.call.untouched import home, same_modes, untouched
from regionscope.network.call.wrappers import unwrapped
from regionscope.network.cuts import Cuts, Maxima, Thresholds
from regionscope.network.decision import with_decision
from regionscope.network.pattern import patterns
from regionscope.network.program import Kink, Program, Values
from regionscope.network.trace import trace

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
