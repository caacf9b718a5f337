"""The kinds of operation a program is made of: ``Affine`` maps, ``Piecewise`` and ``Smooth`` ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

Memory = Literal["fresh", "view", "shared"]


@dataclass(frozen=True, eq=False)
class Fixed:
    """``function`` with its arguments behind the tensors fixed. Unlike a lambda it can be pickled."""

    function: Callable[..., Tensor]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __call__(self, *tensors: Any) -> Tensor:
        return self.function(*tensors, *self.args, **self.kwargs)


@dataclass(frozen=True, eq=False, kw_only=True)
class Operation:
    """``function(*inputs, *constants)`` on tensors whose first dimension counts rows; rows never see each other.

    Functions are picklable, so that a program can go to another process: no lambdas and no nested functions.

    in_place: the same function, allowed to overwrite its first input and return it; None when there is no such form.
    memory: "fresh" - the result owns its memory; "view" - it may share the memory of the first input;
        "shared" - rows or columns of the result may share memory with each other, so it is never written to.
    scratch: bytes of temporary memory a row needs while the function runs.
    rounding: the size of the rounding errors of the result in units of rounding, from the same arguments. None for a
        function that is as exact as the sum of its inputs times constants.
    suits: takes other constants, and says whether the function may run with them. None: it may with any of the same
        shapes.
    entrywise: entry i of the result depends on entries i of the inputs alone.
    """

    function: Callable[..., Tensor]
    constants: tuple[Tensor, ...] = ()
    in_place: Callable[..., Tensor] | None = None
    memory: Memory = "fresh"
    scratch: int = 0
    rounding: Callable[..., Tensor] | None = None
    suits: Callable[..., bool] | None = None
    entrywise: bool = False


@dataclass(frozen=True, eq=False)
class ChannelMap:
    """``y = scale * x + shift`` for each channel (dimension 1), both of shape (channels,)."""

    scale: Tensor
    shift: Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Affine(Operation):
    """An affine map of its inputs.

    followed_by: the single operation that does this one and then a channel map, where that costs nothing extra.
    channel_map: set when the operation is itself a channel map (BatchNorm), so that it can be merged into its producer.
    """

    followed_by: Callable[[ChannelMap], Affine] | None = None
    channel_map: ChannelMap | None = None


@dataclass(frozen=True)
class Pieces:
    """What a fold does to each value u that it compares with thresholds: (slopes[p] u + shifts[p]) / divisor.

    Piece p counts the thresholds below u. Pieces that do not meet at a threshold make the map jump there (``jumps``).

    at: the thresholds in ascending order. slopes, shifts: one number for each piece, of which there is one more than
    thresholds; no shifts are zeros. A slope of None is the operation's own constant (PReLU), one number for each
    channel. adds_second: the second operand is added: max(a, b) = max(a - b, 0) + b, where u = a - b.
    """

    at: tuple[float, ...]
    slopes: tuple[float | None, ...]
    shifts: tuple[float, ...] = ()
    divisor: int = 1
    adds_second: bool = False

    def __post_init__(self) -> None:
        if not self.shifts:
            object.__setattr__(self, "shifts", (0.0,) * len(self.slopes))
        assert len(self.slopes) == len(self.shifts) == len(self.at) + 1, "one piece more than thresholds"

    @property
    def jumps(self) -> bool:
        """Whether two neighbouring pieces do not meet at the threshold between them."""
        lines = list(zip(self.slopes, self.shifts, strict=True))
        ends = zip(self.at, itertools.pairwise(lines), strict=True)
        return any((low[0] or 0.0) * t + low[1] != (high[0] or 0.0) * t + high[1] for t, (low, high) in ends)

    @property
    def numbers(self) -> tuple[float, ...]:
        """All numbers of the table."""
        return (*self.at, *(slope for slope in self.slopes if slope is not None), *self.shifts)

    def __call__(self, x: Tensor) -> Tensor:
        """The values of the pieces, entry by entry: how a function without a torch function of its own runs."""
        piece = torch.stack([x > t for t in self.at]).sum(0)
        slopes, shifts = (torch.tensor(row, dtype=x.dtype, device=x.device) for row in (self.slopes, self.shifts))
        return (slopes[piece] * x + shifts[piece]) / self.divisor


@dataclass(frozen=True)
class Groups:
    """A fold that writes ``sign`` times the largest of the values that it compares in each group."""

    sign: float


@dataclass(frozen=True)
class Jump:
    """A fold that jumps: ``chosen(*inputs, *constants, pieces=...)`` is its result on the pieces (v, n_units).

    constant: whether the result is constant on each piece.
    """

    chosen: Callable[..., Tensor]
    constant: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Piecewise(Operation):
    """A piecewise-linear map of the values that ``compare(*inputs, *constants)`` returns, by its ``pieces``."""

    kind: str
    compare: Callable[..., Compared]
    pieces: Pieces | Groups | Jump
    n_units: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Smooth(Operation):
    """A smooth map; ``function`` is a ``Curve``, applied entry by entry, or a ``Product``. Recorded by ``trace_smooth``
    alone.
    """


# What a fold compares, as plain arrays: two nouns, ``Thresholds`` and ``Maxima``.


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The map folds where ``values[:, i] == at[t]``; the unit ``(t, i)`` has index ``t * n + i``.

    values: (v, n), one row per input, a view of the pre-activations wherever that is possible.
    at: the thresholds in ascending order; (0.0,) for ReLU, (0.0, 6.0) for ReLU6.
    """

    values: Tensor
    at: tuple[float, ...]

    def __repr__(self) -> str:
        return f"Thresholds(rows={len(self.values)}, n_units={self.n_units}, at={self.at})"

    @property
    def n_units(self) -> int:
        """Number of units: thresholds times values."""
        return len(self.at) * self.values.shape[1]

    def pieces(self) -> Tensor:
        """(v, n_units) int8: 1 where the value lies above the threshold, 0 at or below it."""
        return torch.cat([self.values > t for t in self.at], dim=1).to(torch.int8)


@dataclass(frozen=True, eq=False)
class Maxima:
    """The map returns ``out[:, i] = max(values[:, groups[i]])`` and folds where the largest entry changes.

    values: (v, n), one row per input. groups: (w, m) indices into the columns of ``values``; a window that crosses the
    border, or is smaller than the others, repeats one of its own indices.
    """

    values: Tensor
    groups: Tensor

    def __repr__(self) -> str:
        return f"Maxima(rows={len(self.values)}, n_units={self.n_units})"

    @property
    def n_units(self) -> int:
        """Number of windows."""
        return self.groups.shape[0]

    def pieces(self) -> Tensor:
        """(v, n_units) int16: position of the largest entry within its group, the first one on ties."""
        return self.values[:, self.groups].argmax(dim=2).to(torch.int16)


@dataclass(frozen=True, eq=False, repr=False)
class Rounded(Thresholds):
    """Values that are rounded: they are compared with whole numbers plus ``offset``, those that they reach.

    function: rounds; its result is the piece, so that there is one unit for each value.
    """

    function: Callable[[Tensor], Tensor]

    @staticmethod
    def of(values: Tensor, offset: float, function: Callable[[Tensor], Tensor]) -> Rounded:
        """At all thresholds between the smallest and the largest of the values."""
        low, high = math.floor(float(values.min()) - offset), math.ceil(float(values.max()) - offset)
        return Rounded(values, tuple(i + offset for i in range(low, high + 1)), function)

    @property
    def n_units(self) -> int:
        """Number of values."""
        return self.values.shape[1]

    def pieces(self) -> Tensor:
        """(v, n_units) int16: what the values are rounded to."""
        return self.function(self.values).to(torch.int16)


@dataclass(frozen=True, eq=False, repr=False)
class Largest(Maxima):
    """The map keeps the ``k`` largest of ``values[:, groups[i]]``, and changes where another one is among them."""

    k: int

    @property
    def n_units(self) -> int:
        """Number of candidates in all groups."""
        return self.groups.numel()

    def pieces(self) -> Tensor:
        """(v, n_units) int8: 1 where a candidate is among the k largest of its group, else 0."""
        candidates = self.values[:, self.groups]
        kept = torch.zeros(candidates.shape, dtype=torch.int8, device=candidates.device)
        return kept.scatter_(2, candidates.topk(self.k, dim=2).indices, 1).flatten(1)


Compared = Thresholds | Maxima
