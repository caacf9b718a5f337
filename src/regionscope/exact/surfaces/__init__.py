"""Level sets and decision boundaries as exact curves and polygon meshes.

``level_set`` computes them, ``surface`` holds the result, with the corners of its faces in order. ``pruning`` drops the
cells that the surface cannot meet, and ``files`` writes meshes for other programs.
"""
