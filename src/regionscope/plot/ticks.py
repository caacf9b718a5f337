"""Ticks of maps: few of them, and numbers of the input space where the axes of a slice run along its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, Formatter, MaxNLocator

from regionscope.geometry import Slice

__all__ = ["InputLabels", "InputTicks", "few_ticks", "input_ticks"]

_MOST, _STEPS = 4, (1, 2, 5, 10)
_LONG, _FINE = 1e6, 1e-4  # numbers as large, or steps as small as these are written with exponents


class InputTicks(MaxNLocator):
    """Ticks where ``start + step * coordinate`` is a round number."""

    def __init__(self, start: float, step: float) -> None:
        super().__init__(_MOST, steps=_STEPS)
        self.start, self.step = start, step

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Where the ticks are, in coordinates of the slice."""
        low, high = sorted((self.start + self.step * vmin, self.start + self.step * vmax))
        return np.sort((np.asarray(super().tick_values(low, high)) - self.start) / self.step)


class InputLabels(Formatter):
    """Writes ``start + step * coordinate``, with as many digits as tell the ticks apart."""

    def __init__(self, start: float, step: float) -> None:
        self.start, self.step = start, step
        self._gap = 0.0

    def set_locs(self, locs: Any) -> None:
        """Take the places of the ticks, before each of them is written."""
        super().set_locs(locs)
        gaps = np.diff(np.sort(np.asarray(locs, dtype=float)))
        self._gap = abs(self.step) * float(gaps.min()) if len(gaps) else 0.0

    def __call__(self, x: float, pos: int | None = None) -> str:
        gap = self._gap
        if gap <= 0:
            return self.fix_minus(f"{self.start + self.step * x:.6g}")
        digits = -math.floor(math.log10(gap) + 1e-6)
        value = round(self.start + self.step * x, digits) + 0.0  # no minus zero
        if gap < _FINE or abs(value) >= _LONG:
            whole = math.floor(math.log10(abs(value))) if value else 0
            return self.fix_minus(f"{value:.{max(1, whole + digits + 1)}g}")
        return self.fix_minus(f"{value:.{max(0, digits)}f}")


def input_ticks(where: Slice, axes: Sequence[Axis]) -> None:
    """Let the ticks of each axis show inputs where coordinate i of the slice moves input number i and nothing else.

    That needs a slice of the dimension of its inputs; elsewhere the ticks are coordinates of the slice. What is drawn
    stays in coordinates of the slice.
    """
    start, basis = where.origin.flatten().cpu(), where.basis.flatten(1).cpu()
    if len(start) != where.dim or bool((basis != basis.diag().diag()).any()):
        return
    for axis, zero, step in zip(axes, start.tolist(), basis.diag().tolist(), strict=True):
        if (zero, step) != (0.0, 1.0):
            axis.set_major_locator(InputTicks(zero, step))
            axis.set_major_formatter(InputLabels(zero, step))


def few_ticks(axis: Axis) -> None:
    """At most five ticks at round numbers; an axis without ticks stays so, and one that shows inputs, too."""
    now = axis.get_major_locator()
    hidden = isinstance(now, FixedLocator) and not len(now())
    if not hidden and not isinstance(now, InputTicks):
        axis.set_major_locator(MaxNLocator(_MOST, steps=_STEPS))
