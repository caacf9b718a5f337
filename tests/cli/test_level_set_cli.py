"""``regionscope level-set`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regionscope.cli.app import app

NET = """
import torch

class Diamond(torch.nn.Module):
    def forward(self, x):
        return x.abs().sum(1, keepdim=True) - 1

class Two(torch.nn.Module):
    def forward(self, x):
        return torch.stack([x[:, 0], x[:, 1], x[:, 2] - 9], 1)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shape.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["level-set", "--model", *words])
    return done.exit_code, done.output


def test_mesh_picture_page_and_numbers_are_written(folder: Path) -> None:
    words = ["--input-shape", "3", "--box", "-2", "2", "--value", "0.5", "-o", "mesh.ply", "-o", "mesh.png"]
    code, text = run("shape.py:Diamond", *words, "-o", "mesh.html", "-o", "numbers.json")
    assert code == 0, text
    assert "Euler characteristic" in text
    numbers = json.loads((folder / "numbers.json").read_text())
    assert (numbers["faces"], numbers["euler"], numbers["value"]) == (8, 2, 0.5)
    assert numbers["area"] == pytest.approx(4 * 3**0.5 * 1.5**2)
    assert (folder / "mesh.ply").read_text().startswith("ply\n")
    assert (folder / "mesh.png").stat().st_size > 5000
    assert "webgl" in (folder / "mesh.html").read_text()


def test_stl_files_are_written(folder: Path) -> None:
    code, text = run("shape.py:Diamond", "--input-shape", "3", "--box", "-2", "2", "-o", "mesh.stl")
    assert code == 0, text
    assert (folder / "mesh.stl").stat().st_size == 84 + 50 * 8


def test_classes_and_targets(folder: Path) -> None:
    code, text = run("shape.py:Two", "--input-shape", "3", "--box", "-1", "1", "--classes", "0,1", "--json")
    assert code == 0, text
    assert json.loads(text)["area"] == pytest.approx(4 * 2**0.5)
    code, text = run("shape.py:Two", "--input-shape", "3", "--box", "-1", "1", "--index", "0", "--minus", "1", "--json")
    assert json.loads(text)["area"] == pytest.approx(4 * 2**0.5)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["-o", "mesh.off"],
            "file that ends in .ply, .stl, .png, .pdf, .svg, .json, .html or .htm, got 'mesh.off'",
        ),
        (["--input-shape", "2", "-o", "mesh.stl"], "Expected a slice of dimension 3 for an .stl file, got 2. Write"),
        (["-o", "none/mesh.ply"], "does not exist"),
        (["--classes", "a"], "Expected --classes such as 3 or 3,5"),
        (["--classes", "0", "--index", "0"], "Expected --classes or --index, got both. Pass one of them."),
        (["--minus", "1"], "Expected --index I for a network with 1 output"),
        (["-o", "mesh.txt"], "got 'mesh.txt'. Change the ending of the file."),
        (["--input-shape", "2", "-o", "mesh.html"], "Expected a slice of dimension 3 for an .html page, got 2"),
    ],
)
def test_mistakes_are_one_sentence(words: list[str], sentence: str) -> None:
    code, text = run("shape.py:Diamond", "--input-shape", "3", "--box", "-1", "1", *words)
    assert code == 2
    assert sentence in " ".join(text.split())
