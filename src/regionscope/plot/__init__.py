"""Pictures of results: each function takes a result and an axes, adds artists, and computes nothing."""

from regionscope.plot.complexity import complexity_figure, complexity_history, complexity_layers, fold_density
from regionscope.plot.figures import decision_figure, quickstart_figure, regions_figure
from regionscope.plot.points import data
from regionscope.plot.regions import decision_boundary, decision_regions, linear_regions

__all__ = [
    "complexity_figure",
    "complexity_history",
    "complexity_layers",
    "data",
    "decision_boundary",
    "decision_figure",
    "decision_regions",
    "fold_density",
    "linear_regions",
    "quickstart_figure",
    "regions_figure",
]
