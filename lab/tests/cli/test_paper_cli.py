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

STUDY = "qi2023-figure2"


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


def test_an_archive_gives_the_same_report_elsewhere(tmp_path: Path) -> None:
    name, archive = "li2025-table5", tmp_path / "runs.zip"
    done = run("run", name, "--size", "smoke", "--folder", str(tmp_path / "first"), "--no-progress")
    assert done.exit_code == 0, done.output
    done = run("pack", str(archive), "--folder", str(tmp_path / "first"))
    assert done.exit_code == 0, done.output
    assert "runs.zip: 2 runs" in done.stdout.replace("\n", "")
    done = run("report", name, "--size", "smoke", "--folder", str(tmp_path / "new"), "--archive", str(archive))
    assert done.exit_code == 0, done.output
    pages = [json.loads((tmp_path / one / "reports" / name / "data.json").read_text()) for one in ("first", "new")]
    assert pages[0]["claims"] == pages[1]["claims"]


def test_list_names_every_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = run("list")
    assert done.exit_code == 0, done.output
    names = [study.name for study in studies()]
    assert len(set(names)) == len(names)
    for study in studies():
        assert study.name in done.stdout
        assert study.name.startswith(f"{study.paper}-")


def test_run_writes_the_page_the_figures_and_the_numbers(folder: Path) -> None:
    home = folder / "reports" / STUDY
    document = json.loads((home / "data.json").read_text())
    figures = sorted(path.name for path in home.glob("*.png"))
    assert document["study"] == STUDY
    assert document["size"] == "smoke"
    assert figures == ["figure1.png", "figure2.png"]
    assert all((home / name).read_bytes().startswith(b"\x89PNG") for name in figures)
    text = (home / "report.md").read_text()
    assert all(f"]({name})" in text for name in figures)
    assert (home / "report.html").read_text().count("data:image/png;base64,") == 2


def test_running_again_trains_nothing(folder: Path) -> None:
    results = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/result.json")}
    assert results
    done = run("run", STUDY, "--size", "smoke", "--folder", str(folder))
    assert done.exit_code == 0, done.output
    assert {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/result.json")} == results


def test_report_writes_pages_and_an_index_elsewhere(folder: Path, tmp_path: Path) -> None:
    done = run("report", STUDY, "--size", "smoke", "--folder", str(folder), "-o", str(tmp_path / "pages"))
    assert done.exit_code == 0, done.output
    assert (tmp_path / "pages" / STUDY / "report.md").exists()
    index = (tmp_path / "pages" / "index.md").read_text()
    assert f"Smoke runs, which say nothing about the claims: [{STUDY}]({STUDY}/report.md)." in index
    assert "60 not run" in index
    assert f"{STUDY}: smoke run: says nothing about the claim (" in done.stdout
    assert f"(1 of {len(studies())} studies)" in done.stdout


def test_a_signal_stops_with_a_sentence_and_a_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regionscope_lab.cli.paper.interruptible", lambda: nullcontext(lambda: True))
    done = run("run", STUDY, "--size", "smoke", "--folder", str(tmp_path), "--no-progress")
    assert done.exit_code == 3
    assert "Run the same command again to resume." in done.stderr
    assert not (tmp_path / "reports").exists()
