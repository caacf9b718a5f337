"""Complexes of convex polytopes of any dimension, cut one function at a time."""
