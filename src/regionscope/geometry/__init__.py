"""Arrays only: slices of the input space, and cutting many convex cells at once. Never sees a network.

- ``slices`` (``Segment``, ``Simplex``, ``Box``, ``Polygon``, ``Polyline``), ``points`` and ``haar`` (random
  directions): where to look.
- ``planar/``: cutting polygons in the plane. ``spatial/``: cutting cells in space, by all units at once.
  ``polytope/``: cutting polytopes of any dimension, by one unit after another.
- ``crossing`` (units and their signs along edges) and ``maxima`` (which candidate leads) serve lines, planes and space;
  ``interpolation`` (values at new vertices) serves lines and planes.
- ``arrays``, ``ragged`` and ``bitsets``: work in blocks, arrays of rows of different lengths, small sets.
"""

from regionscope.geometry.slices import Box, Polygon, Polyline, Projection, Segment, Simplex, Slice

__all__ = ["Box", "Polygon", "Polyline", "Projection", "Segment", "Simplex", "Slice"]
