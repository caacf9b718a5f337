"""The plane in which two inputs vary and all others are fixed, in the network's units or in those of --scaling."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator

from regionscope.errors import InputError
from regionscope.geometry import Box


@dataclass(frozen=True)
class InputPlane:
    """Inputs ``vary`` between ``ends``, the others ``at`` fixed values; all in the units of ``scaling``.

    scaling: (offset, unit) of an input; the network takes (value - offset) / unit.
    """

    vary: tuple[int, int]
    ends: dict[int, tuple[float, float]]
    at: dict[int, float]
    scaling: dict[int, tuple[float, float]]

    def scaled(self, i: int, value: float) -> float:
        """What the network takes for ``value`` of input i."""
        offset, unit = self.scaling.get(i, (0.0, 1.0))
        return (value - offset) / unit

    def box(self, shape: tuple[int, ...]) -> Box:
        """The slice for inputs of this shape."""
        d = math.prod(shape)
        wanted = {i for i in range(d) if i not in self.vary}
        beyond = sorted({i for i in (*self.vary, *self.scaling, *self.at) if not 0 <= i < d})
        if beyond:
            raise InputError(
                f"Expected inputs 0 to {d - 1}, the only ones of the network, got {', '.join(map(str, beyond))}. "
                "Change --vary, --at and --scaling."
            )
        if set(self.at) != wanted:
            missing = sorted(wanted - set(self.at))
            listed = ", ".join(map(str, missing or sorted(set(self.at) - wanted)))
            example = ",".join(f"{i}={self.at.get(i, 0.0):g}" for i in sorted(wanted))
            raise InputError(
                f"Expected --vary and --at to name each of the inputs 0 to {d - 1} once, got "
                + (f"no value for {listed}. " if missing else f"{listed} in both. ")
                + (f"For example, pass --at {example}." if wanted else "Leave --at out.")
            )
        centre, directions = torch.zeros(d, dtype=torch.float64), torch.zeros(2, d, dtype=torch.float64)
        for i, value in self.at.items():
            centre[i] = self.scaled(i, value)
        radii = []
        for row, i in zip(directions, self.vary, strict=True):
            low, high = (self.scaled(i, end) for end in self.ends[i])
            centre[i], row[i] = (low + high) / 2, 1.0
            radii.append((high - low) / 2)
        return Box(centre.reshape(shape), directions.reshape(2, *shape), radii)

    def sentence(self) -> str:
        """What varies, what is fixed, and how numbers are scaled."""
        moving = ", ".join(f"input {i} in [{self.ends[i][0]:g}, {self.ends[i][1]:g}]" for i in self.vary)
        fixed = ", ".join(f"input {i} = {value:g}" for i, value in sorted(self.at.items()))
        scaled = ", ".join(f"input {i} = (value - {a:g}) / {b:g}" for i, (a, b) in sorted(self.scaling.items()))
        units = f" The network takes {scaled}." if scaled else " All numbers are in the network's own units."
        return f"{moving}{'; ' + fixed if fixed else ''}.{units}"

    def document(self) -> dict[str, Any]:
        """The same for JSON."""
        named = {str(i): list(ends) for i, ends in self.ends.items()}
        scaling = {str(i): {"offset": a, "unit": b} for i, (a, b) in self.scaling.items()}
        return {"vary": named, "at": {str(i): value for i, value in self.at.items()}, "scaling": scaling}

    def label(self, ax: Axes) -> None:
        """Names and numbers at the axes, in the units of --range; the fixed inputs above. The two units may differ."""
        from regionscope.plot.ticks import InputLabels

        ax.set_aspect("auto")
        ax.figure.set_size_inches(4.2, 4.0)  # type: ignore[union-attr]
        for axis, i in zip((ax.xaxis, ax.yaxis), self.vary, strict=True):
            low, high = self.ends[i]
            middle = (self.scaled(i, low) + self.scaled(i, high)) / 2
            offset, unit = self.scaling.get(i, (0.0, 1.0))
            values = [
                value for value in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= value <= high
            ]
            axis.set_major_locator(FixedLocator([self.scaled(i, value) - middle for value in values]))
            axis.set_major_formatter(InputLabels(middle * unit + offset, unit))
            axis.set_label_text(f"input {i}")
        fixed = ", ".join(f"input {i} = {value:g}" for i, value in sorted(self.at.items()))
        ax.set_title("\n".join([ax.get_title(), fixed]), fontsize="small")


def read_plane(
    vary: tuple[int, int] | None, ranges: str | None, at: str | None, scaling: str | None
) -> InputPlane | None:
    """The plane that the options name; None without --vary."""
    if vary is None:
        if ranges is not None or at is not None or scaling is not None:
            raise InputError("Expected --vary I J with --range, --at and --scaling, got none. Name two inputs.")
        return None
    if ranges is None:
        raise InputError(
            f"Expected --range {vary[0]}=LO:HI,{vary[1]}=LO:HI with --vary, got no --range. "
            "Add --range to set the ends of both inputs."
        )
    ends = _pairs(ranges, "--range", "LO:HI")
    if set(ends) != set(vary) or vary[0] == vary[1] or any(not low < high for low, high in ends.values()):
        raise InputError(
            f"Expected --range {vary[0]}=LO:HI,{vary[1]}=LO:HI with LO < HI for two inputs, got {ranges!r}. "
            "Name the two inputs of --vary, and put the smaller end first."
        )
    units = _pairs(scaling, "--scaling", "OFFSET:UNIT")
    if any(unit <= 0 for _, unit in units.values()):
        raise InputError(f"Expected positive units in --scaling, got {scaling!r}. Write K=OFFSET:UNIT with UNIT > 0.")
    return InputPlane(vary, ends, {i: value for i, (value,) in _numbers(at, "--at", "VALUE", 1).items()}, units)


def _pairs(text: str | None, name: str, form: str) -> dict[int, tuple[float, float]]:
    return {i: (a, b) for i, (a, b) in _numbers(text, name, form, 2).items()}


def _numbers(text: str | None, name: str, form: str, count: int) -> dict[int, list[float]]:
    """``"0=1:2,3=4:5"`` as {0: [1, 2], 3: [4, 5]}."""
    found: dict[int, list[float]] = {}
    for part in (text or "").split(",") if text else []:
        match = re.fullmatch(r"\s*(\d+)\s*=([^=]+)", part)
        try:
            numbers = [float(number) for number in match[2].split(":")] if match else []
        except ValueError:
            numbers = []
        if match is None or len(numbers) != count or not all(map(math.isfinite, numbers)) or int(match[1]) in found:
            raise InputError(
                f"Expected {name} K={form},... with each input once, got {text!r}. Replace K and {form} by numbers."
            )
        found[int(match[1])] = numbers
    return found
