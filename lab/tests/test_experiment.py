"""One experiment: its result, going on after any stop as if nothing had been, and what failure leaves behind."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regionscope.errors import DiskFull, InputError, Stopped
from regionscope_lab import experiment as experiment_module
from regionscope_lab import instruments
from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.data import load
from regionscope_lab.experiment import fail, run
from regionscope_lab.store import RunFolder, files
from regionscope_lab.train import TrainState

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
    assert found["measures"]["region_count"] == {"value": counted["value"], "stderr": counted["stderr"]}
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
    saver = experiment_module._Saver(folder, lambda: len(saved) == 1, 1000.0)
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
        patch.setattr(experiment_module, "train", broken)
        folder = run(EXPERIMENT, tmp_path)
    wanted = {"status": "failed", "error": "RuntimeError: the cable is loose", "measures": {}, "checkpoints": {}}
    assert outcome(folder) == wanted
    assert run(EXPERIMENT, tmp_path).status == "finished"


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
    found = outcome(folder)
    assert found["status"] == "finished"
    assert 0 <= found["train_error"] <= 1
    assert 0 <= found["test_error"] <= 1
    assert found["measures"]["region_count"]["value"] >= 1
    assert found["measures"]["linear_regions"] == {"value": None, "stderr": None}
    assert found["note"].startswith("linear_regions: Expected a piecewise-affine network")
    assert found["note"].count("is Tanh, which is not piecewise affine") == 1
    missing = [row for row in folder.rows() if row["name"] == "linear_regions"]
    assert [row["step"] for row in missing] == [0, 12]
    assert all(math.isnan(row["value"]) for row in missing)
    assert len(folder.checkpoints()) == 3
    assert folder.verify()


def test_the_note_outlives_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise Killed

    early = replace(SMOOTH, measures=(replace(SMOOTH.measures[0], when="start"), SMOOTH.measures[1]))
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "finish", killed)
        with pytest.raises(Killed):
            run(early, tmp_path)
    assert "is Tanh" in outcome(run(early, tmp_path))["note"]


def test_another_error_of_a_measure_fails_the_run_but_the_network_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> float:
        raise RuntimeError("a bug")

    one = replace(EXPERIMENT, measures=(MeasureSpec(instrument="error_rate", when="end"),))
    with monkeypatch.context() as patch:
        patch.setattr(instruments, "build", lambda *_, **__: broken)
        folder = run(one, tmp_path)
    assert outcome(folder)["error"] == "RuntimeError: a bug"
    assert [stored.step for stored in folder.checkpoints()] == [0, 6, 12]
    epochs: list[Any] = []
    found = run(one, tmp_path, on_progress=epochs.append)
    assert epochs == [], "nothing is trained again"
    assert outcome(found)["measures"]["error_rate"]["value"] == outcome(found)["test_error"]


def test_the_measures_take_the_loss_that_is_trained_on(tmp_path: Path) -> None:
    measures = (
        MeasureSpec(instrument="loss"),
        MeasureSpec(instrument="loss", name="squared", options={"loss": "mse"}),
        MeasureSpec(instrument="loss", name="entropy", options={"loss": "cross_entropy"}),
        MeasureSpec(instrument="sharpness"),
        MeasureSpec(instrument="sharpness", name="sharp.squared", options={"loss": "mse"}),
        MeasureSpec(instrument="sharpness", name="sharp.entropy", options={"loss": "cross_entropy"}),
    )
    for loss, same, other in (("mse", "squared", "entropy"), ("cross_entropy", "entropy", "squared")):
        training = replace(EXPERIMENT.training, loss=loss)
        found = outcome(run(replace(EXPERIMENT, training=training, measures=measures), tmp_path))["measures"]
        assert found["loss"] == found[same] != found[other]
        assert found["sharpness"] == found[f"sharp.{same}"] != found[f"sharp.{other}"]


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

    def counting(spec: DataSpec, **options: Any) -> Any:
        loaded.append(spec.seed)
        return load(spec, **options)

    monkeypatch.setattr(experiment_module, "load", counting)
    experiment_module._data_cache.clear()
    for seed in range(2):
        run(replace(EXPERIMENT, seed=seed), tmp_path)
    assert loaded == [0]
    for seed in (1, 2, 0):
        experiment_module._data(replace(EXPERIMENT.data, seed=seed), None, torch.device("cpu"))
    assert loaded == [0, 1, 2, 0]


def test_what_is_trained_is_what_the_config_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network's name changes no setting: a paper's special rule belongs to the experiments of its study."""
    trained = []
    monkeypatch.setattr(experiment_module, "train", lambda model, split, training, **rest: trained.append(training))
    monkeypatch.setattr(experiment_module, "_result", lambda found, rows: {"status": "finished", "measures": {}})
    one = replace(
        EXPERIMENT,
        network=NetworkSpec(name="vgg19"),
        data=DataSpec(name="digits"),
        training=Training(lr=0.1),
        measures=(),
    )
    folder = run(one, tmp_path)
    assert folder.status == "finished"
    assert trained == [one.training]


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
