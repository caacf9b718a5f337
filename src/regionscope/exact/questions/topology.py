"""The shape of decision regions on a plane: components, holes, lengths, exactly, from the complex of pieces.

A class is an open set, so its pieces hang together across edges; its complement is closed, so pieces of the complement
hang together in points too::

        +-------+-------+
        |   A   |   B   |     A: two components (they touch in a point only), and so has B.
        +-------+-------+     Seen from A, the two pieces of B are one component of the complement.
        |   B   |   A   |
        +-------+-------+
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regionscope.errors import InputError
from regionscope.exact.partition import Partition
from regionscope.formatting import counted
from regionscope.geometry import arrays as xp
from regionscope.geometry.ragged import owners
from regionscope.types import Reading


@dataclass(frozen=True)
class ClassTopology:
    """The shape of one class on a plane.

    components: number of decision regions of the class.
    holes: number of components of its complement that do not reach the border of the slice; parts of the complement
        that touch in a point are one component.
    boundary_length: length in input space of the decision boundary around the class, without the border of the slice.
    touches_border: whether the class has an edge on the border of the slice.
    """

    components: int
    holes: int
    boundary_length: float
    touches_border: bool

    @property
    def euler(self) -> int:
        """Euler characteristic: components - holes."""
        return self.components - self.holes

    def readings(self) -> tuple[Reading, ...]:
        """The number of components, the number of holes, and the length of the boundary."""
        numbers = {"": self.components, "holes": self.holes, "boundary_length": self.boundary_length}
        return tuple((name, value, None) for name, value in numbers.items())


@dataclass(frozen=True, eq=False)
class Topology(Mapping[int, ClassTopology]):
    """The shape of each class that occurs, by label; it cannot be changed."""

    by_class: dict[int, ClassTopology]

    def __getitem__(self, label: int) -> ClassTopology:
        return self.by_class[label]

    def __iter__(self) -> Iterator[int]:
        return iter(self.by_class)

    def __len__(self) -> int:
        return len(self.by_class)

    def __repr__(self) -> str:
        shapes = [
            f"{counted(shape.components, 'component')}, {counted(shape.holes, 'hole')}" for shape in self.values()
        ]
        return f"Topology({'; '.join(f'class {k}: {shape}' for k, shape in zip(self, shapes, strict=True))})"


def topology(part: Partition, regions: Tensor, labels: Tensor) -> Topology:
    """The topology of each class that occurs on a plane.

    regions: (r,) the decision region of each piece. labels: (count,) the label of each decision region.
    """
    if part.is_split and len(part) > 1:
        raise InputError(
            "Expected the decision regions of a continuous network, got those of one that jumps, whose pieces share no "
            "vertices. Take count and labels."
        )
    vertices, walls, corners = part.vertices, part.walls, part.corners
    basis = part.slice.basis.flatten(1)
    ends = walls.vertices.reshape(-1, 2)
    sides = torch.where(walls.regions < 0, -1, regions[walls.regions])
    border = (sides < 0).any(1)
    boundary = (sides[:, 0] != sides[:, 1]) & ~border
    boundary &= labels[sides[:, 0]] != labels[sides[:, 1]]
    lengths = ((vertices[ends[boundary, 1]] - vertices[ends[boundary, 0]]) @ basis.to(vertices)).norm(dim=1)
    by_class = torch.zeros(int(labels.max()) + 1, dtype=torch.float64, device=vertices.device)
    for side in (0, 1):
        by_class.index_add_(0, labels[sides[boundary, side]], lengths)
    on_border = torch.zeros(len(labels), dtype=torch.bool, device=labels.device)
    on_border[sides[border].amax(1)] = True
    touching = set(labels[on_border].tolist())
    # Only points on the decision boundary or on the border of the slice can join pieces of a complement.
    outside, inside = (torch.zeros(len(vertices), dtype=torch.bool, device=vertices.device) for _ in range(2))
    outside[ends[border]] = True
    inside[ends[boundary]] = True
    chosen = inside[corners] | outside[corners]
    owner = owners(part.offsets, len(corners))
    meeting = torch.stack([regions[owner[chosen]], corners[chosen]], 1).unique(dim=0).cpu().numpy()
    points, meeting[:, 1] = np.unique(meeting[:, 1], return_inverse=True)
    held, reached = labels.cpu().numpy(), outside.cpu().numpy()[points]
    topologies = {}
    for label in sorted(set(held.tolist())):
        components, holes = int((held == label).sum()), _holes(meeting, held != label, reached)
        topologies[label] = ClassTopology(components, holes, float(by_class[label]), label in touching)
    return Topology(topologies)


def _holes(meeting: NDArray[np.int64], others: NDArray[np.bool_], outside: NDArray[np.bool_]) -> int:
    """Number of components of a complement that do not reach the border.

    meeting: (n, 2) which decision region has which point. others: which regions make up the complement. outside: which
    points lie on the border.
    """
    if not others.any():
        return 0
    n, (region, point) = len(others), meeting[others[meeting[:, 0]]].T
    # One node for each region, one for each point, and a last one for the border, joined to all points on it.
    edge = outside[point]
    rows = np.concatenate([region, np.full(int(edge.sum()), n + len(outside))])
    joined: Any = np.stack([rows, np.concatenate([n + point, n + point[edge]])], 1)
    of = xp.components(n + len(outside) + 1, joined)
    return len(set(of[:n][others].tolist()) - {int(of[-1])})
