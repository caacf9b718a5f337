"""Rows of measurements: from what a measure returned, and in a file of JSON lines like that of a stored run."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from regionscope.errors import InputError
from regionscope.file_io import append_bytes, parse_json, plain
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
    scalars: dict[str, float] = {}
    for row in rows:
        scalars[row.name] = row.value
        if row.stderr is not None:
            scalars[f"{row.name}/stderr"] = row.stderr
    return scalars


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    """Add the rows in one write and flush them to disk. If the disk is full, the file does not change."""
    path.parent.mkdir(parents=True, exist_ok=True)
    append_bytes(path, encode(rows))


def read_rows(path: Path) -> tuple[Row, ...]:
    """All rows of a file, each (step, name) once. Warns about lines that are torn or damaged and leaves them out."""
    if not path.exists():
        return ()
    parsed = parse(path.read_bytes())
    for sentence in parsed.complaints(path):
        warnings.warn(sentence, stacklevel=2)
    return tuple(map(Row.from_dict, parsed.rows))


def readings(name: str, result: Any) -> list[Reading]:
    """The numbers in ``result``.

    Accepted: a number (also a tensor or array of one element); a result with ``readings()``, as all results of
    regionscope have; anything with ``value`` and ``stderr``; and a mapping of such things, whose entries are called
    ``name.key`` (``name`` where the key is empty).
    """
    if isinstance(result, Mapping):
        return [
            reading for key, entry in result.items() for reading in readings(f"{name}.{key}" if key else name, entry)
        ]
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


# Rows of measurements: one JSON object a line, only ever added to, so that a kill can tear nothing but the last line.
#
# The one reader and writer of such files. A torn last line and damaged lines are left out, and whoever reads the file
# reports them (``Parsed.complaints``).

_NUMBERS = ("value", "seconds")  # where null stands for a number that is not finite


@dataclass(frozen=True)
class Parsed:
    """The rows that could be read, each (step, name) once, and what could not.

    torn: the last line is incomplete (the writer was killed). damaged: number of other lines that are not rows.
    """

    rows: list[dict[str, Any]]
    torn: bool
    damaged: int

    def complaints(self, path: Path) -> list[str]:
        """A sentence for each kind of damage in the file ``path``."""
        messages = [f"{path}: the last line is incomplete and was left out."] if self.torn else []
        return messages + ([f"{path}: {self.damaged} damaged lines were left out."] if self.damaged else [])


def parse(raw: bytes) -> Parsed:
    """The rows in the bytes of a file.

    >>> parse(b'{"step": 1, "name": "a", "value": 2.0}\\n{"step": 2, "na').torn
    True
    """
    lines = raw.split(b"\n")
    torn = bool(lines.pop())
    rows: dict[tuple[Any, Any], dict[str, Any]] = {}
    damaged = 0
    for line in lines:
        try:
            row = with_stderr(parse_json(line))
        except ValueError:
            row = None
        if not _is_row(row):
            damaged += 1
            continue
        rows.setdefault((row["step"], row["name"]), row)
    for row in rows.values():
        row.update({name: math.nan for name in _NUMBERS if name in row and row[name] is None})
    return Parsed(list(rows.values()), torn, damaged)


def _is_row(row: Any) -> bool:
    numbers = ("value", "stderr", "seconds")
    return (
        isinstance(row, dict)
        and isinstance(row.get("step"), int)
        and isinstance(row.get("name"), str)
        and all(isinstance(row.get(name), int | float | None) for name in numbers)
    )


def with_stderr(entry: Any) -> Any:
    """The entry with its standard error as ``stderr``, which older runs call ``spread``.

    >>> with_stderr({"value": 2.0, "spread": 0.5})
    {'value': 2.0, 'stderr': 0.5}
    """
    if not isinstance(entry, dict) or "spread" not in entry:
        return entry
    return {"stderr" if name == "spread" else name: value for name, value in entry.items()}


def encode(rows: Iterable[Any]) -> bytes:
    """Rows (mappings, or dataclasses such as ``Row``) as lines."""
    return b"".join(json.dumps(plain(as_mapping(row)), allow_nan=False).encode() + b"\n" for row in rows)


def as_mapping(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if is_dataclass(row) and not isinstance(row, type):
        return asdict(row)
    raise TypeError(f"Expected a mapping or a dataclass as a row, got {type(row).__name__}. Pass a dict.")
