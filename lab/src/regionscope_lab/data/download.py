"""Get MNIST, Fashion-MNIST and CIFAR from their publishers, check the published md5, unpack as torchvision does.

Nothing stands under its real name before it is whole: files come into a folder ``.getting-NAME``, are checked and
unpacked there, and are then renamed. What was whole when a download broke off is not fetched again.
"""

from __future__ import annotations

import gzip
import logging
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from regionscope.checks import unknown_name
from regionscope.errors import InputError
from regionscope_lab.data.files import data_root
from regionscope_lab.data.images import CIFAR10, CIFAR100, FILES
from regionscope_lab.data.registry import entry, names

OnProgress = Callable[[str, int, int], None]
_SECONDS = 30  # without a byte from the server


@dataclass(frozen=True, kw_only=True)
class Download:
    """Where one data set is published. ``md5``: of each file; ``folder`` and ``members``: what they unpack to."""

    base_url: str
    md5: Mapping[str, str]
    folder: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Downloaded:
    """Where the data lies now; ``fresh`` is false when it was there already."""

    name: str
    folder: Path
    fresh: bool


_IDX = (*FILES["train"], *FILES["test"])


def _of_idx(*md5: str) -> dict[str, str]:
    return {f"{name}.gz": value for name, value in zip(_IDX, md5, strict=True)}


# The sums are those that the publishers state (LeCun's by way of torchvision).
DOWNLOADS: dict[str, Download] = {
    "mnist": Download(
        base_url="https://ossci-datasets.s3.amazonaws.com/mnist/",
        md5=_of_idx(
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        folder="MNIST/raw",
        members=_IDX,
    ),
    "fashion_mnist": Download(
        base_url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        md5=_of_idx(
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        folder="FashionMNIST/raw",
        members=_IDX,
    ),
    "cifar10": Download(
        base_url="https://www.cs.toronto.edu/~kriz/",
        md5={"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"},
        folder=CIFAR10.pickled,
        members=(*CIFAR10.train, *CIFAR10.test, "batches.meta"),
    ),
    "cifar100": Download(
        base_url="https://www.cs.toronto.edu/~kriz/",
        md5={"cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85"},
        folder=CIFAR100.pickled,
        members=(*CIFAR100.train, *CIFAR100.test, "meta"),
    ),
}


def get(
    name: str,
    *,
    root: Path | str | None = None,
    mirror: str | None = None,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> Downloaded:
    """Download the data set ``name`` to ``root`` unless it exists.

    The layout is that of torchvision.
    mirror: another server with the same files. force: whether to download existing files again. on_progress: called
    with (file, bytes so far, total bytes). Raises ``InputError`` for a wrong md5, a missing network connection or a
    damaged archive; then only the folder of temporary files changes.
    """
    wanted = _download(name)
    if mirror is not None and not mirror.startswith(("http://", "https://")):
        raise InputError(
            f"Expected a mirror that starts with http:// or https://, got {mirror!r}. "
            "Pass the address of the folder that holds the files."
        )
    where = data_root(root)
    folder = where / wanted.folder
    if not force and all((folder / member).is_file() for member in wanted.members):
        return Downloaded(name, folder, fresh=False)
    part = where / f".getting-{name}"
    unpacked = part / "unpacked"
    try:
        unpacked.mkdir(parents=True, exist_ok=True)
        for file, md5 in wanted.md5.items():
            packed = _fetch(f"{(mirror or wanted.base_url).rstrip('/')}/{file}", part / file, md5, on_progress)
            _unpack(packed, unpacked, wanted)
        folder.mkdir(parents=True, exist_ok=True)
        for member in wanted.members:
            os.replace(unpacked / member, folder / member)
        shutil.rmtree(part)
    except OSError as error:
        raise InputError(
            f"{name} cannot be written to {str(where)!r}: {error.strerror or error}. "
            "Set the environment variable REGIONSCOPE_DATA to another folder."
        ) from error
    return Downloaded(name, folder, fresh=True)


def _download(name: str) -> Download:
    if name in DOWNLOADS:
        return DOWNLOADS[name]
    if name not in names():
        raise unknown_name("a data set to download", name, DOWNLOADS)
    known = entry(name)
    listed = ", ".join(DOWNLOADS)
    if not known.folders:
        raise InputError(
            f"Expected a data set to download ({listed}), got {name}, which is built in and needs no download. "
            "Load it by this name."
        )
    raise InputError(
        f"Expected a data set to download ({listed}), got {name}, which requires an account at its publisher. Put it "
        f"under {known.folders[0]!r} in the data folder yourself."
    )


def _fetch(url: str, path: Path, md5: str, on_progress: OnProgress | None) -> Path:
    import pooch
    import requests

    bar = None if on_progress is None else _Bar(path.name, on_progress)
    downloader = pooch.HTTPDownloader(progressbar=bar or False, chunk_size=2**16, timeout=_SECONDS)
    try:
        with _quiet(pooch.get_logger()):
            pooch.retrieve(url, f"md5:{md5}", fname=path.name, path=path.parent, downloader=downloader)
    except requests.exceptions.HTTPError as error:
        code = error.response.status_code if error.response is not None else "an error"
        raise InputError(f"The server answered {code} for {url}. Try again later or pass another mirror=.") from error
    except requests.exceptions.RequestException as error:
        raise InputError(
            f"{url} could not be downloaded ({type(error).__name__}). Check the network, or pass another mirror=."
        ) from error
    except ValueError as error:  # how pooch says that the sum differs
        raise InputError(
            f"Expected the published md5 {md5} for {url}, got another one. The file was deleted. Try again or pass "
            "another mirror=."
        ) from error
    return path


class _Bar:
    """The progress bar that pooch drives, as a callback."""

    def __init__(self, file: str, on_progress: OnProgress) -> None:
        self.total = 0
        self._file, self._on_progress, self._done = file, on_progress, 0

    def update(self, n: int) -> None:
        self._done = min(self._done + n, self.total) if self.total else self._done + n
        self._on_progress(self._file, self._done, self.total)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Do nothing: no file is open."""


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """pooch logs each download to stderr; here the caller says what happens."""
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _unpack(packed: Path, target: Path, wanted: Download) -> None:
    """The wanted members of an archive into ``target``, under names of our own; anything odd in it is refused."""
    try:
        if not packed.name.endswith(".tar.gz"):
            with gzip.open(packed, "rb") as source, (target / packed.stem).open("wb") as copy:
                shutil.copyfileobj(source, copy)
            return
        with tarfile.open(packed, "r:gz") as archive:
            for member in archive:
                _check_member(packed, member)
                path = PurePosixPath(member.name)
                source_file = archive.extractfile(member) if str(path.parent) == wanted.folder else None
                if source_file is not None and path.name in wanted.members:
                    with source_file, (target / path.name).open("wb") as copy:
                        shutil.copyfileobj(source_file, copy)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"The archive {packed.name!r} has the right md5 sum but cannot be unpacked ({error}). Report this."
        ) from error
    missing = [member for member in wanted.members if not (target / member).is_file()]
    if missing:
        raise InputError(
            f"Expected {', '.join(f'{wanted.folder}/{m}' for m in missing)} in the archive {packed.name!r}, got none. "
            "Delete the archive and download it again."
        )


def _check_member(packed: Path, member: tarfile.TarInfo) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or not (member.isreg() or member.isdir()):
        raise InputError(
            f"Expected plain files in the archive {packed.name!r}, got {member.name!r}, which is a link, a device "
            "or a path that leads outside. "
            "Delete the archive and get it from a source that you trust."
        )
