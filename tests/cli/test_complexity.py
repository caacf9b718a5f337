"""``regionscope complexity``: the numbers are those of the function."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from command_line import run
from regionscope.complexity import complexity_gap, local_complexity, uniform_points
from regionscope_lab.zoo import mlp


def test_a_checkpoint_at_train_test_and_random_points(folder: Path) -> None:
    safetensors.torch.save_file(mlp([6, 12, 12, 2], seed=9).state_dict(), folder / "net.safetensors")
    done = run(
        "complexity :six --weights net.safetensors --data x6.npy --test test6.npy --random 7 --domain -1 1 "
        "--dims 4 --radius 0.3 -o out.json -o out.png"
    )
    assert done.exit_code == 0, done.output
    model = mlp([6, 12, 12, 2], seed=9)
    train, test = (torch.from_numpy(np.load(f"{name}.npy")) for name in ("x6", "test6"))
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
    done = run("complexity :gelu --data x6.npy --input-shape 2,3 --dims 3 --radius 1 --json")
    assert done.exit_code == 0, done.output
    numbers = json.loads(done.stdout)
    assert numbers["units"] == {"2": 4}
    assert numbers["train_test_gap"] is None
    chosen = run("complexity :six --data x6.npy --dims 3 --layers relu1 --json")
    assert json.loads(chosen.stdout)["units"] == {"relu1": 12}


def test_the_default_radius_comes_with_advice_where_few_units_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    few = run("complexity :broad --data x6.npy")
    advice = "at the default radius of 0.005, and more at larger ones. Choose a radius for your data with --radius."
    assert f"Few units fold {advice}" in few.stdout
    none = run("complexity :six --data one6.npy")
    assert f"No unit folds {advice}" in none.stdout
    monkeypatch.setenv("COLUMNS", "80")
    title = run("complexity :six --data x6.npy --dims 4 --radius 0.3").stdout.splitlines()[0]
    assert re.fullmatch(r"Local complexity in 4 directions of radius 0\.3, \S+ s", title)
    for enough in ("--radius 0.3", "--radius 0.001", "--json"):
        assert "Choose a radius" not in run(f"complexity :broad --data x6.npy {enough}").output


def test_a_single_point_has_a_number_and_no_error() -> None:
    done = run("complexity :six --data one6.npy --dims 3 --radius 1 -o out.json")
    assert done.exit_code == 0, done.output
    found = json.loads(Path("out.json").read_text())["local_complexity"]["train"]
    assert found["points"] == 1
    assert found["total"] == [found["mean"]]
    assert found["stderr"] is None
