"""``regionscope-lab shallow``: what it prints and writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lab_command import run
from regionscope_lab.shallow import teachers


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.mark.slow
def test_flow_writes_a_table_an_animation_and_a_figure(folder: Path) -> None:
    done = run("shallow --teacher-width 2 --width 4 --samples 4 --until 1 -o here")
    assert done.exit_code == 0, done.output
    assert "bound 32r + 67 = 131" in done.stdout.replace("\n", " ")
    assert "KKT" in done.stdout
    assert "Ended because the budget is used up" in done.stdout.replace("\n", " ")
    assert "Theorem 3.1" in done.stdout
    numbers = json.loads((folder / "here" / "flow.json").read_text())
    assert numbers["ended"] == "log-loss"
    assert [need["theorem"] for need in numbers["theorems"]] == ["2.3", "3.1"]
    assert numbers["minimum"] == 1
    assert numbers["rows"][-1]["log_inverse_loss"] >= 1
    assert len(numbers["teacher"]["switches"]) == 1
    picture: Any
    with Image.open(folder / "here" / "flow.gif") as picture:
        assert picture.n_frames > 2
    assert (folder / "here" / "regions.png").read_bytes().startswith(b"\x89PNG")


def test_a_random_teacher_that_is_not_found_names_no_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teachers, "_BATCHES", 1)
    done = run("shallow --teacher-width 12")
    assert done.exit_code == 2, done.output
    assert done.stderr.endswith("got none. Choose a smaller width, or set the switches yourself.\n")
