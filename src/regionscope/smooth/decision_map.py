"""``decision_map``: proven labels of a network with smooth activations on a slice."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regionscope.checks import check_memory, check_positive, check_progress, read_integer, read_number
from regionscope.errors import InputError
from regionscope.formatting import size_name
from regionscope.geometry import Slice
from regionscope.geometry.points import PointLike
from regionscope.geometry.slices import read_slices
from regionscope.inputs import read_array
from regionscope.network import full_precision, trace_smooth
from regionscope.network.output import Arguments, Output
from regionscope.smooth.cells import Cells, cells_of
from regionscope.smooth.counts import Derivatives, count_regions
from regionscope.smooth.network import MOST_ERRORS, SmoothNetwork
from regionscope.smooth.verdicts import Judge, Verdict
from regionscope.types import BoolArray, FloatArray, IntArray, Progress, Reading, Status

_FIRST_HALVINGS = {1: 4, 2: 6, 3: 6}  # before the first pass, by dimension of the slice
_MARGIN = 1.05  # a round decides so much more than is still wanted, if it goes as the last one did
_COUNT_ROUNDS = 40  # at most, to settle the number of regions
_SMALLEST = 1e-9  # of the slice: smaller cells, where folds cross or outputs tie, do not settle the number
_MEMORY = 1 << 30


def decision_map(
    model: Any,
    slice: Slice,
    *,
    undecided: float = 0.01,
    max_cells: int = 1_000_000,
    max_seconds: float = math.inf,
    value: float | None = None,
    progress: Progress | None = None,
    memory: int | None = None,
    output: Output | None = None,
    args: Arguments = (),
) -> DecisionMap:
    """Cells of a slice with proven labels, for networks with smooth activations, attention and normalization layers.

    The slice is cut into cells until at most the share ``undecided`` of it lies in cells whose label is not proven. On
    a cell, every value of the network is an affine function of the coordinates plus an error with a proven bound (see
    ``smooth/forms.py`` and docs/smooth.md). A proven label is right in real arithmetic, and for a float64
    forward pass with any order of summation.

    slice: a segment, a plane, or a Box of dimension 3. undecided: share of the slice's length, area or volume.
    max_cells, max_seconds: limits, after which the map is returned with a ``status`` that names the limit.
        ``KeyboardInterrupt`` is a limit too. The map is the same each time unless ``max_seconds`` or an interrupt stops
        it.
    value: for a single output, a level in place of labels: 0 for outputs of at most ``value``, 1 above it. By default
        the largest of several outputs is the label, and a single output has the level 0.
    memory: bytes for the values of a cluster of cells; 1 GiB by default. The cells themselves take about 500 bytes
        each.
    output, args: as in ``trace``.
    Raises NotPiecewiseAffine for operations without a record. Reference: affine arithmetic of Sharp and Jacobson,
    Spelunking the Deep, 2022. Differs: errors keep their signs across layers, outputs are bounded backwards too, cells
    are cut along the boundary, rounding counts. Cost: see docs/smooth.md; for 64-[128]^6 some hundred cells, each of
    which costs tens of forward passes.
    """
    (slice,) = read_slices(slice)
    _check_options(undecided, max_cells, max_seconds, memory)
    check_progress(progress)
    with torch.inference_mode(False), torch.no_grad(), full_precision():
        program = trace_smooth(model, slice.input_shape, output=output, args=args)
        if value is not None and program.n_outputs != 1:
            raise InputError(
                f"Expected a single output for value={value!r}, got {program.n_outputs} outputs. "
                "Choose one with output=."
            )
        deadline = time.monotonic() + max_seconds
        network = SmoothNetwork.of(program, slice.dim)
        level = 0.0 if value is None else read_number("value", value)
        rows = network.rows(slice.dim, _MEMORY if memory is None else memory)
        judge = Judge(network, slice.to(program.device), level, MOST_ERRORS, rows)
        work = _Work.begin(judge, cells_of(slice))
        status = work.refine_to(undecided, max_cells, deadline, progress)
    return DecisionMap(slice, work.cells, work.possible, status, work.passes, judge)


def _check_options(undecided: float, max_cells: int, max_seconds: float, memory: int | None) -> None:
    if not 0 < read_number("undecided", undecided) < 1:
        raise InputError(f"Expected undecided between 0 and 1, got {undecided!r}. Write 0.01 for one percent.")
    read_integer("max_cells", max_cells)
    if max_seconds != math.inf:
        check_positive(max_seconds=max_seconds)
    check_memory(memory)


@dataclass(frozen=True, eq=False)
class DecisionMap:
    """Cells of a slice, with a proven label where there is one.

    parts: the cells as arrays. possible: (r, c), the labels that may occur in each cell. status: whether the share that
    was asked for is reached, and if not, why. n_passes: number of cells that went through the network.
    """

    slice: Slice
    parts: Cells
    possible: BoolArray
    status: Status
    n_passes: int
    judge: Judge

    def __repr__(self) -> str:
        size = f"{size_name(self.slice.dim)}={self.slice.size:.6g}"
        counts = f"cells={len(self)}, undecided={self.undecided:.3g}"
        stopped = "" if self.status else f", status={self.status.reason!r}"
        return f"DecisionMap(dim={self.slice.dim}, {counts}, {size}{stopped})"

    def __len__(self) -> int:
        return len(self.parts)

    def readings(self) -> tuple[Reading, ...]:
        """The undecided share."""
        return (("", self.undecided, None),)

    @cached_property
    def cells(self) -> list[Tensor]:
        """The corners (m, k) of each cell in slice coordinates, counter-clockwise in a plane."""
        return [torch.from_numpy(corners) for corners in self.parts.loops_of_corners()]

    @cached_property
    def labels(self) -> Tensor:
        """The label of each cell (r,), -1 where it is not proven."""
        proven = self.possible.sum(1) == 1
        return torch.from_numpy(np.where(proven, self.possible.argmax(1), -1))

    @cached_property
    def sizes(self) -> Tensor:
        """Length, area or volume of each cell in input space (r,)."""
        return torch.from_numpy(self.parts.sizes * self.slice.scale)

    @property
    def undecided(self) -> float:
        """Share of the slice in cells whose label is not proven."""
        sizes = self.parts.sizes
        return float(sizes[self.possible.sum(1) > 1].sum() / sizes.sum())

    def area(self, label: int) -> tuple[float, float]:
        """Proven bounds (low, high) of the length, area or volume of one label, in input space."""
        if not 0 <= read_integer("label", label, least=0) < self.possible.shape[1]:
            raise InputError(
                f"Expected a label from 0 to {self.possible.shape[1] - 1}, got {label}. Pass a label of the network."
            )
        sizes = self.sizes.numpy()
        holds = self.possible[:, label]
        proven = holds & (self.possible.sum(1) == 1)
        return float(sizes[proven].sum()), float(sizes[holds].sum())

    def label_at(self, points: PointLike) -> Tensor:
        """The proven label at coordinates (n, k) of the slice (n,); -1 where it is not proven, or outside the slice."""
        coords = read_array(points, "coordinates").double().cpu().numpy()
        if coords.ndim != 2 or coords.shape[1] != self.slice.dim:
            raise InputError(f"Expected coordinates of shape (n, {self.slice.dim}), got {coords.shape}. Reshape them.")
        cell = self.parts.locate(coords)
        labels = np.append(self.labels.numpy(), -1)[cell]
        return torch.from_numpy(labels)

    @property
    def n_regions(self) -> int | tuple[int, int | None]:
        """The number of decision regions, where it is proven; else bounds (low, high), high None if there is none.

        A decision region is a connected set of one label. ``counted`` has the reason where the number stays open.
        Cost: a pass of the derivatives over the open cells, and smaller cells where that does not settle the number; a
        map that a limit stopped is counted as it is.
        """
        low, high = self.counted.low, self.counted.high
        return low if low == high else (low, high)

    @cached_property
    def counted(self) -> RegionBounds:
        """``n_regions`` as bounds, with the reason if they differ."""
        with torch.inference_mode(False), torch.no_grad(), full_precision():
            return _count(_Work(self.judge, self.parts, self.possible), _COUNT_ROUNDS if self.status else 1)


@dataclass(frozen=True)
class RegionBounds:
    """Proven bounds of the number of decision regions. status: complete if they are equal, else the reason."""

    low: int
    high: int | None
    status: Status


@dataclass(eq=False)
class _Work:
    """Cells with the labels that may occur in each, while they are refined."""

    judge: Judge
    cells: Cells
    possible: BoolArray
    passes: int = 0

    @staticmethod
    def begin(judge: Judge, cells: Cells) -> _Work:
        work = _Work(judge, cells, np.ones((len(cells), judge.n_labels), bool))
        for _ in range(_FIRST_HALVINGS[judge.slice.dim]):
            work.follow(*work.cells.halved(np.arange(len(work.cells))))
        return work

    @property
    def open(self) -> BoolArray:
        """Cells with several possible labels."""
        several: BoolArray = self.possible.sum(1) > 1
        return several

    def follow(self, cells: Cells, old: IntArray) -> IntArray:
        """Go on with cells that are parts of the old ones; return the old cell of each."""
        self.cells, self.possible = cells, self.possible[old]
        return old

    def refine_to(self, share: float, max_cells: int, deadline: float, progress: Progress | None) -> Status:
        """Refine the largest open cells until at most this share of the slice is open."""
        ratio, total = 0.5, float(self.cells.sizes.sum())
        while True:
            sizes, is_open = self.cells.sizes, self.open
            left = float(sizes[is_open].sum())
            if progress is not None:
                progress(min(1.0, (1 - left / total) / (1 - share)))
            if left <= share * total:
                return Status()
            if len(self.cells) >= max_cells:
                return Status(False, _stopped(left / total, share, f"max_cells={max_cells} is reached"))
            if time.monotonic() > deadline:
                return Status(False, _stopped(left / total, share, "max_seconds is reached"))
            chosen = _largest(sizes, np.flatnonzero(is_open), (left - share * total) * _MARGIN / (1 - ratio))
            before = float(sizes[chosen].sum())
            try:
                self.refine(chosen, deadline)
            except KeyboardInterrupt:
                return Status(False, _stopped(left / total, share, "it was interrupted"))
            after = float(self.cells.sizes[self.open].sum()) - (left - before)
            ratio = min(0.9, max(0.02, after / before))

    def refine(self, chosen: IntArray, deadline: float = math.inf) -> IntArray:
        """Bound these cells, cut off what is decided, and halve the rest; return the old cell of each new one.

        At the deadline the rest of them stays as it is.
        """
        verdict, chosen = self._verdicts(chosen, deadline)
        possible = self.possible.copy()
        possible[chosen] = verdict.possible
        before = self.possible
        self.possible = possible
        row = np.full(len(self.cells), -1)
        row[chosen] = np.arange(len(chosen))
        cut = np.flatnonzero(self.open[chosen] & np.isfinite(verdict.level))
        lines = np.repeat(verdict.line[cut, None], 2, 1)
        lines[:, 0, 0] -= verdict.level[cut]
        lines[:, 1, 0] += verdict.level[cut]
        try:
            old = self.follow(*self.cells.cut(chosen[cut], lines))
        except BaseException:
            self.possible = before
            raise
        parts = np.flatnonzero((row[old] >= 0) & self.open)
        corners = self.cells.corners(parts)
        self.possible[parts] = verdict.of_parts(row[old[parts]], corners, self.possible[parts])
        for far in (False, True):
            rest = (row[old] >= 0) & self.open
            if far:
                rest[rest] = verdict.far[row[old[rest]]]
            old = old[self.follow(*self.cells.halved(np.flatnonzero(rest)))]
        return old

    def _verdicts(self, chosen: IntArray, deadline: float) -> tuple[Verdict, IntArray]:
        parts: list[Verdict] = []
        rows = self.judge.rows
        for start in range(0, len(chosen), rows):
            if parts and time.monotonic() > deadline:
                chosen = chosen[:start]
                break
            some = chosen[start : start + rows]
            parts.append(self.judge.judge(self.cells, some, self.possible[some]))
            self.passes += len(some)
        return Verdict.joined(parts), chosen


def _largest(sizes: FloatArray, among: IntArray, wanted: float) -> IntArray:
    """The largest cells, as many as together have the size that is wanted, in the order of the cells."""
    order = among[np.argsort(-sizes[among], kind="stable")]
    n = int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1
    chosen: IntArray = np.sort(order[:n])
    return chosen


def _stopped(left: float, share: float, why: str) -> str:
    return f"Expected at most {share:.3g} of the slice undecided, got {left:.3g}: {why}."


def _count(work: _Work, rounds: int) -> RegionBounds:
    """Count, and refine the cells that leave the number open, until it is exact or the rounds are used up."""
    derivatives = Derivatives.unknown(len(work.cells), work.judge.slice.dim)
    budget = 4 * len(work.cells) + 4000
    smallest = _SMALLEST * float(np.ptp(work.cells.corners(np.arange(len(work.cells)))))
    for left in reversed(range(rounds)):
        count = count_regions(work.judge, work.cells, work.possible, derivatives)
        work.possible = count.possible
        longest = np.linalg.norm(work.cells.frames(count.unsettled)[1][:, 0], axis=1)
        chosen = count.unsettled[longest > smallest]
        if not (left and len(chosen)) or work.judge.slice.dim == 3 or work.passes > budget:
            break
        derivatives.forget(chosen)
        derivatives.follow(work.refine(chosen))
    if count.high == count.low:
        return RegionBounds(count.low, count.high, Status())
    if count.high is not None:
        why = "regions of one label may or may not be joined through cells whose label is not proven"
    elif work.judge.slice.dim == 3:
        why = "in three dimensions only a lower bound is proven"
    else:
        why = f"{len(count.unsettled)} cells may hold further regions: no direction has derivatives of one sign there"
    return RegionBounds(count.low, count.high, Status(False, f"The number of regions is open, because {why}."))
