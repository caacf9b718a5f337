"""Polygons in the plane, cut at a fold; start at ``cut.cut_units``.

- ``mesh``: convex cells that share vertices and edges. ``stitch``: a mesh divided into parts, and glued again.
  ``split``: meshes of functions that jump.
- ``cut``: a plane is cut here, along the zero lines of all units (ReLU and similar functions). ``envelope``: along the
  lines where a maximum changes (max-pooling, argmax), also where three candidates tie inside a cell.
- ``largest``: a plane is cut where the k largest of several values change.
- ``arrangement``: all chords of a cell and their crossings become new cells.
"""
