"""How far each fold is from a point: |value - threshold| / dual norm of its gradient, for all units at once.

The gradients themselves are never held. Tangents of some directions at a time go through the network, and each unit
keeps a running norm: a sum of squares (2-norm), a largest entry (for distances in the 1-norm) or a sum of sizes (for
the maximum norm). So memory is units times directions at a time, whatever the number of inputs.

In the 2-norm any orthonormal directions will do, and values depend on the input only through the m values that are live
before the first fold. If these are fewer than the inputs, m directions are enough: with their matrix M and M' = QR, the
columns of Q, whose tangents there are the rows of R.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

import torch
from torch import Tensor

from regionscope.points.cells import Cells, FoldSide
from regionscope.points.tangents import LinearFold, Live, Tangents
from regionscope.tolerance import TINY

_ROW_BYTES = {"cpu": 4 << 20, "cuda": 8 << 30}  # bytes of live tangents at a time
_CELL_BYTES = {"cpu": 64 << 20, "cuda": 4 << 30}  # bytes of cells and distances at a time
_TERM_BYTES = 64  # of a term of a point
_FEWEST_ROWS = 64


@dataclass(frozen=True, eq=False)
class Directions:
    """The directions that all gradients are measured along: n of them, and their tangents before the first fold.

    matrix: None for the axes of the input space; else name -> (m, *shape), the rows of R.
    """

    tangents: Tangents
    n: int
    matrix: Live | None

    @staticmethod
    def count(tangents: Tangents, norm: float) -> int:
        """How many are enough for this norm."""
        d = math.prod(tangents.program.input_shape)
        return min(d, sum(math.prod(shape) for shape in tangents.live_shapes.values())) if norm == 2 else d

    @staticmethod
    def of(tangents: Tangents, norm: float, memory: int) -> Directions:
        """The fewest directions for this norm, or the axes where the matrix M does not fit in half of the memory."""
        program, m = tangents.program, Directions.count(tangents, norm)
        d = math.prod(program.input_shape)
        if m == d or 16 * m * d > memory // 2:
            return Directions(tangents, d, None)
        rows = min(m, max(1, memory // 4 // program.row_bytes))
        columns = tangents.gradients(lambda live: torch.cat([x.flatten(2) for x in live.values()], 2), m, rows)
        triangle = torch.linalg.qr(columns.T, mode="r").R  # (m, m)
        parts = triangle.split([math.prod(shape) for shape in tangents.live_shapes.values()], 1)
        shapes = tangents.live_shapes.items()
        matrix = {name: x.reshape(m, *shape).contiguous() for x, (name, shape) in zip(parts, shapes, strict=True)}
        return Directions(tangents, m, matrix)

    def live(self, start: int, stop: int) -> Live:
        """The tangents before the first fold (1, stop - start, *shape) of some of the directions."""
        if self.matrix is not None:
            return {name: x[None, start:stop] for name, x in self.matrix.items()}
        program = self.tangents.program
        shape = program.input_shape
        eye = torch.zeros((stop - start, math.prod(shape)), dtype=program.dtype, device=program.device)
        eye[:, start:stop].fill_diagonal_(1)
        return self.tangents.begin(eye.reshape(1, -1, *shape))


@dataclass(frozen=True)
class Blocks:
    """How much to work on at a time: points whose cells are held, and of these points and directions for tangents."""

    cells: int
    points: int
    directions: int

    @staticmethod
    def of(tangents: Tangents, n_directions: int, memory: int) -> Blocks:
        """The sizes for this number of directions."""
        program = tangents.program
        kind = program.device.type
        wanted = min(memory // 2, _ROW_BYTES.get(kind, _ROW_BYTES["cpu"]))
        rows = max(_FEWEST_ROWS, wanted // max(1, program.row_bytes))
        terms = sum(fold.n_terms for fold in tangents.folds)
        held = _TERM_BYTES * (terms + max([1, *(math.prod(fold.shape) for fold in tangents.folds)]))
        cells = max(1, min(memory // 4, _CELL_BYTES.get(kind, _CELL_BYTES["cpu"])) // held)
        points = min(cells, max(1, rows // n_directions))
        parts = -(-n_directions * points // rows)
        return Blocks(cells, points, -(-n_directions // parts))


def distances(
    cells: Cells, directions: Directions, norm: float, blocks: Blocks, tick: Callable[[float], None] = lambda done: None
) -> list[Tensor]:
    """For each fold the distance (p, terms) of its folds from the points, infinite for those out of reach.

    tick: called after each part of the work with the share that is done.
    """
    tangents, p = directions.tangents, len(cells.outputs)
    totals = [cells.outputs.new_zeros(p, fold.n_norms) for fold in tangents.folds]
    for start in range(0, directions.n, blocks.directions):
        n = min(blocks.directions, directions.n - start)
        first = directions.live(start, start + n)
        kept = {_storage(x) for x in first.values()}
        for row in range(0, p, blocks.points):
            some = cells.map(itemgetter(slice(row, row + blocks.points)))
            live = dict(first)
            for k, (fold, side, total) in enumerate(zip(tangents.folds, some.sides, totals, strict=True)):
                part, rows = _dual_norm(fold, side, fold.compared(live), norm), total[row : row + blocks.points]
                torch.maximum(rows, part, out=rows) if norm == 1 else rows.add_(part)
                overwrite = _storage(live[fold.reads[0]]) not in kept
                live = tangents.advance(live, k, side.chosen, overwrite=overwrite)
            tick((start + n * min(1.0, (row + blocks.points) / p)) / directions.n)
    by_fold = []
    for side, total in zip(cells.sides, totals, strict=True):
        size = total.sqrt_() if norm == 2 else total
        size = size.repeat(1, side.gap.shape[1] // size.shape[1]) if size.shape[1] else size
        distance = torch.where(side.on_fold, 0.0, side.gap / size.clamp_min(TINY))
        by_fold.append(torch.where(side.in_reach, distance, math.inf))
    return by_fold


def _storage(values: Tensor) -> int:
    """The address of the memory that values lie in; 0 for subclasses of Tensor, which may have none of their own."""
    return values.untyped_storage().data_ptr() if type(values) is Tensor else 0


def _dual_norm(fold: LinearFold, side: FoldSide, tangents: Tensor, norm: float) -> Tensor:
    """(p or 1, terms): the part of these directions of each gradient's dual norm, in the 2-norm its square."""
    if fold.groups is None:
        return _summed(tangents, norm)
    w, m = fold.groups.shape
    p = len(side.gap)
    (winner,) = side.chosen
    lead = tangents.expand(p, -1, -1).gather(2, winner[:, None].expand(-1, tangents.shape[1], -1))
    if w == 1:
        return _summed(tangents[..., fold.groups[0]] - lead, norm)
    parts = [_summed(tangents[..., fold.groups[:, j]] - lead, norm) for j in range(m)]
    return torch.stack(parts, 2).reshape(p, w * m)


def _summed(tangents: Tensor, norm: float) -> Tensor:
    """(p, n) of (p, directions, n)."""
    if norm == 2 and tangents.is_cuda:  # in one pass over memory; on a CPU this is slower
        size: Tensor = torch.linalg.vector_norm(tangents, dim=1)
        return size.square()
    if norm == 2:
        return tangents.square().sum(1)
    return tangents.abs().amax(1) if norm == 1 else tangents.abs().sum(1)


def gradients(tangents: Tangents, cells: Cells, fold_index: Tensor, term: Tensor) -> Tensor:
    """(p, *input_shape): for each point the gradient of one value minus its threshold, or of winner minus candidate.

    fold_index, term: (p,) which one. Cost: a backward pass.
    """
    program, p = tangents.program, len(cells.outputs)
    leaf = torch.zeros((p, 1, *program.input_shape), dtype=program.dtype, device=program.device, requires_grad=True)
    with torch.enable_grad():
        live, picked = tangents.begin(leaf), 0 * leaf.sum()
        for k, (fold, side) in enumerate(zip(tangents.folds, cells.sides, strict=True)):
            mine = (fold_index == k).nonzero()[:, 0]
            if len(mine):
                picked = picked + _picked(fold, side, fold.compared(live)[mine, 0], mine, term[mine]).sum()
            live = tangents.advance(live, k, side.chosen)
        (gradient,) = torch.autograd.grad(picked, leaf, allow_unused=True, materialize_grads=True)
    return gradient[:, 0]


def _picked(fold: LinearFold, side: FoldSide, rows: Tensor, mine: Tensor, term: Tensor) -> Tensor:
    """(r,) of the compared values ``rows`` (r, n) of some points: those of the terms."""
    if fold.groups is None:
        return rows.gather(1, (term % rows.shape[1])[:, None])[:, 0]
    m = fold.groups.shape[1]
    (winner,) = side.chosen
    columns = torch.stack([winner[mine, term // m], fold.groups.flatten()[term]], 1)
    lead, candidate = rows.gather(1, columns).unbind(1)
    return lead - candidate


def steps_to_fold(gradient: Tensor, gap: Tensor, norm: float) -> Tensor:
    """(p, *shape): the shortest steps in this norm that change values with these gradients by -gap (p,)."""
    flat = gradient.flatten(1)
    if norm == 2:
        size = flat.norm(dim=1).clamp_min(TINY)[:, None]
        step = -(gap[:, None] / size) * (flat / size)
    elif norm == 1:
        largest = flat.abs().argmax(1, keepdim=True)
        entry = flat.gather(1, largest)
        step = torch.zeros_like(flat).scatter(1, largest, -gap[:, None] / torch.where(entry == 0, 1.0, entry))
    else:
        step = -(gap[:, None] / flat.abs().sum(1, keepdim=True).clamp_min(TINY)) * flat.sign()
    steps: Tensor = step.reshape(gradient.shape)
    return steps
