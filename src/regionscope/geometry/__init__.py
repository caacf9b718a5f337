"""Arrays only: slices of the input space and the splitting of many convex cells at once. Never sees a network."""

from regionscope.geometry.slices import Box, Segment, Simplex, Slice

__all__ = ["Box", "Segment", "Simplex", "Slice"]
