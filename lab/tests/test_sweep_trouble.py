"""Sweeps among others: runs that someone else has, workers that die, full disks, and options that are checked first."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regionscope.errors import DiskFull, InputError, RegionscopeError
from regionscope_lab.store import RunFolder
from regionscope_lab.sweep import JobResult, cluster, pool, run_sweep, work
from small_sweep import small


def test_workers_are_started_only_for_runs_that_nobody_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regionscope_lab.sweep.run._WAIT_SECONDS", 0.0)
    sweep = small(0, 1, 2)
    held = [RunFolder.create(tmp_path, experiment) for experiment in sweep.experiments[:2]]
    started: list[list[str]] = []
    looks = iter(range(20))

    def do(jobs: list[work.Job], *, report: Any, **_: object) -> None:
        started.append([job.key for job in jobs])
        for job in jobs:
            report(work.work(job))

    def stop() -> bool:
        return next(looks, None) is None

    monkeypatch.setattr("regionscope_lab.sweep.run.run_in_pool", do)
    with held[0].claim(), held[1].claim():
        report = run_sweep(sweep, tmp_path, workers=2, stop=stop)
        assert [outcome.status for outcome in report.outcomes] == ["busy", "busy", "finished"]
        assert started == [[sweep.keys[2]]]
        assert next(looks, None) is None  # it did wait
        held[0].finish({"status": "finished", "seconds": 1.0, "measures": {}})
    heard: list[JobResult] = []
    assert run_sweep(sweep, tmp_path, workers=2, on_outcome=heard.append).complete
    assert started == [[sweep.keys[2]], [sweep.keys[1]]]


def test_a_lock_is_tried_again_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner that a lock names may live on without it; only a worker that tries can tell."""
    monkeypatch.setattr("regionscope_lab.sweep.run._WAIT_SECONDS", 0.0)
    monkeypatch.setattr("regionscope_lab.sweep.run._RETRY_SECONDS", 0.01)
    monkeypatch.setattr("regionscope_lab.sweep.run.is_held", lambda path: True)

    def do(jobs: list[work.Job], *, report: Any, **_: object) -> None:
        for job in jobs:
            report(work.work(job))

    monkeypatch.setattr("regionscope_lab.sweep.run.run_in_pool", do)
    assert run_sweep(small(0), tmp_path, workers=2, limit_seconds=20).complete


def test_workers_get_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[work.Job] = []

    def do(jobs: list[work.Job], *, report: Any, **_: object) -> None:
        seen.extend(jobs)
        report(JobResult(jobs[0].key, "", "finished"))

    monkeypatch.setattr("regionscope_lab.sweep.run.run_on_dask", do)
    run_sweep(small(0), "runs", dask="local:1", data_root=Path("data"))
    assert (seen[0].runs_dir, seen[0].data_root) == (tmp_path / "runs", tmp_path / "data")


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"network.options.widht": [4]}, "of the network 'mlp', got 'widht'. Did you mean 'width'"),
        ({"network.options.classes": [4]}, "of the network 'mlp', got 'classes'"),
        (
            {"data.options.nose": [0.1]},
            r"Expected an option of random_labels, got 'nose'. Choose from classes, dim",
        ),
        ({"data.options.dim": ["two"]}, "option dim of random_labels to be of type int, got 'two'. Write it like 2"),
    ],
)
def test_options_are_checked_before_anything_runs(grid: dict[str, list[Any]], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        run_sweep(small(0, **grid), tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_full_disk_at_the_stop_of_a_cluster_has_its_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "touch", no_room)
    experiment = small(0).experiments[0]
    waiting = {object(): work.Job(experiment.key, experiment, tmp_path)}
    with pytest.raises(DiskFull, match="The disk is full"):
        cluster._collect(None, waiting, lambda outcome: None, lambda: True, tmp_path / ".stop")


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [(errno.ENOSPC, DiskFull, "The disk is full"), (errno.EROFS, InputError, "a folder that can be written to")],
)
def test_a_plan_that_cannot_be_written_has_its_sentence(
    number: int, kind: type[Exception], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(kind, match=words):
        run_sweep(small(0), tmp_path)


def job_of(tmp_path: Path) -> work.Job:
    experiment = small(0).experiments[0]
    return work.Job(experiment.key, experiment, tmp_path)


def test_a_run_whose_workers_die_twice_has_failed(tmp_path: Path) -> None:
    said: list[JobResult] = []
    job = job_of(tmp_path)
    crew = pool._WorkerPool([], 1, said.append, lambda key, share: None, lambda: False)

    def dead() -> pool._Worker:
        pipe = SimpleNamespace(close=lambda: None)
        worker = pool._Worker(SimpleNamespace(join=lambda seconds: None, exitcode=-9), pipe, job, ready=True)
        crew.workers.append(worker)
        return worker

    crew._handle_death(dead())
    assert (list(crew.queue), said) == ([job], [])
    crew._handle_death(dead())
    assert said[0].status == "failed"
    assert "signal 9" in said[0].message
    assert RunFolder.open(tmp_path / job.key).result()["error"] == said[0].message


def test_workers_that_end_before_they_begin(tmp_path: Path) -> None:
    """A killed one is replaced, a few times in a row; one that ended by itself would do so again."""
    job = job_of(tmp_path)

    def end_worker(crew: pool._WorkerPool, code: int) -> None:
        pipe = SimpleNamespace(close=lambda: None)
        worker = pool._Worker(SimpleNamespace(join=lambda seconds: None, exitcode=code), pipe, job)
        crew.workers.append(worker)
        crew.queue.clear()
        crew._handle_death(worker)

    crew = pool._WorkerPool([], 1, lambda outcome: None, lambda key, share: None, lambda: False)
    for _ in range(4):
        end_worker(crew, -9)
        assert list(crew.queue) == [job]
    with pytest.raises(RegionscopeError, match="5 worker processes in a row were killed while they started"):
        end_worker(crew, -9)
    with pytest.raises(RegionscopeError, match="__main__"):
        end_worker(pool._WorkerPool([], 1, lambda outcome: None, lambda key, share: None, lambda: False), 1)


@pytest.mark.kill
def test_a_worker_that_is_killed_while_it_imports_is_replaced(tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_the_first() -> bool:
        """Asked before the first worker has begun: importing takes longer than a look."""
        for child in multiprocessing.active_children():
            if not killed and child.pid is not None:
                killed.append(child.pid)
                os.kill(child.pid, signal.SIGKILL)
        return False

    report = run_sweep(small(0), tmp_path, workers=2, stop=kill_the_first)
    assert killed
    assert [outcome.status for outcome in report.outcomes] == ["finished"]


@pytest.mark.parametrize(
    ("status", "error", "wanted", "words"),
    [
        ("error", type("KilledWorker", (Exception,), {})(), "failed", "workers died"),
        ("error", ValueError("no such file\nand more"), "failed", "ValueError: no such file"),
        ("cancelled", None, "stopped", "dropped"),
    ],
)
def test_what_a_cluster_says_of_a_lost_run(
    status: str, error: Exception | None, wanted: str, words: str, tmp_path: Path
) -> None:
    job = job_of(tmp_path)
    found = cluster._outcome(SimpleNamespace(status=status, exception=lambda: error), job)
    assert (found.key, found.status) == (job.key, wanted)
    assert words in found.message
    assert (tmp_path / job.key / "result.json").exists() is (wanted == "failed")


def test_a_worker_of_another_version_says_so(tmp_path: Path) -> None:
    found = work.work(work.Job("0123456789abcdef", small(0).experiments[0], tmp_path))
    assert (found.key, found.status) == ("0123456789abcdef", "failed")
    assert "another version" in found.message
    assert not list(tmp_path.iterdir())
