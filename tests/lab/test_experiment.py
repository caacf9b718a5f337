"""One experiment: its result, going on after any stop as if nothing had been, and what failure leaves behind."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regionscope.errors import InputError
from regionscope.lab import experiment as lab
from regionscope.lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope.lab.experiment import Stopped, run
from regionscope.lab.store import DiskFull, RunFolder, files
from regionscope.lab.train import TrainState

EXPERIMENT = Experiment(
    data=DataSpec(name="random_labels", n_train=40, n_test=30),
    network=NetworkSpec(name="mlp", options={"width": 8}),
    training=Training(epochs=4, lr=0.05, batch_size=16, checkpoints="every 2 epochs"),
    measures=(
        MeasureSpec(instrument="parameter_norms", name="norm", when="every 4 steps"),
        MeasureSpec(instrument="region_count", options={"slices": 3, "grid": 10}),
        MeasureSpec(instrument="distance_from", name="moved", when="start and end"),
    ),
)


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


def numbers(folder: RunFolder) -> list[dict[str, Any]]:
    """All rows without their times."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in folder.rows()]


def outcome(folder: RunFolder) -> dict[str, Any]:
    found = folder.result()
    assert found is not None
    return {name: value for name, value in found.items() if name not in ("seconds", "rows")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run(EXPERIMENT, tmp_path_factory.mktemp("runs"))


def test_the_result_and_the_rows(undisturbed: RunFolder) -> None:
    found = outcome(undisturbed)
    assert (found["status"], found["epochs"], found["steps"]) == ("finished", 4, 12)
    assert found["gap"] == pytest.approx(found["test_error"] - found["train_error"])
    rows = undisturbed.rows()
    assert [row["epoch"] for row in rows if row["name"] == "test_error"] == [1, 2, 3, 4]
    assert {row["step"] for row in rows if row["name"].startswith("norm")} == {0, 4, 8, 12}
    counted = next(row for row in rows if row["name"] == "region_count")
    assert found["measures"]["region_count"] == {"value": counted["value"], "spread": counted["spread"]}
    moved = [row["value"] for row in rows if row["name"] == "moved"]
    assert moved[0] == 0
    assert moved[-1] > 0
    assert [stored.epoch for stored in undisturbed.checkpoints()] == [0, 2, 4]
    error = found["test_error"]
    split = undisturbed.split()
    model = undisturbed.model_at(undisturbed.checkpoints()[-1])
    assert float((model(split.test.inputs).argmax(1) != split.test.labels).double().mean()) == pytest.approx(error)


def test_what_it_was_computed_with_is_kept(undisturbed: RunFolder) -> None:
    found = undisturbed.provenance
    assert {"regionscope", "commit", "torch", "python", "machine", "device", "device_name", "command"} <= set(found)
    assert (found["seed"], found["device"]) == (0, "cpu")


def test_a_run_that_has_ended_is_left_alone(undisturbed: RunFolder) -> None:
    before = {path: path.stat().st_mtime_ns for path in undisturbed.path.rglob("*")}
    again = run(EXPERIMENT, undisturbed.path.parent)
    assert {path: path.stat().st_mtime_ns for path in undisturbed.path.rglob("*")} == before
    assert outcome(again) == outcome(undisturbed)


@pytest.mark.parametrize("moment", ["save_state", "append", "save_checkpoint", "finish"])
@pytest.mark.parametrize("late", [False, True])
def test_killed_at_every_write_and_continued_it_is_the_same(
    moment: str, late: bool, undisturbed: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start does one more write of this kind than the one before, and dies before or after it."""
    write = getattr(RunFolder, moment)
    allowed, done = 0, 0

    def dying(self: RunFolder, *values: object) -> object:
        nonlocal done
        if done == allowed and not late:
            raise Killed
        result = write(self, *values)
        done += 1
        if done > allowed and late:
            raise Killed
        return result

    monkeypatch.setattr(RunFolder, moment, dying)
    for starts in range(1, 60):
        done = 0
        try:
            run(EXPERIMENT, tmp_path, save_every=0.0)
            break
        except Killed:
            allowed += 1 + starts % 3
    assert starts > 1
    found = RunFolder.open(tmp_path / EXPERIMENT.key)
    assert numbers(found) == numbers(undisturbed)
    assert outcome(found) == outcome(undisturbed)
    for one, other in zip(found.checkpoints(), undisturbed.checkpoints(), strict=True):
        ours, theirs = files.read_tensors(one.path)[0], files.read_tensors(other.path)[0]
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_stopped_when_asked_and_continued(undisturbed: RunFolder, tmp_path: Path) -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == 5

    with pytest.raises(Stopped, match="its state is saved"):
        run(EXPERIMENT, tmp_path, stop=stop, save_every=0.0)
    assert RunFolder.open(tmp_path / EXPERIMENT.key).status == "stopped"
    assert outcome(run(EXPERIMENT, tmp_path)) == outcome(undisturbed)


def test_states_are_saved_rarely_but_stopping_is_not_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = []
    monkeypatch.setattr(RunFolder, "save_state", lambda self, state: saved.append(state.step))
    folder = RunFolder.create(tmp_path, EXPERIMENT)
    saver = lab._Saver(folder, lambda: len(saved) == 1, 1000.0)
    state = TrainState(1, {}, {})
    saver(state)
    assert saved == []
    saver.due = 0.0
    saver(state)
    assert saved == [1]
    with pytest.raises(Stopped):
        saver(replace(state, step=2))
    assert saved == [1, 2]


def test_every_checkpoint_has_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = []
    monkeypatch.setattr(RunFolder, "save_state", lambda self, state: saved.append(state.step))
    run(EXPERIMENT, tmp_path, save_every=1e6)
    assert saved == [0, 6, 12]


def test_divergence_is_a_result(tmp_path: Path) -> None:
    wild = replace(EXPERIMENT, training=replace(EXPERIMENT.training, lr=1e30))
    folder = run(wild, tmp_path)
    found = outcome(folder)
    assert found["status"] == "diverged"
    assert found["train_loss"] is None
    assert math.isnan(next(row["value"] for row in folder.rows() if row["name"] == "train_loss"))
    assert folder.verify()


def test_an_error_is_stored_and_the_next_start_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the cable is loose\nand more")

    with monkeypatch.context() as patch:
        patch.setattr(lab, "train", broken)
        folder = run(EXPERIMENT, tmp_path)
    assert outcome(folder) == {"status": "failed", "error": "RuntimeError: the cable is loose", "measures": {}}
    assert run(EXPERIMENT, tmp_path).status == "finished"


def test_a_full_disk_is_not_the_runs_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise DiskFull("There is no room.")

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_checkpoint", full)
        with pytest.raises(DiskFull):
            run(EXPERIMENT, tmp_path)
    folder = RunFolder.open(tmp_path / EXPERIMENT.key)
    assert (folder.result(), folder.status) == (None, "stopped")


def test_runs_share_their_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    load = lab.load

    def counting(spec: DataSpec, **options: Any) -> Any:
        loaded.append(spec.seed)
        return load(spec, **options)

    monkeypatch.setattr(lab, "load", counting)
    lab._loaded.clear()
    for seed in range(2):
        run(replace(EXPERIMENT, seed=seed), tmp_path)
    assert loaded == [0]
    for seed in (1, 2, 0):
        lab._data(replace(EXPERIMENT.data, seed=seed), None, torch.device("cpu"))
    assert loaded == [0, 1, 2, 0]


def test_the_networks_rule_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adjust = lab.adjust
    monkeypatch.setattr(lab, "adjust", lambda name, training: adjust("vgg19", training))
    found = run(replace(EXPERIMENT, training=replace(EXPERIMENT.training, lr=0.1)), tmp_path).result()
    assert found is not None
    assert "0.05" in found["note"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": DataSpec(name="mnits")}, "no data set called 'mnits'"),
        ({"network": NetworkSpec(name="resnet")}, "no network called 'resnet'"),
        ({"measures": (MeasureSpec(instrument="regions"),)}, "no instrument called 'regions'"),
        ({"measures": (MeasureSpec(instrument="region_count", options={"slides": 1}),)}, "unknown option 'slides'"),
        ({"measures": (MeasureSpec(instrument="region_count", name="train_loss"),)}, "give it another name"),
        ({"measures": (MeasureSpec(instrument="region_count", when="often"),)}, "often"),
    ],
)
def test_mistakes_are_said_before_the_work(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        run(replace(EXPERIMENT, **change), tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
