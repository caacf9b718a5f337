"""One process at a time works on a run, on this machine and on others; a dead one is told from a live one."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

import forked
from regionscope.errors import Busy, LockLost
from regionscope.monitor import Row
from regionscope_lab.config import DataSpec, Experiment, NetworkSpec
from regionscope_lab.store import RunFolder, is_held, lock


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, Experiment(data=DataSpec(name="two_moons"), network=NetworkSpec(name="mlp")))


def test_one_process_at_a_time(folder: RunFolder) -> None:
    other = RunFolder.open(folder.path)
    with folder.claim(), pytest.raises(Busy, match=f"process {os.getpid()}"), other.claim():
        pass
    with other.claim():
        assert is_held(folder.path)
    assert not is_held(folder.path)


def hold(folder: RunFolder, held: int) -> None:
    with folder.claim():
        os.write(held, b"held")
        time.sleep(60)


@pytest.mark.kill
def test_the_lock_of_a_killed_process_is_taken_over(folder: RunFolder) -> None:
    reading, writing = os.pipe()
    holder = forked.start(lambda: hold(RunFolder.open(folder.path), writing))
    os.close(writing)
    try:
        assert os.read(reading, 4) == b"held"
        with pytest.raises(Busy, match=str(holder)), folder.claim():
            pass
        assert folder.status == "running"
    finally:
        os.close(reading)
        forked.kill(holder)
    assert folder.status == "new"
    with folder.claim():
        pass
    assert f"process {holder}" in folder.repaired[0]
    assert "taken over" in folder.repaired[0]


def leave_lock(folder: RunFolder, **changes: object) -> Path:
    path = folder.path / "lock"
    owner = replace(lock.Owner.me(), token="theirs", **changes)
    path.write_text(json.dumps(owner.__dict__))
    return path


def test_a_silent_owner_on_another_machine_loses_the_run(folder: RunFolder) -> None:
    path = leave_lock(folder, host="elsewhere", boot="other")
    assert is_held(folder.path)
    with pytest.raises(Busy, match="elsewhere"), folder.claim():
        pass
    old = path.stat().st_mtime - 2 * lock.SILENCE
    os.utime(path, (old, old))
    assert not is_held(folder.path)
    with folder.claim():
        leave_lock(folder, host="third")
        with pytest.raises(LockLost, match="third"):
            folder.append([Row(1, "a", 1.0, None, 0.1)])
        (folder.path / "lock").unlink()
    assert folder.rows() == []


def test_a_lock_from_the_future_does_not_block_its_run(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "BEAT", 0.01)
    path = leave_lock(folder, host="elsewhere", boot="other")
    future = path.stat().st_mtime + 1e8
    os.utime(path, (future, future))
    assert not is_held(folder.path)
    with folder.claim():
        pass
    assert "taken over" in folder.repaired[0]


def test_a_live_owner_whose_clock_is_ahead_keeps_its_run(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = leave_lock(folder, host="elsewhere", boot="other")
    future = path.stat().st_mtime + 1e8
    os.utime(path, (future, future))
    monkeypatch.setattr(time, "sleep", lambda seconds: os.utime(path, (future + seconds, future + seconds)))
    with pytest.raises(Busy, match="elsewhere"), folder.claim():
        pass


def test_where_the_disk_has_no_locks_the_process_number_decides(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_flock", lambda file, path: False)
    leave_lock(folder)
    with pytest.raises(Busy), folder.claim():
        pass
    leave_lock(folder, started="another start of a process with this number")
    with folder.claim():
        pass
    assert "died" in folder.repaired[0]


def test_a_lock_that_the_kernel_has_released_is_free(folder: RunFolder) -> None:
    leave_lock(folder)  # names a live process of this machine, which does not hold it
    with folder.claim():
        pass
    assert "taken over" in folder.repaired[0]


def test_a_torn_lock_is_nobodys(folder: RunFolder) -> None:
    (folder.path / "lock").write_text('{"host": "el')
    with folder.claim():
        pass
    assert folder.repaired == []
