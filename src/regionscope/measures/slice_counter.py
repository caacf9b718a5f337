"""Counting blocks of slices: by a lattice, refined or exactly, decision or linear regions, here or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regionscope.checks import one_of
from regionscope.cluster import open_shards
from regionscope.errors import InputError, NotPiecewiseAffine
from regionscope.exact.decision import decision_regions
from regionscope.exact.linear import linear_regions, program_of
from regionscope.geometry import Slice
from regionscope.inputs import Examples
from regionscope.measures.count_file import CountFile
from regionscope.measures.over_slices import SliceValues, over_slices
from regionscope.network import Program
from regionscope.network.estimator import is_estimator
from regionscope.sampled.drawn_slices import SliceSampler
from regionscope.sampled.grid import RefinedCounts, grid_counts, refined_counts
from regionscope.sampled.labels import Labeller, open_labeller
from regionscope.types import Progress, Status

Method = Literal["grid", "refined", "exact"]
Pieces = Literal["linear", "activation"]
_SLICES_PER_CALL = 64  # slices that are counted in one call, for each thread of a cluster
_SLICES_PER_LINE = 16  # of a file, for each thread: what a kill can lose; counting 16 at a time is about as fast


class SliceCounter:
    """Counts the regions of blocks of slices.

    plain, settled: for refined counts, the counts on the plain grid and whether each slice settled, block by block.
    """

    def __init__(
        self, count: Callable[[Sequence[Slice]], Tensor | RefinedCounts], labeller: Labeller | None, threads: int = 1
    ) -> None:
        self.count, self._labeller, self._threads = count, labeller, threads
        self._file: CountFile | None = None
        self.plain: list[Tensor] = []
        self.settled: list[Tensor] = []

    def over(
        self, sampler: SliceSampler, file: CountFile | None, *, slices: int, until: float | None, max_slices: int,
        progress: Progress | None,
    ) -> SliceValues:  # fmt: skip
        """The counts of drawn slices, see ``over_slices``. Those in the file are taken from it, others are appended."""
        self._file = file
        return over_slices(
            self, sampler, slices=slices, until=until, max_slices=max_slices, progress=progress,
            slices_per_call=self._threads * (_SLICES_PER_CALL if file is None else _SLICES_PER_LINE),
            finished=None if file is None else self._kept(file.finished),
        )  # fmt: skip

    def __call__(self, block: Sequence[Slice]) -> Tensor:
        result = self.count(block)
        if self._file is not None:
            self._file.append(result)
        return self._kept(result)

    def _kept(self, result: Tensor | RefinedCounts) -> Tensor:
        if isinstance(result, Tensor):
            return result
        self.plain.append(result.plain)
        self.settled.append(result.settled)
        return result.counts

    @property
    def model_seconds(self) -> float:
        return 0.0 if self._labeller is None else self._labeller.seconds

    def status(self, n: int) -> Status:
        """Whether the counts of the first n slices settled."""
        unsettled = n - int(torch.cat(self.settled)[:n].sum()) if self.settled else 0
        if not unsettled:
            return Status()
        reason = f"the counts of {unsettled} of {n} slices still changed at the finest lattice; raise max_points"
        return Status(complete=False, reason=reason)


@contextmanager
def open_counter(
    model: Any, inputs: Examples | None, first: Slice, *, method: Method, grid: int | None, batch_size: int | None,
    memory: int | None, autocast: torch.dtype | None, max_points: int,
) -> Iterator[SliceCounter]:  # fmt: skip
    """The counter of a method; the model is in eval mode while it is open."""
    if method == "exact":
        for name, value in (("grid", grid), ("batch_size", batch_size), ("autocast", autocast)):
            if value is not None:
                raise InputError(
                    f'Expected {name}=None with method="exact", which has no lattice and computes in float64, got '
                    f'{value}. Leave it out, or use method="grid" or "refined".'
                )
        yield SliceCounter(_exact(model, first, memory), None)
        return
    one_of("method", method, ("grid", "refined", "exact"))
    count: Callable[..., Tensor | RefinedCounts] = partial(refined_counts, max_points=max_points)
    count = grid_counts if method == "grid" else count
    with open_labeller(
        model, inputs, first.input_shape, batch_size=batch_size, memory=memory, autocast=autocast, widened=True
    ) as labeller:
        yield SliceCounter(partial(count, labeller, grid=grid), labeller)


Opener = Callable[[Slice], AbstractContextManager[SliceCounter]]


@contextmanager
def open_counter_on(dask: str, model: Any, opener: Opener) -> Iterator[SliceCounter]:
    """A counter that shares each block among the workers of a cluster."""
    with open_shards(partial(_count_shard, opener), _joined, model, dask) as shards:
        yield SliceCounter(shards, None, shards.threads)


@contextmanager
def open_linear_counter(
    model: nn.Module | Program, program: Program, pieces: Pieces, memory: int | None, dask: str | None
) -> Iterator[SliceCounter]:
    """A counter of linear or activation regions, exact; the workers of a cluster trace the model themselves."""
    if dask is None:
        yield SliceCounter(partial(_linear_counts, program, pieces, memory), None)
        return
    with open_shards(partial(_linear_counts, model, pieces, memory), torch.cat, model, dask) as shards:
        yield SliceCounter(shards, None, shards.threads)


def _count_shard(opener: Opener, shard: Sequence[Slice]) -> Tensor | RefinedCounts:
    with opener(shard[0]) as counter:
        return _joined([counter.count(shard[i : i + _SLICES_PER_CALL]) for i in range(0, len(shard), _SLICES_PER_CALL)])


def _joined(parts: Sequence[Tensor | RefinedCounts]) -> Tensor | RefinedCounts:
    refined = [part for part in parts if isinstance(part, RefinedCounts)]
    if refined:
        return RefinedCounts(*(torch.cat(parts) for parts in zip(*map(astuple, refined), strict=True)))
    return torch.cat([part for part in parts if isinstance(part, Tensor)])


def _exact(model: Any, first: Slice, memory: int | None) -> Callable[[Sequence[Slice]], Tensor]:
    if not isinstance(model, nn.Module | Program) and not is_estimator(model):
        raise InputError(
            f'Expected a torch module for method "exact", got {type(model).__name__}. Use "grid" or "refined".'
        )
    try:
        program = model if isinstance(model, Program) else program_of(model, [first])
    except NotPiecewiseAffine as error:
        raise NotPiecewiseAffine(f'{error} For region_count, pass method="refined" or "grid".') from error

    def count(block: Sequence[Slice]) -> Tensor:
        return torch.tensor([dec.count for dec in decision_regions(program, block, memory=memory)], device="cpu")

    return count


def _linear_counts(model: nn.Module | Program, pieces: Pieces, memory: int | None, block: Sequence[Slice]) -> Tensor:
    parts = linear_regions(model, block, memory=memory)
    counts = [part.n_linear_regions if pieces == "linear" else part.n_activation_regions for part in parts]
    return torch.tensor(counts, device="cpu")
