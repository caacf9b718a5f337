"""The slice that a run is looked at by default: one for its table, its explorer page and its animation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.geometry import Box

_PLANE_MARGIN = 0.25  # around the three points of a plane, as a share of their extent
_BOX_MARGIN = 0.05


def default_slice(inputs: Tensor, labels: Tensor, *, margin: float | None = None) -> Box:
    """The slice for training data ``inputs`` (n, *input_shape) with ``labels`` (n,).

    Inputs of one or two numbers: [-1, 1]^k if the data lie in it, else the box around the data. Larger inputs: the
    plane through the first points of three classes. margin: share of the extent added on each side, by default 0, 0.05
    and 0.25 for these three.
    """
    if inputs[0].numel() > 2:
        return plane_of(inputs, _three(labels), margin=margin)
    shape, reach = inputs.shape[1:], inputs.double().cpu()
    if float(reach.abs().max()) <= 1.0:
        return Box.between(-1.0, 1.0, shape, margin=margin or 0.0)
    low, high = reach.amin(0), reach.amax(0)
    high = torch.maximum(high, low + 2e-6)  # a box around equal points, too
    return Box.between(low, high, shape, margin=_BOX_MARGIN if margin is None else margin)


def plane_of(inputs: Tensor, numbers: Sequence[int], *, margin: float | None = None) -> Box:
    """The smallest box, with a margin, in the plane of three of the inputs (or on the line of two)."""
    if len(numbers) not in (2, 3) or min(numbers) < 0 or max(numbers) >= len(inputs):
        raise InputError(
            f"Expected the rows of three training points (two for a line), each from 0 to {len(inputs) - 1}, "
            f"got {list(numbers)}. "
            "Choose other rows."
        )
    return Box.through(inputs[list(numbers)], margin=_PLANE_MARGIN if margin is None else margin)


def _three(labels: Tensor) -> list[int]:
    """The first points of three classes; of fewer classes, the first points that make up three."""
    if len(labels) < 3:
        raise InputError(
            f"Expected at least three training points for the default plane, got {len(labels)}. Pass more data or a "
            "slice."
        )
    first = [int((labels == label).nonzero()[0, 0]) for label in labels.unique()[:3]]
    rest = [i for i in range(len(labels)) if i not in first]
    return sorted([*first, *rest[: 3 - len(first)]])
