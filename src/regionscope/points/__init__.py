"""The linear regions of data points, in the full input space.

- ``point_regions``: ``regions_at`` and its result. ``cells`` finds the cell of a point, ``tangents`` carries directions
  through the network on that cell, ``distances`` has the norms of all gradients from them, ``local_maps`` the map.
- ``halfspaces``: a cell as an intersection of half-spaces: facets, inradius, samples. ``neighbours``: the cells beside
  it, and ``walk_regions``.
"""

from regionscope.points.halfspaces import HalfSpaces
from regionscope.points.local_maps import PointMap
from regionscope.points.neighbours import Neighbours, RegionWalk, walk_regions
from regionscope.points.point_regions import NearestFold, PointRegions, regions_at

__all__ = [
    "HalfSpaces",
    "NearestFold",
    "Neighbours",
    "PointMap",
    "PointRegions",
    "RegionWalk",
    "regions_at",
    "walk_regions",
]
