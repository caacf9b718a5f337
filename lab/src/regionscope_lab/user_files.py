"""Your own networks and data in experiments: the form of their names, and a hash of their files.

A network is ``FILE.py:FUNCTION``. Data are a ``.npz`` or ``.csv`` file, a folder of images (a path with a slash in it)
or ``FILE.py:FUNCTION``. The hash is part of the run's identity: after a change of the file, the same command starts a
new run.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from regionscope.errors import InputError

IMAGE_ENDINGS = (".jpeg", ".jpg", ".png")
COPY = "network.py"  # of the network's file, in the folder of a run


def is_user_file(name: str) -> bool:
    """Whether this names a file or a folder of yours.

    >>> [is_user_file(name) for name in ("mnist", "points.npz", "./photos", "net.py:build")]
    [False, True, True, True]
    """
    return ".py:" in name or name.endswith((".npz", ".csv")) or "/" in name


def file_of(name: str) -> Path:
    """The file or folder that ``name`` names."""
    return Path(name.rpartition(":")[0] if ".py:" in name else name)


def source_of(name: str) -> str:
    """16 hexadecimal digits: the SHA-256 of the file, or of the names and sizes of the images in the folder.

    Empty for a name that is not of a file. Other files that the code imports do not count.
    """
    if not is_user_file(name):
        return ""
    path = file_of(name)
    try:
        state = path.stat()
        if not path.is_dir():
            return _hash_of_file(path.absolute(), state.st_mtime_ns, state.st_size)
        images = sorted(file for file in path.rglob("*") if file.suffix.lower() in IMAGE_ENDINGS)
        text = "".join(f"{file.relative_to(path).as_posix()} {file.stat().st_size}\n" for file in images)
    except OSError as error:
        raise InputError(
            f"Expected a file or folder at {str(path)!r}, got nothing that can be read ({error.strerror}). Correct the "
            f"path, which starts in the working directory {str(Path.cwd())!r}."
        ) from error
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@lru_cache(maxsize=64)
def _hash_of_file(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def unchanged_name(name: str, source: str, folder: Path) -> str:
    """``name`` if its file has not changed, else the name of the copy in the folder of the run."""
    copy = f"{folder / COPY}:{name.rpartition(':')[2]}"
    if not is_user_file(name) or (file_of(name).is_file() and source_of(name) == source):
        return name
    if file_of(copy).is_file() and source_of(copy) == source:
        return copy
    check_source(name, source)
    return name


def check_source(name: str, source: str) -> None:
    """Raise ``InputError`` if the file has changed since the run was created."""
    code = source_of(name)
    if code != source:
        raise InputError(
            f"Expected {str(file_of(name))!r} as it was when the run was made (hash {source}), got a changed file "
            f"({code}). Restore that version, or train a new run."
        )
