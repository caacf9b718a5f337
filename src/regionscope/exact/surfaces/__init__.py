"""Level sets and decision boundaries as exact curves and polygon meshes.

``level_set`` computes them, ``surface`` holds the result. ``pruning`` drops the cells that the surface cannot meet,
``polygons`` puts the corners of faces in order, and ``files`` writes meshes for other programs.
"""
