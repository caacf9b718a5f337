"""The examples run, in small, and write what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *words: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("REGIONSCOPE_DATA", None)
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["double_descent", "grokking", "comovement"])
def test_a_training_example_in_small(name: str, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    options = ["--steps", "4", "--looks", "3", "--points", "5", "--slices", "1", "--threads", "1"]
    run(f"{name}.py", "--out", str(tmp_path), *options)
    numbers = json.loads((tmp_path / f"{name}.json").read_text())
    assert numbers["data"] == "scikit-learn digits"
    assert numbers["rows"][-1]["step"] == 4
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_loop_of_your_own(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    assert "step     5" in run("own_loop.py", "--out", str(tmp_path), "--steps", "5")
    assert (tmp_path / "own_loop.png").is_file()
    marked = [
        line
        for line in (EXAMPLES / "own_loop.py").read_text().splitlines()
        if line.rstrip().endswith(("(1)", "(2)", "(3)"))
    ]
    assert len(marked) == 3
