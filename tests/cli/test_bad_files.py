"""Files and models made to mislead: one sentence and exit code 2, never a traceback."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from regionscope.cli import app
from regionscope_lab.cli import app as lab

NET = """
import torch
from torch import nn

def good():
    return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))

class silent(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = good()

    def forward(self, x):
        return self.net(x)[:, :0]

def empty():
    return good().to("meta")

def sparse():
    model = good()
    model[0].weight = nn.Parameter(model[0].weight.detach().to_sparse())
    return model

def infinite():
    model = good()
    model[0].weight.data[0, 0] = float("inf")
    return model
"""
BASE = '[base.data]\nname = "digits"\n[base.network]\nname = "mlp"\n'
TOML = {
    "lists": "a = " + "[" * 100_000,
    "tables": "a = " + "{a = " * 50_000,
    "dots": f"{BASE}options.{'.'.join('a' * 100_000)} = 1\n",
    "quoted dots": BASE + '"a b".' * 50_000 + "a = 1\n",
    "heading": f"[{'.'.join('a' * 2000)}]\n",
    "digits": "seed = " + "1" * 5000,
}


def claiming(*shape: int) -> bytes:
    """An array file whose header promises more than there is."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue() + bytes(64)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    np.save("points.npy", np.random.default_rng(0).normal(size=(2, 2)))
    np.savez("objects.npz", points=np.array([[1, "a"], [None, 2]], dtype=object))
    Path("claims.npy").write_bytes(claiming(10**12, 2))
    Path("overflows.npy").write_bytes(claiming(10**30, 2))
    with zipfile.ZipFile("claims.npz", "w") as archive:
        archive.writestr("points.npy", claiming(10**12, 2))
    Path("cut.npz").write_bytes(Path("objects.npz").read_bytes()[:-20])
    np.save("times.npy", np.zeros((3, 2), "m8[s]"))
    Path("a_folder.npy").mkdir()
    Path("a_folder.toml").mkdir()


def sentence(words: Iterable[str]) -> str:
    words = list(words)
    of_lab = words[0] in ("train", "sweep")
    result = CliRunner().invoke(lab if of_lab else app, words)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2
    assert result.stderr.startswith("regionscope-lab: " if of_lab else "regionscope: ")
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


@pytest.mark.parametrize("name", ["objects.npz", "claims.npy", "overflows.npy", "claims.npz", "cut.npz"])
@pytest.mark.parametrize("command", ["regions --points", "count --data", "complexity --data"])
def test_files_of_points_that_are_none(command: str, name: str) -> None:
    assert f"Expected an .npy, .npz, .csv or .pt file of numbers, got {name}" in sentence(
        f"{command} {name} --model net.py:good".split()
    )


@pytest.mark.parametrize(("name", "words"), [("times.npy", "real numbers"), ("a_folder.npy", "got the folder")])
def test_files_of_something_else(name: str, words: str) -> None:
    assert words in sentence(["count", "--data", name, "--model", "net.py:good"])


MODELS = {
    "regions --points points.npy": {
        "silent": "at least one output", "empty": "device meta", "sparse": "to_dense", "infinite": "NaN or infinity",
    },
    "count --data points.npy --slices 2": {
        "silent": "got shape", "empty": "device meta", "sparse": "failed on inputs", "infinite": "'0.weight'",
    },
    "count --data points.npy --slices 2 --method exact": {"silent": "at least one output", "infinite": "infinity"},
}  # fmt: skip


@pytest.mark.parametrize("command", MODELS)
def test_models_that_cannot_be_measured(command: str) -> None:
    for name, words in MODELS[command].items():
        assert words in sentence([*command.split(), "--model", f"net.py:{name}"])


def test_complexity_needs_no_outputs() -> None:
    result = CliRunner().invoke(app, ["complexity", "--data", "points.npy", "--dims", "2", "--model", "net.py:silent"])
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize("name", TOML)
@pytest.mark.parametrize("command", ["train", "sweep run"])
def test_toml_that_is_nested_too_deep(command: str, name: str) -> None:
    Path("bad.toml").write_text(TOML[name])
    assert "bad.toml" in sentence([*command.split(), "bad.toml", "--runs", "runs"])
    assert not Path("runs").exists()


@pytest.mark.parametrize("setting", ["a=" + "[" * 50_000, f"network.options.{'.'.join('a' * 5000)}=1"])
def test_settings_that_are_nested_too_deep(setting: str) -> None:
    words = ["train", "--data", "digits", "--network", "mlp", "--runs", "runs", "--set", setting]
    assert "32 deep" in sentence(words)


def test_a_folder_in_place_of_a_file_of_settings() -> None:
    assert "Is a directory" in sentence(["sweep", "run", "a_folder.toml", "--runs", "runs"])


def test_a_grid_of_a_billion_runs_is_refused_before_it_is_made() -> None:
    lists = [f'"{key}" = {list(range(1, 1001))}' for key in ("seed", "training.epochs", "training.batch_size")]
    Path("grid.toml").write_text(BASE + "[grid]\n" + "\n".join(lists))
    found = sentence(["sweep", "run", "grid.toml", "--runs", "runs"])
    assert "Expected at most 100,000 runs, got a grid of 1,000,000,000" in found


@pytest.mark.parametrize(
    "command",
    [
        "count --data points.npy --model net.py:good",
        "complexity --data points.npy --dims 2 --model net.py:good",
        "train --data digits --network mlp --runs runs",
        "quickstart",
    ],
)
def test_seeds_that_no_generator_takes(command: str) -> None:
    assert "from 0 to 2^64 - 1, got 1180591620717411303424" in sentence([*command.split(), "--seed", str(2**70)])
