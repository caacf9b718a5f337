"""The linear regions of data points, in the full input space.

- ``point_regions``: ``regions_at`` and its result. ``cells`` finds the cell of a point, ``tangents`` carries directions
  through the network on that cell, ``distances`` has the norms of all gradients from them.
"""

from regionscope.points.point_regions import NearestFold, PointRegions, regions_at

__all__ = ["NearestFold", "PointRegions", "regions_at"]
