"""Training frames: the right checkpoints, slices, points and curves."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from regionscope.default_slice import default_slice, plane_of
from regionscope.errors import InputError
from regionscope.exact import decision_regions, linear_regions
from regionscope.geometry import Box
from regionscope.geometry.slices import on_slice
from regionscope.monitor.frames import (
    ModelAtStep,
    curves_of_rows,
    frames_of_models,
    frames_of_partitions,
)
from regionscope_lab import instruments
from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.experiment import run
from regionscope_lab.instruments.measurement_context import MeasurementContext
from regionscope_lab.run_frames import frames_of_run
from regionscope_lab.store import RunFolder
from regionscope_lab.zoo import mlp
from small_files import idx_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    experiment = Experiment(
        data=DataSpec(name="two_moons", n_train=40, n_test=20),
        network=NetworkSpec(name="mlp", options={"width": 6}),
        training=Training(epochs=4, optimizer="adam", lr=0.01, batch_size=20, checkpoints="every 1 epochs"),
        measures=(MeasureSpec(instrument="local_complexity", when="every 2 epochs", options={"dims": 2}),),
    )
    return run(experiment, tmp_path_factory.mktemp("runs"))


def test_the_frames_of_a_run_hold_the_regions_of_its_checkpoints(folder: RunFolder) -> None:
    training, fewer = frames_of_run(folder), frames_of_run(folder, frames=2)
    stored = folder.checkpoints()
    assert [(frame.step, frame.epoch) for frame in training.frames] == [(one.step, one.epoch) for one in stored]
    assert [frame.step for frame in fewer.frames] == [stored[0].step, stored[-1].step]
    assert fewer.notes == (f"2 of {len(stored)} checkpoints are shown.",)
    model, last = folder.model_at(stored[-1]), training.frames[-1]
    assert last.linear.n_linear_regions == linear_regions(model, training.slice).n_linear_regions
    assert last.decision is not None
    assert last.decision.count == decision_regions(model, training.slice).count
    assert training.title == folder.experiment.label
    assert training.steps_per_epoch == 2


@pytest.mark.parametrize("data", ["two_moons", "digits"])
def test_the_table_of_a_run_counts_on_the_slice_of_its_page(data: str, tmp_path: Path) -> None:
    """A square around flat data, a plane through three images: one default for instruments and for frames."""
    names = ("linear_regions", "decision_regions")
    experiment = Experiment(
        data=DataSpec(name=data, n_train=60, n_test=20),
        network=NetworkSpec(name="mlp", options={"width": 8}),
        training=Training(epochs=2, optimizer="adam", lr=0.01, batch_size=20, checkpoints="end"),
        measures=tuple(MeasureSpec(instrument=name) for name in names),
    )
    folder = run(experiment, tmp_path)
    result, shown = folder.result(), frames_of_run(folder)
    assert result is not None
    frame = shown.frames[-1]
    assert frame.decision is not None
    counted = [result["measures"][name]["value"] for name in names]
    assert counted == [frame.linear.n_linear_regions, frame.decision.count]
    assert counted[0] > 2
    split = folder.split()
    options = instruments.names()["linear_regions"]
    where = MeasurementContext(split, 0).slice(options)
    assert torch.equal(where.corners, shown.slice.corners)
    assert torch.equal(where.embed(where.corners), shown.slice.embed(shown.slice.corners))


def test_its_curves_are_the_rows_and_the_counts(folder: RunFolder) -> None:
    training = frames_of_run(folder)
    curves = {curve.name: curve for curve in training.curves}
    rows = [row for row in folder.rows() if row["name"] == "test_error"]
    assert curves["test accuracy"].values.tolist() == pytest.approx([1 - row["value"] for row in rows])
    assert curves["test accuracy"].steps.tolist() == [row["step"] for row in rows]
    assert curves["train loss"].panel == "loss"
    assert curves["local complexity"].panel == "local complexity"
    assert bool(torch.isfinite(curves["local complexity"].stderr).all())
    counts = [float(frame.linear.n_linear_regions) for frame in training.frames]
    assert curves["linear regions"].values.tolist() == counts


@pytest.mark.parametrize(
    ("name", "shown", "panel"),
    [
        ("linear_regions.activation", "activation regions", "region counts"),
        ("linear_regions.undecided", "linear regions, undecided", "region counts"),
        ("local_complexity.layers.0", "local complexity, layers.0", "local complexity"),
        ("complexity@0.1", "complexity@0.1", "local complexity"),
        ("sharpness", "sharpness", "sharpness"),
    ],
)
def test_the_names_of_curves_are_words(name: str, shown: str, panel: str) -> None:
    rows = [{"step": 2, "name": name, "value": 3.0, "stderr": None}, {"step": 1, "name": name, "value": 4.0}]
    (curve,) = curves_of_rows(rows)
    assert (curve.name, curve.panel) == (shown, panel)
    assert (curve.steps.tolist(), curve.values.tolist()) == ([1, 2], [4, 3])
    assert math.isnan(curve.stderr[0])


def test_its_points_are_the_training_data_in_the_square(folder: RunFolder) -> None:
    training, train = frames_of_run(folder), folder.split().train
    assert training.slice.corners.abs().max() == 1
    inside = train.inputs.abs().amax(1) <= 1
    torch.testing.assert_close(training.points, train.inputs[inside].double())
    assert torch.equal(training.labels, train.labels[inside])


def test_numbers_of_regions_are_carried_from_frame_to_frame() -> None:
    moments = [
        ModelAtStep(0, mlp([2, 8, 2], seed=0)),
        ModelAtStep(1, mlp([2, 8, 2], seed=0)),
        ModelAtStep(2, mlp([2, 8, 2], seed=5)),
    ]
    training = frames_of_models(moments, Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0))
    first, second, third = (frame.ids for frame in training.frames)
    assert torch.equal(first, second)
    new = set(third.tolist()) - set(second.tolist())
    assert all(number > int(first.max()) for number in new)
    assert training.steps_per_epoch is None
    assert len(training.points) == 0


def test_default_slices() -> None:
    labels = torch.tensor([0, 0, 1, 2])
    wide = torch.tensor([[0.0, 0.0], [4.0, 1.0], [2.0, 0.5], [1.0, 1.0]])
    box = default_slice(wide, labels)
    assert box.embed(box.corners).amin(0).tolist() == pytest.approx([-0.2, -0.05])
    images = torch.rand(4, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    plane = default_slice(images, labels)
    _, on = on_slice(plane, images)
    assert on.tolist() == [True, False, True, True]  # the first points of the three classes
    assert default_slice(torch.tensor([[0.5], [-1.0]]), labels[:2]).dim == 1
    assert plane_of(images, [1, 2]).dim == 1


@pytest.mark.parametrize("classes", [10, 12])
def test_the_classes_of_a_known_data_set_have_names(tmp_path: Path, classes: int) -> None:
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for name, content in idx_files().items():
        (raw / name).write_bytes(content)
    net = tmp_path / "net.py"
    net.write_text(f"from regionscope_lab.zoo import mlp\ndef build():\n    return mlp([784, 4, {classes}], seed=0)\n")
    experiment = Experiment(
        data=DataSpec(name="fashion_mnist", options={"flatten": True}),
        network=NetworkSpec(name=f"{net}:build"),
        training=Training(epochs=1, checkpoints="every 1 epochs"),
    )
    folder = run(experiment, tmp_path / "runs", data_root=tmp_path)
    names = frames_of_run(folder, frames=1, data_root=tmp_path).class_names
    assert names[:2] == (("T-shirt/top", "Trouser") if classes == 10 else ("0", "1"))
    own = [f"name {i}" for i in range(classes)]
    assert frames_of_run(folder, frames=1, data_root=tmp_path, class_names=own).class_names == tuple(own)


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    square = Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 1.0)
    moments = [ModelAtStep(0, mlp([2, 4, 3], seed=0))]
    solid = linear_regions(mlp([3, 3, 2]), Box([0.0] * 3, torch.eye(3), 1.0))
    unstarted = Experiment(data=DataSpec(name="two_moons"), network=NetworkSpec(name="mlp"))
    for call, words in (
        (lambda: frames_of_models([], square), "at least one model"),
        (lambda: frames_of_models(moments, square, class_names=("a", "b")), "Expected 3 class names, got 2"),
        (lambda: plane_of(torch.zeros(5, 4), [0, 1, 5]), "three training points"),
        (lambda: default_slice(torch.rand(2, 4), torch.tensor([0, 1])), "for the default plane, got 2"),
        (lambda: frames_of_partitions([(0, solid)]), "dimension 1 or 2"),
        (lambda: on_slice(square, torch.zeros(2, 3)), "shape"),
        (lambda: frames_of_run(RunFolder.create(tmp_path, unstarted)), "checkpoints = "),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_progress_moves_within_a_partition(tmp_path: Path) -> None:
    experiment = Experiment(
        data=DataSpec(name="two_moons", n_train=40, n_test=20),
        network=NetworkSpec(name="mlp", options={"width": 6}),
        training=Training(epochs=1, batch_size=20, checkpoints="every 1 epochs"),
    )
    shares: list[float] = []
    frames_of_run(run(experiment, tmp_path), frames=1, progress=shares.append)
    assert len({share for share in shares if 0 < share < 1}) >= 4
    assert shares == sorted(shares)
    assert shares[-1] == 1
