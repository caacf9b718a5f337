"""Atomic writes, files that are only appended to, and values as JSON."""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from regionscope.errors import DiskFull, InputError
from regionscope.formatting import described

ARRAY_FILE_ERRORS = (
    ValueError, KeyError, TypeError, OSError, EOFError, RuntimeError, MemoryError, OverflowError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What NumPy raises for an .npy or .npz file that is cut, changed, or claims more rows than memory holds."""

_FULL = {errno.ENOSPC, errno.EDQUOT}


def plain(value: Any) -> Any:
    """``value`` as strict JSON: numbers that are not finite become null, tuples lists, keys text.

    >>> plain({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def parse_json(text: str | bytes) -> Any:
    """What ``json.loads`` gives; ``ValueError`` also where values are nested deeper than Python's stack goes."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Put a new file in place of ``path``: at every moment it is the old one or the new one, never half of one.

    ``write`` gets a temporary name in the same folder, which no other writer has and which starts with a dot and ends
    in ".tmp"; what it leaves there is flushed to disk and renamed. After an error the temporary file is gone. A link
    stays a link: the file that it leads to is replaced. A pipe or a device (/dev/stdout) is written to as it is.
    """
    if path.exists() and not path.is_file():
        write(path)
        return
    path = path.resolve() if path.is_symlink() else path
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        write(temporary)
        _flush(temporary)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    flush_folder(path.parent)


def append_bytes(path: Path, data: bytes) -> None:
    """Add ``data`` at the end and flush it to disk. On a full disk the file is as long as before."""
    with full_disk_as_error(path):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            before = os.fstat(file).st_size
            try:
                _write_all(file, data)
                os.fsync(file)
            except OSError:
                with suppress(OSError):  # a line that stays torn is dropped by the next start
                    os.ftruncate(file, before)
                raise
        finally:
            os.close(file)


def cut_torn_line(path: Path) -> None:
    """Cut off an incomplete last line, so that lines can be appended."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as file:
            file.truncate(whole)


@contextmanager
def full_disk_as_error(path: Path) -> Iterator[None]:
    """Raise ``DiskFull`` with the name of ``path`` if the disk is full while ``path`` is written."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(
                f"The disk is full: {path} could not be written, and no partial file was kept. Free some space and "
                "run the same command again to resume."
            ) from error
        raise


def flush_folder(folder: Path) -> None:
    """Make a rename or a deletion in ``folder`` last; file systems that cannot flush a folder do so by themselves."""
    with suppress(OSError):
        _flush(folder)


def _flush(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def read_csv(path: Path) -> tuple[list[str], np.ndarray[Any, Any]]:
    """The header, empty where there is none, and the numbers of a table, one row a line.

    A first line with a cell that is not a number is a header.
    """
    header: list[str] = []
    lines: dict[int, str] = {}
    try:
        texts = path.read_text(encoding="utf-8-sig").splitlines()
        lines = {number: line for number, line in enumerate(texts, 1) if line.strip()}
        if lines and not all(map(_is_number, lines[min(lines)].split(","))):
            header = [cell.strip().strip('"') for cell in lines.pop(min(lines)).split(",")]
        return header, np.loadtxt([*lines.values()], delimiter=",", ndmin=2) if lines else np.empty((0, 1))
    except (ValueError, OSError) as error:
        reason = _wrong_line(lines) or f": {described(error)} Write numbers, separated by commas."
        raise InputError(f"Expected a number in every cell of {path}, got{reason}") from error


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _wrong_line(lines: Mapping[int, str]) -> str:
    """What is wrong with the first line, by its number in the file, that is not one of a table of numbers."""
    width = 0
    for number, line in lines.items():
        cells = line.split(",")
        width = width or len(cells)
        if len(cells) != width:
            return f" {len(cells)} cells in line {number} after {width} in the lines before. Give all lines as many."
        for column, cell in enumerate(cells, 1):
            if not _is_number(cell):
                got = repr(cell.strip()) if cell.strip() else "nothing"
                return f" {got} in column {column} of line {number}. Write a number there; for a class, 0, 1, ..."
    return ""


def check_parent(path: Path) -> None:
    """Raise ``InputError`` if the folder of a file does not exist."""
    if not path.parent.is_dir():
        raise InputError(
            f"Expected an existing folder for {path.name!r}, got {str(path.parent)!r}, which does not exist. "
            "Create it first."
        )


def check_file(path: Path, what: str) -> None:
    """Raise ``InputError`` where there is no file. what: what it holds, such as "weights"."""
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(
            f"Expected an existing {what} file, got {str(path)!r}, which {state}. Correct the path, "
            f"which starts in the working directory {str(Path.cwd())!r}."
        )
