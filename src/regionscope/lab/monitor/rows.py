"""Rows of measurements, and their file: JSON lines that are only ever appended to."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regionscope.errors import InputError
from regionscope.writing import plain

__all__ = ["Row", "append_rows", "read_rows", "repair"]


@dataclass(frozen=True)
class Row:
    """One number at one step.

    spread: the standard error of ``value``; None where the value is exact. seconds: what the measurement took, shared
    by all rows that came from it. JSON knows no NaN or infinity: such numbers are written as null and read as NaN.
    """

    step: int
    name: str
    value: float
    spread: float | None
    seconds: float

    def to_json(self) -> str:
        """One line."""
        return json.dumps(plain(asdict(self)), allow_nan=False)

    @staticmethod
    def from_dict(entry: dict[str, Any]) -> Row:
        """The row that a line of the file describes."""
        value, spread = entry["value"], entry["spread"]
        return Row(
            int(entry["step"]),
            str(entry["name"]),
            math.nan if value is None else float(value),
            None if spread is None else float(spread),
            float(entry["seconds"]),
        )


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    """Add the rows in one write, and hand them to the operating system."""
    text = "".join(row.to_json() + "\n" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(text.encode())


def read_rows(path: Path) -> tuple[Row, ...]:
    """All rows of a file; a last line that was torn by a kill or a full disk is left out."""
    if not path.exists():
        return ()
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    rows = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            rows.append(Row.from_dict(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"Line {number} of {path} is not a row of measurements; mend or remove it.") from error
    return tuple(rows)


def repair(path: Path) -> int:
    """Cut off a torn last line, so that rows can be appended; how many bytes were cut."""
    if not path.exists():
        return 0
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as file:
            file.truncate(whole)
    return len(content) - whole
