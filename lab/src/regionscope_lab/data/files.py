"""Where data lies on disk, and reading files that may be missing or cut short."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from regionscope.errors import InputError, WrongFile

_CHUNK = 2**20


def data_root(root: Path | str | None = None) -> Path:
    """The folder of all data: ``root``, else the environment variable REGIONSCOPE_DATA, else ./data."""
    return Path(root) if root is not None else Path(os.environ.get("REGIONSCOPE_DATA") or "data")


def find_folder(name: str, root: Path, folders: Sequence[str], *, advice: str | None = None) -> Path:
    """The first of the ``folders`` under ``root`` that exists. advice: what to do if none does, for the error."""
    for folder in folders:
        if (root / folder).is_dir():
            return root / folder
    searched = " or ".join(repr(str((root / folder).absolute())) for folder in folders)
    raise InputError(
        f"Expected {name} in {searched}, got no such folder. {advice or download_command(name, root)}, "
        "or set the environment variable REGIONSCOPE_DATA to the folder that holds it."
    )


def download_command(name: str, root: Path, *, again: bool = False) -> str:
    """How to download the data, as the beginning of a sentence. again: whether to replace what is there."""
    where = "" if root == data_root() else f"REGIONSCOPE_DATA={root} "
    return f"Run: {where}regionscope-lab data get {name}{' --force' if again else ''}"


def read_exactly(path: Path, size: int) -> bytes:
    """The whole file, which must hold ``size`` bytes; a name that ends in .gz is decompressed on the way."""
    content = read_head(path, size + 1)
    if len(content) != size:
        more = "more" if len(content) > size else f"{len(content):,}"
        raise WrongFile(f"Expected {size:,} bytes in {str(path)!r}, got {more}; the file is damaged")
    return content


def read_head(path: Path, size: int) -> bytes:
    """Up to ``size`` bytes from the start of the file, never asking for more memory than there are bytes."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            parts, missing = [], size
            while missing > 0 and (part := file.read(min(missing, _CHUNK))):
                parts.append(part)
                missing -= len(part)
    except FileNotFoundError as error:
        raise WrongFile(f"Expected the file {str(path)!r}, got no such file") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise WrongFile(
            f"Expected a gzip file at {str(path)!r}, got {path.stat().st_size:,} bytes that cannot be decompressed "
            f"({error})"
        ) from error
    except OSError as error:
        raise InputError(
            f"The file {str(path)!r} cannot be read: {error.strerror or error}. Check the permissions of the file."
        ) from error
    return b"".join(parts)
