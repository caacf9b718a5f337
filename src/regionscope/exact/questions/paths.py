"""Straight paths from baselines to inputs, cut into their linear pieces and streamed with the gradient of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.exact.budget import Budget
from regionscope.exact.linear import Progress, exact_regions
from regionscope.geometry import Segment
from regionscope.network import Program, full_precision

__all__ = ["Paths", "Pieces", "gradients", "pieces_of"]

_PIECES = 1 << 18  # about so many are cut at a time
_PATHS = 256
_BYTES = {"cpu": 1 << 26, "cuda": 1 << 33}  # of live values, where gradients are computed
_ROWS = 32  # at least, where the memory allows it
_CUTTING = 0.4  # of the work, for the progress; the rest is spent on gradients


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
class Pieces:
    """Linear pieces of some paths, in order along each.

    path: (n,) the path of a piece. start, end: (n,) where it starts and ends, as shares of the path. low, high: (n,)
    the target there. gradient: (n, d) float64 of the target with respect to the input.
    """

    path: Tensor
    start: Tensor
    end: Tensor
    low: Tensor
    high: Tensor
    gradient: Tensor


def pieces_of(paths: Paths, *, memory: int | None = None, progress: Progress | None = None) -> Iterator[Pieces]:
    """All pieces of all paths, path by path, a batch at a time; a path of length 0 has none.

    The gradient is taken at the middle of a piece. Cost: ``linear_regions`` on the paths, and one forward and backward
    pass for each piece. Some 64 MiB of live values are held at a time (8 GiB on a GPU), at most ``memory``.
    """
    lengths = torch.cat([(b - a).norm(dim=1) for a, b in map(paths.ends, _ids(paths).split(_PATHS))])
    left = (lengths > 0).nonzero()[:, 0]
    size, done, total = 1, 0, max(1, len(left))
    while done < len(left):
        chosen = left[done : done + size]

        def tell(share: float, chosen: Tensor = chosen, done: int = done) -> None:
            if progress is not None:
                progress(min(1.0, (done + share * len(chosen)) / total))

        count = 0
        for batch in _chunk(paths, chosen, memory, tell):
            count += len(batch.path)
            yield batch
        done += len(chosen)
        size = min(_PATHS, max(1, _PIECES * len(chosen) // count))
    if progress is not None:
        progress(1.0)


def _ids(paths: Paths) -> Tensor:
    return torch.arange(len(paths), device=paths.pairs.device)


def _chunk(paths: Paths, chosen: Tensor, memory: int | None, tell: Progress) -> Iterator[Pieces]:
    """The pieces of the chosen paths, which are cut together."""
    program, shape = paths.program, paths.program.input_shape
    starts, ends = paths.ends(chosen)
    slices: Sequence[Segment] = [Segment(a.reshape(shape), b.reshape(shape)) for a, b in zip(starts, ends, strict=True)]
    found = exact_regions(
        program, slices, max_regions=None, on_limit="raise", memory=memory, tolerance=None,
        progress=lambda share: tell(_CUTTING * share),
    ).found  # fmt: skip
    first, last = found.corners.reshape(-1, 2).T
    local = found.slice_id[first]
    path = chosen[local]
    at = found.coords[:, 0]
    values = paths.target(chosen[found.slice_id], found.outputs)
    rows = _rows(program, memory)
    n = len(first)
    for begin in range(0, n, rows):
        some = slice(begin, begin + rows)
        a, b = first[some], last[some]
        middle = ((at[a] + at[b]) / 2)[:, None]
        points = torch.lerp(starts[local[some]], ends[local[some]], middle)
        gradient = gradients(program, points.reshape(-1, *shape), paths.weights[paths.pairs[path[some], 0]])
        yield Pieces(path[some], at[a], at[b], values[a], values[b], gradient)
        tell(_CUTTING + (1 - _CUTTING) * min(1.0, (begin + rows) / n))


def _rows(program: Program, memory: int | None) -> int:
    row = max(1, program.row_bytes * (1 + len(program.kinks)))
    preferred = max(_BYTES.get(program.device.type, _BYTES["cpu"]), _ROWS * row)
    return max(1, min(Budget.of(program.device, memory, None).memory, preferred) // row)


def gradients(program: Program, points: Tensor, weights: Tensor) -> Tensor:
    """The gradients (n, d) of the weighted outputs at these points."""
    inputs = points.to(program.device, program.dtype).requires_grad_(True)
    with torch.enable_grad(), full_precision():
        outputs = program.differentiable(inputs)
        (gradient,) = torch.autograd.grad(outputs, inputs, weights.to(outputs.dtype))
    return gradient.flatten(1).double()
