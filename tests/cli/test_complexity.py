"""``regionscope complexity``: the numbers are those of the function, and mistakes get one sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner, Result

from regionscope.cli import app
from regionscope.complexity import complexity_gap, local_complexity, uniform_points
from regionscope_lab.zoo import mlp

NET = """
from torch import nn
from regionscope_lab.zoo import mlp

def build():
    return mlp([6, 12, 12, 2])

def broad():
    return mlp([6, 100, 2])

def gelu():
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.GELU(), nn.Linear(4, 2))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(NET)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "train.npy", rng.normal(size=(30, 6)).astype(np.float32))
    np.save(tmp_path / "one.npy", rng.normal(size=(1, 6)).astype(np.float32))
    np.save(tmp_path / "wide.npy", rng.normal(size=(20, 7)).astype(np.float32))
    np.save(tmp_path / "test.npy", rng.normal(size=(20, 6)).astype(np.float32))
    safetensors.torch.save_file(mlp([6, 12, 12, 2], seed=9).state_dict(), tmp_path / "net.safetensors")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def run(command: str) -> Result:
    return CliRunner().invoke(app, ["complexity", *command.split()])


def test_a_checkpoint_at_train_test_and_random_points(folder: Path) -> None:
    done = run(
        "--model net.py:build --weights net.safetensors --data train.npy --test test.npy --random 7 --domain -1 1 "
        "--dims 4 --radius 0.3 -o out.json -o out.png"
    )
    assert done.exit_code == 0, done.output
    model = mlp([6, 12, 12, 2], seed=9)
    train, test = (torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("train", "test"))
    random = uniform_points(7, (6,), domain=(-1, 1))
    numbers = json.loads((folder / "out.json").read_text())
    options = {"dims": 4, "radius": 0.3}
    for name, points in (("train", train), ("test", test), ("random", random)):
        wanted = local_complexity(model, points, **options)
        assert numbers["local_complexity"][name]["total"] == wanted.total.tolist()
        assert numbers["local_complexity"][name]["mean"] == wanted.mean
    gap = complexity_gap(local_complexity(model, train, **options), local_complexity(model, test, **options))
    assert numbers["train_test_gap"]["value"] == gap.value
    assert numbers["units"] == {"relu1": 12, "relu2": 12}
    assert "relu2" in done.stdout
    assert "membership AUC" in done.stdout
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")


def test_smooth_networks_layers_and_shapes() -> None:
    done = run("--model net.py:gelu --data train.npy --input-shape 2,3 --dims 3 --radius 1 --json --linear-outputs")
    assert done.exit_code == 0, done.output
    numbers = json.loads(done.stdout)
    assert numbers["units"] == {"2": 4, "3": 2}
    assert numbers["train_test_gap"] is None
    chosen = run("--model net.py:build --data train.npy --dims 3 --layers relu1 --json")
    assert json.loads(chosen.stdout)["units"] == {"relu1": 12}
    cube = run("--model net.py:build --data train.npy --dims 3 --hull hypercube --memory 1MiB --json")
    assert cube.exit_code == 0, cube.output


def test_the_default_radius_comes_with_advice_where_few_units_fold() -> None:
    few = run("--model net.py:broad --data train.npy")
    advice = "at the default radius of 0.005, and more at larger ones. Choose a radius for your data with --radius."
    assert f"Few units fold {advice}" in few.stdout
    none = run("--model net.py:build --data train.npy")
    assert f"No unit folds {advice}" in none.stdout
    for enough in ("--radius 0.3", "--radius 0.001", "--json"):
        assert "Choose a radius" not in run(f"--model net.py:broad --data train.npy {enough}").output


def test_a_single_point_has_a_number_and_no_error() -> None:
    done = run("--model net.py:build --data one.npy --dims 3 --radius 1 -o out.json")
    assert done.exit_code == 0, done.output
    found = json.loads(Path("out.json").read_text())["local_complexity"]["train"]
    assert found["points"] == 1
    assert found["total"] == [found["mean"]]
    assert found["stderr"] is None


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("--model net.py:build --data train.npy --dims 25", "1 <= dims <= 6"),
        ("--model net.py:build --data none.npy", "does not exist"),
        ("--model net.py:build --data train.npy --dims 3 --layers act", "Choose from relu1, relu2"),
        ("--model net.py:build --data train.npy --dims 3 --radius 0", "larger than 0"),
        ("--model net.py:build --data train.npy --dims 3 --device moon", "got 'moon'"),
        ("--model net.py:build --data train.npy --dims 3 -o out.txt", "ends in .png"),
        (
            "--model net.py:build --data one.npy --test test.npy --dims 3",
            "in one.npy, one in each row, got shape (1, 6)",
        ),
        (
            "--model net.py:build --data train.npy --test one.npy --dims 3",
            "in one.npy, one in each row, got shape (1, 6)",
        ),
        ("--model net.py:build --data wide.npy --dims 3", "got 7 in each row"),
        ("--model net.py:build --data train.npy --test wide.npy --dims 3", "failed on inputs of shape (7, 7)"),
    ],
)
def test_a_mistake_is_one_sentence(command: str, sentence: str) -> None:
    done = run(command)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_help_names_the_default_memory() -> None:
    documented = re.search(r"memory: .*?; (\d+) MiB on a CPU", local_complexity.__doc__ or "", re.DOTALL)
    assert documented is not None
    assert f"by default {documented[1]}MiB, on a GPU 1GiB" in " ".join(run("--help").stdout.replace("│", "").split())


def test_the_title_stands_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    first = run("--model net.py:build --data train.npy --dims 4 --radius 0.3").stdout.splitlines()[0]
    assert re.fullmatch(r"Local complexity in 4 directions of radius 0\.3, \S+ s", first)
