"""From cell to cell: those across the facets of a cell, and a walk through cells in order of their distance."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.checks import read_integer
from regionscope.exact.budget import Budget
from regionscope.exact.questions.attributions import read_logits
from regionscope.geometry.points import PointLike, read_point
from regionscope.inputs import Examples
from regionscope.network import Program, select_output, with_decision
from regionscope.network.output import Arguments, Output
from regionscope.points.cells import TILT, Source, cells_at, generic_direction
from regionscope.points.halfspaces import (
    HalfSpaces,
    closest_point,
    facets_of,
    halfspaces_of,
    inside_facet,
    inside_of,
)
from regionscope.points.tangents import Tangents
from regionscope.types import FloatArray, Reading


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The cells on the other side of the k facets of a cell.

    facets: the facets, as half-spaces of the cell. ids: (k,) the ids of these cells among the inputs of the result; -1
    for a cell without inputs. inside: (k, *input_shape) a point inside each of them.
    """

    facets: HalfSpaces
    ids: Tensor
    inside: Tensor

    def __repr__(self) -> str:
        return f"Neighbours(n={len(self)}, with_inputs={int((self.ids >= 0).sum())})"

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class RegionWalk:
    """Cells in order of their distance from a point, in the 2-norm.

    distance: (n,). closest: (n, *input_shape) the point of each cell that is closest. inside: (n, *input_shape) a point
    inside each cell, for ``regions_at``. whole_space: whether there are no other cells.
    """

    distance: Tensor
    closest: Tensor
    inside: Tensor
    whole_space: bool

    def __repr__(self) -> str:
        return f"RegionWalk(n={len(self)}, reach={float(self.distance[-1]):.4g}, whole_space={self.whole_space})"

    def __len__(self) -> int:
        return len(self.distance)

    def readings(self) -> tuple[Reading, ...]:
        """The number of cells, and the distance of the last one."""
        return (("", len(self), None), ("reach", float(self.distance[-1]), None))


@dataclass(frozen=True, eq=False)
class _Cell:
    key: bytes
    halfspaces: HalfSpaces


def neighbours_of(source: Source, i: int) -> Neighbours:
    """The neighbours of the cell of input ``i``."""
    shape = source.program.input_shape
    facets = facets_of(_cell(source, source.points([i]), generic_direction(source.program)[None]).halfspaces)
    across = list(_across(source, facets))
    ids = torch.tensor([source.numbers.get(cell.key, -1) for cell in across], dtype=torch.int64, device="cpu")
    inside = np.array([inside_of(cell.halfspaces) for cell in across]).reshape(-1, *shape)
    return Neighbours(facets, ids, torch.from_numpy(inside))


def walk_regions(
    model: nn.Module | Program, point: PointLike, count: int, *, output: Output | None = None, args: Arguments = ()
) -> RegionWalk:
    """The ``count`` cells (activation regions) that are closest to ``point``, in order of their distance.

    Goes from cell to cell across facets, always on from the closest cell so far. A cell at some distance touches its
    closest point together with cells that are no farther, and these are joined by facets, so none is missed.
    For up to some 30 inputs. Cost: for each cell a backward pass and a linear program for each unit.

    >>> lines = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> _ = lines[0].load_state_dict({"weight": torch.eye(2), "bias": torch.tensor([-1.0, -2.0])})
    >>> walk_regions(lines, [0.0, 0.0], 9).distance.numpy().round(3).tolist()
    [0.0, 1.0, 2.0, 2.236]
    """
    read_integer("count", count)
    origin = read_point(point, "the point")[None]
    program = read_logits(select_output(model, output, args), origin)
    source = Source(Tangents(with_decision(program)), Examples(1, inputs=origin), 2.0)
    shape, start = program.input_shape, origin.flatten().cpu().numpy()
    with torch.no_grad():
        first = _cell(source, source.points([0]), generic_direction(source.program)[None])
        waiting, seen, ties = [(0.0, 0, first, start)], {first.key}, itertools.count(1)
        visited: list[tuple[float, FloatArray, FloatArray]] = []
        while waiting and len(visited) < count:
            distance, _, cell, closest = heapq.heappop(waiting)
            facets = facets_of(cell.halfspaces)
            visited.append((distance, closest, inside_of(facets)))
            for neighbour in _across(source, facets):
                if neighbour.key not in seen:
                    seen.add(neighbour.key)
                    nearest = closest_point(neighbour.halfspaces, start)
                    length = max(distance, float(np.linalg.norm(nearest - start)))
                    heapq.heappush(waiting, (length, next(ties), neighbour, nearest))
    distances, points, inside = (torch.from_numpy(np.array(column)) for column in zip(*visited, strict=True))
    return RegionWalk(distances, points.reshape(-1, *shape), inside.reshape(-1, *shape), not waiting)


def _across(source: Source, facets: HalfSpaces) -> Iterator[_Cell]:
    """The cell on the other side of each facet."""
    program = source.program
    generic = generic_direction(program)
    for j in range(len(facets)):
        outward = torch.from_numpy(facets.normals[j] / facets.sizes[j]).to(generic).reshape(generic.shape)
        point = torch.from_numpy(inside_facet(facets, j)).to(generic).reshape(1, *generic.shape)
        yield _cell(source, point, (outward + TILT * generic)[None])


def _cell(source: Source, point: Tensor, direction: Tensor) -> _Cell:
    memory = Budget.of(source.program.device, None, None).memory
    with torch.no_grad():
        cells = cells_at(source.tangents, point, direction)
        halfspaces = halfspaces_of(source.tangents, cells, point, within=None, norm=2, memory=memory)
    return _Cell(source.keys(cells)[0], halfspaces)
