"""A file that cannot be written is one sentence: before the work where that can be known, after it where not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from regionscope.cli import app
from regionscope_lab.cli import app as lab
from regionscope_lab.config import DataSpec, Experiment, NetworkSpec, Training
from regionscope_lab.experiment import run

STUDY = "safran2022-example1"  # trains nothing


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    experiment = Experiment(
        data=DataSpec(name="two_moons", n_train=20, n_test=10),
        network=NetworkSpec(name="mlp", options={"width": 4}),
        training=Training(epochs=1, batch_size=20, checkpoints="every 1 epochs"),
    )
    return run(experiment, tmp_path_factory.mktemp("runs")).path.parent


@pytest.fixture(autouse=True)
def trained(folder: Path, runs: Path) -> None:
    (folder / "runs").symlink_to(runs)


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def refused(command: str) -> Result:
    """One sentence and exit code 2."""
    program, *words = command.split()
    done = CliRunner().invoke(lab, words) if program == "lab" else CliRunner().invoke(app, [program, *words])
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("regionscope-lab: " if program == "lab" else "regionscope: ")
    assert done.stderr.count("\n") == 1
    return done


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nobody can make a file")
@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("regions --model net.py:smooth --box -1 1 -o /proc/x.json", "/proc/x.json"),
        ("quickstart --epochs 1 -o /proc/q", "/proc/q"),
        ("lab shallow --width 4 --samples 4 --until 1 -o /proc/q", "/proc/q"),
        ("lab animate . -o /proc/x.gif", "/proc/x.gif"),
        ("lab paper run qi2023-figure2 --size smoke --folder /proc/q", "/proc/q/reports"),
    ],
)
def test_a_folder_that_takes_no_files_is_named_before_the_work(command: str, path: str) -> None:
    """The work would fail with another sentence, or print a table."""
    done = refused(command)
    assert f"Expected a place that can be written to, got {path!r} (" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("regions --model net.py:build --box -1 1 -o x.json", "x.json"),
        ("quickstart --epochs 1 -o .", "."),
        ("lab shallow --teacher-width 1 --width 2 --samples 2 --until 1 -o .", "flow.gif"),
        ("lab animate runs -o x.gif", "x.gif"),
        ("lab sweep export x.csv --runs runs", "x.csv"),
    ],
)
def test_what_fails_after_the_work_is_one_sentence_and_leaves_nothing(
    command: str, path: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(folder.glob("[!_]*"))  # Python may add __pycache__
    monkeypatch.setattr(os, "replace", full)
    assert f"written to, got {path!r} (No space left on device). Pass another" in refused(command).stderr
    assert sorted(folder.glob("[!_]*")) == before


def test_a_file_of_a_report_that_fails_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move = os.replace

    def busy(old: Path, new: Path) -> None:
        if new.name == f"{STUDY}.md":
            raise OSError(16, "Device or resource busy")
        move(old, new)

    monkeypatch.setattr(os, "replace", busy)
    done = refused(f"lab paper run {STUDY} --size desk --folder {tmp_path}")
    assert "(Device or resource busy). Pass another" in done.stderr


def test_a_file_in_the_way_of_a_folder_is_named() -> None:
    said = refused("quickstart -o net.py/q").stderr
    assert f"got 'net.py/q', where '{Path.cwd()}/net.py' is a file. Pass another folder." in said
