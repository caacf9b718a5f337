"""Sweeps: grids, labels, running and skipping, runs that someone else has, workers that die, full disks."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regionscope.errors import DiskFull, InputError, RegionscopeError
from regionscope_lab.config import Experiment
from regionscope_lab.store import RunFolder
from regionscope_lab.sweep import JobResult, Sweep, cluster, pool, read_runs, run_sweep, work
from small_sweep import BASE, MEASURES, small

TOML = """
[base.data]
name = "random_labels"
n_train = 24
[base.network]
name = "mlp"
options = { width = 6 }
[grid]
training.lr = [0.1, 0.01]
"network.options.width" = [6, 8]
seed = [0, 1]
[[measure]]
instrument = "region_count"
when = "every 1 epochs"
options = { slices = 2 }
"""


def test_a_toml_file_is_the_product_of_its_lists(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(TOML)
    sweep = Sweep.from_toml(tmp_path / "grid.toml")
    assert (len(sweep), sweep.name) == (8, "grid")
    values = [(run.training.lr, run.network.options["width"], run.seed) for run in sweep]
    assert values[:3] == [(0.1, 6, 0), (0.1, 6, 1), (0.1, 8, 0)]
    assert len(set(values)) == 8
    assert all(run.measures[0].options == {"slices": 2} for run in sweep)
    assert len({run.key for run in sweep}) == 8


def test_python_and_several_grids() -> None:
    base = Experiment.from_dict(BASE)
    assert [run.training.lr for run in Sweep.of(base, training__lr=[0.1, 0.2])] == [0.1, 0.2]
    grids = [{"seed": [0, 1]}, {"training": {"lr": [0.1, 0.5]}}]
    found = Sweep.from_dict({"base": BASE, "grids": grids})
    assert [(run.training.lr, run.seed) for run in found] == [(0.1, 0), (0.1, 1), (0.5, 0)]  # (0.1, 0) came twice
    networks = [{"name": "mlp"}, {"name": "cnn", "options": {"depth": 2}}]
    found = Sweep.from_dict({"base": BASE, "grid": {"network": networks}})
    assert [run.network.name for run in found] == ["mlp", "cnn"]
    found = Sweep.from_dict({"base": BASE, "measure": MEASURES, "grid": {"measure.norm.when": ["start", "end"]}})
    assert [run.measures[0].when for run in found] == ["start", "end"]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"gird": {}}, "a setting of the sweep, got 'gird'"),
        ({"network": "net.py:build", "base": BASE}, r"'network' in the base of a sweep.* under \[base\]"),
        ({"base": {"optimizer": "sgd"}}, "Expected a setting of base, got 'optimizer'"),
        ({"base": BASE, "grid": {"training.lr": 0.1}}, r"for 'training.lr', got 0.1. Write \[0.1\]"),
        ({"base": BASE, "grid": {"training.lr": []}}, "grid: Expected at least one .*got an empty list"),
        ({"base": BASE, "grid": {"lr": [0.1]}}, "Expected a key that begins with data.*, got 'lr'"),
        ({"base": BASE, "grid": {"training.lr": ["big"]}}, "training.lr to be a number"),
        ({"base": BASE, "grid": {"data.name.x": [1]}}, "Expected a table at data.name, got the value 'random_labels'"),
        (
            {"base": BASE, "grid": {"measures.1.when": ["end"]}},
            r"'measures\.1\.when' to name an entry of measures, got '1'",
        ),
        ({"base": BASE, "measure": MEASURES, "grid": {"measures.7.when": ["end"]}}, "an entry of .*, got '7'"),
        ({"base": BASE, "grid": {}, "grids": []}, "both"),
        ({"base": BASE, "grids": {}}, "to be a list of tables"),
        ({"base": BASE, "grids": []}, "at least one value for each key"),
        ({"base": 3}, "base to be a table"),
        ({"grid": {"seed": [1]}}, "no 'data'"),
        ({"base": {**BASE, "measures": MEASURES}, "measure": MEASURES}, "Expected 'measure' or 'measures', got both"),
    ],
)
def test_a_mistake_in_a_sweep_names_its_key(document: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Sweep.from_dict(document)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, r"Expected a TOML file at .*grid.toml"),
        ("[base\n", r"TOML in .*grid.toml"),
        ("[grid]\nseed = 3\n", r"grid.toml: grid: Expected a list of values for 'seed'"),
    ],
)
def test_a_mistake_in_a_file_names_the_file(content: str | None, words: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "grid.toml").write_text(content)
    with pytest.raises(InputError, match=words):
        Sweep.from_toml(tmp_path / "grid.toml")


def test_what_has_ended_is_skipped_and_a_changed_setting_is_a_new_run(tmp_path: Path) -> None:
    heard: list[str] = []
    shares: list[float] = []
    first = run_sweep(
        small(0, 1), tmp_path, on_outcome=lambda it: heard.append(it.status), on_share=lambda key, s: shares.append(s)
    )
    assert first.complete
    assert heard == ["finished", "finished"]
    assert max(shares) == 1.0
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    second = run_sweep(small(0, 1, 2), tmp_path)
    assert [outcome.skipped for outcome in second.outcomes] == [True, True, False]
    assert {path: path.stat().st_mtime_ns for path in times} == times
    longer = small(0, **{"training.epochs": [3]})
    assert not run_sweep(longer, tmp_path).outcomes[0].skipped
    assert len(read_runs(tmp_path)) == 4


def test_a_failing_run_does_not_stop_the_sweep(tmp_path: Path) -> None:
    wrong = small(0, **{"network.options.width": [6, -1, 7]})
    report = run_sweep(wrong, tmp_path)
    assert [outcome.status for outcome in report.outcomes] == ["finished", "failed", "finished"]
    assert report.complete
    assert "-1" in report.outcomes[1].message
    table = read_runs(tmp_path)
    assert table.column("status") == ["finished", "failed", "finished"]
    assert "-1" in table.column("error")[1]


def test_a_time_limit_saves_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)

    def tick(outcome: JobResult) -> None:
        nonlocal now
        now += 10

    report = run_sweep(small(0, 1, 2), tmp_path, limit_seconds=15, on_outcome=tick)
    assert [outcome.status for outcome in report.outcomes] == ["finished", "finished", "stopped"]
    assert not report.complete
    assert "time limit" in report.reason
    assert run_sweep(small(0, 1, 2), tmp_path).complete


def test_two_sweeps_on_one_folder_share_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process holds a run, the sweep does the others first and then waits for it."""
    monkeypatch.setattr("regionscope_lab.sweep.run._WAIT_SECONDS", 0.01)
    sweep = small(0, 1)
    theirs = RunFolder.create(tmp_path, sweep.experiments[0])
    done: list[str] = []
    other_is_done, finished = threading.Event(), threading.Event()

    def hold() -> None:
        with theirs.claim():
            other_is_done.set()
            finished.wait(30)
            theirs.finish({"status": "finished", "seconds": 1.0, "measures": {}, "train_loss": 0.25})

    def listen(outcome: JobResult) -> None:
        done.append(outcome.key)
        finished.set()

    holder = threading.Thread(target=hold)
    holder.start()
    other_is_done.wait(30)
    report = run_sweep(sweep, tmp_path, on_outcome=listen)
    holder.join()
    assert report.complete
    assert done == [sweep.experiments[1].key, sweep.experiments[0].key]
    assert read_runs(tmp_path).column("train_loss")[0] == 0.25


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "at least 1"),
        ({"limit_seconds": 0}, "limit_seconds to be positive, got 0"),
        ({"dask": "here"}, "such as tcp://host:8786 or local:4"),
    ],
)
def test_wrong_options_get_a_sentence(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        run_sweep(small(0), tmp_path, **options)


def test_without_dask_the_sentence_says_what_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"regionscope\[dask\].*or leave dask= out and use workers=\."):
        run_sweep(small(0), tmp_path, dask="local:2")


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"network": [{"name": "mlp"}, {"name": "cnn"}]}, ["mlp on random_labels", "cnn on random_labels"]),
        ({"seed": [0, 1], "data.seed": [2]}, ["mlp on random_labels, seed 0", "mlp on random_labels, seed 1"]),
        ({"measure.norm.when": ["end", "start"]}, ["mlp on random_labels, key ", "mlp on random_labels, key "]),
    ],
)
def test_a_label_shows_what_differs(grid: dict[str, Any], words: list[str]) -> None:
    sweep = Sweep.from_dict({"base": BASE, "measure": MEASURES, "grid": grid})
    keys = [key[:8] if "key" in word else "" for key, word in zip(sweep.keys, words, strict=True)]
    assert list(sweep.labels) == [word + key for word, key in zip(words, keys, strict=True)]


def test_workers_are_started_only_for_runs_that_nobody_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regionscope_lab.sweep.run._WAIT_SECONDS", 0.0)
    sweep = small(0, 1, 2)
    held = [RunFolder.create(tmp_path, experiment) for experiment in sweep.experiments[:2]]
    started: list[str] = []
    looks = iter(range(20))

    def in_this_process(jobs: list[work.Job], *, report: Any, **_: object) -> None:
        for job in jobs:
            started.append(job.key)
            report(work.work(job))

    monkeypatch.setattr("regionscope_lab.sweep.run.run_in_pool", in_this_process)
    with held[0].claim(), held[1].claim():
        report = run_sweep(sweep, tmp_path, workers=2, stop=lambda: next(looks, None) is None)
        assert [outcome.status for outcome in report.outcomes] == ["busy", "busy", "finished"]
        assert next(looks, None) is None  # it did wait
        held[0].finish({"status": "finished", "seconds": 1.0, "measures": {}})
    assert run_sweep(sweep, tmp_path, workers=2).complete
    assert started == [sweep.keys[2], sweep.keys[1]]


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


def raising(error: Exception) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise error

    return refuse


def test_a_full_disk_at_the_stop_of_a_cluster_has_its_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "touch", raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    experiment = small(0).experiments[0]
    waiting = {object(): work.Job(experiment.key, experiment, tmp_path)}
    with pytest.raises(DiskFull, match="The disk is full"):
        cluster._collect(None, waiting, lambda outcome: None, lambda: True, tmp_path / ".stop")


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


def test_a_worker_of_another_version_says_so(tmp_path: Path) -> None:
    found = work.work(work.Job("0123456789abcdef", small(0).experiments[0], tmp_path))
    assert (found.key, found.status) == ("0123456789abcdef", "failed")
    assert "another version" in found.message
    assert not list(tmp_path.iterdir())


def test_a_full_disk_stops_the_sweep_and_a_folder_without_writing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", raising(DiskFull("There is no room.")))
        report = run_sweep(small(0, 1), tmp_path)
    assert [outcome.status for outcome in report.outcomes] == ["full", "stopped"]
    assert report.reason == "There is no room."
    monkeypatch.setattr(os, "replace", raising(OSError(errno.EROFS, os.strerror(errno.EROFS))))
    with pytest.raises(InputError, match="a folder that can be written to"):
        run_sweep(small(0), tmp_path)


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
