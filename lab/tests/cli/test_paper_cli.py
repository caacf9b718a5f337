"""``regionscope-lab paper``: list, run and report, and what it says to mistakes."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from regionscope_lab.cli.paper import paper
from regionscope_lab.papers.declaration import Finding, all_items
from regionscope_lab.papers.figures import Figure, Series

ITEM = "safran2022-example1"  # trains nothing


def run(*words: str) -> Result:
    app = typer.Typer()
    app.add_typer(paper, name="paper")
    return CliRunner().invoke(app, ["paper", *words])


def test_list_names_every_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = run("list")
    assert done.exit_code == 0, done.output
    names = [one.full_name for one in all_items()]
    assert len(set(names)) == len(names)
    assert [name for name in names if name not in done.stdout] == []


def test_an_item_is_run_once_and_not_graded_at_smoke_size(tmp_path: Path) -> None:
    words = ("run", ITEM, "--size", "smoke", "--folder", str(tmp_path), "--no-progress")
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert f"{ITEM}: 0 runs, 2 computed answers; size smoke is not graded" in done.stdout
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("computed/*.json")}
    assert len(made) == 2
    assert run(*words).stdout == done.stdout
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("computed/*.json")} == made


def test_the_figures_of_stored_runs_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = Figure(title="a", x_label="x", y_label="y", series=[Series("a", (0, 1), (2.0, 3.0))])
    monkeypatch.setattr("regionscope_lab.papers.pages.graded", lambda table: {ITEM: Finding({}, figures=[figure])})
    monkeypatch.setattr("regionscope_lab.papers.pages.pages", lambda found: {})
    assert run("report", "--archive", str(tmp_path), "--figures", str(tmp_path)).exit_code == 0
    assert (tmp_path / f"{ITEM}-1.png").read_bytes().startswith(b"\x89PNG")


def test_reporting_finds_a_page_that_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regionscope_lab.papers.pages.graded", lambda table: {})
    monkeypatch.setattr("regionscope_lab.papers.pages.pages", lambda found: {"papers.md": "a", "papers/li2025.md": "b"})
    words = ("report", "--archive", str(tmp_path), "-o", str(tmp_path / "docs"))
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
