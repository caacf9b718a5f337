"""Exact partitions of slices into linear regions and decision regions: geometry applied to a network.

Start here: ``linear`` (``linear_regions``) and ``decision`` (``decision_regions``). They return a ``partition`` with
walls and ``affine_maps``, which ``check`` proves and ``storage`` writes to disk.

- Cutting: ``carry`` takes a state through the network and has it cut at each fold; the states are those of a ``line``
  (1-D), a ``plane`` (2-D), ``space`` (3-D) and ``polytopes`` (any dimension). ``region_batch`` divides the result by
  slice. ``budget`` holds the limits of memory and regions, ``zero_tolerance`` says how near to zero counts as zero,
  from the ``magnitudes`` of values.
- ``stream``: the same regions handed over part by part, for more of them than memory holds.
- Equal neighbours: ``slope_jumps`` decides from derivatives whether a wall separates two different maps.
- ``path`` joins the regions of the legs of a ``Polyline``.
- ``surfaces``: level sets and decision boundaries (``level_set``), with ``bounding`` to leave out the rest.
- ``questions``: what a partition answers without sampling, from attributions to topology.
"""

from regionscope.exact.affine_maps import AffineMaps
from regionscope.exact.decision import DecisionRegions, decision_regions
from regionscope.exact.linear import linear_regions
from regionscope.exact.partition import Partition
from regionscope.exact.path import PathPartition
from regionscope.exact.questions.attributions import Attributions, integrated_gradients
from regionscope.exact.questions.extremes import Extremes, RegionExtremes
from regionscope.exact.questions.flips import Flip, Flips, first_flip, flips
from regionscope.exact.questions.lipschitz import Lipschitz
from regionscope.exact.questions.quadrature_steps import StepsNeeded
from regionscope.exact.questions.topology import ClassTopology
from regionscope.exact.region_batch import Walls
from regionscope.exact.stream import FinishedRegions, RegionTotals, SizeHistogram, stream_regions
from regionscope.exact.surfaces.level_set import level_set
from regionscope.exact.surfaces.surface import Faces, LevelSet

__all__ = [
    "AffineMaps",
    "Attributions",
    "ClassTopology",
    "DecisionRegions",
    "Extremes",
    "Faces",
    "FinishedRegions",
    "Flip",
    "Flips",
    "LevelSet",
    "Lipschitz",
    "Partition",
    "PathPartition",
    "RegionExtremes",
    "RegionTotals",
    "SizeHistogram",
    "StepsNeeded",
    "Walls",
    "decision_regions",
    "first_flip",
    "flips",
    "integrated_gradients",
    "level_set",
    "linear_regions",
    "stream_regions",
]
