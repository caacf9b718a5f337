"""Rows of measurements: from what a measure returned, and in a file of JSON lines like that of a stored run."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from regionscope.errors import InputError
from regionscope.file_io import append_bytes
from regionscope.monitor.row_files import encode, parse
from regionscope.types import Readable, Reading


@dataclass(frozen=True)
class Row:
    """One number at one step.

    stderr: standard error of ``value``; None for an exact value. seconds: duration of the measurement, the same for all
    rows of one measurement. JSON has no NaN or infinity: such numbers are written as null and read as NaN; a standard
    error that is not finite is read as None.
    """

    step: int
    name: str
    value: float
    stderr: float | None
    seconds: float

    @staticmethod
    def from_dict(entry: dict[str, Any]) -> Row:
        """The row that a line of the file describes; a missing number becomes NaN."""
        stderr = entry.get("stderr")
        return Row(
            entry["step"],
            entry["name"],
            float(entry.get("value", math.nan)),
            None if stderr is None else float(stderr),
            float(entry.get("seconds", math.nan)),
        )


def as_scalars(rows: Iterable[Row]) -> dict[str, float]:
    """Names and values for a logger; the standard error, where there is one, is ``name/stderr``."""
    found: dict[str, float] = {}
    for row in rows:
        found[row.name] = row.value
        if row.stderr is not None:
            found[f"{row.name}/stderr"] = row.stderr
    return found


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    """Add the rows in one write and flush them to disk. If the disk is full, the file does not change."""
    path.parent.mkdir(parents=True, exist_ok=True)
    append_bytes(path, encode(rows))


def read_rows(path: Path) -> tuple[Row, ...]:
    """All rows of a file, each (step, name) once. Warns about lines that are torn or damaged and leaves them out."""
    if not path.exists():
        return ()
    found = parse(path.read_bytes())
    for sentence in found.complaints(path):
        warnings.warn(sentence, stacklevel=2)
    return tuple(map(Row.from_dict, found.rows))


def readings(name: str, result: Any) -> list[Reading]:
    """The numbers in ``result``.

    Accepted: a number (also a tensor or array of one element); a result with ``readings()``, as all results of
    regionscope have; anything with ``value`` and ``stderr``; and a mapping of such things, whose entries are called
    ``name.key`` (``name`` where the key is empty).
    """
    if isinstance(result, Mapping):
        return [each for key, entry in result.items() for each in readings(f"{name}.{key}" if key else name, entry)]
    if isinstance(result, Readable):
        return [
            (f"{name}.{key}" if key else name, float(value), None if error is None else float(error))
            for key, value, error in result.readings()
        ]
    return [(name, *_number(name, result))]


def _number(name: str, result: Any) -> tuple[float, float | None]:
    if isinstance(result, Tensor | np.ndarray | np.generic):
        if np.prod(result.shape) == 1:
            return float(result.item()), None
    elif isinstance(result, int | float):
        return float(result), None
    elif isinstance(value := getattr(result, "value", None), int | float):
        error = getattr(result, "stderr", None)
        return float(value), None if error is None else float(error)
    raise InputError(
        f"Expected a number, a result with readings(), or a mapping of names to these from the measure {name!r}, got "
        f"{_described(result)}. "
        "Return one of these from the measure."
    )


def _described(result: Any) -> str:
    shape = f" of shape {tuple(result.shape)}" if isinstance(result, Tensor | np.ndarray) else ""
    return f"{type(result).__name__}{shape}"
