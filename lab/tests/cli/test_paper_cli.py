"""``regionscope-lab paper``: list, run and report, and what it says to mistakes."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from regionscope_lab.cli.paper import paper
from regionscope_lab.papers.catalogue import studies
from regionscope_lab.papers.declaration import all_items

STUDY = "beyond-penalty"


def run(*words: str) -> Result:
    app = typer.Typer()
    app.add_typer(paper, name="paper")
    return CliRunner().invoke(app, ["paper", *words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one study was run at smoke size."""
    place = tmp_path_factory.mktemp("studies")
    done = run("run", STUDY, "--size", "smoke", "--folder", str(place), "--no-progress")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{STUDY}: ")
    return place


def test_run_writes_the_page_the_figures_and_the_numbers(folder: Path) -> None:
    home = folder / "reports" / STUDY
    document = json.loads((home / "data.json").read_text())
    figures = sorted(path.name for path in home.glob("*.png"))
    assert document["study"] == STUDY
    assert document["size"] == "smoke"
    assert figures
    assert all((home / name).read_bytes().startswith(b"\x89PNG") for name in figures)
    text = (home / "report.md").read_text()
    assert all(f"]({name})" in text for name in figures)
    assert (home / "report.html").read_text().count("data:image/png;base64,") == len(figures)


def test_running_again_computes_nothing(folder: Path) -> None:
    results = {path: path.stat().st_mtime_ns for path in folder.glob("computed/*.json")}
    assert results
    done = run("run", STUDY, "--size", "smoke", "--folder", str(folder))
    assert done.exit_code == 0, done.output
    assert {path: path.stat().st_mtime_ns for path in folder.glob("computed/*.json")} == results


def test_list_names_every_item_and_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = run("list")
    assert done.exit_code == 0, done.output
    names = [*(one.full_name for one in all_items()), *(one.name for one in studies())]
    assert len(set(names)) == len(names)
    assert [name for name in names if name not in done.stdout] == []


def test_an_item_is_run_without_a_grade_at_smoke_size(tmp_path: Path) -> None:
    words = ("run", "safran2022-example1", "--size", "smoke", "--folder", str(tmp_path), "--no-progress")
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert "safran2022-example1: 0 runs, 2 computed answers; size smoke is not graded" in done.stdout
    assert run(*words).stdout == done.stdout


def test_grading_finds_a_page_that_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regionscope_lab.papers.pages.graded", lambda table: {})
    monkeypatch.setattr("regionscope_lab.papers.pages.pages", lambda found: {"papers.md": "a", "papers/li2025.md": "b"})
    words = ("grade", "--archive", str(tmp_path), "-o", str(tmp_path / "docs"))
    assert run(*words).stdout == "2 pages, 2 changed\n"
    assert run(*words, "--check").stdout == "2 pages, 0 changed\n"
    (tmp_path / "docs" / "papers.md").write_text("other")
    done = run(*words, "--check")
    assert done.exit_code != 0
    assert "got others: papers.md" in f"{done.output}{done.exception}"


def test_a_signal_stops_with_a_sentence_and_a_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regionscope_lab.cli.paper.interruptible", lambda: nullcontext(lambda: True))
    done = run("run", "humayun2023-figure13", "--size", "smoke", "--folder", str(tmp_path), "--no-progress")
    assert done.exit_code == 3
    assert "Run the same command again to resume." in done.stderr
    assert not (tmp_path / "reports").exists()
