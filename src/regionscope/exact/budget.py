"""Limits of an exact computation, and the counts that it keeps, in any dimension."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regionscope.errors import LimitReached
from regionscope.geometry import Slice
from regionscope.geometry import arrays as xp
from regionscope.geometry.polytope.complex import Domain
from regionscope.network import Fold, Program, Values
from regionscope.types import Progress

Keep = Callable[[int, Callable[[], tuple[Tensor, Tensor]], Tensor, Values], Tensor | None]
"""Which cells to go on with behind a fold: a mask (r,), at least one of them True, or None for all, from the
fold's index, a function for the corners and offsets of the cells, the coordinates (v, k) and the live values at
the vertices."""

_PREFERRED_BYTES = {"cpu": 96 << 20, "cuda": 16 << 30}  # live values worked on at a time; small stays near the caches
ON_LINES = {**_PREFERRED_BYTES, "cpu": 24 << 20}  # parts of lines need not be stitched together
_PREFERRED_ROWS = 256
_PREFERRED_INPUTS = {"cpu": 1024, "cuda": 16384}


class TooManyRegions(Exception):
    """More regions than allowed after the fold with this index."""

    def __init__(self, fold: int) -> None:
        super().__init__(fold)
        self.fold = fold


@dataclass(frozen=True)
class Budget:
    """Limits of a computation: bytes of live values at a time, and the number of regions."""

    memory: int
    max_regions: int | None = None

    @staticmethod
    def of(device: torch.device, memory: int | None, max_regions: int | None) -> Budget:
        """memory: bytes; by default 2 GiB, or half of the free memory of a GPU."""
        if memory is None:
            memory = _free(device) // 2 if device.type == "cuda" else 2 << 30
        return Budget(memory, max_regions)

    def rows(self, fold: Fold, held: int, device: torch.device, preferred: Mapping[str, int] = _PREFERRED_BYTES) -> int:
        """Number of vertices that may be live at this fold. preferred: bytes by type of device.

        Depth-first work holds the values of every fold at which it was cut into parts (``held`` bytes now), and
        takes at most a third of what is left, so that deeper ones find room too.
        """
        row = max(1, fold.row_bytes)
        wanted = max(preferred.get(device.type, preferred["cpu"]), _PREFERRED_ROWS * row)
        return max(16, min((self.memory - held) // 3, wanted) // row)

    def inputs(self, program: Program) -> int:
        """Number of inputs that may pass the whole network at a time, in two versions of each."""
        kind = "cuda" if program.device.type == "cuda" else "cpu"
        near_caches = max(_PREFERRED_ROWS, _PREFERRED_BYTES[kind] // program.row_bytes)
        return max(1, min(self.memory // (2 * program.row_bytes), _PREFERRED_INPUTS[kind], near_caches))


@dataclass
class Record:
    """Counts kept on the way: regions of every slice after every fold, signs that were snapped to zero."""

    counts: Tensor  # (folds, slices)
    snapped: Tensor  # (slices,)
    progress: Progress | None = None
    done: float = 0.0  # share of the work
    deadline: float = math.inf  # of time.monotonic()

    @staticmethod
    def start(n_folds: int, n_slices: int, progress: Progress | None, deadline: float = math.inf) -> Record:
        return Record(
            torch.zeros(n_folds, n_slices, dtype=torch.int64, device="cpu"),
            torch.zeros(n_slices, dtype=torch.int64, device="cpu"),
            progress,
            deadline=deadline,
        )

    def restart(self) -> None:
        """Forget all counts: the computation starts again."""
        self.counts.zero_()
        self.snapped.zero_()
        self.done = 0.0

    def add(self, fold: int, slice_id: Tensor, limit: int | None) -> None:
        """Count the regions (by slice) that exist after a fold."""
        several = self.counts.shape[1] > 1
        counts = self.counts.numpy()[fold]  # a view: tensors of a few numbers take longer
        counts += (
            xp.as_tensors(xp.bincount(xp.numpy_on_cpu(slice_id), len(counts))).cpu().numpy()
            if several
            else len(slice_id)
        )
        if limit is not None and counts.max() > limit:
            raise TooManyRegions(fold)
        if time.monotonic() > self.deadline:
            raise LimitReached(
                f"Stopped at the time limit after fold {fold + 1} of {len(self.counts)}. Raise the time limit."
            )

    def snap(self, slice_id: Tensor) -> None:
        """Count signs that could not be told from zero (``slice_id``: their slices)."""
        if len(slice_id):
            self.snapped += xp.as_tensors(xp.bincount(xp.numpy_on_cpu(slice_id), len(self.snapped))).cpu()

    def report_progress(self, share: float, *, of: float = 1.0) -> None:
        """Report that a share of a part of the work is done. of: the part, as a share of all the work."""
        self.done += share * of
        if self.progress is not None:
            self.progress(min(1.0, self.done))


def rising(progress: Progress) -> Progress:
    """``progress`` for increasing shares only, so that a computation that starts again does not go back."""
    most = 0.0

    def report(share: float) -> None:
        nonlocal most
        if share > most:
            most = share
            progress(share)

    return report


def shares_of_folds(program: Program, dim: int) -> list[float]:
    """For each fold, its estimated share of the work that is left before it; the last is 1.

    The work is in proportion to the number of regions after the fold, which grows with the number of units so
    far to the power of the slice's dimension, and to the size of the values at a vertex.
    """
    units = itertools.accumulate(fold.n_units for fold in program.folds)
    work = [float(n) ** dim * fold.row_bytes for n, fold in zip(units, program.folds, strict=True)]
    left = list(itertools.accumulate(reversed(work)))[::-1]
    return [spent / rest if rest else 1.0 for spent, rest in zip(work, left, strict=True)]


def _free(device: torch.device) -> int:
    """Bytes that torch can still hand out on a GPU: those of the driver, and those that it keeps for reuse itself."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept


def bytes_of(values: Mapping[str, Tensor]) -> int:
    """Bytes of the live values."""
    return sum(rows.numel() * rows.element_size() for rows in values.values())


def domains_of(program: Program, slices: Sequence[Slice]) -> list[Domain]:
    """The domains of all slices, on the device of the network."""
    to = program.device
    return [(s.corners.to(to), a.to(to), b.to(to)) for s in slices for a, b in [s.halfspaces]]


def corner_inputs(program: Program, slices: Sequence[Slice], corners: Sequence[Tensor]) -> Tensor:
    """Network inputs (v, *input_shape) of the corners of all slices, one slice after another."""
    corners = [coords.to(program.device) for coords in corners]
    if len(slices) == 1 or len({len(coords) for coords in corners}) > 1:
        return torch.cat(
            [slice.embed(coords, dtype=program.dtype) for slice, coords in zip(slices, corners, strict=True)]
        )
    return _embedded(program, slices, torch.stack(corners))


def embed_on_slices(program: Program, slices: Sequence[Slice], coords: Tensor, slice_id: Tensor) -> Tensor:
    """Network inputs (v, *input_shape) of coordinates (v, k) on their slices (``slice_id`` (v,))."""
    if len(slices) == 1:
        return slices[0].embed(coords.to(program.device), dtype=program.dtype)
    return _embedded(program, [slices[i] for i in slice_id.tolist()], coords[:, None])


def _embedded(program: Program, slices: Sequence[Slice], coords: Tensor) -> Tensor:
    """Network inputs (s * m, *input_shape) of coordinates (s, m, k) on the slices."""
    origins, bases, coords = (
        x.to(program.device, torch.float64)
        for x in (
            torch.stack([slice.origin for slice in slices]),
            torch.stack([slice.basis for slice in slices]),
            coords,
        )
    )
    points = torch.baddbmm(origins.flatten(1)[:, None], coords, bases.flatten(2))
    return points.reshape(-1, *program.input_shape).to(program.dtype)
