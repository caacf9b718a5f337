"""Pictures of results: each function takes a result, and adds artists for what the result holds to an axes.

``ax=None`` takes the current axes of pyplot. Nothing is measured here; ``complexity_layers`` takes means and standard
errors over the points of a result. Functions whose name ends in ``_figure`` make a figure of their own, without pyplot.
Matplotlib's settings stay as they are, but inside ``look``, which makes figures for papers and talks. In a notebook,
importing this module makes results show a table and a figure.
"""

from regionscope.plot.answers import extremes_figure, flips_figure, lipschitz_figure, topology_figure
from regionscope.plot.complexity import (
    ComplexityAxes,
    complexity_figure,
    complexity_history,
    complexity_layers,
)
from regionscope.plot.counts import count_figure, count_histogram, label_map
from regionscope.plot.decision_maps import decision_map, decision_map_figure
from regionscope.plot.distances import distance_figure, distance_histogram
from regionscope.plot.figures import (
    decision_figure,
    layer_panels_figure,
    neurons_figure,
    quickstart_figure,
    regions_figure,
)
from regionscope.plot.graphs import FunctionGraph, function_graph, surface
from regionscope.plot.legends import class_legend
from regionscope.plot.level_sets import level_set, level_set_figure
from regionscope.plot.marks import data, points, thumbnails
from regionscope.plot.notebook import register
from regionscope.plot.regions import decision_boundary, decision_mosaic, decision_regions, linear_regions, region_values
from regionscope.plot.streamed import StreamedImage
from regionscope.plot.style import look
from regionscope.plot.walls import layer_panels, zero_lines

__all__ = [
    "ComplexityAxes",
    "FunctionGraph",
    "StreamedImage",
    "class_legend",
    "complexity_figure",
    "complexity_history",
    "complexity_layers",
    "count_figure",
    "count_histogram",
    "data",
    "decision_boundary",
    "decision_figure",
    "decision_map",
    "decision_map_figure",
    "decision_mosaic",
    "decision_regions",
    "distance_figure",
    "distance_histogram",
    "extremes_figure",
    "flips_figure",
    "function_graph",
    "label_map",
    "layer_panels",
    "layer_panels_figure",
    "level_set",
    "level_set_figure",
    "linear_regions",
    "lipschitz_figure",
    "look",
    "neurons_figure",
    "points",
    "quickstart_figure",
    "region_values",
    "regions_figure",
    "surface",
    "thumbnails",
    "topology_figure",
    "zero_lines",
]

register()
