"""Which data points each unit is active on, as long as no fold meets a point.

The data are sorted, x_1 < ... < x_n, and a unit relu(w x + b) is active on a half-line, so its active points are an
interval [lo, hi) that touches one end: a suffix, a prefix, all or none. While these sets stay, the flow is smooth. A
fold that meets a point either crosses it or *slides* along it (w x_i + b = 0 from then on, for a while): see
``events``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor


class FlowRows:
    """A frozen dataclass whose tensors have one row for each of B flows; a field may be such a value, too."""

    def take(self, rows: Tensor) -> Self:
        """The flows ``rows``."""
        return type(self)(*(v.take(rows) if isinstance(v, FlowRows) else v[rows] for v in self._values))

    def put_(self, rows: Tensor, other: Self) -> None:
        """Write ``other`` over the flows ``rows``, in place."""
        for mine, theirs in zip(self._values, other._values, strict=True):
            mine.put_(rows, theirs) if isinstance(mine, FlowRows) else mine.index_copy_(0, rows, theirs)

    def to(self, device: torch.device | str) -> Self:
        """The same values on ``device``."""
        return type(self)(*(value.to(device) for value in self._values))

    def where(self, rows: Tensor, other: Self) -> Self:
        """``self`` for the flows with ``rows`` (B,) true, else ``other``."""
        pairs = zip(self._values, other._values, strict=True)
        return type(self)(
            *(
                a.where(rows, b) if isinstance(a, FlowRows) else torch.where(rows.view(-1, *[1] * (a.ndim - 1)), a, b)
                for a, b in pairs
            )
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All flows of ``parts``, one after another."""
        columns = zip(*(part._values for part in parts), strict=True)
        return cls(*(type(c[0]).joined(c) if isinstance(c[0], FlowRows) else torch.cat(c) for c in columns))

    @property
    def _values(self) -> list[Any]:
        return [getattr(self, f.name) for f in fields(self)]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Modes(FlowRows):
    """Discrete state of B flows with k units each, all (B, k).

    lo, hi: the unit is active on the points lo <= i < hi; lo == hi is a dead unit.
    slide: the point that the fold is held on, or -1. That point is not in [lo, hi).
    normal: (B, 2, k) unit vector (x_i, 1) / |(x_i, 1)| of the constraint w x_i + b = 0 of a sliding unit, else 0.
    """

    lo: Tensor
    hi: Tensor
    slide: Tensor
    normal: Tensor

    def changed(self, x: Tensor, lo: Tensor, hi: Tensor, slide: Tensor) -> Modes:
        """New sets; empty ones are written as lo = hi = 0."""
        dead = lo >= hi
        zero = torch.zeros_like(lo)
        lo, hi = torch.where(dead, zero, lo), torch.where(dead, zero, hi)
        slide = torch.where(dead, zero - 1, slide)
        values = x.gather(1, slide.clamp(min=0))
        length = torch.sqrt(1 + values * values)
        held = slide >= 0
        normal = torch.stack([torch.where(held, values / length, 0.0), torch.where(held, 1 / length, 0.0)], 1)
        return replace(self, lo=lo, hi=hi, slide=slide, normal=normal)


def modes_of(theta: Tensor, x: Tensor) -> Modes:
    """The sets {i : w x_i + b > 0} of the parameters theta (B, 3, k) on sorted data x (B, n). Cost: B k log n."""
    w, b = theta[:, 0], theta[:, 1]
    n = x.shape[1]
    fold = torch.where(w == 0, 0.0, -b / torch.where(w == 0, 1.0, w))
    above = torch.searchsorted(x, fold.contiguous(), right=True)  # first point with x_i > fold
    below = torch.searchsorted(x, fold.contiguous(), right=False)  # number of points with x_i < fold
    zero, full = torch.zeros_like(above), torch.full_like(above, n)
    lo = torch.where(w > 0, above, zero)
    hi = torch.where(w > 0, full, torch.where(w < 0, below, torch.where(b > 0, full, zero)))
    blank = Modes(lo, hi, zero - 1, torch.zeros_like(theta[:, :2]))
    return blank.changed(x, lo, hi, zero - 1)


def guards(modes: Modes, n: int) -> tuple[Tensor, Tensor]:
    """The two points (B, 2, k) that each unit's fold could meet next, and the sign (B, 2, k) the unit has there.

    Sign +1: active there, will become inactive; -1: the other way; 0: no event can happen (dead and sliding units).
    """
    lo, hi = modes.lo, modes.hi
    everything = (lo == 0) & (hi == n)
    suffix = (hi == n) & ~everything
    first = torch.where(suffix | everything, lo, hi - 1)
    second = torch.where(everything, hi - 1, torch.where(suffix, lo - 1, hi))
    free = (hi > lo) & (modes.slide < 0)
    sign_first = free.to(modes.normal.dtype)
    sign_second = torch.where(everything, sign_first, -sign_first)
    index = torch.stack([first, second], 1).clamp(0, n - 1)
    return index, torch.stack([sign_first, sign_second], 1)
