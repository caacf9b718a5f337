"""The way of a partition through a network, the same in every dimension. A state knows how to cut itself.

    state before fold l -(cut)-> more cells -(advance)-> state before fold l + 1 -> ... -> outputs
            |
            +-- too many vertices: parts, each of which goes on to the end before the next one starts

So the memory is bounded here: only one part is live at each fold at which there are parts, and ``Budget.rows`` leaves
room for those that wait. A region never crosses a border between parts, since such a border is a fold.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from regionscope.exact.budget import Budget, Keep, Record, shares_of_folds
from regionscope.geometry import arrays as xp
from regionscope.network import Fold, Program, Values

Finished = TypeVar("Finished")
_NOTHING = 1e-9  # of the share of a fold: less is left of it by rounding alone


class State(ABC, Generic[Finished]):
    """Cells of some slices before a fold, and what is known at their vertices."""

    coords: Tensor
    values: Values

    @abstractmethod
    def cut(self, walk: Walk[Finished], layer: int, share: float) -> State[Finished] | Parts[Finished]:
        """Cut the cells at fold ``layer``, or some of them at a time; the values follow, but stay before the fold.

        Counts the signs that rounding hides, and may report progress, of which the cut is ``share``.
        """

    @abstractmethod
    def behind(self, values: Values) -> State[Finished]:
        """The same cells with the values behind the fold."""

    def advanced(self, walk: Walk[Finished], fold: Fold) -> State[Finished]:
        """The cells and their values behind the fold, which has cut them."""
        return self.behind(fold.advance(self.values, consume=True))

    @abstractmethod
    def region_slices(self, single: bool) -> Tensor:
        """The slice of each region (r,); any numbers for a ``single`` slice."""

    @abstractmethod
    def cell_corners(self) -> tuple[Tensor, Tensor]:
        """Corners and offsets of the cells, a ragged array."""

    @abstractmethod
    def take(self, mask: Tensor) -> State[Finished]:
        """The cells of a mask (r,) alone."""

    @abstractmethod
    def finish(self, outputs: Tensor) -> Finished:
        """The result, with the outputs (v, c) at the vertices."""


@dataclass(frozen=True, eq=False)
class Parts(Generic[Finished]):
    """Parts of a state at one fold, one after another, each with its share of the work.

    waiting: bytes of the values that wait meanwhile. join: puts the finished parts together.
    """

    states: Iterable[tuple[State[Finished], float]]
    waiting: int
    join: Callable[[list[Finished]], Finished]


@dataclass(eq=False)
class Walk(Generic[Finished]):
    """What a computation needs on its way through the folds of a program.

    zero_tolerances: of each fold, from ``zero_tolerances_of``. shares: see ``shares_of_folds``. extent: see ``Units``;
    infinite in float32, where all places are rough. keep: which cells to go on with after each fold; the others are
    left out of the result. consume: called with each finished part, which is then forgotten; the result is the last
    part. held: bytes of values that wait for their turn. next_tag: number of borders between parts so far.
    """

    program: Program
    zero_tolerances: Sequence[Tensor]
    budget: Budget
    record: Record
    shares: Sequence[float]
    extent: float
    keep: Keep | None = None
    consume: Callable[[Finished], object] | None = None
    held: int = 0
    next_tag: int = 0

    @staticmethod
    def of(
        program: Program, zero_tolerances: Sequence[Tensor], budget: Budget, record: Record,
        corners: Sequence[Tensor], *, keep: Keep | None = None, consume: Callable[[Finished], object] | None = None,
    ) -> Walk[Finished]:  # fmt: skip
        """The walk for slices with these corners (m, k)."""
        extent = math.inf
        if program.dtype == torch.float64:
            extent = max(float((xp.largest(x, 0) + xp.largest(-x, 0)).max()) for x in map(xp.numpy_on_cpu, corners))
        shares = shares_of_folds(program, corners[0].shape[1])
        return Walk(program, zero_tolerances, budget, record, shares, extent, keep, consume)

    def carry(self, state: State[Finished], start: int = 0, share: float = 1.0) -> Finished:
        """Take a state through fold ``start`` and all later ones. share: of all the work, for the progress."""
        folds, single = self.program.folds, self.record.counts.shape[1] == 1
        for layer in range(start, len(folds)):
            layer_share, done = share * self.shares[layer], self.record.done
            cut = state.cut(self, layer, layer_share)
            if isinstance(cut, Parts):
                return self._in_parts(cut, layer, share - (self.record.done - done))
            self.record.add(layer, cut.region_slices(single), self.budget.max_regions)
            state = cut.advanced(self, folds[layer])
            if self.keep is not None:
                mask = self.keep(layer, state.cell_corners, state.coords, state.values)
                state = state if mask is None or bool(mask.all()) else state.take(mask)
            left = layer_share - (self.record.done - done)
            if left > _NOTHING * layer_share:
                self.record.report_progress(left)
            share -= layer_share
        if share > 0 or not folds:
            self.record.report_progress(share)
        finished = state.finish(self.program.outputs(state.values))
        if self.consume is not None:
            self.consume(finished)
        return finished

    def _in_parts(self, parts: Parts[Finished], layer: int, share: float) -> Finished:
        finished: list[Finished] = []
        self.held += parts.waiting
        for state, part in parts.states:
            result = self.carry(state, layer, share * part)
            finished = [result] if self.consume is not None else [*finished, result]
        self.held -= parts.waiting
        return finished[0] if self.consume is not None else parts.join(finished)
