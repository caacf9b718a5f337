"""What a result was measured with: the command line, and checksums of the files that the command read."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

_running: ContextVar[dict[str, Any]] = ContextVar("command line and files of the running command")


@contextmanager
def recorded(words: Sequence[str]) -> Iterator[None]:
    """Let ``measured_with`` return this command line, and the files that are read while the command runs."""
    token = _running.set({"command": shlex.join(words), "files": {}})
    try:
        yield
    finally:
        _running.reset(token)


def note_file(path: Path) -> None:
    """Keep the checksum of a file that the command reads. Cost: reads the file once."""
    if running := _running.get({}):
        with path.open("rb") as file:
            running["files"][str(path)] = hashlib.file_digest(file, "sha256").hexdigest()


def measured_with() -> dict[str, Any]:
    """The command line, and the SHA-256 of each file that was read; empty outside of a command."""
    return _running.get({})
