"""Run folders: whole or not there, found damaged when damaged, and worked on by one process at a time."""

from __future__ import annotations

import errno
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import forked
from regionscope.errors import Busy, Damaged, DiskFull, InputError, LockLost, RegionscopeError
from regionscope.monitor import Row
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec, Experiment, NetworkSpec
from regionscope_lab.store import RunFolder, files, is_held, lock
from regionscope_lab.sweep import read_runs
from regionscope_lab.train import TrainState

EXPERIMENT = Experiment(
    data=DataSpec(name="two_moons", n_train=20, n_test=20), network=NetworkSpec(name="mlp", options={"width": 4})
)
RESULT = {"status": "finished", "epochs": 1, "measures": {}}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, EXPERIMENT)


@pytest.fixture
def claimed(folder: RunFolder) -> Iterator[RunFolder]:
    with folder.claim():
        yield folder


def network() -> nn.Module:
    return zoo.build("mlp", classes=2, input_shape=(2,), width=4)


def state(step: int = 3) -> TrainState:
    tensors = {"model.w": torch.arange(6.0).reshape(2, 3), "count": torch.tensor(7), "half": torch.ones(2).bfloat16()}
    return TrainState(step, tensors, {"seed": 1, "history": [{"loss": math.nan}]})


def row(step: int, name: str = "a", value: float = 1.0) -> Row:
    return Row(step, name, value, None, 0.1)


def test_a_run_is_named_by_its_key_and_reads_back(folder: RunFolder, tmp_path: Path) -> None:
    assert folder.path == tmp_path / EXPERIMENT.key
    again = RunFolder.open(folder.path)
    assert again.experiment == EXPERIMENT
    assert again.status == "new"
    assert (again.result(), again.rows(), again.checkpoints(), again.provenance) == (None, [], [], {})
    assert RunFolder.create(tmp_path, replace(EXPERIMENT, seed=1)).path != folder.path


def test_rows_are_kept_once_and_null_is_nan(claimed: RunFolder) -> None:
    claimed.append([row(1), row(1, "b", math.nan)])
    claimed.append([row(1, value=9.0), {"step": 2, "name": "train_loss", "value": 0.5, "epoch": 1}])
    rows = RunFolder.open(claimed.path).rows()
    assert [(each["step"], each["name"]) for each in rows] == [(1, "a"), (1, "b"), (2, "train_loss")]
    assert rows[0]["value"] == 1.0
    assert math.isnan(rows[1]["value"])
    assert "NaN" not in (claimed.path / "rows.jsonl").read_text()


def test_older_runs_call_the_standard_error_spread(claimed: RunFolder) -> None:
    old = {"value": 2.0, "spread": 0.5}
    claimed.append([{"step": 1, "name": "count", **old, "seconds": 0.1}])
    claimed.finish({**RESULT, "measures": {"count": old}})
    assert claimed.rows() == [{"step": 1, "name": "count", "value": 2.0, "stderr": 0.5, "seconds": 0.1}]
    result = claimed.result()
    assert result is not None
    assert result["measures"] == {"count": {"value": 2.0, "stderr": 0.5}}
    assert read_runs(claimed.path.parent).column("count.stderr") == [0.5]
    assert claimed.is_done


def test_status_over_a_life(folder: RunFolder) -> None:
    with folder.claim():
        assert RunFolder.open(folder.path).status == "running"
        folder.append([row(1)])
    assert folder.status == "stopped"
    with folder.claim():
        folder.finish({**RESULT, "status": "failed", "error": "It broke."})
    assert (folder.status, folder.verify()) == ("failed", False)
    with folder.claim():
        folder.begin_again()
        folder.finish(RESULT)
    assert (folder.status, folder.verify(), folder.repaired) == ("finished", True, [])
    assert sorted(path.name for path in folder.path.iterdir()) == ["config.json", "result.json", "rows.jsonl"]


def test_a_checkpoint_gives_the_network_back(claimed: RunFolder) -> None:
    model = network()
    claimed.save_checkpoint(100, 2, model)
    claimed.save_checkpoint(20, 1, model)
    first, last = RunFolder.open(claimed.path).checkpoints()
    assert (first.step, first.epoch, last.step, last.epoch) == (20, 1, 100, 2)
    assert last.path.name == "step-00000100.safetensors"
    files.write_document(claimed.path / "data.json", {"input_shape": [2], "classes": 2})
    found = claimed.model_at(last)
    assert not found.training
    x = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(found(x), model(x))


def test_tied_weights_can_be_stored(tmp_path: Path) -> None:
    weight = torch.arange(4.0)
    files.write_tensors(tmp_path / "tied.safetensors", {"a": weight, "b": weight, "none": torch.empty(0)})
    tensors, _ = files.read_tensors(tmp_path / "tied.safetensors")
    assert torch.equal(tensors["a"], tensors["b"])


def test_state_returns_with_the_rows_of_its_moment(folder: RunFolder) -> None:
    with folder.claim():
        folder.append([row(1), row(3)])
        folder.save_state(state())
        folder.append([row(4), row(5)])
    with folder.claim():
        found = folder.load_state()
        assert [each["step"] for each in folder.rows()] == [1, 3]
        folder.append([row(4, value=8.0)])
    assert found is not None
    assert (found.step, found.meta["seed"]) == (3, 1)
    assert all(torch.equal(found.tensors[name], value) for name, value in state().tensors.items())
    assert [(each["step"], each["value"]) for each in folder.rows()] == [(1, 1.0), (3, 1.0), (4, 8.0)]
    assert folder.repaired == []
    with pytest.raises(RegionscopeError, match="Expected a claimed run"):
        folder.load_state()


def test_a_torn_line_is_dropped_and_said(folder: RunFolder) -> None:
    with folder.claim():
        folder.append([row(1), row(2)])
        folder.save_state(state(2))
    rows = folder.path / "rows.jsonl"
    rows.write_bytes(rows.read_bytes() + b'{"step": 3, "na')
    reader = RunFolder.open(folder.path)
    assert [each["step"] for each in reader.rows()] == [1, 2]
    assert "incomplete" in reader.repaired[0]
    with folder.claim():
        assert folder.load_state() is not None
        folder.append([row(3)])
    assert any("incomplete" in sentence for sentence in folder.repaired)
    assert [each["step"] for each in RunFolder.open(folder.path).rows()] == [1, 2, 3]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    place = len(raw) - 9
    raw[place] = ord("7") if raw[place] != ord("7") else ord("8")
    path.write_bytes(raw)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGE = [cut, flip, zero, empty]


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (cut, "config.json"),
        (flip, "result.json"),
        (zero, "provenance.json"),
        (empty, "config.json"),
        (cut, "result.json"),
    ],
)
def test_a_damaged_document_is_set_aside_and_said(damage, name: str, folder: RunFolder, tmp_path: Path) -> None:
    with folder.claim():
        files.write_document(folder.path / "provenance.json", {"seed": 1, "more": "x" * 20})
        folder.finish(RESULT)
    damage(folder.path / name)
    (folder.path / ".state.safetensors.123-abcd.tmp").write_bytes(b"half")
    with pytest.raises(Damaged):
        files.read_document(folder.path / name)
    again = RunFolder.create(tmp_path, EXPERIMENT)
    with again.claim():
        pass
    assert any(name in sentence and "set aside" in sentence for sentence in again.repaired)
    assert any("half-written" in sentence for sentence in again.repaired)
    assert not list(folder.path.glob(".*.tmp"))
    assert (folder.path / f"{name}.damaged-1").exists()
    assert again.verify() is (name != "result.json")
    assert RunFolder.open(folder.path).experiment == EXPERIMENT


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["state.safetensors", "rows.jsonl"])
def test_a_damaged_state_or_row_means_from_the_beginning(damage, name: str, folder: RunFolder) -> None:
    with folder.claim():
        folder.append([row(1), row(2)])
        folder.save_state(state())
    damage(folder.path / name)
    with folder.claim():
        assert folder.load_state() is None
        assert folder.rows() == []
    assert any("from the beginning" in sentence for sentence in folder.repaired)


@pytest.mark.parametrize("damage", [cut, flip])
def test_rows_that_changed_after_the_end_undo_the_result(damage, folder: RunFolder) -> None:
    with folder.claim():
        folder.append([row(1), row(2)])
        folder.finish(RESULT)
    assert folder.is_done
    damage(folder.path / "rows.jsonl")
    assert not folder.is_done
    assert (folder.path / "result.json").exists()  # a look changes nothing
    assert not folder.verify()
    assert "done again" in folder.repaired[0]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_undoes_the_result(damage, folder: RunFolder) -> None:
    with folder.claim():
        stored = folder.save_checkpoint(5, 1, network())
        folder.finish(RESULT)
    assert folder.is_done
    files.write_document(folder.path / "data.json", {"input_shape": [2], "classes": 2})
    damage(stored.path)
    with pytest.raises(Damaged):
        folder.model_at(stored)
    assert not folder.is_done
    assert stored.path.exists()  # a look changes nothing
    assert not folder.verify()
    assert folder.checkpoints() == []
    assert all(words in folder.repaired[1] for words in (stored.path.name, "done again"))


def test_a_checkpoint_of_another_run_is_not_taken_for_this_one(folder: RunFolder) -> None:
    """It is whole, so only the checksum in the result tells; older results have none."""
    with folder.claim():
        stored = folder.save_checkpoint(5, 1, network())
        folder.finish(RESULT)
        folder.save_checkpoint(5, 2, network())
    assert not folder.is_done
    result = files.read_document(folder.path / "result.json")
    assert result is not None
    del result["checkpoints"]
    files.write_document(folder.path / "result.json", result)
    assert folder.is_done
    flip(stored.path)
    assert not folder.is_done


@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_a_checkpoint_lost_before_the_end_is_made_again(damage, folder: RunFolder) -> None:
    with folder.claim():
        folder.append([row(1)])
        stored = folder.save_checkpoint(5, 1, network())
        folder.save_state(state())
    damage(stored.path)
    with folder.claim():
        assert folder.load_state() is None
        assert folder.rows() == []
    assert stored.path.name in folder.repaired[-1]
    assert "from the beginning" in folder.repaired[-1]


def no_room(*_: object, **__: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_keeps_what_was_there(claimed: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    claimed.append([row(1)])
    claimed.save_state(state(3))
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", no_room)
        for write in (
            lambda: claimed.append([row(2)]),
            lambda: claimed.save_state(state(4)),
            lambda: claimed.save_checkpoint(4, 1, network()),
            lambda: claimed.finish(RESULT),
        ):
            with pytest.raises(DiskFull, match="The disk is full"):
                write()
    assert claimed.status == "running"
    assert [each["step"] for each in claimed.rows()] == [1]
    assert not list(claimed.path.rglob(".*.tmp"))
    kept = claimed.load_state()
    assert kept is not None
    assert kept.step == 3


def test_mistakes_have_sentences(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No run found at"):
        RunFolder.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be created"):
        RunFolder.create(tmp_path / "file", EXPERIMENT)


def test_a_disk_that_is_already_full_has_its_sentence(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", no_room)
        with pytest.raises(DiskFull, match="The disk is full"), folder.claim():
            pass
    with folder.claim(), monkeypatch.context() as full:  # the lock that could not be written is nobody's
        full.setattr(Path, "mkdir", no_room)
        with pytest.raises(DiskFull, match="The disk is full"):
            RunFolder.create(folder.path.parent, replace(EXPERIMENT, seed=1))


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


def test_a_lock_that_the_kernel_has_released_is_free_and_a_torn_one_nobodys(folder: RunFolder) -> None:
    leave_lock(folder)  # names a live process of this machine, which does not hold it
    with folder.claim():
        pass
    assert "taken over" in folder.repaired[0]
    again = RunFolder.open(folder.path)
    (folder.path / "lock").write_text('{"host": "el')
    with again.claim():
        pass
    assert again.repaired == []
