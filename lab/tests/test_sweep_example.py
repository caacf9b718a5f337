"""The worked example runs, in small, and a second call loads what is there."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from regionscope_lab.sweep import Sweep, read_runs

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_grid_is_that_of_the_paper() -> None:
    sweep = Sweep.from_toml(EXAMPLES / "table1_digits.toml")
    found = [(run.training.lr, run.training.batch_size, run.training.weight_decay) for run in sweep]
    rates, sizes, decays = (0.1, 0.01, 0.001), (256, 512, 1024), (1e-5, 1e-6, 1e-7)
    assert found == [(lr, size, decay) for lr in rates for size in sizes for decay in decays]


def test_the_worked_example_in_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = f"--workers 1 --epochs 2 --slices 4 --out {tmp_path} --runs {tmp_path / 'runs'}"
    monkeypatch.setattr(sys, "argv", [str(EXAMPLES / "table1_digits.py"), *options.split()])
    runpy.run_path(sys.argv[0], run_name="__main__")
    printed = capsys.readouterr().out
    assert "27 of 27 runs finished" in printed
    assert "regions between train points against the gap, all 27 runs: Pearson" in printed
    assert (tmp_path / "table1_digits.png").read_bytes().startswith(b"\x89PNG")
    table = read_runs(tmp_path / "runs")
    assert (len(table), set(table.column("status"))) == (27, {"finished"})
    assert len((tmp_path / "table1_digits.csv").read_text().splitlines()) == 28
