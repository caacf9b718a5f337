"""Polytopes of any dimension, cut by one function after another; start at ``cut.cut_along``.

- ``complex``: polytopes that meet face to face, as vertices and the facets on which they lie.
- ``cut``: cut along the zero set of one function. ``maximum``: cut where the largest of several functions changes.
- ``faces``: neighbours, volumes, simplices that fill a polytope.
"""
