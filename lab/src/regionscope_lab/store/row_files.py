"""What tells whether a file of rows is the one that a result was saved with, and its last row."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from regionscope.file_io import parse_json


def fingerprint(raw: bytes) -> dict[str, Any]:
    """Length and CRC-32 of a file of rows, kept with the result so that a later change is seen."""
    return {"bytes": len(raw), "crc32": f"{zlib.crc32(raw):08x}"}


def extended(before: Mapping[str, Any], more: bytes) -> dict[str, Any]:
    """The fingerprint of a file of rows after ``more`` is appended, from the one before; the file is not read again.

    >>> extended(fingerprint(b"ab"), b"c") == fingerprint(b"abc")
    True
    """
    crc = zlib.crc32(more, int(before["crc32"], 16))
    return {"bytes": before["bytes"] + len(more), "crc32": f"{crc:08x}"}


def last_row(raw: bytes, having: str) -> dict[str, Any] | None:
    """The last whole row that has a value of this name, read from the end; measures, for one, have no epoch."""
    for line in reversed(raw.split(b"\n")[:-1]):
        try:
            row = parse_json(line)
        except ValueError:
            continue
        if isinstance(row, dict) and row.get(having) is not None:
            return row
    return None
