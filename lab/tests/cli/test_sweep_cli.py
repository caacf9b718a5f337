"""``regionscope-lab sweep`` and ``train``: what they print and write, and one sentence for every mistake."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lab_command import run
from regionscope_lab import experiment
from regionscope_lab.cli import running
from regionscope_lab.store import RunFolder
from regionscope_lab.sweep import JobResult, read_runs

GRID = """
[base.data]
name = "random_labels"
n_train = 24
n_test = 12
[base.network]
name = "mlp"
options = { width = 6 }
[base.training]
epochs = 2
batch_size = 12
[grid]
training.lr = [0.1, 0.01]
seed = [0, 1]
[[measure]]
instrument = "region_count"
name = "regions"
options = { slices = 2, grid = 5 }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "grid.toml").write_text(GRID)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


def test_a_sweep_from_run_to_export(folder: Path) -> None:
    done = run("sweep run grid.toml --runs runs --progress")
    assert done.exit_code == 0, done.output
    assert "4 runs: 4 finished, in" in done.stdout
    assert "4/4 finished: mlp on random_labels, lr 0.01, seed 1 (" in done.stderr
    again = run("sweep run grid.toml --runs runs")
    assert "4 finished (4 had ended before)" in again.stdout

    status = run("sweep status --runs runs")
    assert "finished" in status.stdout
    table = run("sweep table --runs runs")
    for words in ("4 runs; all have data.name random_labels", "training.epochs 2", "lr", "seed", "gap", "regions", "±"):
        assert words in table.stdout
    assert "momentum" not in table.stdout
    assert "left out" not in table.stdout
    assert "momentum" in run("sweep table --runs runs --all").stdout
    asked = run(
        "sweep table --runs runs --sql", 'SELECT "training.lr" AS rate, count(*) AS n FROM runs GROUP BY ALL ORDER BY 1'
    )
    assert asked.exit_code == 0, asked.output
    assert "rate" in asked.stdout
    assert "0.01" in asked.stdout

    assert "wrote out.csv (4 lines)" in run("sweep export out.csv --runs runs").stdout
    with (folder / "out.csv").open(newline="") as file:
        assert [line["training.lr"] for line in csv.DictReader(file)] == ["0.1", "0.1", "0.01", "0.01"]
    assert run("sweep export rows.parquet --runs runs --rows").exit_code == 0
    assert (folder / "rows.parquet").read_bytes().startswith(b"PAR1")


def test_what_failed_and_what_was_repaired_is_said(folder: Path) -> None:
    (folder / "grid.toml").write_text(GRID.replace("seed = [0, 1]", "network.options.width = [6, -2]"))
    done = run("sweep run grid.toml --runs runs")
    assert done.exit_code == 1
    assert "4 runs: 2 finished, 2 failed" in done.stdout
    assert "failed: mlp on random_labels" in done.stderr
    assert "to retry the failed runs" in done.stderr
    (next(iter(folder.glob("runs/*/result.json")))).write_text("{")
    damaged = run("sweep table --runs runs")
    assert "damaged" in damaged.stdout
    again = run("sweep run grid.toml --runs runs")
    assert "repaired: " in again.stderr
    assert "set aside" in again.stderr


def test_a_stop_says_how_to_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the first run trains: its state is saved, and the same command goes on."""
    monkeypatch.setitem(experiment.run.__kwdefaults__, "save_every", 0.0)
    save = RunFolder.save_state
    steps: list[int] = []

    def interrupted(self: RunFolder, state: Any) -> None:
        steps.append(state.step)
        save(self, state)
        if len(steps) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(RunFolder, "save_state", interrupted)
    before = signal.getsignal(signal.SIGINT)
    done = run("sweep run grid.toml --runs runs")
    assert done.exit_code == 3
    assert "Stopping: running runs save their state" in done.stderr
    assert "The sweep was stopped. Run the same command again to resume." in done.stderr
    assert "4 to do" in done.stdout
    assert signal.getsignal(signal.SIGINT) is before
    assert len(steps) == 3
    assert run("sweep run grid.toml --runs runs").exit_code == 0
    assert read_runs("runs").column("status") == ["finished"] * 4


def test_train_is_one_experiment(folder: Path) -> None:
    words = (
        "train --data random_labels --network mlp --epochs 2 --lr 0.05 --set training.batch_size=8 --seed 3 --runs runs"
    )
    more = "--set data.n_train=16 --set network.options.width=5 --set training.optimizer=adam --measure region_count"
    options = "--set measure.region_count.options.slices=2"
    done, ended = run(f"{words} {more} {options}"), run(f"{words} {more} {options} --json")
    assert done.exit_code == 0, done.output
    found = json.loads(ended.stdout)
    assert found["experiment"]["training"]["optimizer"] == "adam"
    assert found["experiment"]["measures"][0]["options"] == {"slices": 2}
    assert found["result"]["status"] == "finished"
    assert found["provenance"]["seed"] == 3
    stored = RunFolder.open(folder / "runs" / found["key"])
    assert (stored.experiment.network.options, stored.experiment.data.n_train) == ({"width": 5}, 16)
    assert "region_count" in done.stdout
    assert "had ended" not in done.stdout
    assert "; the run had ended before, and nothing was trained\n" in run(f"{words} {more} {options}").stdout
    assert f"stored in {Path('runs') / found['key']}" in done.stdout
    (folder / "one.toml").write_text('data = { name = "random_labels", n_train = 16 }\nnetwork = { name = "mlp" }\n')
    done = run("train one.toml --epochs 1 --runs runs --json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["experiment"]["training"]["epochs"] == 1


def test_train_says_what_it_measures_where_there_is_no_terminal() -> None:
    words = "train --data random_labels --network mlp --epochs 2 --set data.n_train=16 --runs runs --measure loss"
    assert "Measuring" not in run(f"{words} --seed 1").stderr
    done = run(f"{words} --measure error_rate --progress")
    assert done.exit_code == 0, done.output
    assert done.stderr.splitlines()[:2] == ["Measuring loss", "Measuring error_rate"]
    assert re.match(r"Training: done in \d+ s", done.stderr.splitlines()[2])


def test_the_bar_of_a_training_names_the_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(running, "Console", lambda **_: screen)
    with running.epochs_bar(4, None) as bar:
        assert bar.bar is not None
        seen = []
        for name in (None, "linear_regions", None):
            bar(1, 0.5)
            bar.measuring(name)
            seen.append(bar.bar.tasks[0].description)
    assert seen == ["Training", "Measuring linear_regions", "Training"]


def test_progress_counts_only_what_is_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with running.shown_progress(3, True) as shown:
        shown.outcome(JobResult("a", "first", "finished", skipped=True))
        shown.share("b", 0.5)
        shown.outcome(JobResult("b", "second", "finished"))
    assert (shown.ended, shown.total, shown.shares) == (1, 2, {})
    assert capsys.readouterr().err.startswith("1/2 finished: second (")


def test_progress_counts_finished_shares_only_after_a_stop(capsys: pytest.CaptureFixture[str]) -> None:
    with running.shown_progress(12, True, workers=True) as shown:
        shown.share("a", 0.25)
        shown.outcome(JobResult("a", "first", "stopped", "It can be resumed."))
        for key in "bcdefghijk":
            shown.outcome(JobResult(key, key, "stopped", "It was not begun."))
        shown.outcome(JobResult("l", "last", "failed"))
    assert (shown.ended, shown.total, shown.shares) == (1, 12, {"a": 0.25})
    begin, started, stopped, failed = capsys.readouterr().err.splitlines()
    assert (begin, started) == ("starting workers", "workers started in 0 s")
    assert stopped == "0/12 stopped at 25%: first"
    assert failed.startswith("1/12 failed: last (")


def test_a_long_name_leaves_room_for_the_bar_and_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(running, "Console", lambda **_: screen)
    with running.shown_progress(12, None, workers=True) as shown:
        assert shown.bar is not None

        def line() -> str:
            page = Console(file=io.StringIO(), width=80, color_system=None)  # the other one is drawn to by a thread
            with page.capture() as drawn:
                page.print(shown.bar.get_renderable())
            return drawn.get().rstrip("\n")

        assert line().rstrip().endswith("starting workers")
        shown.share("a", 0.5)
        assert "starting workers" not in line()
        shown.outcome(JobResult("a", "resnet on fashion_mnist, " * 6, "finished"))
        now = line()
    assert len(now) <= 80
    assert re.match(r"Runs .{20} 1\.0/12 0:00:0\d left: \S+ resnet on fash.*…$", now)
