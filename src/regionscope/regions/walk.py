"""What the exact walks through a network share: scales for the tolerance, budgets, and the record of what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regionscope.errors import InputError
from regionscope.geometry import Slice
from regionscope.network import Kink, Program
from regionscope.tolerance import Tolerance

__all__ = ["Budget", "Record", "TooManyRegions", "bytes_of", "inputs_of", "zero_scales"]

_PROBES = 64
_CANCELLED = 2.0**-5  # times tolerance.zero: 64 units of rounding of what a layer adds up
_PREFERRED_BYTES = {"cpu": 96 << 20, "cuda": 16 << 30}  # live values worked on at a time; small stays near the caches
_PREFERRED_ROWS = 256


class TooManyRegions(Exception):
    """More regions than allowed after the nonlinearity with this index."""

    def __init__(self, kink: int) -> None:
        super().__init__(kink)
        self.kink = kink


@dataclass(frozen=True)
class Budget:
    """Limits of a walk: bytes of live values at a time, and the number of regions."""

    memory: int
    max_regions: int | None = None

    @staticmethod
    def of(device: torch.device, memory: int | None, max_regions: int | None) -> Budget:
        """``memory`` None is 2 GiB, or half of what is free on a GPU."""
        if memory is None:
            memory = _free(device) // 2 if device.type == "cuda" else 2 << 30
        return Budget(memory, max_regions)

    def rows(self, kink: Kink, held: int, device: torch.device) -> int:
        """How many vertices may be live at this nonlinearity.

        Depth-first work holds the values of every nonlinearity at which it was cut into parts (``held`` bytes now), and
        takes at most a third of what is left, so that deeper ones find room too.
        """
        row = max(1, kink.row_bytes)
        preferred = max(
            _PREFERRED_BYTES[device.type if device.type in _PREFERRED_BYTES else "cpu"], _PREFERRED_ROWS * row
        )
        return max(16, min((self.memory - held) // 3, preferred) // row)


@dataclass
class Record:
    """Counts that the walk adds to: regions of every slice after every nonlinearity, signs that were snapped to
    zero.
    """

    counts: Tensor  # (kinks, slices)
    snapped: Tensor  # (slices,)
    finished: Callable[[float], None] | None = None
    done: float = field(default=0.0)

    @staticmethod
    def start(n_kinks: int, n_slices: int, finished: Callable[[float], None] | None) -> Record:
        return Record(
            torch.zeros(n_kinks, n_slices, dtype=torch.int64, device="cpu"),
            torch.zeros(n_slices, dtype=torch.int64, device="cpu"),
            finished,
        )

    def add(self, kink: int, parent: Tensor, limit: int | None) -> None:
        """Count the regions (by slice) that exist after a nonlinearity."""
        self.counts[kink] += torch.bincount(parent, minlength=self.counts.shape[1]).cpu()
        if limit is not None and int(self.counts[kink].max()) > limit:
            raise TooManyRegions(kink)

    def snap(self, owner: Tensor) -> None:
        """Count signs that could not be told from zero (``owner``: their slices)."""
        self.snapped += torch.bincount(owner, minlength=len(self.snapped)).cpu()

    def finish(self, share: float) -> None:
        """Report that this share of all slices has been worked through."""
        self.done += share
        if self.finished is not None:
            self.finished(min(1.0, self.done))


def _free(device: torch.device) -> int:
    """Bytes that torch can still hand out on a GPU: those of the driver, and those that it keeps for reuse itself."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept


def bytes_of(values: Mapping[str, Tensor]) -> int:
    """Memory that the live values take."""
    return sum(rows.numel() * rows.element_size() for rows in values.values())


def zero_scales(program: Program, slices: Sequence[Slice], tolerance: Tolerance, budget: Budget) -> Tensor:
    """How near to zero counts as zero, (kinks + 1, slices): ``tolerance.zero`` times the largest value on probe points.

    The probe points are the corners of the slice and fixed pseudo-random convex combinations of them, so the scale does
    not depend on how the work is cut into pieces. A layer whose terms cancel takes a share of their size, since its
    values are rounding. Scaling a layer up and the next one down changes neither. The last row belongs to the outputs.
    """
    rows = max(1, budget.memory // (2 * program.row_bytes))
    scales = torch.stack([_largest(program, piece, rows) for piece in slices], 1).double().cpu()
    if not bool(torch.isfinite(scales).all()):
        raise InputError(
            "The network gives NaN or infinite values on the slice; exact regions need finite ones: "
            "use a smaller slice, or check the weights."
        )
    near = tolerance.zero * scales
    return near.clamp(min=torch.finfo(torch.float64).tiny).to(program.device)


def _largest(program: Program, piece: Slice, rows: int) -> Tensor:
    """The largest value on the probe points, (kinks + 1,): at each nonlinearity, and of the outputs; at least a share
    of the terms that are added up to it.

    How large those are is told by shaking: where every value of the layer before changes by a relative ``shake``, up or
    down by chance, a sum changes by as much of its terms, whether they cancel or not.
    """
    shake = float(torch.finfo(program.dtype).eps) ** 0.5
    generator = torch.Generator().manual_seed(0)
    corners = piece.corners.cpu()
    weights = torch.empty(_PROBES, len(corners), dtype=torch.float64, device="cpu").exponential_(generator=generator)
    coords = torch.cat([corners, (weights / weights.sum(1, keepdim=True)) @ corners])

    def shaken(value: Tensor) -> Tensor:
        if not value.is_floating_point():
            return value
        up = torch.randint(0, 2, value.shape[1:], generator=generator, device="cpu", dtype=torch.bool).to(value.device)
        return torch.where(up, value * (1 + shake), value * (1 - shake))

    def size(value: Tensor, moved: Tensor) -> Tensor:
        return torch.maximum(value.abs().max(), (value - moved).abs().max() * (_CANCELLED / shake))

    found = []
    for some in coords.split(rows):
        inputs = inputs_of(program, [piece], some, None)
        values, moved = program.begin(inputs), program.begin(shaken(inputs))
        largest = []
        for kink in program.kinks:
            largest.append(size(kink.cuts(values).values, kink.cuts(moved).values))
            moved = kink.advance({name: shaken(value) for name, value in values.items()}, consume=True)
            values = kink.advance(values, consume=True)
        found.append(torch.stack([*largest, size(program.outputs(values), program.outputs(moved))]))
    return torch.stack(found).amax(0)


def inputs_of(program: Program, slices: Sequence[Slice], coords: Tensor, owner: Tensor | None) -> Tensor:
    """Network inputs (v, *input_shape) of coordinates (v, k) on their slices (``owner`` (v,) tells which)."""
    coords = coords.to(program.device)
    if len(slices) == 1 or owner is None:
        return slices[0].embed(coords, dtype=program.dtype)
    out = torch.empty((len(coords), *program.input_shape), dtype=program.dtype, device=program.device)
    for i, piece in enumerate(slices):
        mine = owner == i
        out[mine] = piece.embed(coords[mine], dtype=program.dtype)
    return out
