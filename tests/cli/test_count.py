"""``regionscope count``: what it prints and writes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import regionscope as rs
from command_line import run
from regionscope.cli import app
from regionscope_lab.zoo import mlp


def test_the_table_and_the_json_hold_the_estimate(folder: Path) -> None:
    done = run("count :four --data x4.npy --dim 1 --slices 40 -o out.json -o out.png")
    assert done.exit_code == 0, done.output
    wanted = rs.region_count(mlp([4, 12, 3], seed=1), torch.from_numpy(np.load("x4.npy")), dim=1, slices=40)
    found = json.loads((folder / "out.json").read_text())
    assert found["counts"] == wanted.counts.tolist()
    assert found["mean"] == wanted.value
    assert found["stderr"] == wanted.stderr
    assert found["interval_95"] == list(wanted.interval)
    assert (found["n"], found["grid"], found["method"], found["seed"]) == (40, 200, "grid", 0)
    assert found["complete"] is True
    assert found["provenance"]["regionscope"] == rs.__version__
    assert f"{wanted.value:.4g}" in done.stdout
    assert f"{wanted.interval[0]:.4g} to {wanted.interval[1]:.4g}" in done.stdout
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")


def test_methods_and_options() -> None:
    exact = run("count :four --data x4.npy --dim 2 --slices 5 --method exact --json -o out.svg")
    assert exact.exit_code == 0, exact.output
    assert json.loads(exact.stdout)["grid"] is None
    refined = run("count :silu --data images.npy --slices 5 --grid 20 --method refined --json")
    assert refined.exit_code == 0, refined.output
    assert set(json.loads(refined.stdout)["grid_bias"]) == {"value", "stderr"}
    flat = run("count :silu --data x4.npy --input-shape 1,2,2 --slices 7 --seed 3 --device cpu --until 0.5")
    assert flat.exit_code == 0, flat.output
    one = run("count :four --data x4.npy --slices 1 --json")
    assert json.loads(one.stdout)["stderr"] is None
    origin = run("count :four --data one4.npy --through origin --slices 2 --json")
    assert json.loads(origin.stdout)["n"] == 2


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("", {"through": "inputs"}),
        ("--through direction", {"through": "direction"}),
        ("--through origin", {"through": "origin"}),
    ],
)
def test_slices_are_named_as_in_python(words: str, options: dict[str, Any]) -> None:
    done = run(f"count :four --data x4.npy --slices 30 {words} --json")
    assert done.exit_code == 0, done.output
    wanted = rs.region_count(mlp([4, 12, 3], seed=1), torch.from_numpy(np.load("x4.npy")), dim=1, slices=30, **options)
    assert json.loads(done.stdout)["counts"] == wanted.counts.tolist()


def test_the_json_says_what_was_measured(folder: Path) -> None:
    torch.save(mlp([4, 12, 3], seed=2).state_dict(), folder / "a b.pt")
    words = ["count", "--model", "net.py:four", "--weights", "a b.pt", "--data", "x4.npy", "--slices", "2"]
    done = CliRunner().invoke(app, [*words, "--json"])
    found = json.loads(done.stdout)["provenance"]
    assert found["command"] == (
        "regionscope count --model net.py:four --weights 'a b.pt' --data x4.npy --slices 2 --json"
    )
    assert found["files"] == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("net.py", "a b.pt", "x4.npy")
    }
    nested = run("ask extremes :four --points two4.npy --index 0 --json")
    assert json.loads(nested.stdout)["provenance"]["command"].startswith("regionscope ask extremes --model")
