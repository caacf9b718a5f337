"""Ticks of maps, with numbers of the input space where the axes of a slice run along its axes; ticks of charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import (
    FixedLocator,
    Formatter,
    MaxNLocator,
    MultipleLocator,
    ScalarFormatter,
)

from regionscope.geometry import Polyline, Slice

_MOST, _STEPS = 4, (1, 2, 5, 10)
_GROUPED = 1e4  # numbers from here on are written in groups of three digits
_UNITS = 20  # the longest axis of counts with a tick at each whole number
_LONG, _FINE = 1e6, 1e-3  # an axis with a number as large, or with only smaller ones, has exponents


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
        self._gap, self._longest = 0.0, 0.0

    def set_locs(self, locs: Any) -> None:
        """Take the places of the ticks, before each of them is written."""
        super().set_locs(locs)
        gaps = np.diff(np.sort(np.asarray(locs, dtype=float)))
        self._gap = abs(self.step) * float(gaps.min()) if len(gaps) else 0.0
        self._longest = max((abs(self.start + self.step * float(place)) for place in locs), default=0.0)

    def __call__(self, x: float, pos: int | None = None) -> str:
        gap = self._gap
        if gap <= 0:
            return self.fix_minus(f"{self.start + self.step * x:.6g}")
        digits = -math.floor(math.log10(gap) + 1e-6)
        value = round(self.start + self.step * x, digits) + 0.0  # no minus zero
        if not _FINE <= self._longest < _LONG:  # all labels of an axis are written in one way
            whole = math.floor(math.log10(abs(value))) if value else 0
            return self.fix_minus(f"{value:.{max(0, whole + digits)}e}" if value else "0")
        return self.fix_minus(f"{value:.{max(0, digits)}f}")


def shows_inputs(slice: Slice) -> bool:
    """Whether coordinate i of the slice moves input number i and nothing else, for all inputs."""
    if isinstance(slice, Polyline):
        return False
    basis = slice.basis.flatten(1).cpu()
    return slice.origin.numel() == slice.dim and not bool((basis != basis.diag().diag()).any())


def input_ticks(slice: Slice, axes: Sequence[Axis]) -> None:
    """Let the ticks of each axis show inputs where coordinate i of the slice moves input number i and nothing else.

    That needs a slice of the dimension of its inputs; elsewhere the ticks are coordinates of the slice. What is drawn
    stays in coordinates of the slice. An axis with ticks and without a name gets one that says which of both it shows.
    A dotted line marks each inner corner of a path.
    """
    inputs, path = shows_inputs(slice), isinstance(slice, Polyline)
    for corner in slice.corners[1:-1, 0].tolist() if path else ():
        axes[0].axes.axvline(corner, color="0.7", linestyle=":", linewidth=0.8, zorder=2.6)
    for i, axis in enumerate(axes):
        if _hidden(axis):
            continue
        zero, step = (float(slice.origin.flatten()[i]), float(slice.basis.flatten(1)[i, i])) if inputs else (0.0, 1.0)
        if (zero, step) != (0.0, 1.0):
            axis.set_major_locator(InputTicks(zero, step))
            axis.set_major_formatter(InputLabels(zero, step))
        if not axis.get_label_text():
            coordinate = f"slice coordinate {i + 1}" if slice.dim > 1 else "position on the slice"
            coordinate = "point of the path" if path else coordinate
            axis.set_label_text(f"input {i}" if inputs else coordinate)


def few_ticks(axis: Axis) -> None:
    """At most five ticks at round numbers; an axis without ticks stays so, and one that shows inputs, too."""
    if not _hidden(axis) and not isinstance(axis.get_major_locator(), InputTicks):
        axis.set_major_locator(MaxNLocator(_MOST, steps=_STEPS))


def _hidden(axis: Axis) -> bool:
    """Whether the axis was told to have no ticks."""
    now = axis.get_major_locator()
    return isinstance(now, FixedLocator) and not len(now())


class _GroupedDigits(ScalarFormatter):
    """Groups the digits of all labels of an axis or of none: 6,000 next to 10,000."""

    _largest = 0.0

    def set_locs(self, locs: Any) -> None:
        super().set_locs(locs)
        self._largest = max((abs(float(place)) for place in locs), default=0.0)

    def __call__(self, x: float, pos: int | None = None) -> str:
        text = super().__call__(x, pos)
        grouped = max(self._largest, abs(x)) >= _GROUPED
        return self.fix_minus(f"{x:,.0f}") if grouped and text == self.fix_minus(f"{x:.0f}") else text


def group_digits(axis: Axis) -> None:
    """350,000 in place of 350000, on an axis whose labels nobody has chosen."""
    if type(axis.get_major_formatter()) is ScalarFormatter:
        axis.set_major_formatter(_GroupedDigits())


def whole_ticks(axis: Axis, places: Sequence[float]) -> None:
    """Ticks at whole numbers only, on a linear axis of things that are counted.

    Numbers are evenly spaced: on an axis from 0 to 11 the last one is 10, since 11 would stand where 12 is expected.
    A short axis has a small tick at each whole number, so that the place of 11 can be counted.
    """
    if axis.get_scale() == "linear" and places and all(float(place).is_integer() for place in places):
        axis.set_major_locator(MaxNLocator("auto", steps=_STEPS, integer=True))
        if max(places) - min(places) <= _UNITS:
            axis.set_minor_locator(MultipleLocator(1))
