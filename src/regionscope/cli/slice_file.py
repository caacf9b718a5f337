"""The slice that a file describes, and the plane in which two inputs vary and all others are fixed."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regionscope.checks import unknown_name
from regionscope.cli import load
from regionscope.cli.command_line import note_file
from regionscope.errors import InputError
from regionscope.file_io import check_file
from regionscope.geometry import Box, Polygon, Polyline, Slice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FILES: dict[str, Callable[[Any], Slice]] = {"points": load.hull, "polygon": Polygon, "polyline": Polyline}
_KINDS = (*_FILES, "plane", "box")  # of a slice in a file


_SHOWN = 6  # inputs without a value in a message


@dataclass(frozen=True)
class InputPlane:
    """Two inputs vary between ``ends``, the others are ``at`` fixed values; all in the units of ``scaling``.

    scaling: (offset, unit) of an input; the network takes (value - offset) / unit.
    rest: values of the inputs that are not named, from the file ``rest_file``, as the network takes them.
    """

    ends: dict[int, tuple[float, float]]
    at: dict[int, float]
    scaling: dict[int, tuple[float, float]]
    rest: tuple[float, ...] = ()
    rest_file: str = ""

    @property
    def vary(self) -> tuple[int, ...]:
        """The two inputs that vary."""
        return tuple(self.ends)

    def scaled(self, i: int, value: float) -> float:
        """What the network takes for ``value`` of input i."""
        offset, unit = self.scaling.get(i, (0.0, 1.0))
        return (value - offset) / unit

    def box(self, shape: tuple[int, ...]) -> Box:
        """The slice for inputs of this shape."""
        d = math.prod(shape)
        beyond = sorted({i for i in (*self.ends, *self.scaling, *self.at) if not 0 <= i < d})
        if beyond:
            raise InputError(
                f"Expected inputs 0 to {d - 1}, the only ones of the network, got {', '.join(map(str, beyond))}. "
                "Change the inputs of the plane."
            )
        missing = [i for i in range(d) if i not in self.ends and i not in self.at]
        if self.rest and len(self.rest) != d:
            raise InputError(
                f"Expected {d} numbers in {self.rest_file}, one for each input, got {len(self.rest)}. "
                "Pass a file with one input of the network."
            )
        if missing and not self.rest:
            raise InputError(
                f"Expected a plane that names each of the inputs 0 to {d - 1}, got no value for {_few(missing)}. "
                f"Add values, for example {','.join(f'{i}=0' for i in missing[:2])}, or a file of one input with --at."
            )
        centre = torch.tensor(self.rest or [0.0] * d, dtype=torch.float64)
        directions = torch.zeros(2, d, dtype=torch.float64)
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
        rest = f"; the other inputs as in {self.rest_file}" if self.rest else ""
        return f"{moving}{'; ' + fixed if fixed else ''}{rest}.{units}"

    def document(self) -> dict[str, Any]:
        """The same for JSON."""
        named = {str(i): list(ends) for i, ends in self.ends.items()}
        scaling = {str(i): {"offset": a, "unit": b} for i, (a, b) in self.scaling.items()}
        about = {"vary": named, "at": {str(i): value for i, value in self.at.items()}, "scaling": scaling}
        return {**about, "rest": list(self.rest)} if self.rest else about

    def label(self, ax: Axes) -> None:
        """Names and numbers at the axes, in the units of the plane, which may differ; the fixed inputs above."""
        from matplotlib.ticker import FixedLocator, MaxNLocator

        from regionscope.plot.ticks import InputLabels

        ax.set_aspect("auto")
        figure: Any = ax.figure
        figure.set_size_inches(np.maximum(figure.get_size_inches(), (4.2, 4.0)))
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
        ax.set_title("\n".join(filter(None, [ax.get_title(), fixed])), fontsize="small")


def read_plane(text: str, rest: Path | None = None) -> InputPlane:
    """The plane of --plane, such as ``"0=-1:1,1=-1:1,2=0.5"``. rest: file of one input, for the others."""
    form = (
        f"Expected --plane I=LO:HI,J=LO:HI,K=VALUE,... with each input once, got {text!r}. "
        "Replace the letters by numbers."
    )
    entries: dict[int, list[float]] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*=([^=]+)", part)
        if match is None or int(match[1]) in entries:
            raise InputError(form)
        try:
            entries[int(match[1])] = [float(number) for number in match[2].split(":")]
        except ValueError as error:
            raise InputError(form) from error
    plane = _plane(entries, {}, f"--plane {text}")
    if rest is None:
        return plane
    values = load.load_array(rest)
    if values.ndim > 1 and len(values) != 1:
        raise InputError(
            f"Expected one input in {rest}, got shape {values.shape}. Write a single input, such as inputs[0]."
        )
    return replace(plane, rest=tuple(map(float, values.reshape(-1))), rest_file=str(rest))


@dataclass(frozen=True)
class SliceFile:
    """A slice in a TOML file: one of its points, its box and its plane. kind: what the points are."""

    points: Path | None
    box: tuple[float, float] | None
    plane: InputPlane | None
    kind: str = "points"

    def slice(self, shape: Callable[[], tuple[int, ...]], points_shape: tuple[int, ...] | None) -> Slice:
        """The slice. shape: of one input, called if needed; points_shape: of one input of the file of points."""
        if self.points is not None:
            return _FILES[self.kind](load.load_points(self.points, input_shape=points_shape))
        if self.box is not None:
            return load.box(*self.box, shape())
        assert self.plane is not None
        return self.plane.box(shape())


def read_slice_file(path: Path) -> SliceFile:
    """Read ``points = "FILE"``, ``polygon``, ``polyline``, ``box = [LO, HI]``, or a table ``plane`` with ``scaling``.

    In ``plane`` two inputs have a range [LO, HI], all others a number. ``scaling`` has ``I = {offset = A, unit = B}``.
    """
    check_file(path, "slice")
    note_file(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"Expected a TOML file, got {str(path)!r}: {error}. Correct this line.") from error
    for key in document:
        if key not in (*_KINDS, "scaling"):
            raise unknown_name(f"a key of {path}", key, (*_KINDS, "scaling"))
    if len(document.keys() & {*_KINDS}) != 1 or ("scaling" in document and "plane" not in document):
        raise InputError(
            f"Expected one of {', '.join(_KINDS)} in {path}, and scaling with a plane only, got "
            f"{', '.join(document) or 'none'}. Keep one slice in the file."
        )
    plane, box = document.get("plane"), document.get("box")
    kind = next((key for key in _FILES if key in document), "points")
    points = document.get(kind)
    if points is not None and not isinstance(points, str):
        raise InputError(f'Expected {kind} = "FILE" in {path}, got {points!r}. Write the name of a file of points.')
    if box is not None and not (_are_numbers(box) and len(box) == 2):
        raise InputError(f"Expected box = [LO, HI] in {path}, got {box!r}. Write two numbers.")
    return SliceFile(
        None if points is None else path.parent / points,
        None if box is None else (float(box[0]), float(box[1])),
        None if plane is None else _plane_of_tables(path, plane, document.get("scaling", {})),
        kind,
    )


def _plane_of_tables(path: Path, plane: Any, scaling: Any) -> InputPlane:
    entries: dict[int, list[Any]] = {}
    units: dict[int, tuple[float, float]] = {}
    for name, value in _inputs(path, "plane", plane).items():
        entries[name] = value if isinstance(value, list) else [value]
    for name, value in _inputs(path, "scaling", scaling).items():
        given = [value.get("offset", 0.0), value.get("unit", 1.0)] if isinstance(value, Mapping) else []
        if not _are_numbers(given) or len(given) != 2 or not value.keys() <= {"offset", "unit"}:
            raise InputError(
                f"Expected {name} = {{offset = A, unit = B}} in [scaling] of {path}, got {value!r}. Write two numbers."
            )
        units[name] = (float(given[0]), float(given[1]))
    return _plane(entries, units, f"another table in {path}")


def _inputs(path: Path, name: str, table: Any) -> dict[int, Any]:
    if not isinstance(table, Mapping) or not all(re.fullmatch(r"\d+", key) for key in table):
        raise InputError(
            f"Expected a table [{name}] with inputs from 0 as keys in {path}, got {table!r}. Write 0 = 0.5."
        )
    return {int(key): value for key, value in table.items()}


def _plane(entries: Mapping[int, list[Any]], scaling: dict[int, tuple[float, float]], source: str) -> InputPlane:
    """source: what the user wrote, for a message."""
    ends = {i: (numbers[0], numbers[1]) for i, numbers in entries.items() if len(numbers) == 2}
    good = all(_are_numbers(numbers) and len(numbers) in (1, 2) for numbers in entries.values())
    if not good or len(ends) != 2 or not all(low < high for low, high in ends.values()):
        raise InputError(
            f"Expected a plane with a range LO < HI for two inputs and one number for each other input, got {source}. "
            "Name the two inputs that vary, and put the smaller end first."
        )
    if not all(math.isfinite(offset) and 0 < unit < math.inf for offset, unit in scaling.values()):
        raise InputError(f"Expected positive units in the scaling of a plane, got {source}. Write a unit above 0.")
    fixed = {i: float(numbers[0]) for i, numbers in entries.items() if i not in ends}
    return InputPlane({i: (float(low), float(high)) for i, (low, high) in ends.items()}, fixed, scaling)


def _few(numbers: list[int]) -> str:
    """Numbers as text, with their count where they are many."""
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    return shown if len(numbers) <= _SHOWN else f"{shown} and {len(numbers) - _SHOWN} others"


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) for value in values
    )
