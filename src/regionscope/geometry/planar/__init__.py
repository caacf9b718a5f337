"""Planar subdivisions into convex cells, cut by many lines at once."""
