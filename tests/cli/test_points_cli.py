"""``regionscope points``: the numbers are those of the function."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner, Result

import regionscope as rs
from regionscope.cli import app
from regionscope_lab.zoo import mlp

NET = """
from regionscope_lab.zoo import mlp

def build():
    return mlp([4, 8, 2])
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(NET)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(30, 4)).astype(np.float32))
    np.save(tmp_path / "y.npy", rng.integers(0, 2, 30))
    safetensors.torch.save_file(mlp([4, 8, 2], seed=9).state_dict(), tmp_path / "net.safetensors")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def run(command: str) -> Result:
    command = f"points --model net.py:build --weights net.safetensors --data x.npy {command}"
    return CliRunner().invoke(app, command.split())


def test_a_table_a_figure_and_numbers(folder: Path) -> None:
    done = run("--labels y.npy --norm inf -o out.csv -o out.json -o out.png")
    assert done.exit_code == 0, done.output
    x, y = torch.from_numpy(np.load("x.npy")), np.load("y.npy")
    result = rs.regions_at(mlp([4, 8, 2], seed=9), x, norm=torch.inf)
    numbers = json.loads((folder / "out.json").read_text())
    assert numbers["distance"] == pytest.approx(result.distance.tolist())
    assert numbers["nearest"][3] == {"module": result.nearest.modules[3], "unit": int(result.nearest.unit[3])}
    rows = list(csv.DictReader((folder / "out.csv").read_text().splitlines()))
    table = result.table(y)
    assert [float(row["accuracy"]) for row in rows] == pytest.approx(table["accuracy"].tolist())
    assert [row["nearest"] for row in rows] == table["nearest"].tolist()
    assert (folder / "out.png").stat().st_size > 0
    assert f"{result.n_regions}" in done.stdout


def test_mistakes_get_a_sentence() -> None:
    np.save("few.npy", np.zeros(3))
    assert "Expected 30 whole numbers in 'few.npy'" in " ".join(run("--labels few.npy").output.split())
    assert run("--norm 3").exit_code == 2
