"""One experiment: its result, going on after any stop as if nothing had been, and what failure leaves behind."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regionscope.errors import DiskFull, InputError, Stopped
from regionscope_lab import experiment as experiment_module
from regionscope_lab import instruments
from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.experiment import fail, run
from regionscope_lab.store import RunFolder, files

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
    result = outcome(undisturbed)
    assert (result["status"], result["epochs"], result["steps"]) == ("finished", 4, 12)
    assert result["gap"] == pytest.approx(result["test_error"] - result["train_error"])
    rows = undisturbed.rows()
    assert [row["epoch"] for row in rows if row["name"] == "test_error"] == [1, 2, 3, 4]
    assert {row["step"] for row in rows if row["name"].startswith("norm")} == {0, 4, 8, 12}
    counted = next(row for row in rows if row["name"] == "region_count")
    assert result["measures"]["region_count"] == {"value": counted["value"], "stderr": counted["stderr"]}
    moved = [row["value"] for row in rows if row["name"] == "moved"]
    assert moved[0] == 0 < moved[-1]
    assert [stored.epoch for stored in undisturbed.checkpoints()] == [0, 2, 4]
    split, model = undisturbed.split(), undisturbed.model_at(undisturbed.checkpoints()[-1])
    wrong = (model(split.test.inputs).argmax(1) != split.test.labels).double()
    assert float(wrong.mean()) == pytest.approx(result["test_error"])
    kept = undisturbed.provenance
    assert {"regionscope", "commit", "torch", "python", "machine", "device_name", "command"} <= set(kept)
    assert (kept["seed"], kept["device"]) == (0, "cpu")


def test_a_run_that_has_ended_is_left_alone(undisturbed: RunFolder) -> None:
    before = {path: path.stat().st_mtime_ns for path in undisturbed.path.rglob("*")}
    again = run(EXPERIMENT, undisturbed.path.parent)
    assert {path: path.stat().st_mtime_ns for path in undisturbed.path.rglob("*")} == before
    assert outcome(again) == outcome(undisturbed)


@pytest.mark.parametrize(
    ("moment", "late"),
    [("save_state", False), ("append", True), ("append", False), ("save_checkpoint", True), ("finish", False)],
)
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


def test_divergence_is_a_result(tmp_path: Path) -> None:
    wild = replace(EXPERIMENT, training=replace(EXPERIMENT.training, lr=1e30))
    folder = run(wild, tmp_path)
    found = outcome(folder)
    assert found["status"] == "diverged"
    assert found["train_loss"] is None
    assert math.isnan(next(row["value"] for row in folder.rows() if row["name"] == "train_loss"))
    assert folder.verify()


def failing(error: BaseException) -> Callable[..., None]:
    """A function that raises the error, for a failure in the middle of a run."""

    def fail_now(*_: object, **__: object) -> None:
        raise error

    return fail_now


def test_an_error_is_stored_and_the_next_start_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(experiment_module, "train", failing(RuntimeError("the cable is loose\nand more")))
        folder = run(EXPERIMENT, tmp_path)
    wanted = {"status": "failed", "error": "RuntimeError: the cable is loose", "measures": {}, "checkpoints": {}}
    assert outcome(folder) == wanted
    assert run(EXPERIMENT, tmp_path).status == "finished"
    other = replace(EXPERIMENT, seed=1)
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_checkpoint", failing(DiskFull("There is no room.")))
        with pytest.raises(DiskFull):  # which is not the run's failure
            run(other, tmp_path)
    stopped = RunFolder.open(tmp_path / other.key)
    assert (stopped.result(), stopped.status) == (None, "stopped")


SMOOTH = replace(
    EXPERIMENT,
    network=NetworkSpec(name="mlp", options={"width": 8, "activation": "tanh"}),
    measures=(
        MeasureSpec(instrument="linear_regions", when="start and end"),
        MeasureSpec(instrument="region_count", options={"slices": 3, "grid": 10}),
    ),
)


def test_a_measure_that_is_not_possible_is_noted_and_the_rest_is_there(tmp_path: Path) -> None:
    folder = run(SMOOTH, tmp_path)
    result = outcome(folder)
    assert result["status"] == "finished"
    assert 0 <= result["test_error"] <= 1 <= result["measures"]["region_count"]["value"]
    assert result["measures"]["linear_regions"] == {"value": None, "stderr": None}
    assert result["note"].startswith("linear_regions: Expected a piecewise-affine network")
    assert result["note"].count("is Tanh, which is not piecewise affine") == 1
    missing = [(row["step"], math.isnan(row["value"])) for row in folder.rows() if row["name"] == "linear_regions"]
    assert missing == [(0, True), (12, True)]
    assert len(folder.checkpoints()) == 3
    assert folder.verify()


def test_the_note_outlives_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    early = replace(SMOOTH, measures=(replace(SMOOTH.measures[0], when="start"), SMOOTH.measures[1]))
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "finish", failing(Killed()))
        with pytest.raises(Killed):
            run(early, tmp_path)
    assert "is Tanh" in outcome(run(early, tmp_path))["note"]


def test_another_error_of_a_measure_fails_the_run_but_the_network_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    single = replace(EXPERIMENT, measures=(MeasureSpec(instrument="error_rate", when="end"),))
    with monkeypatch.context() as patch:
        patch.setattr(instruments, "build", lambda *_, **__: failing(RuntimeError("a bug")))
        folder = run(single, tmp_path)
    assert outcome(folder)["error"] == "RuntimeError: a bug"
    assert [stored.step for stored in folder.checkpoints()] == [0, 6, 12]
    epochs: list[Any] = []
    again = run(single, tmp_path, on_progress=epochs.append)
    assert epochs == [], "nothing is trained again"
    assert outcome(again)["measures"]["error_rate"]["value"] == outcome(again)["test_error"]


def test_the_measures_take_the_loss_that_is_trained_on(tmp_path: Path) -> None:
    measures = tuple(
        MeasureSpec(instrument=name, name=f"{name}.{kind}" if kind else name, options={"loss": kind} if kind else {})
        for name in ("loss", "sharpness")
        for kind in ("", "mse", "cross_entropy")
    )
    for loss, other in (("mse", "cross_entropy"), ("cross_entropy", "mse")):
        training = replace(EXPERIMENT.training, loss=loss)
        values = outcome(run(replace(EXPERIMENT, training=training, measures=measures), tmp_path))["measures"]
        for name in ("loss", "sharpness"):
            assert values[name] == values[f"{name}.{loss}"] != values[f"{name}.{other}"]


def test_weights_come_back_in_the_precision_of_the_training(tmp_path: Path, undisturbed: RunFolder) -> None:
    exact = replace(EXPERIMENT, training=replace(EXPERIMENT.training, precision="float64"), measures=())
    for folder, dtype in ((run(exact, tmp_path), torch.float64), (undisturbed, torch.float32)):
        stored = folder.checkpoints()[-1]
        held, model = files.read_tensors(stored.path)[0], folder.model_at(stored)
        assert {value.dtype for value in model.parameters()} == {dtype}
        assert not model.training
        assert all(torch.equal(value, held[name]) for name, value in model.state_dict().items())


def test_a_failure_that_cannot_be_stored_ends_nothing(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, EXPERIMENT)
    with folder.claim():
        fail(EXPERIMENT, tmp_path, "Its worker died.")  # another process has taken it over
        assert folder.result() is None
    fail(EXPERIMENT, tmp_path, "Its worker died.")
    assert (folder.result() or {})["error"] == "Its worker died."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": DataSpec(name="mnits")}, "got 'mnits'. Did you mean 'mnist'"),
        ({"network": NetworkSpec(name="resnet")}, "Expected a network, got 'resnet'"),
        ({"measures": (MeasureSpec(instrument="regions"),)}, "Expected an instrument, got 'regions'"),
        ({"measures": (MeasureSpec(instrument="region_count", options={"slides": 1}),)}, "got 'slides'"),
        (
            {"measures": (MeasureSpec(instrument="region_count", options={"slices": 0}),)},
            "Expected slices of region_count to be",
        ),
        ({"measures": (MeasureSpec(instrument="error_rate", options={"points": "tset"}),)}, "to be one of train"),
        ({"measures": (MeasureSpec(instrument="region_count", name="train_loss"),)}, "a name that runs do not use"),
        ({"measures": (MeasureSpec(instrument="region_count", when="often"),)}, "often"),
    ],
)
def test_mistakes_are_said_before_the_work(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        run(replace(EXPERIMENT, **change), tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
