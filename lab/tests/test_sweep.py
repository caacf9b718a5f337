"""Sweeps: grids and their mistakes, labels, running and skipping."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from devices import needs_cuda
from regionscope.errors import DiskFull, InputError
from regionscope_lab.config import Experiment
from regionscope_lab.store import RunFolder
from regionscope_lab.sweep import JobResult, Sweep, read_runs, run_sweep, work
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
        ({"base": BASE, "grid": {"training.rate": [0.1]}}, "a setting of training, got 'rate'"),
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


def test_a_mistake_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    with pytest.raises(InputError, match=r"Expected a TOML file at .*grid.toml"):
        Sweep.from_toml(path)
    path.write_text("[base\n")
    with pytest.raises(InputError, match=r"TOML in .*grid.toml"):
        Sweep.from_toml(path)
    path.write_text("[grid]\nseed = 3\n")
    with pytest.raises(InputError, match=r"grid.toml: grid: Expected a list of values for 'seed'"):
        Sweep.from_toml(path)


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


def test_a_full_disk_stops_the_sweep_with_its_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise DiskFull("There is no room.")

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", full)
        report = run_sweep(small(0, 1), tmp_path)
    assert [outcome.status for outcome in report.outcomes] == ["full", "stopped"]
    assert report.reason == "There is no room."
    assert not list(tmp_path.rglob("result.json"))


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


def test_a_damaged_result_is_done_again_and_said(tmp_path: Path) -> None:
    sweep = small(0, 1)
    run_sweep(sweep, tmp_path)
    path = tmp_path / sweep.experiments[1].key / "result.json"
    path.write_text(path.read_text()[:-20])
    assert read_runs(tmp_path).column("status") == ["finished", "damaged"]
    report = run_sweep(sweep, tmp_path)
    assert [outcome.skipped for outcome in report.outcomes] == [True, False]
    assert any("set aside" in sentence for sentence in report.repaired)
    assert read_runs(tmp_path).column("status") == ["finished", "finished"]


def test_without_dask_the_sentence_says_what_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"regionscope\[dask\].*or leave dask= out and use workers=\."):
        run_sweep(small(0), tmp_path, dask="local:2")


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"network.options.width": [6, 8]}, ["mlp on random_labels, width 6", "mlp on random_labels, width 8"]),
        ({"network": [{"name": "mlp"}, {"name": "cnn"}]}, ["mlp on random_labels", "cnn on random_labels"]),
        ({"seed": [0, 1], "data.seed": [2]}, ["mlp on random_labels, seed 0", "mlp on random_labels, seed 1"]),
    ],
)
def test_a_label_shows_what_differs(grid: dict[str, Any], words: list[str]) -> None:
    assert list(Sweep.from_dict({"base": BASE, "grid": grid}).labels) == words


def test_runs_that_differ_in_a_measure_alone_are_told_apart_by_their_key() -> None:
    grid = {"measure.norm.when": ["end", "every epoch"]}
    sweep = Sweep.from_dict({"base": BASE, "grid": grid, "measure": MEASURES})
    assert [label.split("key ")[1] for label in sweep.labels] == [key[:8] for key in sweep.keys]


def test_threads_are_as_before_afterwards(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    experiment = small(0).experiments[0]
    job = work.Job(experiment.key, experiment, tmp_path, threads=before + 1)
    assert work.work(job).status == "finished"
    assert torch.get_num_threads() == before
    assert RunFolder.open(tmp_path / job.key).provenance["threads"] == before + 1


@needs_cuda
def test_a_run_returns_its_memory_to_the_gpu(tmp_path: Path) -> None:
    """Workers that share a GPU would otherwise hold what the largest of their runs took."""
    network = {"name": "mlp", "options": {"width": 2048}}
    (experiment,) = Sweep.from_dict({"base": {**BASE, "network": network}, "grid": {"seed": [0]}})
    torch.cuda.reset_peak_memory_stats()
    assert work.work(work.Job(experiment.key, experiment, tmp_path, device="cuda")).status == "finished"
    assert torch.cuda.memory_reserved() < torch.cuda.max_memory_reserved() - 2048 * 2048 * 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "at least 1"),
        ({"limit_seconds": 0}, "limit_seconds to be positive, got 0"),
        ({"dask": "here"}, "such as tcp://host:8786 or local:4"),
    ],
)
def test_mistakes_have_sentences(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        run_sweep(small(0), tmp_path, **options)
