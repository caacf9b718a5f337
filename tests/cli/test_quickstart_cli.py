"""The command quickstart: its folder, and the extra that it names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from command_line import run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_quickstart_writes_its_folder(folder: Path) -> None:
    done = run("quickstart --epochs 1 -o results")
    assert done.exit_code == 0, done.output
    assert {path.name for path in (folder / "results").iterdir()} == {
        "explorer.html",
        "model.safetensors",
        "numbers.json",
        "regions.png",
    }
    numbers = json.loads((folder / "results" / "numbers.json").read_text())
    for word in ("activation regions after relu3", "decision regions", str(numbers["after"]["decision_regions"])):
        assert word in done.stdout
    assert "Training" not in done.output  # the bar is for terminals, on stderr


def test_quickstart_names_the_extra_of_the_explorer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bokeh.embed", None)
    done = run("quickstart --epochs 1 -o results")
    assert done.exit_code == 0, done.output
    assert "pip install 'regionscope[explorer]'" in done.stderr
    assert not (folder / "results" / "explorer.html").exists()
