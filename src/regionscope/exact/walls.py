"""The walls between regions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Walls:
    """Faces of codimension one between regions: points in 1-D, edges in 2-D, facets in k-D.

    vertices: (n,) indices into ``Partition.vertices``, rows given by ``offsets`` (w + 1,).
    regions: (w, 2) the regions on both sides; -1 is outside the slice.
    layer: (w,) index into ``by_layer`` of the nonlinearity that folds here; -1 on the border of the slice, and
        ``len(by_layer)`` where the wall is a decision boundary.
    """

    vertices: Tensor
    offsets: Tensor
    regions: Tensor
    layer: Tensor

    def __repr__(self) -> str:
        return f"Walls(n={len(self.layer)}, inner={len(self.inner)})"

    def to(self, device: torch.device | str) -> Walls:
        """The same walls with their tensors on ``device``."""
        return Walls(*(part.to(device) for part in (self.vertices, self.offsets, self.regions, self.layer)))

    @property
    def inner(self) -> Tensor:
        """Indices of the walls with a region on both sides."""
        return (self.regions >= 0).all(1).nonzero()[:, 0]
