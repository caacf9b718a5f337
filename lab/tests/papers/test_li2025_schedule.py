"""The schedules of Li et al.'s networks: the shortest one that fits is chosen from stored runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from regionscope_lab.config import Experiment
from regionscope_lab.papers.li2025 import schedule, settings
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store import RunFolder


def ended_with(place: Workspace, one: Experiment, error: float | None) -> None:
    run = RunFolder.create(place.runs_folder, one)
    with run.claim():
        status = "diverged" if error is None else "finished"
        run.finish({"status": status, "train_error": error, "test_error": 0.5, "gap": 0.5, "measures": {}})


def test_the_shortest_schedule_that_fits_both_corners_is_taken(tmp_path: Path) -> None:
    wanted = settings.grid("full", "efficientnetb0", "cifar10")
    place = Workspace(tmp_path)

    def planned() -> set[tuple[int, int, float, int]]:
        now = schedule.planned(place, wanted)
        return {(one.training.epochs, one.seed, one.training.lr, one.training.batch_size) for one in now}

    assert planned() == {(25, 0, 0.001, 1024), (25, 0, 0.1, 256)}
    slow, fast = schedule.corners(settings.grid("full", "efficientnetb0", "cifar10", seeds=(0,))[:9])
    ended_with(place, slow, 0.02)
    assert planned() == {(50, 0, 0.001, 1024), (50, 0, 0.1, 256)}  # the other corner of 25 epochs is not needed
    slow, fast = (replace(one, training=replace(one.training, epochs=50)) for one in (slow, fast))
    ended_with(place, slow, 0.009)
    assert len(planned()) == 2
    ended_with(place, fast, 0.0)
    assert {(epochs, seed) for epochs, seed, *_ in planned()} == {(50, 0), (50, 1), (50, 2)}
    assert len(planned()) == 27
    other = Workspace(tmp_path / "other")
    for epochs in (25, 50):
        ended_with(other, replace(slow, training=replace(slow.training, epochs=epochs)), None)  # diverges
    assert {one.training.epochs for one in schedule.planned(other, wanted)} == {100}
    resnet = settings.grid("full", "resnet18", "cifar10")
    assert schedule.planned(other, resnet) == resnet  # one schedule is no choice
