"""Convex cells in space, cut by all units of a layer at once; start at ``cut``.

- ``solids``: cells that share vertices, edges and faces by index.
- ``faces``: points on the edges, and the faces cut by lines. ``sections``: the cells cut by planes.
- ``cut``: all of these in rounds, and which pieces bound which new cell.
- ``merge``: cells joined again across faces.
"""
