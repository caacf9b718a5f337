"""Straight paths from baselines to inputs, cut into their linear pieces and streamed with the gradient of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.exact.budget import Budget
from regionscope.exact.linear import exact_regions
from regionscope.geometry import Segment
from regionscope.network import Program, Values, full_precision
from regionscope.network.program import Instruction
from regionscope.types import Progress

_PIECES = 1 << 18  # about this number of pieces is cut at a time
_PATHS = 256
_FIRST_PATHS = 8  # paths cut first, to see how many pieces a path has
_BYTES = {"cpu": 1 << 26, "cuda": 1 << 33}  # of live values, where gradients are computed
_ROWS = 32  # rows at a time, if the memory allows it, also where they exceed _BYTES
_CUTTING_SHARE = 0.4  # share of the work, for the progress; the rest is spent on gradients


@dataclass(frozen=True, eq=False)
class Paths:
    """Straight paths to inputs (n, *input_shape) from baselines (m, *input_shape), all float64.

    pairs: (p, 2) the input and the baseline of each path. weights: (n, c) the target of an input: the sum of its
    outputs with these weights.
    """

    program: Program
    inputs: Tensor
    baselines: Tensor
    pairs: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return len(self.pairs)

    def ends(self, paths: Tensor) -> tuple[Tensor, Tensor]:
        """Where the listed paths start and end, flattened (p, d) each."""
        to, start = self.pairs[paths].T
        return self.baselines.flatten(1)[start], self.inputs.flatten(1)[to]

    def target(self, paths: Tensor, outputs: Tensor) -> Tensor:
        """The targets (n,) at points of the listed paths (n,), from the outputs (n, c) there."""
        return (outputs.double() * self.weights[self.pairs[paths, 0]]).sum(1)


@dataclass(frozen=True, eq=False)
class PathPieces:
    """Linear pieces of some paths, in order along each.

    path: (n,) the path of a piece. start, end: (n,) where it starts and ends, as shares of the path. low, high: (n,)
    the target there. gradient: of the target with respect to the values before the first fold, by their name,
    (n, ...) each; ``input_gradients`` takes it, or a weighted sum of its rows, back to the inputs.
    """

    path: Tensor
    start: Tensor
    end: Tensor
    low: Tensor
    high: Tensor
    gradient: Values


def pieces_of(paths: Paths, *, memory: int | None = None, progress: Progress | None = None) -> Iterator[PathPieces]:
    """All pieces of all paths, path by path, a batch at a time; a path of length 0 has none.

    The gradient is taken at the middle of a piece. What comes before the first fold is affine, so its values
    there are interpolated, and gradients stop short of it. Cost: ``linear_regions`` on the paths, and one forward and
    backward pass for each piece. Some 64 MiB of live values are held at a time (8 GiB on a GPU), at most ``memory``.
    """
    lengths = torch.cat([(b - a).norm(dim=1) for a, b in map(paths.ends, _ids(paths).split(_PATHS))])
    left = (lengths > 0).nonzero()[:, 0]
    size, done, total = _FIRST_PATHS, 0, max(1, len(left))
    while done < len(left):
        chosen = left[done : done + size]

        def report(share: float, chosen: Tensor = chosen, done: int = done) -> None:
            if progress is not None:
                progress(min(1.0, (done + share * len(chosen)) / total))

        count = 0
        for batch in _chunk(paths, chosen, memory, report):
            count += len(batch.path)
            yield batch
        done += len(chosen)
        size = min(_PATHS, max(1, _PIECES * len(chosen) // count))
    if progress is not None:
        progress(1.0)


def _ids(paths: Paths) -> Tensor:
    return torch.arange(len(paths), device=paths.pairs.device)


def _chunk(paths: Paths, chosen: Tensor, memory: int | None, progress: Progress) -> Iterator[PathPieces]:
    """The pieces of the chosen paths, which are cut together."""
    program, shape = paths.program, paths.program.input_shape
    starts, ends = paths.ends(chosen)
    slices: Sequence[Segment] = [Segment(a.reshape(shape), b.reshape(shape)) for a, b in zip(starts, ends, strict=True)]
    batch = exact_regions(
        program, slices, max_regions=None, on_limit="raise", memory=memory, tolerance=None,
        progress=lambda share: progress(_CUTTING_SHARE * share),
    ).regions  # fmt: skip
    first, last = batch.corners.reshape(-1, 2).T
    local = batch.slice_id[first]
    path, coords = chosen[local], batch.coords[:, 0]
    values = paths.target(chosen[batch.slice_id], batch.outputs)
    ends_at = [_begin(program, rows.reshape(-1, *shape).to(program.dtype)) for rows in (starts, ends)]
    rows, n = _rows(program, memory), len(first)
    for begin in range(0, n, rows):
        some = slice(begin, begin + rows)
        a, b, chosen_rows = first[some], last[some], local[some]
        middle = ((coords[a] + coords[b]) / 2).to(program.dtype)
        between = {
            name: _between(low[chosen_rows], ends_at[1][name][chosen_rows], middle) for name, low in ends_at[0].items()
        }
        gradient = _gradients(program, between, paths.weights[paths.pairs[path[some], 0]], _folded(program))
        yield PathPieces(path[some], coords[a], coords[b], values[a], values[b], gradient)
        progress(_CUTTING_SHARE + (1 - _CUTTING_SHARE) * min(1.0, (begin + rows) / n))


def rises(paths: Paths, *, memory: int | None = None) -> Tensor:
    """The target at the end minus that at the start of each path (p,), without the rounding of a large constant.

    What comes behind the last fold is affine, so its gradient takes differences there to differences of the
    target. Cost: two forward passes for each path.
    """
    program, steps, n_first = paths.program, list(paths.program.instructions), 0
    for fold in program.folds:
        n_first = len(steps) + 1  # its first instruction is the fold
        steps += fold.instructions
    rises_of_paths = []
    for ids in _ids(paths).split(min(_PATHS, _rows(program, memory))):
        before, after = ({program.input_name: x.reshape(-1, *program.input_shape)} for x in paths.ends(ids))
        with torch.no_grad(), full_precision():
            for values in (before, after):
                for step in steps[:n_first]:
                    step.run(values, consume=False, pure=True)
        weights = paths.weights[paths.pairs[ids, 0]]
        slopes = _gradients(program, before, weights, steps[n_first:])
        terms = [(slope * (after[name] - before[name]))[..., None].flatten(1).sum(1) for name, slope in slopes.items()]
        rises_of_paths.append(torch.stack(terms).sum(0))
    return torch.cat(rises_of_paths)


def input_gradients(program: Program, gradient: Values) -> Tensor:
    """The gradients (n, d) float64 with respect to the inputs, from those before the first fold."""
    n = len(next(iter(gradient.values())))
    inputs = torch.zeros(n, *program.input_shape, dtype=program.dtype, device=program.device, requires_grad=True)
    with torch.enable_grad(), full_precision():
        values = _begin(program, inputs)
        weights = [gradient[name].to(program.dtype) for name in values]
        (input_grad,) = torch.autograd.grad(list(values.values()), inputs, weights)
    return input_grad.flatten(1).double()


def gradients(program: Program, points: Tensor, weights: Tensor) -> Tensor:
    """The gradients (n, d) of the weighted outputs (n, c) at these points."""
    values = _begin(program, points.to(program.device, program.dtype))
    return input_gradients(program, _gradients(program, values, weights, _folded(program)))


def _begin(program: Program, inputs: Tensor) -> Values:
    """The values before the first fold; autograd can go through."""
    values = {program.input_name: inputs}
    for instruction in program.instructions:
        instruction.run(values, consume=False, pure=True)
    return values


def _between(low: Tensor, high: Tensor, share: Tensor) -> Tensor:
    return torch.lerp(low, high, share.reshape(-1, *[1] * (low.ndim - 1)))


def _folded(program: Program) -> list[Instruction]:
    """All instructions from the first fold on."""
    return [instruction for fold in program.folds for instruction in fold.instructions]


def _gradients(program: Program, values: Values, weights: Tensor, rest: Sequence[Instruction]) -> Values:
    """The gradients of the weighted outputs with respect to these values, from which ``rest`` computes the outputs."""
    leaves = {name: rows.detach().requires_grad_(True) for name, rows in values.items()}
    with torch.enable_grad(), full_precision():
        moving = dict(leaves)
        for instruction in rest:
            instruction.run(moving, consume=False, pure=True)
        outputs = program.outputs(moving)
        gradients = torch.autograd.grad(outputs, list(leaves.values()), weights.to(outputs))
    return dict(zip(leaves, gradients, strict=True))


def _rows(program: Program, memory: int | None) -> int:
    row = max(1, program.row_bytes * (1 + len(program.folds)))
    preferred = max(_BYTES.get(program.device.type, _BYTES["cpu"]), _ROWS * row)
    return max(1, min(Budget.of(program.device, memory, None).memory, preferred) // row)
