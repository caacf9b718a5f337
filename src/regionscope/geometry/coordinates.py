"""Between inputs and the coordinates of a slice: which inputs lie on it, and lengths."""

from __future__ import annotations

import torch
from torch import Tensor

from regionscope.geometry.slices import Slice
from regionscope.inputs import Inputs, read_examples
from regionscope.tolerance import SINGLE_PRECISION_DISTANCE


def on_slice(slice: Slice, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Coordinates (n, k) of inputs (n, *input_shape), and whether each lies on the slice (n,), up to single precision.

    >>> from regionscope.geometry import Segment
    >>> coords, on = on_slice(Segment([0.0, 0.0], [4.0, 0.0]), [[1.0, 0.0], [1.0, 1.0], [5.0, 0.0]])
    >>> coords.flatten().tolist(), on.tolist()
    ([0.25, 0.25, 1.25], [True, False, False])
    """
    x = read_examples(inputs).all()
    coords, distances = slice.project(x)
    extent = slice.embed(slice.corners).flatten(1).to(x.device)
    extent = (extent - extent[0]).norm(dim=1).max()
    tolerance = SINGLE_PRECISION_DISTANCE * x.double().flatten(1).norm(dim=1).clamp_min(extent)
    return coords, (distances <= tolerance) & slice.contains(coords, margin=(tolerance / extent)[:, None])


def isometry(slice: Slice) -> Tensor:
    """F (k, k) such that |c @ F| is the length in input space of a difference c of coordinates.

    A QR decomposition of the basis: products B B^T would lose directions that are almost parallel.
    """
    upper: Tensor = torch.linalg.qr(slice.basis.flatten(1).T, mode="r").R
    return upper.T
