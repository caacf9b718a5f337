"""One slice or a list of them, as functions take them."""

from __future__ import annotations

from collections.abc import Sequence

from regionscope.errors import InputError
from regionscope.geometry.slices import Slice


def read_slices(slice: Slice | Sequence[Slice]) -> list[Slice]:
    """One slice or several of one dimension, as a list; ``InputError`` for anything else."""
    slices = list(slice) if isinstance(slice, Sequence) else [slice]
    if not slices:
        raise InputError("Expected at least one Segment, Simplex or Box, got an empty list. Add a slice to the list.")
    for one in slices:
        if not hasattr(type(one), "embed"):  # isinstance would compute every property of the protocol
            raise InputError(
                f"Expected a Segment, Simplex or Box, got {type(one).__name__}. "
                "Build one from inputs, such as Segment(a, b) or Box.through([a, b, c])."
            )
    dims = sorted({one.dim for one in slices})
    if len(dims) > 1:
        raise InputError(f"Expected slices of one dimension, got {dims}. Call once for each dimension.")
    return slices
