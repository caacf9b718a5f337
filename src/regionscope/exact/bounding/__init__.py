"""Proven bounds of a network on convex cells of a slice, used to drop cells on which an answer is settled.

- ``hinge_network`` and ``merge``: the network as matrices. ``bounds``: affine bounds of every entry on every cell.
"""
