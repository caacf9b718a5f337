"""One worker at a time on a run, also when the folder is on a disk that several machines share.

The file ``lock`` names its owner and is held with ``flock``, which the kernel releases when the owner dies, whatever it
dies of. Some shared disks keep ``flock`` to one machine; there the owner's heartbeat (the file's time, renewed every
few seconds) tells a live owner on another machine from a dead one.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from regionscope.checks import read_path
from regionscope.errors import Busy, LockLost
from regionscope.file_io import full_disk_as_error, parse_json
from regionscope_lab.store.files import set_aside

BEAT = 5.0  # seconds between two heartbeats
SILENCE = 60.0  # seconds without one after which an owner on another machine is taken for dead
NAME = "lock"


@dataclass(frozen=True)
class Owner:
    """The process that works on a run: the machine, a text that changes at its restart, the process and a token."""

    host: str
    boot: str
    pid: int
    started: str
    token: str

    @staticmethod
    def me() -> Owner:
        return Owner(socket.gethostname(), _boot(), os.getpid(), _started(os.getpid()), secrets.token_hex(8))

    @property
    def is_local(self) -> bool:
        return self.host == socket.gethostname() and self.boot == _boot()

    @property
    def is_alive_here(self) -> bool:
        """Whether the process still exists; a later process with the same number does not count."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return _started(self.pid) == self.started

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Lock:
    """A lock, held from construction to ``release``. Raises ``Busy`` if another process holds it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.owner = Owner.me()
        self.moved = ""  # a sentence about what stood in the place of the file
        with full_disk_as_error(self.path):
            self._file, self.took_over = self._acquire()
        self._stop = threading.Event()
        self._heart = threading.Thread(target=self._beat, name=f"heartbeat of {folder.name}", daemon=True)
        self._heart.start()

    def check(self) -> None:
        """Raise ``LockLost`` if another process has taken the run over."""
        owner = _read(self.path)
        if owner is None or owner.token != self.owner.token:
            raise LockLost(
                f"The run {self.path.parent} was taken over by {owner or 'another process'}. Wait until it ends."
            )

    def release(self) -> None:
        """Release the lock and delete its file."""
        self._stop.set()
        self._heart.join()
        owner = _read(self.path)
        if owner is not None and owner.token == self.owner.token:
            with suppress(FileNotFoundError):
                self.path.unlink()
        os.close(self._file)

    def _acquire(self) -> tuple[int, Owner | None]:
        """Write our name into the locked file. Returns the open file and its former owner, if that one has died."""
        while True:
            try:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except IsADirectoryError:  # no lock
                self.moved = f"{self.path} is a folder where a file should be. It was set aside as "
                self.moved += f"{set_aside(self.path).name}."
                continue
            try:
                flocked = _flock(file, self.path)
                if not _same_file(file, self.path):  # its owner released and removed it between open and flock
                    os.close(file)
                    continue
                before = _parse(os.pread(file, 4096, 0))
                if before is not None and _is_alive(before, self.path, flocked=flocked):
                    raise _busy(self.path, before)
                os.ftruncate(file, 0)
                os.pwrite(file, json.dumps(asdict(self.owner)).encode(), 0)
                os.fsync(file)
            except BaseException:
                with suppress(OSError):
                    os.close(file)
                raise
            return file, before

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            with suppress(OSError):  # a disk that is away for a moment; the next beat may reach it
                os.utime(self._file)


def is_held(folder: Path | str) -> bool:
    """Whether a live process works on the run. Does not touch the lock."""
    path = read_path(folder) / NAME
    owner = _read(path)
    if owner is None:
        return False
    if owner.is_local:
        return owner.is_alive_here
    return abs(_silence(path)) < SILENCE


def _flock(file: int, path: Path) -> bool:
    """Lock the open file, or raise ``Busy``; False on a disk without such locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise _busy(path, _parse(os.pread(file, 4096, 0))) from error
        if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            return False
        raise
    return True


def _is_alive(owner: Owner, path: Path, *, flocked: bool) -> bool:
    if owner.is_local:
        return not flocked and owner.is_alive_here  # with flock in our hands, an owner on this machine is dead
    silence = _silence(path)
    return silence < SILENCE if silence > -SILENCE else _beats(path)


def _beats(path: Path) -> bool:
    """Whether the heartbeat continues. Waits for it, since the date of this lock lies in the future."""
    before = path.stat().st_mtime_ns
    time.sleep(3 * BEAT)
    return path.stat().st_mtime_ns != before


def _silence(path: Path) -> float:
    """Seconds since the last heartbeat, by the clock of the disk: a new file's time against the lock's."""
    probe = path.with_name(f".clock.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        probe.touch()
        return probe.stat().st_mtime - path.stat().st_mtime
    except OSError:
        return 0.0  # it cannot be told, so the owner keeps the run
    finally:
        with suppress(OSError):
            probe.unlink()


def _busy(path: Path, owner: Owner | None) -> Busy:
    return Busy(f"The run {path.parent} is in use by {owner or 'another process'}. Wait until it ends.")


def _same_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _read(path: Path) -> Owner | None:
    try:
        return _parse(path.read_bytes())
    except OSError:
        return None


def _parse(raw: bytes) -> Owner | None:
    """The owner; None for an empty or torn file, whose writer died while it held the lock."""
    try:
        return Owner(**parse_json(raw))
    except (ValueError, TypeError):
        return None


def _boot() -> str:
    """A text that changes when this machine (or the container, with its own process numbers) is restarted."""
    parts = []
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with suppress(OSError):
        parts.append(str(os.stat("/proc/self/ns/pid").st_ino))
    return " ".join(parts)


def _started(pid: int) -> str:
    """When a process started, in the kernel's own count; empty where that cannot be told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return ""
    return fields[19]
