"""``regionscope count``: what it prints and writes, and one sentence for every mistake."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

NET = """
from torch import nn
from regionscope_lab.zoo import mlp

def build():
    return mlp([4, 12, 3], seed=1)

def silu():
    return nn.Sequential(nn.Conv2d(1, 2, 2), nn.SiLU(), nn.Flatten(), nn.Linear(2, 3))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(NET)
    np.save(tmp_path / "data.npy", np.random.default_rng(0).normal(size=(30, 4)) * 3)
    np.save(tmp_path / "images.npy", np.random.default_rng(0).normal(size=(30, 1, 2, 2)) * 3)
    np.save(tmp_path / "two.npy", np.eye(4)[:2])
    np.save(tmp_path / "one.npy", np.eye(4)[:1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def test_the_table_and_the_json_hold_the_estimate(folder: Path) -> None:
    done = run("count --model net.py:build --data data.npy --dim 1 --slices 40 -o out.json -o out.png")
    assert done.exit_code == 0, done.output
    wanted = rs.region_count(mlp([4, 12, 3], seed=1), torch.from_numpy(np.load("data.npy")), dim=1, slices=40)
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
    exact = run("count --model net.py:build --data data.npy --dim 2 --slices 5 --method exact --json -o out.svg")
    assert exact.exit_code == 0, exact.output
    assert json.loads(exact.stdout)["grid"] is None
    refined = run("count --model net.py:silu --data images.npy --slices 5 --grid 20 --method refined --json")
    assert refined.exit_code == 0, refined.output
    assert set(json.loads(refined.stdout)["grid_bias"]) == {"value", "stderr"}
    flat = run(
        "count --model net.py:silu --data data.npy --input-shape 1,2,2 --slices 7 --length 2 --seed 3 "
        "--device cpu --memory 64MiB --until 0.5"
    )
    assert flat.exit_code == 0, flat.output
    one = run("count --model net.py:build --data data.npy --slices 1 --alpha -1 2 --json")
    assert json.loads(one.stdout)["stderr"] is None


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("", {"through": "inputs"}),
        ("--alpha -1 2", {"through": "inputs", "alpha": (-1.0, 2.0)}),
        ("--through inputs --alpha -1 2", {"through": "inputs", "alpha": (-1.0, 2.0)}),
        ("--length 5", {"through": "direction", "length": 5.0}),
        ("--through direction", {"through": "direction"}),
        ("--through origin", {"through": "origin"}),
    ],
)
def test_slices_are_named_as_in_python(words: str, options: dict[str, Any]) -> None:
    done = run(f"count --model net.py:build --data data.npy --slices 30 {words} --json")
    assert done.exit_code == 0, done.output
    wanted = rs.region_count(
        mlp([4, 12, 3], seed=1), torch.from_numpy(np.load("data.npy")), dim=1, slices=30, **options
    )
    assert json.loads(done.stdout)["counts"] == wanted.counts.tolist()


def test_a_count_in_a_file_is_resumed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[float] = []

    @contextmanager
    def bar(what: str, wanted: bool | None) -> Iterator[Callable[[float], None]]:
        shares.clear()
        yield shares.append

    monkeypatch.setattr("regionscope.cli.count.work_bar", bar)
    command = "count --model net.py:build --data data.npy --json"
    wanted = json.loads(run(f"{command} --slices 64").stdout)
    file = folder / "counts.jsonl"
    for words in ("--slices 32", "--slices 64 -o out.png"):
        done = run(f"{command} {words} --path counts.jsonl")
        assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    unlike = {"seconds": 0, "provenance": None}
    assert {**found, **unlike} == {**wanted, **unlike}
    assert shares == [0.5, 0.75, 1.0]
    raw = file.read_bytes()
    file.write_bytes(raw[:-5])
    done = run(f"{command} --slices 64 --path counts.jsonl")
    assert json.loads(done.stdout)["counts"] == wanted["counts"]
    assert shares == [0.75, 1.0]
    assert file.read_bytes() == raw
    refused = run(f"{command} --slices 64 --path counts.jsonl --seed 1")
    assert refused.exit_code == 2
    assert refused.stderr.startswith(
        "regionscope: Expected counts for --seed 1 in 'counts.jsonl', got counts for --seed 0."
    )
    assert file.read_bytes() == raw


def test_one_input_is_enough_for_lines_from_the_origin() -> None:
    done = run("count --model net.py:build --data one.npy --through origin --slices 2 --json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["n"] == 2


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("--model net.py:build --data nothere.npy", "does not exist"),
        ("--model net.py:build --data two.npy --dim 2", "2 input"),
        ("--model net.py:build --data data.npy --grid 1", "at least 2"),
        ("--model net.py:build --data images.npy", "got (1, 2, 2). Add --input-shape 4."),
        ("--model net.py:silu --data images.npy --method exact", "SiLU"),
        ("--model net.py:build --data data.npy --dim 3 -o out.png", "dimension 1 or 2"),
        ("--model net.py:build --data data.npy -o nothere/x.json", "does not exist"),
        ("--model net.py:build --data data.npy --device tpu9", "tpu9"),
        ("--model net.py:build --data data.npy --length 1 --alpha 0 2", "Expected alpha only with"),
        ("--model net.py:build --data data.npy --until 0", "until"),
        ("--model net.py:build --data data.npy --through origin --dim 2", "Expected --dim 1 and neither alpha"),
        ("--model net.py:build --data data.npy --through inputs --length 1", "Expected length only with"),
        ("--model net.py:build --data one.npy", "1 input"),
        ("--model net.py:build --data data.npy --path nothere/x.jsonl", "does not exist"),
        ("--model net.py:build --data data.npy --class-names a,b", "Expected 3 class names, got 2."),
        ("--model net.py:build --data data.npy --class-names a,b,c,d -o out.png", "Expected 3 class names, got 4."),
        ("--model net.py:build --data data.npy --path .", "got the folder '.'"),
        (
            "--model net.py:build --data data.npy --path net.py",
            "Expected a file that region_count or linear_region_count wrote",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(command: str, words: str) -> None:
    done = run(f"count {command}")
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert words in done.stderr
    assert done.stderr.startswith("regionscope: ")
    assert done.stderr.count("\n") == 1


def test_help_names_every_option() -> None:
    done = run("count --help")
    assert done.exit_code == 0
    words = ["--model", "--data", "--dim", "--slices", "--grid", "--method", "--until", "--json", "--path"]
    words += ["--through", "--alpha", "--length"]
    assert all(word in done.output for word in words)
    assert "--range" not in done.output


def test_the_json_says_what_was_measured(folder: Path) -> None:
    torch.save(mlp([4, 12, 3], seed=2).state_dict(), folder / "a b.pt")
    words = ["count", "--model", "net.py:build", "--weights", "a b.pt", "--data", "data.npy", "--slices", "2"]
    done = CliRunner().invoke(app, [*words, "--json"])
    found = json.loads(done.stdout)["provenance"]
    assert found["command"] == (
        "regionscope count --model net.py:build --weights 'a b.pt' --data data.npy --slices 2 --json"
    )
    assert found["files"] == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("net.py", "a b.pt", "data.npy")
    }
    nested = run("ask extremes --model net.py:build --points two.npy --index 0 --json")
    assert json.loads(nested.stdout)["provenance"]["command"].startswith("regionscope ask extremes --model")
